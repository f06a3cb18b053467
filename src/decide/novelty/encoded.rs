//! Encoded text.
//!
//! # What it finds
//! Runs of base64, base32, hex, number lists, bits and uuencode that decode to text, also when they
//! were compressed first; bodies of data URIs; and long runs that decode to no text at all, which
//! may be ciphertext or an archive.
//!
//! # Why it matters
//! An encoded text passes every search for what it says, and carries it away all the same.
//!
//! # Example
//! `dGhlIGRvb3IgY29kZSBpcyA0NDcx` says "the door code is 4471".
//!
//! # What it misses
//! Up to 96 bytes of ciphertext in a field for identifiers: they cannot be told from an identifier.
//! Ciphers, private alphabets, and messages in the choice of harmless words.

mod lists;

use memchr::memmem;

use super::bytes::{byte, run_end, slice};
use super::decode;
use super::outline::{Outline, TOKEN_MIN, is_token};
use super::patterns;

/// The shortest run that counts as encoded text whatever it says.
const RUN_MIN: usize = 16;
/// The shortest run that counts when it says an address, a link or `key=value`.
const SHORT_MIN: usize = 8;
/// Up to here, a run that is no text is taken for an identifier or a digest.
const OPAQUE_MAX: usize = 128;

/// One encoded run in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Encoded {
    pub(super) says: Says,
    /// The run without its white space.
    pub(super) run: String,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What a run decodes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Says {
    Text(String),
    /// Printable, but no text of its own: only what is found in it counts.
    Maybe(String),
    /// So many bytes that are no text.
    Bytes(usize),
}

/// Calls `sink` with every encoded run in `text`.
pub(super) fn find(text: &str, outline: &Outline, sink: &mut dyn FnMut(Encoded)) {
    let mut hits = Vec::new();
    runs(text, &outline.tokens, &mut hits);
    lists::find(text, &outline.digits, &mut hits);
    uuencoded(text, &mut hits);
    data_uris(text, &mut hits);
    hits.sort_by_key(|hit| (hit.start, usize::MAX - hit.end));
    let mut end = 0;
    for hit in hits {
        // A run inside one that was read already says nothing of its own.
        if hit.end > end {
            end = hit.end;
            sink(hit);
        }
    }
}

/// Runs over the alphabets of base64, base32 and hex, alone and as groups of equal chunks.
fn runs(text: &str, tokens: &[(usize, usize)], hits: &mut Vec<Encoded>) {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for (start, end) in tokens {
        grouped(text, &mut spans, *start, *end, hits);
        // The padding belongs to the length of a short run.
        if end - start >= SHORT_MIN || run_end(text, *end, |c| c == '=') - start >= SHORT_MIN {
            single(text, *start, *end, hits);
        }
    }
    close_group(text, &mut spans, hits);
}

/// Collects chunks of equal length with little between them.
fn grouped(
    text: &str,
    spans: &mut Vec<(usize, usize)>,
    start: usize,
    end: usize,
    hits: &mut Vec<Encoded>,
) {
    let fits = match (spans.first(), spans.last()) {
        (Some((first_start, first_end)), Some((last_start, last_end))) => {
            let length = first_end - first_start;
            let gap = slice(text, *last_end, start);
            let between = gap.len() <= 8
                && !gap.is_empty()
                && gap.bytes().all(|byte| {
                    byte.is_ascii_whitespace()
                        || matches!(byte, b'"' | b'\'' | b'+' | b',' | b'\\' | b'=')
                });
            between && last_end - last_start == length && end - start <= length
        }
        _ => true,
    };
    if !fits {
        close_group(text, spans, hits);
    }
    spans.push((start, end));
}

fn close_group(text: &str, spans: &mut Vec<(usize, usize)>, hits: &mut Vec<Encoded>) {
    if spans.len() < 2 {
        spans.clear();
        return;
    }
    let chunks = std::mem::take(spans);
    let (Some((start, _)), Some((_, last_end))) = (chunks.first(), chunks.last()) else {
        return;
    };
    let joined: String = chunks.iter().map(|(from, to)| slice(text, *from, *to)).collect();
    // The last chunk of a wrapped run may be too short to be one of its own.
    let tail_start = run_end(text, *last_end, |c| c.is_whitespace());
    let tail_end = run_end(text, tail_start, |c| u8::try_from(c).is_ok_and(is_token));
    let tail = slice(text, tail_start, tail_end);
    let whole = !tail.is_empty() && tail.len() < TOKEN_MIN && tail_start > *last_end;
    let candidates =
        [whole.then(|| (format!("{joined}{tail}"), tail_end)), Some((joined, *last_end))];
    for (run, run_stop) in candidates.into_iter().flatten() {
        if run.len() >= RUN_MIN
            && let Some(says) = read(&run)
        {
            let end = run_end(text, run_stop, |c| c == '=');
            hits.push(Encoded { says, run, start: *start, end });
            return;
        }
    }
}

