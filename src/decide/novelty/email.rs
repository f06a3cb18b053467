//! E-mail addresses.
//!
//! # What it finds
//! Every address that a mail program would deliver to: plain, internationalised, with a quoted
//! local part, with comments, with an address literal; in a recipient field also dotless hosts and
//! white space around `@` and dots.
//!
//! # Why it matters
//! One address in `bcc` carries a whole conversation away. A known domain does not vouch for an
//! unknown mailbox: other people have theirs at the same host, and lists forward.
//!
//! # Example
//! `"alice@contoso.example" <drop@exfil.example>` is the address `drop@exfil.example`; the display
//! name vouches for nothing.
//!
//! # What it misses
//! Addresses written as riddles ("my first name at the usual host"), and a mailbox that belongs to
//! another person although the address is known.

use memchr::memchr_iter;

use super::bytes::{byte, byte_before, char_at, char_before, is_cjk, run_end, run_start, slice};
use super::place::Place;
use super::tlds;

/// The longest local part and domain looked at (RFC 5321 allows 64 and 255).
const LOCAL_MAX: usize = 320;
const DOMAIN_MAX: usize = 320;

/// One address in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Email {
    pub(super) address: String,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Calls `sink` with every address in `text`.
pub(super) fn find(text: &str, place: Place, sink: &mut dyn FnMut(Email)) {
    let mut done = 0;
    for at in memchr_iter(b'@', text.as_bytes()) {
        if at < done {
            continue;
        }
        if let Some(email) = around(text, at, done, place) {
            done = email.end;
            sink(email);
        }
    }
}

fn is_local(character: char) -> bool {
    character.is_ascii_alphanumeric()
        || matches!(
            character,
            '.' | '!'
                | '#'
                | '$'
                | '%'
                | '&'
                | '\''
                | '*'
                | '+'
                | '-'
                | '/'
                | '='
                | '?'
                | '^'
                | '_'
                | '`'
                | '{'
                | '|'
                | '}'
                | '~'
        )
        || (!character.is_ascii() && (character.is_alphanumeric() || is_mark(character)))
}

/// Combining marks of the scripts whose local parts need them.
fn is_mark(character: char) -> bool {
    matches!(u32::from(character), 0x0300..=0x036F | 0x0900..=0x0DFF | 0x0E31..=0x0E4E | 0x3099 | 0x309A)
}

fn is_domain(character: char) -> bool {
    character.is_ascii_alphanumeric()
        || matches!(character, '.' | '-' | '_')
        || (!character.is_ascii()
            && (character.is_alphanumeric() || is_mark(character) || character == '\u{3002}'))
}

fn around(text: &str, at: usize, floor: usize, place: Place) -> Option<Email> {
    let local = local_part(text, at, floor, place)?;
    // `a@b@c`: everything up to the last `@` is the local part.
    let (domain, end) = domain_part(text, at + 1, &local, place)?;
    Some(Email { address: format!("{}@{domain}", local.text), start: local.start, end })
}

struct Local {
    text: String,
    start: usize,
    /// White space stood before the `@`.
    spaced: bool,
}

fn local_part(text: &str, at: usize, floor: usize, place: Place) -> Option<Local> {
    let mut end = at;
    // Folding white space and comments may stand between the local part and `@`.
    let before_space = run_start(text, end, floor.max(at.saturating_sub(3)), char::is_whitespace);
    let spaced = before_space < end;
    if spaced && !place.recipient {
        return None;
    }
    end = before_space;
    if byte_before(text, end) == b')' {
        let window = end.saturating_sub(LOCAL_MAX).max(floor);
        let open = slice(text, super::bytes::floor_boundary(text, window), end)
            .rfind('(')
            .map(|offset| super::bytes::floor_boundary(text, window) + offset)?;
        end = open;
    }
    if byte_before(text, end) == b'"' {
        return quoted(text, end).map(|local| Local { spaced, ..local });
    }
    let lowest = floor.max(super::bytes::floor_boundary(text, end.saturating_sub(LOCAL_MAX)));
    let mut start = run_start(text, end, lowest, is_local);
    start = trim(text, start, end, place)?;
    let raw = slice(text, start, end);
    if raw.is_empty() || raw.starts_with('.') && raw.len() == 1 {
        return None;
    }
    Some(Local { text: raw.to_lowercase(), start, spaced })
}

