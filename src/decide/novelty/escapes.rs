//! View V2: the escapes that a reader, a browser or a parser undoes.
//!
//! Each transform makes one new view from another and reports *spelled* runs: neighbouring escapes
//! that write plain ASCII letters or digits, which nobody needs to escape. One escape that cannot
//! be decoded is kept as it stands; the rest of the text is decoded all the same.

use super::bytes::{byte, run_end, slice};
use super::patterns;
use super::view::{Rewriter, View};
use memchr::{memchr_iter, memmem};

/// Letters or digits in a row that make escaped text suspicious.
const SPELLED_IN_A_ROW: usize = 4;
/// Quoted-printable is taken for such from this many escapes on: `x=20` alone is an equation.
const QUOTED_PRINTABLE_MIN: usize = 4;
/// The longest HTML reference looked at; the longest name has 32 characters.
const REFERENCE_MAX: usize = 40;

/// A rewritten view and the stretches of it that neighbouring escapes spelled out.
pub(super) struct Unescaped {
    pub(super) view: View<'static>,
    pub(super) spelled: Vec<(usize, usize)>,
}

/// One transform.
pub(super) type Transform = fn(&View<'_>) -> Option<Unescaped>;

/// Every transform of V2 but refanging, which sources do not get.
pub(super) const UNESCAPE: &[Transform] =
    &[percent, html, backslash, code_point, encoded_word, quoted_printable];

/// Writes escapes, keeping track of runs.
struct Escapes<'v, 't> {
    rewriter: Rewriter<'v, 't>,
    run_start: usize,
    run_input_end: usize,
    spelled: Vec<(usize, usize)>,
}

impl<'v, 't> Escapes<'v, 't> {
    fn new(view: &'v View<'t>) -> Self {
        Escapes {
            rewriter: Rewriter::new(view),
            run_start: 0,
            run_input_end: usize::MAX,
            spelled: Vec::new(),
        }
    }

    /// Replaces `from..to` of the input; an escape that starts where the last one ended goes on
    /// with its run.
    fn escape(&mut self, from: usize, to: usize, with: &str) {
        if from != self.run_input_end {
            self.close_run();
            self.rewriter.keep_to(from);
            self.run_start = self.rewriter.written().len();
        }
        self.rewriter.replace_to(to, with);
        self.run_input_end = to;
    }

    fn close_run(&mut self) {
        let end = self.rewriter.written().len();
        if self.run_input_end != usize::MAX
            && spells(slice(self.rewriter.written(), self.run_start, end))
        {
            self.spelled.push((self.run_start, end));
        }
        self.run_input_end = usize::MAX;
    }

    fn finish(mut self) -> Option<Unescaped> {
        self.close_run();
        let spelled = self.spelled;
        self.rewriter.finish().map(|view| Unescaped { view, spelled })
    }
}

fn spells(text: &str) -> bool {
    let mut row = 0;
    for byte in text.bytes() {
        row = if byte.is_ascii_alphanumeric() { row + 1 } else { 0 };
        if row >= SPELLED_IN_A_ROW {
            return true;
        }
    }
    false
}

fn hex_value(digits: &str) -> Option<u32> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, 16).ok()
}

/// Decodes neighbouring escapes that stand for bytes: the longest valid UTF-8 of each stretch is
/// written, what is not UTF-8 stays. `next` reads one escape: its byte and its end.
fn bytes_as_text(
    escapes: &mut Escapes<'_, '_>,
    start: usize,
    next: impl Fn(usize) -> Option<(u8, usize)>,
) -> usize {
    let mut decoded = Vec::new();
    let mut ends = Vec::new();
    let mut at = start;
    while let Some((value, end)) = next(at) {
        decoded.push(value);
        ends.push(end);
        at = end;
    }
    let mut index = 0;
    let mut from = start;
    for chunk in decoded.utf8_chunks() {
        for character in chunk.valid().chars() {
            let width = character.len_utf8();
            index += width;
            let to = ends.get(index - 1).copied().unwrap_or(at);
            escapes.escape(from, to, character.encode_utf8(&mut [0; 4]));
            from = to;
        }
        index += chunk.invalid().len();
        if index > 0 {
            from = ends.get(index - 1).copied().unwrap_or(from);
        }
    }
    at
}

