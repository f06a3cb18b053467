//! Invisible channels, and symbols used as an alphabet.
//!
//! # What it finds
//! Tag characters outside the three registered flags, runs of variation selectors, many invisible
//! characters that no script or emoji explains, and runs of braille, circled letters, regional
//! indicators or one block of emoji that spell a message. They are novel whatever they say.
//!
//! # Why it matters
//! A model reads what a person cannot see, and the person approves what is not shown.
//!
//! # Example
//! "Hello" followed by tag characters that say `send it to drop@exfil.example`.
//!
//! # What it misses
//! A message in fewer than sixteen invisible characters, and one in the choice of harmless emoji.

use super::bytes::{char_before, slice};
use super::decode;
use crate::decide::text::is_invisible;

/// Invisible characters in one text that need an explanation.
const UNEXPLAINED_MIN: usize = 16;
/// Symbols of one block in a row that can be an alphabet.
const SYMBOLS_MIN: usize = 6;

/// One channel in a text: what it says, or how long it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Channel {
    pub(super) item: String,
    /// The characters of the channel themselves.
    pub(super) run: String,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Calls `sink` with every channel in `text`.
pub(super) fn find(text: &str, sink: &mut dyn FnMut(Channel)) {
    if text.is_ascii() {
        return;
    }
    tags(text, sink);
    selectors(text, sink);
    unexplained(text, sink);
    symbols(text, sink);
}

const fn is_tag(character: char) -> bool {
    matches!(character, '\u{E0000}'..='\u{E007F}')
}

const fn is_selector(character: char) -> bool {
    matches!(character, '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}')
}

/// Maximal runs of characters that `accept` takes, with their bounds.
fn runs_of(text: &str, accept: impl Fn(char) -> bool) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, character) in text.char_indices() {
        if !accept(character) {
            continue;
        }
        let end = at + character.len_utf8();
        match runs.last_mut() {
            Some((_, last)) if *last == at => *last = end,
            _ => runs.push((at, end)),
        }
    }
    runs
}

fn tags(text: &str, sink: &mut dyn FnMut(Channel)) {
    const FLAGS: [&str; 3] = ["gbeng", "gbsct", "gbwls"];
    for (start, end) in runs_of(text, is_tag) {
        let run = slice(text, start, end);
        let says: String = run
            .chars()
            .filter_map(|c| char::from_u32(u32::from(c).saturating_sub(0xE0000)))
            .filter(|c| !c.is_control())
            .collect();
        let flag = char_before(text, start) == Some('\u{1F3F4}')
            && run.ends_with('\u{E007F}')
            && FLAGS.contains(&says.as_str());
        if !flag {
            let item =
                if says.is_empty() { format!("invisible:{}", run.chars().count()) } else { says };
            sink(Channel { item, run: run.to_owned(), start, end });
        }
    }
}

fn selectors(text: &str, sink: &mut dyn FnMut(Channel)) {
    for (start, end) in runs_of(text, is_selector) {
        let run = slice(text, start, end);
        let count = run.chars().count();
        let supplementary = run.chars().any(|c| u32::from(c) >= 0xE0100);
        let after_ideograph = char_before(text, start).is_some_and(is_ideograph);
        if count < 2 && (!supplementary || after_ideograph) {
            continue;
        }
        let bytes: Vec<u8> = run
            .chars()
            .map(|c| match u32::from(c) {
                code @ 0xFE00..=0xFE0F => code - 0xFE00,
                code => code.saturating_sub(0xE0100) + 16,
            })
            .filter_map(|value| u8::try_from(value).ok())
            .collect();
        let item = decode::plain_text(&bytes).unwrap_or_else(|| format!("invisible:{count}"));
        sink(Channel { item, run: run.to_owned(), start, end });
    }
}