/// A quoted local part that ends before `end`; unquoted when it is a dot-atom.
fn quoted(text: &str, end: usize) -> Option<Local> {
    let lowest = super::bytes::floor_boundary(text, end.saturating_sub(LOCAL_MAX));
    let inner_end = end - 1;
    let mut open = inner_end;
    loop {
        open = run_start(text, open, lowest, |c| c != '"' && c != '\n');
        if byte_before(text, open) != b'"' || open <= lowest {
            return None;
        }
        let escaped = byte_before(text, open - 1) == b'\\';
        open -= 1;
        if !escaped {
            break;
        }
    }
    let inner = slice(text, open + 1, inner_end);
    if inner.is_empty() {
        return None;
    }
    let plain = inner.chars().all(is_local) && !inner.starts_with('.') && !inner.ends_with('.');
    let written =
        if plain { inner.to_lowercase() } else { format!("\"{}\"", inner.to_lowercase()) };
    Some(Local { text: written, start: open, spaced: false })
}

/// Drops what decorates a local part: Markdown, `key=`, paths, quotes, letters of another script.
fn trim(text: &str, start: usize, end: usize, place: Place) -> Option<usize> {
    let mut start = start;
    let local = slice(text, start, end);
    let whole = place.recipient && !place.source && start == 0;
    // `key=`, `?to=`, `/path/`: what stands after the last of them is the local part.
    let cuts: &[char] =
        if whole { &['/', '?', '|', '{'] } else { &['=', '/', '?', '&', '|', '{', '}', '#', '`'] };
    if let Some(cut) = local.rfind(cuts) {
        start += cut + 1;
    }
    start = run_end(text, start, |c| {
        matches!(
            c,
            '*' | '\'' | '`' | '~' | '^' | '$' | '.' | '_' | '-' | '!' | '+' | '#' | '&' | '%'
        )
    })
    .min(end);
    // An escape sequence before the address is not part of it: `\nalice@`.
    if byte_before(text, start) == b'\\'
        && matches!(byte(text, start), b'n' | b't' | b'r')
        && end > start + 1
    {
        start += 1;
    }
    // `%40` and the like are read in the decoded view.
    let local = slice(text, start, end);
    if !place.recipient && has_percent_escape(local) {
        return None;
    }
    if place.is_key && local.len() > 2 && (local.starts_with("X-") || local.starts_with("x-")) {
        start += 2;
    }
    // Scripts without spaces run into an ASCII local part on its left.
    let local = slice(text, start, end);
    if let Some((offset, character)) = local.char_indices().rfind(|(_, c)| is_cjk(*c)) {
        let after = offset + character.len_utf8();
        if after < local.len() && local.is_char_boundary(after) {
            start += after;
        }
    }
    Some(start)
}

fn has_percent_escape(text: &str) -> bool {
    memchr_iter(b'%', text.as_bytes())
        .any(|at| byte(text, at + 1).is_ascii_hexdigit() && byte(text, at + 2).is_ascii_hexdigit())
}