/// `%40`, `%u0040`.
fn percent(view: &View<'_>) -> Option<Unescaped> {
    let text: &str = &view.text;
    let mut escapes = Escapes::new(view);
    let mut done = 0;
    for at in memchr_iter(b'%', text.as_bytes()) {
        if at < done {
            continue;
        }
        if matches!(byte(text, at + 1), b'u' | b'U') {
            let mut from = at;
            while byte(text, from) == b'%' && matches!(byte(text, from + 1), b'u' | b'U') {
                let Some((character, end)) = utf16_unit(text, from + 2, 2) else {
                    break;
                };
                escapes.escape(from, end, character.encode_utf8(&mut [0; 4]));
                from = end;
            }
            done = from.max(at + 1);
        } else {
            done = bytes_as_text(&mut escapes, at, |from| {
                if byte(text, from) != b'%' {
                    return None;
                }
                let value = hex_value(slice(text, from + 1, from + 3))?;
                u8::try_from(value).ok().map(|value| (value, from + 3))
            })
            .max(at + 1);
        }
    }
    escapes.finish()
}

/// Four hex digits at `at`, and the second half of a surrogate pair after `marker` more bytes.
fn utf16_unit(text: &str, at: usize, marker: usize) -> Option<(char, usize)> {
    let first = hex_value(slice(text, at, at + 4))?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, at + 4));
    }
    let second_at = at + 4 + marker;
    let second = hex_value(slice(text, second_at, second_at + 4))?;
    let units = [u16::try_from(first).ok()?, u16::try_from(second).ok()?];
    let character = char::decode_utf16(units).next()?.ok()?;
    Some((character, second_at + 4))
}

/// `&#64;`, `&#x40`, `&commat;`, `&period`.
fn html(view: &View<'_>) -> Option<Unescaped> {
    let text: &str = &view.text;
    let mut escapes = Escapes::new(view);
    for at in memchr_iter(b'&', text.as_bytes()) {
        let name_start = at + 1;
        let numeric = byte(text, name_start) == b'#';
        let mut end = run_end(text, name_start + usize::from(numeric), |character| {
            character.is_ascii_alphanumeric()
        });
        if end == name_start || end - at > REFERENCE_MAX {
            continue;
        }
        if byte(text, end) == b';' {
            end += 1;
        }
        let reference = slice(text, at, end);
        let decoded = htmlize::unescape(reference);
        if decoded == reference {
            continue;
        }
        // Without a semicolon a name may end before the letters do: `&ampx` is `&x`.
        let rest = decoded
            .bytes()
            .rev()
            .zip(reference.bytes().rev())
            .take_while(|(left, right)| left == right)
            .count();
        let rest = if numeric || reference.ends_with(';') { 0 } else { rest };
        let kept = decoded.len().saturating_sub(rest);
        if kept == 0 {
            continue;
        }
        escapes.escape(at, end - rest, slice(&decoded, 0, kept));
    }
    escapes.finish()
}

/// `\u0040`, `\u{40}`, `\x40`, `\100`, `\/`, `\"`, `\n`; any number of backslashes before it, as
/// text that was escaped more than once has.
fn backslash(view: &View<'_>) -> Option<Unescaped> {
    let text: &str = &view.text;
    let mut escapes = Escapes::new(view);
    let mut done = 0;
    for at in memchr_iter(b'\\', text.as_bytes()) {
        if at < done {
            continue;
        }
        let after = run_end(text, at, |character| character == '\\');
        done = after;
        let mut encoded = [0; 4];
        match byte(text, after) {
            b'u' if byte(text, after + 1) == b'{' => {
                let digits_end = run_end(text, after + 2, |c| c.is_ascii_hexdigit());
                let character =
                    hex_value(slice(text, after + 2, digits_end)).and_then(char::from_u32);
                if let (Some(character), b'}') = (character, byte(text, digits_end)) {
                    escapes.escape(at, digits_end + 1, character.encode_utf8(&mut encoded));
                    done = digits_end + 1;
                }
            }
            b'u' | b'U' => {
                let wide = hex_value(slice(text, after + 1, after + 9)).and_then(char::from_u32);
                let read = match wide {
                    Some(character) if byte(text, after) == b'U' => Some((character, after + 9)),
                    _ => {
                        let markers = run_end(text, after + 5, |c| c == '\\');
                        utf16_unit(text, after + 1, markers + 1 - (after + 5))
                    }
                };
                if let Some((character, end)) = read {
                    escapes.escape(at, end, character.encode_utf8(&mut encoded));
                    done = end;
                }
            }
            b'x' | b'0'..=b'7' => {
                done = bytes_as_text(&mut escapes, at, |from| {
                    if byte(text, from) != b'\\' {
                        return None;
                    }
                    let after = run_end(text, from, |c| c == '\\');
                    byte_escape(text, after)
                })
                .max(after);
            }
            b'/' | b'"' | b'\'' => {
                escapes.escape(at, after + 1, slice(text, after, after + 1));
                done = after + 1;
            }
            b'n' | b'r' | b't' => {
                escapes.escape(at, after + 1, "\n");
                done = after + 1;
            }
            _ => {}
        }
    }
    escapes.finish()
}

