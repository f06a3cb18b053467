//! The stretches of a text that could be encoded: found by skipping everything else.
//!
//! Prose is most of what is scanned, and it has no capital or digit inside a word. So the text is
//! looked at in chunks, a chunk without such a character and without a long stretch free of white
//! space is skipped with wide comparisons, and only the rest is looked at byte by byte.

use super::bytes::byte_before;

/// Bytes that are judged at once.
const CHUNK: usize = 64;
/// The shortest token that is listed.
pub(super) const TOKEN_MIN: usize = 4;

/// Characters of base64 in both alphabets; base32, hex and wallets use fewer.
pub(super) const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'_' | b'-')
}

/// The bounds of tokens that could be encoded, in order.
pub(super) fn find(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut chunk_start = 0;
    while chunk_start < bytes.len() {
        let chunk_end = (chunk_start + CHUNK).min(bytes.len());
        let chunk = bytes.get(chunk_start..chunk_end).unwrap_or(&[]);
        // One byte of the chunk before belongs to the judgement of the first byte.
        let with_before = bytes.get(chunk_start.saturating_sub(1)..chunk_end).unwrap_or(chunk);
        if at < chunk_end
            && (has_inner_sign(with_before) || has_long_stretch(bytes, chunk_start, chunk_end))
        {
            let mut start = chunk_start.max(at);
            while start > at && is_token(byte_before(text, start)) {
                start -= 1;
            }
            at = collect(bytes, start, chunk_end, &mut tokens);
        }
        chunk_start = chunk_end;
    }
    tokens
}

/// Lists the tokens that begin before `limit`; returns where it stopped reading.
fn collect(bytes: &[u8], from: usize, limit: usize, tokens: &mut Vec<(usize, usize)>) -> usize {
    let mut at = from;
    while at < limit {
        while at < limit && !bytes.get(at).is_some_and(|byte| is_token(*byte)) {
            at += 1;
        }
        let start = at;
        while bytes.get(at).is_some_and(|byte| is_token(*byte)) {
            at += 1;
        }
        if at - start >= TOKEN_MIN {
            tokens.push((start, at));
        }
    }
    at
}

/// A capital or a digit right after a character that is no white space.
fn has_inner_sign(bytes: &[u8]) -> bool {
    let after = bytes.get(1..).unwrap_or(&[]);
    bytes.iter().zip(after).fold(false, |any, (before, byte)| {
        let sign = (byte.wrapping_sub(b'A') < 26) | (byte.wrapping_sub(b'0') < 10);
        any | (sign & (*before > b' '))
    })
}

/// A stretch of [`STRETCH_MIN`] without white space that touches the chunk at `start`. It holds eight
/// bytes at a multiple of eight, and only where these are free of white space the rest is read.
fn has_long_stretch(bytes: &[u8], start: usize, end: usize) -> bool {
    let chunk = bytes.get(start..end).unwrap_or(&[]);
    chunk.chunks_exact(8).enumerate().any(|(index, eight)| {
        if !eight.iter().fold(true, |all, byte| all & (*byte > b' ')) {
            return false;
        }
        let at = start + index * 8;
        let is_dark = |at: usize| bytes.get(at).is_some_and(|byte| *byte > b' ');
        let after = (at + 8..at + 8 + STRETCH_MIN).take_while(|at| is_dark(*at)).count();
        let before =
            (1..=STRETCH_MIN).take_while(|back| at.checked_sub(*back).is_some_and(is_dark)).count();
        before + 8 + after >= STRETCH_MIN
    })
}

/// The shortest stretch of small letters alone that could be encoded.
const STRETCH_MIN: usize = 16;

/// Whether single characters stand between single spaces, five or more in a row.
pub(super) fn has_spaced_letters(text: &str) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let bytes = text.as_bytes();
    [0, 4].into_iter().any(|offset| {
        bytes.get(offset..).unwrap_or(&[]).chunks_exact(8).any(|eight| {
            let word = eight.iter().rev().fold(0_u64, |word, byte| (word << 8) | u64::from(*byte));
            let zeroed = word ^ (ONES * 0x20);
            let spaces = zeroed.wrapping_sub(ONES) & !zeroed & HIGH;
            spaces & (spaces >> 16) & (spaces >> 32) != 0
        })
    })
}