/// The domain after `@`: its canonical form and its end.
fn domain_part(text: &str, at: usize, local: &Local, place: Place) -> Option<(String, usize)> {
    let spaces_end = run_end(text, at, char::is_whitespace).min(at + 3);
    let spaced = spaces_end > at;
    if spaced && !place.recipient && (local.spaced || local.text.len() < 3) {
        return None;
    }
    let mut start = spaces_end;
    if byte(text, start) == b'(' {
        let close = slice(text, start, (start + DOMAIN_MAX).min(text.len())).find(')')?;
        start = start + close + 1;
    }
    if byte(text, start) == b'[' {
        let window = super::bytes::floor_boundary(text, start + 64);
        let close = slice(text, start, window).find(']')?;
        let literal = slice(text, start + 1, start + close);
        let address = literal
            .strip_prefix("IPv6:")
            .or_else(|| literal.strip_prefix("ipv6:"))
            .unwrap_or(literal);
        if address.parse::<std::net::IpAddr>().is_err() {
            return None;
        }
        return Some((format!("[{}]", literal.to_lowercase()), start + close + 1));
    }
    let ceiling = super::bytes::floor_boundary(text, start + DOMAIN_MAX);
    let mut end = run_end(slice(text, 0, ceiling), start, is_domain);
    // `a@b@c` is delivered by its last part; the first is no address of its own.
    if byte(text, end) == b'@' && end > start {
        let next = run_end(
            slice(text, 0, super::bytes::floor_boundary(text, end + DOMAIN_MAX)),
            end + 1,
            is_domain,
        );
        let first = slice(text, start, end).to_lowercase();
        let (domain, tail_end) = gate(text, end + 1, next, spaced, place)?;
        return Some((format!("{first}@{domain}"), tail_end));
    }
    // Scripts without spaces run into an ASCII domain on its right.
    let run = slice(text, start, end);
    if let Some((offset, _)) = run.char_indices().find(|(_, c)| is_cjk(*c))
        && slice(text, start, start + offset).contains('.')
        && byte_before(text, start + offset) != b'.'
        && run.get(..offset).is_some_and(str::is_ascii)
    {
        end = start + offset;
    }
    gate(text, start, end, spaced, place)
}

/// Whether `start..end` can receive mail here, and its canonical form.
fn gate(
    text: &str,
    start: usize,
    end: usize,
    spaced: bool,
    place: Place,
) -> Option<(String, usize)> {
    let mut end = end;
    while end > start && matches!(byte_before(text, end), b'.' | b'-' | b'_') {
        end -= 1;
    }
    let raw = slice(text, start, end);
    if raw.is_empty() || raw.starts_with('.') || raw.contains("..") {
        return None;
    }
    let domain = canonical_domain(raw);
    let last = domain.rsplit('.').next().unwrap_or("");
    let dotted = domain.contains('.');
    if dotted && tlds::exists(last) {
        let code = (tlds::is_file_ending(last) && !place.recipient && retina(&domain))
            || (!place.recipient && char_at(text, end) == Some('('));
        return (!code).then_some((domain, end));
    }
    let lenient = (place.recipient || place.source) && !spaced;
    let plausible = domain.bytes().any(|byte| byte.is_ascii_alphabetic());
    let bounded = char_before(text, start.saturating_sub(1)).is_some()
        && !matches!(byte(text, end), b':' | b'(' | b'/');
    (lenient && plausible && bounded && !dotted).then_some((domain, end))
}

/// `photo@2x.mov`: a scale, not a host.
fn retina(domain: &str) -> bool {
    let label = domain.split('.').next().unwrap_or("");
    let digits = label.trim_end_matches('x');
    digits.len() + 1 == label.len()
        && !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// UTS 46, non-transitional, to A-labels in lower case, no root dot.
pub(super) fn canonical_domain(raw: &str) -> String {
    let trimmed = raw.trim_end_matches('.');
    if trimmed.is_ascii() && !trimmed.contains("xn--") {
        return trimmed.to_ascii_lowercase();
    }
    idna::domain_to_ascii(trimmed).unwrap_or_else(|_| trimmed.to_lowercase())
}

/// `*@domain`: the domains that a sentence approves as a whole.
pub(super) fn wildcards(text: &str, sink: &mut dyn FnMut(String)) {
    for at in memchr_iter(b'@', text.as_bytes()) {
        if byte_before(text, at) != b'*'
            || at.checked_sub(2).is_some_and(|before| {
                is_local(char::from(byte(text, before)))
                    && byte(text, before) != b'`'
                    && byte(text, before) != b'\''
            })
        {
            continue;
        }
        let end = run_end(text, at + 1, is_domain);
        let domain = canonical_domain(slice(text, at + 1, end));
        if domain.contains('.') {
            sink(domain);
        }
    }
}