/// `x40` or `100` (octal) at `at`: the byte and the end.
fn byte_escape(text: &str, at: usize) -> Option<(u8, usize)> {
    if byte(text, at) == b'x' {
        let value = hex_value(slice(text, at + 1, at + 3))?;
        return u8::try_from(value).ok().map(|value| (value, at + 3));
    }
    // Three octal digits, or the two that are left of the numbers from 64 on.
    let most = if byte(text, at) <= b'3' { 3 } else { 2 };
    let end = run_end(text, at, |c| matches!(c, '0'..='7')).min(at + most);
    if end < at + 2 {
        return None;
    }
    let value = u32::from_str_radix(slice(text, at, end), 8).ok()?;
    u8::try_from(value).ok().map(|value| (value, end))
}

/// `U+0040`; one space between two of them belongs to the notation.
fn code_point(view: &View<'_>) -> Option<Unescaped> {
    let text: &str = &view.text;
    let mut escapes = Escapes::new(view);
    let mut last_end = None;
    for plus in memchr_iter(b'+', text.as_bytes()) {
        let Some(at) = plus.checked_sub(1) else {
            continue;
        };
        if !matches!(byte(text, at), b'U' | b'u') {
            continue;
        }
        let end = run_end(text, plus + 1, |c| c.is_ascii_hexdigit()).min(plus + 7);
        if end < plus + 5 {
            continue;
        }
        // `U+0040d…`: four digits of an ASCII character; what follows are letters.
        let end = if slice(text, plus + 1, plus + 3) == "00" { plus + 5 } else { end };
        let Some(character) = hex_value(slice(text, plus + 1, end)).and_then(char::from_u32) else {
            continue;
        };
        let from = match last_end {
            Some(last) if at == last + 1 && byte(text, last) == b' ' => last,
            _ => at,
        };
        escapes.escape(from, end, character.encode_utf8(&mut [0; 4]));
        last_end = Some(end);
    }
    escapes.finish()
}

/// RFC 2047: `=?utf-8?B?…?=`, `=?iso-8859-1?Q?…?=`. Read as UTF-8, else as Latin-1.
fn encoded_word(view: &View<'_>) -> Option<Unescaped> {
    let text: &str = &view.text;
    memmem::find(text.as_bytes(), b"=?")?;
    let word = patterns::ENCODED_WORD.as_ref()?;
    let mut escapes = Escapes::new(view);
    let mut at = 0;
    while let Some(groups) = word.captures_at(text, at) {
        let (Some(whole), Some(form), Some(body)) = (groups.get(0), groups.get(1), groups.get(2))
        else {
            break;
        };
        let end = groups.get(3).map_or(whole.end(), |next| next.start());
        let decoded = if form.as_str().eq_ignore_ascii_case("b") {
            super::decode::base64_bytes(body.as_str())
        } else {
            Some(q_bytes(body.as_str()))
        };
        if let Some(bytes) = decoded {
            let decoded = String::from_utf8(bytes).unwrap_or_else(|error| {
                error.as_bytes().iter().map(|byte| char::from(*byte)).collect()
            });
            escapes.escape(whole.start(), end, &decoded);
        }
        at = end.max(at + 1);
    }
    escapes.finish()
}

fn q_bytes(body: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len());
    let mut at = 0;
    while at < body.len() {
        let value = byte(body, at);
        if value == b'='
            && let Some(decoded) = hex_value(slice(body, at + 1, at + 3))
        {
            bytes.push(u8::try_from(decoded).unwrap_or(b'?'));
            at += 3;
            continue;
        }
        bytes.push(if value == b'_' { b' ' } else { value });
        at += 1;
    }
    bytes
}

/// `=40`, and soft line breaks, where the text has several.
fn quoted_printable(view: &View<'_>) -> Option<Unescaped> {
    let text: &str = &view.text;
    let read = |from: usize| {
        if byte(text, from) != b'=' {
            return None;
        }
        let value = hex_value(slice(text, from + 1, from + 3))?;
        u8::try_from(value).ok().map(|value| (value, from + 3))
    };
    let enough = memchr_iter(b'=', text.as_bytes())
        .filter(|at| read(*at).is_some())
        .nth(QUOTED_PRINTABLE_MIN - 1)
        .is_some();
    if !enough {
        return None;
    }
    let mut escapes = Escapes::new(view);
    let mut done = 0;
    for at in memchr_iter(b'=', text.as_bytes()) {
        if at < done {
            continue;
        }
        let line_end = run_end(text, at + 1, |c| c == '\r');
        if byte(text, line_end) == b'\n' {
            escapes.escape(at, line_end + 1, "");
            done = line_end + 1;
        } else {
            done = bytes_as_text(&mut escapes, at, read).max(at + 1);
        }
    }
    escapes.finish()
}
