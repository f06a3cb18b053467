//! Where a link ends.
//!
//! In a sentence a link ends at white space, a quote, an angle bracket, a bar or a bracket that was
//! opened before it. But a client that is given `https://known.example/a"secret` does not cut it
//! there: it sends the sign percent-encoded, and what follows along with it. So such a sign ends a
//! link only where it closes something, begins a tag or another link, or where nothing follows that
//! could carry anything; and in a value that is nothing but a link it does not even where it closes.

use memchr::{memchr2, memrchr, memrchr2};

use super::bytes::{byte, byte_before, char_at, char_before, floor_boundary, is_cjk, slice};

/// How far before a link the sign is looked for that another one closes.
const OPENER_REACH: usize = 4 * 1024;
/// The longest tag right behind a link.
const TAG_MAX: usize = 256;

/// What stands around a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Around {
    /// Other text.
    Text,
    /// Nothing: the value is this link.
    Nothing,
    /// Nothing, in a field for links, whose white space a client encodes as well.
    Field,
}

/// What a character may mean for the end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    /// The end in any case.
    End,
    Space,
    /// The end, unless the value is nothing but the link.
    Punctuation,
    /// The end where it closes something.
    Sign(char),
}

/// The two ends of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    /// At the first sign that could end it.
    pub(super) cut: usize,
    /// With what a client would take along.
    pub(super) whole: usize,
}

/// Where the link from `start` on ends, at `ceiling` at the latest.
pub(super) fn find(text: &str, start: usize, ceiling: usize, around: Around) -> Ends {
    let quote = byte_before(text, start) == b'\'';
    let first = start == 0 && ceiling == text.len();
    let mut depth = [0_i32; 3];
    let mut end = start;
    let mut last = '\0';
    let mut cut = None;
    let mut data_end = None;
    // Signs that close nothing here; each is looked up once.
    let mut passed = String::new();
    while end < ceiling {
        let Some(character) = char_at(text, end) else {
            break;
        };
        let stop = match character {
            '<' | '>' | '"' | '`' | '|' => Stop::Sign(character),
            '\'' if quote => Stop::Sign(character),
            '(' | '[' | '{' => {
                if let Some(count) = depth.get_mut(bracket(character)) {
                    *count += 1;
                }
                Stop::No
            }
            ')' | ']' | '}' => match depth.get_mut(bracket(character)) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    Stop::No
                }
                // A bracket of the host itself, `https://[2001:db8::1]/`.
                _ => Stop::Sign(character),
            },
            ',' | ';' if begins_link(text, end + 1) => Stop::End,
            '\\' if matches!(byte(text, end + 1), b'"' | b'\'') => {
                Stop::Sign(char::from(byte(text, end + 1)))
            }
            '&' if !first && is_bracket_reference(text, end) => Stop::End,
            '\u{3000}'..='\u{303F}' => Stop::Punctuation,
            ' ' => Stop::Space,
            other if other.is_whitespace() => Stop::End,
            other if other.is_control() => Stop::Punctuation,
            other if is_cjk(other) && !first => {
                let joint = last.is_ascii_alphanumeric()
                    || matches!(last, ',' | ';' | ':' | '!' | '?' | '.' | ')');
                if joint { Stop::End } else { Stop::No }
            }
            _ => Stop::No,
        };
        if stop != Stop::No {
            let goes_on = match (stop, around) {
                (Stop::Space, Around::Field) => true,
                (Stop::Sign(_) | Stop::Punctuation, Around::Nothing | Around::Field) => true,
                (Stop::Sign(sign), Around::Text) => {
                    passed.contains(sign) || !closes(text, start, end, sign)
                }
                _ => false,
            };
            let after = end + character.len_utf8();
            let data_end = *data_end.get_or_insert_with(|| data_end_of(text, end, ceiling, around));
            if !goes_on || data_end <= after || begins_link(text, after) {
                break;
            }
            if let Stop::Sign(sign) = stop
                && sign != '<'
                && !passed.contains(sign)
            {
                passed.push(sign);
            }
            cut.get_or_insert_with(|| trimmed_end(text, start, end));
        }
        last = character;
        end += character.len_utf8();
    }
    let whole =
        if end == ceiling && ceiling < text.len() { end } else { trimmed_end(text, start, end) };
    Ends { cut: cut.unwrap_or(whole), whole }
}

