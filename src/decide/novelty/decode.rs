//! Decoders of view V3: base64, base32, hex, numbers, bits, uuencode, and what was compressed
//! before it was encoded.
//!
//! Each takes one run and gives bytes or nothing; whether the bytes are text is decided by
//! [`text_of`].

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use unicode_script::{Script, UnicodeScript};

use crate::decide::text::is_invisible;

/// The most bytes that one compressed run may inflate to.
const INFLATE_MAX: usize = 256 * 1024;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Base64 in either alphabet, padded or not, with any trailing bits, as Python and JavaScript
/// accept it.
pub(super) fn base64_bytes(run: &str) -> Option<Vec<u8>> {
    let body = run.trim_end_matches('=');
    let engine =
        if body.bytes().any(|byte| matches!(byte, b'-' | b'_')) { &URL_SAFE } else { &STANDARD };
    // One character over carries no byte; a reader that is lenient drops it.
    let usable = if body.len() % 4 == 1 { body.len() - 1 } else { body.len() };
    engine.decode(body.get(..usable)?).ok()
}

/// Base32 (RFC 4648) in either case.
pub(super) fn base32_bytes(run: &str) -> Option<Vec<u8>> {
    base32(run, &data_encoding::BASE32_NOPAD)
}

/// Base32 with the extended hex alphabet.
pub(super) fn base32_hex_bytes(run: &str) -> Option<Vec<u8>> {
    base32(run, &data_encoding::BASE32HEX_NOPAD)
}

fn base32(run: &str, encoding: &data_encoding::Encoding) -> Option<Vec<u8>> {
    let body = run.trim_end_matches('=').to_ascii_uppercase();
    // Lengths that no encoder makes carry no byte in their last characters.
    let usable = match body.len() % 8 {
        1 | 3 | 6 => body.len() - 1,
        _ => body.len(),
    };
    let body = body.get(..usable)?;
    encoding.decode(body.as_bytes()).ok().or_else(|| {
        // Trailing bits that are not zero: the last character is dropped.
        let shorter = match (usable - 1) % 8 {
            1 | 3 | 6 => usable.checked_sub(2)?,
            _ => usable.checked_sub(1)?,
        };
        encoding.decode(body.get(..shorter)?.as_bytes()).ok()
    })
}

/// Hex digits, two a byte.
pub(super) fn hex_bytes(digits: &str) -> Option<Vec<u8>> {
    let even = digits.len() - digits.len() % 2;
    data_encoding::HEXLOWER_PERMISSIVE.decode(digits.get(..even)?.as_bytes()).ok()
}

/// What `bytes` say, where they are text or inflate to text.
pub(super) fn text_of(bytes: &[u8]) -> Option<String> {
    plain_text(bytes).or_else(|| inflated(bytes).and_then(|bytes| plain_text(&bytes)))
}

/// What `bytes` say where they are printable ASCII and no more: digits or escapes that may be an
/// encoding of their own. Random bytes are not printable.
pub(super) fn printable(bytes: &[u8]) -> Option<String> {
    let inflated = inflated(bytes);
    let text = std::str::from_utf8(inflated.as_deref().unwrap_or(bytes)).ok()?;
    let printable = text
        .chars()
        .all(|c| matches!(c, ' '..='~' | '\n' | '\r' | '\t') || (!c.is_ascii() && is_invisible(c)));
    (printable && text.len() >= 8).then(|| text.to_owned())
}

/// Whether the bytes begin like a known container, image or archive.
pub(super) fn inflated(bytes: &[u8]) -> Option<Vec<u8>> {
    use miniz_oxide::inflate::{decompress_to_vec_with_limit, decompress_to_vec_zlib_with_limit};
    match bytes {
        [0x1f, 0x8b, 8, flags, ..] => {
            let body = gzip_body(bytes, *flags)?;
            match decompress_to_vec_with_limit(body, INFLATE_MAX) {
                Ok(inflated) => Some(inflated),
                // What came out before the limit or the damage is enough to judge.
                Err(error) => Some(error.output),
            }
        }
        [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..] => {
            match decompress_to_vec_zlib_with_limit(bytes, INFLATE_MAX) {
                Ok(inflated) => Some(inflated),
                Err(error) => Some(error.output),
            }
        }
        _ => None,
    }
}