fn single(text: &str, start: usize, end: usize, hits: &mut Vec<Encoded>) {
    let run = slice(text, start, end);
    let padded = run_end(text, end, |c| c == '=');
    if let Some(says) = read(run) {
        hits.push(Encoded { says, run: run.to_owned(), start, end: padded });
        return;
    }
    // A path or an identifier may hold the run as one of its parts.
    for separators in [&['/'][..], &['-', '_', '/', '+'][..]] {
        let before = hits.len();
        let mut at = start;
        for piece in run.split(separators) {
            if piece.len() >= SHORT_MIN
                && piece.len() < run.len()
                && let Some(says @ (Says::Text(_) | Says::Maybe(_))) = read(piece)
            {
                let piece_end = at + piece.len();
                hits.push(Encoded {
                    says,
                    run: piece.to_owned(),
                    start: at,
                    end: if piece_end == end { padded } else { piece_end },
                });
            }
            at += piece.len() + 1;
        }
        if hits.len() > before {
            return;
        }
    }
}

/// What a run says in any of the alphabets it fits.
fn read(run: &str) -> Option<Says> {
    let long = run.len() >= RUN_MIN;
    if !long {
        if !worth_decoding(run) {
            return None;
        }
        let text = decode::text_of(&decode::base64_bytes(run)?)?;
        return is_item(&text).then_some(Says::Text(text));
    }
    let digits = run.strip_prefix("0x").or_else(|| run.strip_prefix("0X")).unwrap_or(run);
    let is_hex = digits.len() >= RUN_MIN && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has_letter = digits.bytes().any(|byte| byte.is_ascii_alphabetic());
    let mut maybe = None;
    if is_hex {
        let bytes = decode::hex_bytes(digits)?;
        match decode::text_of(&bytes) {
            Some(text) if has_letter => return Some(Says::Text(text)),
            // A number is hex too: only what it hides counts.
            Some(text) => maybe = Some(text),
            None => maybe = decode::printable(&bytes),
        }
        if has_letter {
            let opaque =
                decode::is_compressed(&bytes) || (digits.len() > OPAQUE_MAX && varied(digits, 10));
            return maybe.map(Says::Maybe).or(opaque.then_some(Says::Bytes(bytes.len())));
        }
    }
    let base64 = decode::base64_bytes(run);
    let others = base32_readings(run);
    for bytes in base64.iter().chain(others.iter().flatten()) {
        if let Some(text) = decode::text_of(bytes) {
            return Some(Says::Text(text));
        }
        maybe = maybe.or_else(|| decode::printable(bytes));
    }
    if let Some(text) = maybe {
        return Some(Says::Maybe(text));
    }
    let bytes = base64?;
    let payload =
        decode::is_compressed(&bytes) || (run.len() > OPAQUE_MAX && varied(run, 20) && mixed(run));
    payload.then_some(Says::Bytes(bytes.len()))
}

/// The run as base32, in both alphabets, where its characters fit.
fn base32_readings(run: &str) -> [Option<Vec<u8>>; 2] {
    let is_base32 = |byte: u8| byte.is_ascii_alphabetic() || (b'2'..=b'7').contains(&byte);
    let is_base32_hex =
        |byte: u8| byte.is_ascii_digit() || byte.to_ascii_uppercase().wrapping_sub(b'A') < 22;
    let mixes_case = run.bytes().any(|byte| byte.is_ascii_lowercase())
        && run.bytes().any(|byte| byte.is_ascii_uppercase());
    if mixes_case {
        return [None, None];
    }
    let compact: String = run.chars().filter(|c| *c != '-').collect();
    let has_digit = compact.bytes().any(|byte| byte.is_ascii_digit());
    let base32 = compact.bytes().all(is_base32).then(|| decode::base32_bytes(&compact));
    let base32_hex = (has_digit && compact.bytes().all(is_base32_hex))
        .then(|| decode::base32_hex_bytes(&compact));
    [base32.flatten(), base32_hex.flatten()]
}

/// The first four characters of a short run decide whether it can be base64 of ASCII text.
fn worth_decoding(run: &str) -> bool {
    let sextet = |at: usize| -> Option<u8> {
        Some(match byte(run, at) {
            letter @ b'A'..=b'Z' => letter - b'A',
            letter @ b'a'..=b'z' => letter - b'a' + 26,
            digit @ b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        })
    };
    let (Some(a), Some(b), Some(c), Some(d)) = (sextet(0), sextet(1), sextet(2), sextet(3)) else {
        return false;
    };
    [(a << 2) | (b >> 4), (b << 4) | (c >> 2), (c << 6) | d]
        .iter()
        .all(|byte| (0x20..0x7f).contains(byte))
}

/// At least so many different characters: no rule, no repetition.
fn varied(run: &str, least: u32) -> bool {
    run.bytes().fold(0_u128, |seen, byte| seen | (1 << (byte & 127))).count_ones() >= least
}