/// Where the last character ends that could carry anything, before white space.
fn data_end_of(text: &str, from: usize, ceiling: usize, around: Around) -> usize {
    let rest = slice(text, from, ceiling);
    let token = match around {
        Around::Field => rest.split(['\t', '\n', '\r']).next().unwrap_or(""),
        Around::Text | Around::Nothing => rest.split(char::is_whitespace).next().unwrap_or(""),
    };
    let last = token.char_indices().rfind(|(_, character)| character.is_alphanumeric());
    last.map_or(from, |(at, character)| from + at + character.len_utf8())
}

/// Whether another link begins at `at`, or behind white space there.
pub(super) fn begins_link(text: &str, at: usize) -> bool {
    let rest = slice(text, at, floor_boundary(text, at + 16)).trim_start();
    rest.starts_with("http://") || rest.starts_with("https://")
}

/// Whether the sign at `at` closes what was opened before the link, or begins a tag.
fn closes(text: &str, start: usize, at: usize, sign: char) -> bool {
    let from = floor_boundary(text, start.saturating_sub(OPENER_REACH));
    let before = slice(text, from, start).as_bytes();
    let opened = |opener: u8| memrchr(opener, before).is_some();
    let in_angles =
        || memrchr2(b'<', b'>', before).is_some_and(|last| before.get(last) == Some(&b'<'));
    match sign {
        '<' => begins_tag(text, at),
        '>' => in_angles(),
        '|' => opened(b'|') || opened(b'[') || in_angles(),
        ')' => opened(b'('),
        ']' => opened(b'['),
        '}' => opened(b'{'),
        '\'' => true,
        other => u8::try_from(other).is_ok_and(opened),
    }
}

/// `<br>`, `</a>`, `<!--`, `<https://…>`: what a reader of HTML takes for markup.
fn begins_tag(text: &str, at: usize) -> bool {
    let rest = slice(text, at + 1, floor_boundary(text, at + TAG_MAX)).as_bytes();
    let opens = rest
        .first()
        .is_some_and(|first| first.is_ascii_alphabetic() || matches!(first, b'/' | b'!'));
    opens && memchr2(b'<', b'>', rest).is_some_and(|end| rest.get(end) == Some(&b'>'))
}

/// The end without what closes a sentence or a quotation, in any script, and without `'s`.
fn trimmed_end(text: &str, start: usize, end: usize) -> usize {
    let mut end = end;
    while let Some(last) = char_before(text, end).filter(|_| end > start) {
        let genitive = matches!(last, 's' | 'S')
            && matches!(char_before(text, end - 1), Some('\'' | '\u{2019}'))
            && end - 1 > start;
        if genitive {
            end -= 1;
        } else if is_closing(last) {
            end -= last.len_utf8();
        } else {
            break;
        }
    }
    end
}

const fn is_closing(character: char) -> bool {
    matches!(
        character,
        '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '~' | '\\'
            | '\u{2018}'..='\u{201F}'
            | '\u{2039}' | '\u{203A}' | '\u{00AB}' | '\u{00BB}' | '\u{2026}' | '\u{2013}' | '\u{2014}'
            | '\u{060C}' | '\u{061B}' | '\u{061F}' | '\u{06D4}' | '\u{066B}' | '\u{066C}'
            | '\u{0964}' | '\u{0965}' | '\u{0589}' | '\u{055D}' | '\u{05C3}' | '\u{037E}' | '\u{0387}'
            | '\u{104A}' | '\u{104B}' | '\u{17D4}' | '\u{17D5}' | '\u{1362}'..='\u{1368}'
            | '\u{FF01}' | '\u{FF0C}' | '\u{FF0E}' | '\u{FF1A}' | '\u{FF1B}' | '\u{FF1F}'
    )
}

/// Whether a reference at `at` stands for a quote or an angle bracket, where every link ends.
fn is_bracket_reference(text: &str, at: usize) -> bool {
    const NAMES: [&str; 16] = [
        "&gt;", "&lt;", "&quot;", "&apos;", "&#34;", "&#39;", "&#60;", "&#62;", "&#x22;", "&#x27;",
        "&#x3c;", "&#x3e;", "&#x3C;", "&#x3E;", "&ldquo;", "&rdquo;",
    ];
    NAMES.iter().any(|name| slice(text, at, at + name.len()) == *name)
}

const fn bracket(character: char) -> usize {
    match character {
        '(' | ')' => 0,
        '[' | ']' => 1,
        _ => 2,
    }
}