/// What follows a gzip header (RFC 1952).
fn gzip_body(bytes: &[u8], flags: u8) -> Option<&[u8]> {
    let mut at = 10;
    if flags & 4 != 0 {
        let low = usize::from(*bytes.get(at)?);
        let high = usize::from(*bytes.get(at + 1)?);
        at += 2 + low + high * 256;
    }
    for flag in [8, 16] {
        if flags & flag != 0 {
            let length = bytes.get(at..)?.iter().position(|byte| *byte == 0)?;
            at += length + 1;
        }
    }
    if flags & 2 != 0 {
        at += 2;
    }
    bytes.get(at..)
}

/// UTF-8 or UTF-16 that a person could read: printable, letters in a row, at most two scripts.
pub(super) fn plain_text(bytes: &[u8]) -> Option<String> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && readable(text)
    {
        return Some(text.to_owned());
    }
    utf16(bytes)
}

fn utf16(bytes: &[u8]) -> Option<String> {
    if bytes.len() < 8 || !bytes.len().is_multiple_of(2) {
        return None;
    }
    for big_endian in [false, true] {
        let units = bytes.chunks_exact(2).map(|pair| match pair {
            [first, second] if big_endian => u16::from_be_bytes([*first, *second]),
            [first, second] => u16::from_le_bytes([*first, *second]),
            _ => 0,
        });
        let Ok(text) = char::decode_utf16(units).collect::<Result<String, _>>() else {
            continue;
        };
        let text = text.trim_start_matches('\u{feff}');
        let ascii = text.bytes().filter(u8::is_ascii).count();
        if ascii * 10 >= text.len() * 9 && readable(text) {
            return Some(text.to_owned());
        }
    }
    None
}

/// Printable, at least two letters in a row, at most two scripts.
pub(super) fn readable(text: &str) -> bool {
    let mut row = 0;
    let mut letters = false;
    let mut scripts: [Option<Script>; 2] = [None, None];
    for character in text.chars() {
        if character.is_ascii() {
            if character.is_ascii_control() && !matches!(character, '\n' | '\r' | '\t') {
                return false;
            }
            if character.is_ascii_alphabetic() {
                row += 1;
                if !admit(&mut scripts, Script::Latin) {
                    return false;
                }
            } else {
                row = 0;
            }
        } else {
            if character.is_control() || !assigned(character) {
                return false;
            }
            let script = character.script();
            if !matches!(script, Script::Common | Script::Inherited)
                && !admit(&mut scripts, family(script))
            {
                return false;
            }
            row = if character.is_alphabetic() { row + 1 } else { 0 };
        }
        letters |= row >= 2;
    }
    letters
}

/// Scripts that one language mixes count as one.
const fn family(script: Script) -> Script {
    match script {
        Script::Hiragana | Script::Katakana | Script::Bopomofo | Script::Hangul => Script::Han,
        other => other,
    }
}

fn admit(scripts: &mut [Option<Script>; 2], script: Script) -> bool {
    for slot in scripts {
        match slot {
            Some(seen) if *seen == script => return true,
            Some(_) => {}
            None => {
                *slot = Some(script);
                return true;
            }
        }
    }
    false
}

/// Whether the character is assigned and for common use: no private use, no unassigned point.
fn assigned(character: char) -> bool {
    !matches!(u32::from(character), 0xE000..=0xF8FF | 0xF0000..=0x10FFFF | 0xFFF0..=0xFFFF)
        && character.script() != Script::Unknown
}