/// The mix of a random base64 text: both cases, digits, few separators. Paths and sentences with
/// hyphens are not like that.
fn mixed(run: &str) -> bool {
    let count = |accept: fn(&u8) -> bool| run.bytes().filter(accept).count();
    let length = run.len();
    let separators = count(|byte| matches!(byte, b'/' | b'-' | b'_' | b'+'));
    let digits = count(u8::is_ascii_digit);
    separators * 10 < length
        && count(u8::is_ascii_uppercase) * 8 > length
        && count(u8::is_ascii_lowercase) * 8 > length
        && digits * 25 > length
}

/// Whether a short text is an address, a link or a pair.
fn is_item(text: &str) -> bool {
    patterns::SHORT_ITEM.as_ref().is_some_and(|item| item.is_match(text.trim()))
}

/// uuencode: each line begins with its length.
fn uuencoded(text: &str, hits: &mut Vec<Encoded>) {
    let marked = memmem::find(text.as_bytes(), b"\nend").is_some()
        || memmem::find(text.as_bytes(), b"begin ").is_some()
        || memmem::find(text.as_bytes(), b"\n`").is_some();
    if !marked {
        return;
    }
    let mut at = 0;
    let mut start = None;
    let mut bytes: Vec<u8> = Vec::new();
    let mut run = String::new();
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        let body = line.trim_end_matches(['\n', '\r']);
        let line_start = at;
        at += line.len();
        match uuencoded_line(body) {
            Some(decoded) if !decoded.is_empty() => {
                start.get_or_insert(line_start);
                bytes.extend(decoded);
                run.push_str(body);
                end = line_start + body.len();
            }
            _ => close_uuencoded(&mut start, &mut bytes, &mut run, end, hits),
        }
    }
    close_uuencoded(&mut start, &mut bytes, &mut run, end, hits);
}

fn close_uuencoded(
    start: &mut Option<usize>,
    bytes: &mut Vec<u8>,
    run: &mut String,
    end: usize,
    hits: &mut Vec<Encoded>,
) {
    let Some(start) = start.take() else {
        return;
    };
    let bytes = std::mem::take(bytes);
    let run: String = std::mem::take(run).split_whitespace().collect();
    if bytes.len() >= 8
        && let Some(says) = decode::text_of(&bytes)
    {
        hits.push(Encoded { says: Says::Text(says), run, start, end });
    }
}

fn uuencoded_line(line: &str) -> Option<Vec<u8>> {
    let value = |byte: u8| (0x20..=0x60).contains(&byte).then(|| (byte - 0x20) & 63);
    let length = usize::from(value(byte(line, 0))?);
    let body = line.get(1..)?;
    let full = length.div_ceil(3) * 4;
    // Trailing spaces may have been cut on the way.
    if length == 0 || length > 45 || body.len() > full + 1 || body.len() + 3 < full {
        return None;
    }
    let mut sextets = body.bytes().map(value).collect::<Option<Vec<u8>>>()?;
    sextets.resize(full, 0);
    let mut bytes: Vec<u8> = sextets
        .chunks_exact(4)
        .flat_map(|four| match four {
            [a, b, c, d] => [(a << 2) | (b >> 4), (b << 4) | (c >> 2), (c << 6) | d],
            _ => [0; 3],
        })
        .collect();
    bytes.truncate(length);
    Some(bytes)
}

/// `data:text/plain,the%20door…`: a body that is not base64 is percent-encoded text.
fn data_uris(text: &str, hits: &mut Vec<Encoded>) {
    let mut done = 0;
    for at in memmem::find_iter(text.as_bytes(), b"data:") {
        // A URI inside the body of another was decoded with it.
        if at < done {
            continue;
        }
        let rest = slice(text, at + 5, text.len());
        let head = slice(rest, 0, super::bytes::floor_boundary(rest, 128));
        if !super::link_form::is_data(head) {
            continue;
        }
        let Some(comma) = head.find(',') else {
            continue;
        };
        if slice(head, 0, comma).ends_with("base64") {
            continue;
        }
        let body_start = at + 5 + comma + 1;
        let end = run_end(text, body_start, |c| {
            !c.is_whitespace() && !matches!(c, '"' | '\'' | '`' | '<' | '>' | ')')
        });
        done = end;
        let body = slice(text, body_start, end);
        if !body.contains('%') {
            continue;
        }
        let decoded = percent_decoded(body);
        if let Some(says) = decode::plain_text(&decoded) {
            hits.push(Encoded {
                says: Says::Text(says),
                run: body.to_owned(),
                start: body_start,
                end,
            });
        }
    }
}

fn percent_decoded(body: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len());
    let mut at = 0;
    while at < body.len() {
        let escape = slice(body, at + 1, at + 3);
        if byte(body, at) == b'%'
            && escape.len() == 2
            && let Ok(value) = u8::from_str_radix(escape, 16)
        {
            bytes.push(value);
            at += 3;
        } else {
            bytes.push(byte(body, at));
            at += 1;
        }
    }
    bytes
}