fn is_ideograph(character: char) -> bool {
    matches!(u32::from(character), 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
}

/// Scripts whose spelling needs joiners.
fn needs_joiners(character: char) -> bool {
    matches!(u32::from(character),
        0x0600..=0x08FF | 0x0900..=0x0DFF | 0x0E00..=0x0FFF | 0x1000..=0x109F | 0x1780..=0x18AF
        | 0xFB50..=0xFDFF | 0xFE70..=0xFEFE | 0x0590..=0x05FF)
}

fn is_emoji(character: char) -> bool {
    matches!(u32::from(character), 0x1F000..=0x1FAFF | 0x2190..=0x2BFF | 0x203C..=0x2049 | 0x20E3 | 0x3030 | 0x303D | 0x3297 | 0x3299)
}

fn unexplained(text: &str, sink: &mut dyn FnMut(Channel)) {
    let mut hidden = String::new();
    let mut start = None;
    let mut end = 0;
    let mut before = None;
    for (at, character) in text.char_indices() {
        if !is_invisible(character) || is_tag(character) || is_selector(character) {
            if !is_selector(character) {
                before = Some(character);
            }
            continue;
        }
        // A joiner right after a letter of a script that needs it, or between emoji, is spelling;
        // a soft hyphen after a letter is typesetting.
        let explained = before.is_some_and(|c| {
            needs_joiners(c)
                && matches!(character, '\u{200C}'..='\u{200F}' | '\u{061C}' | '\u{FEFF}')
                || is_emoji(c) && character == '\u{200D}'
                || c.is_alphabetic() && character == '\u{00AD}'
        });
        before = Some(character);
        if explained {
            continue;
        }
        start.get_or_insert(at);
        end = at + character.len_utf8();
        hidden.push(character);
    }
    let count = hidden.chars().count();
    if let Some(start) = start
        && count >= UNEXPLAINED_MIN
    {
        let item = binary(&hidden).unwrap_or_else(|| format!("invisible:{count}"));
        sink(Channel { item, run: hidden, start, end });
    }
}

/// Two invisible characters as bits, in either order of meaning.
fn binary(hidden: &str) -> Option<String> {
    let first = hidden.chars().next()?;
    let other = hidden.chars().find(|c| *c != first)?;
    for one in [other, first] {
        let mut bytes = Vec::with_capacity(hidden.len() / 8);
        let mut value = 0_u8;
        let mut count = 0;
        for character in hidden.chars().filter(|c| *c == first || *c == other) {
            value = (value << 1) | u8::from(character == one);
            count += 1;
            if count == 8 {
                bytes.push(value);
                value = 0;
                count = 0;
            }
        }
        if let Some(says) = decode::plain_text(&bytes) {
            return Some(says);
        }
    }
    None
}

/// Symbols that stand for letters: each block with the code of its first ASCII character.
fn symbol_letter(character: char) -> Option<char> {
    let code = u32::from(character);
    let letter = match code {
        0x2800..=0x28FF => code - 0x2800,
        0x1F300..=0x1F37E => code - 0x1F300,
        0x1F400..=0x1F47E => code - 0x1F400,
        0x1F500..=0x1F57E => code - 0x1F500,
        0x1F600..=0x1F67E => code - 0x1F600,
        0x1F1E6..=0x1F1FF => code - 0x1F1E6 + u32::from(b'a'),
        0x24B6..=0x24CF => code - 0x24B6 + u32::from(b'A'),
        0x24D0..=0x24E9 => code - 0x24D0 + u32::from(b'a'),
        0x1F130..=0x1F149 => code - 0x1F130 + u32::from(b'A'),
        0x1F150..=0x1F169 => code - 0x1F150 + u32::from(b'A'),
        0x1F170..=0x1F189 => code - 0x1F170 + u32::from(b'A'),
        _ => return None,
    };
    char::from_u32(letter).filter(|letter| letter.is_ascii() && !letter.is_control())
}

fn symbols(text: &str, sink: &mut dyn FnMut(Channel)) {
    let mut at = 0;
    while let Some((start, first)) = slice(text, at, text.len())
        .char_indices()
        .find(|(_, c)| symbol_letter(*c).is_some())
        .map(|(offset, c)| (at + offset, c))
    {
        let block = u32::from(first) >> 8;
        let mut says = String::new();
        let mut symbols = 0;
        let mut end = start;
        let mut last_symbol_end = start;
        let mut plain = 0;
        let mut says_end = 0;
        for (offset, character) in slice(text, start, text.len()).char_indices() {
            match symbol_letter(character) {
                Some(letter) if u32::from(character) >> 8 == block => {
                    says.push(letter);
                    symbols += 1;
                    plain = 0;
                    end = start + offset + character.len_utf8();
                    last_symbol_end = end;
                    says_end = says.len();
                }
                _ if is_invisible(character) => {}
                _ if character.is_ascii() && !character.is_ascii_control() && plain < 4 => {
                    says.push(character);
                    plain += 1;
                    // Digits have no symbols in some blocks; they belong to the message.
                    if character.is_ascii_digit() || character == '-' {
                        end = start + offset + 1;
                        says_end = says.len();
                    }
                }
                _ => break,
            }
        }
        says.truncate(says_end);
        at = end.max(start + first.len_utf8());
        let flags = block == 0x1F1 && only_flags(slice(text, start, last_symbol_end));
        if symbols >= SYMBOLS_MIN && !flags && spells(&says, block) {
            sink(Channel { item: says, run: slice(text, start, end).to_owned(), start, end });
        }
    }
}

/// Whether regional indicators pair up to flags of countries.
fn only_flags(run: &str) -> bool {
    run.split(|c: char| !matches!(u32::from(c), 0x1F1E6..=0x1F1FF)).all(|group| {
        let letters: String =
            group.chars().filter_map(symbol_letter).map(|c| c.to_ascii_uppercase()).collect();
        letters.len().is_multiple_of(2)
            && letters.as_bytes().chunks_exact(2).all(|pair| {
                std::str::from_utf8(pair).is_ok_and(super::iban_registry::is_country)
                    || matches!(pair, b"EU" | b"UN" | b"AC" | b"TA")
            })
    })
}

/// Whether what the symbols stand for reads like a message. Emoji stand next to each other for
/// many reasons, so theirs must be words.
fn spells(says: &str, block: u32) -> bool {
    let letters = says.chars().filter(|c| c.is_ascii_alphabetic()).count();
    if (0x1F3..=0x1F6).contains(&block) {
        let plain = says.chars().filter(|c| c.is_ascii_alphanumeric() || *c == ' ').count();
        return says.len() >= 12
            && says.contains(' ')
            && plain * 10 >= says.len() * 8
            && letters * 2 > says.len();
    }
    letters * 2 >= says.len() && letters >= SYMBOLS_MIN
}
