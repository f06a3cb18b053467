//! IBANs.
//!
//! # What it finds
//! Every International Bank Account Number whose length and shape fit its country and whose check
//! digits hold, in any grouping and case, glued to other text, written with look-alike capitals of
//! other scripts. In a field for accounts, and for some twenty countries that use them without being
//! in the registry, any number with a valid checksum. Where the keys, the parameter or the tool
//! speak of accounts or payments, also a value that merely has the shape.
//!
//! # Why it matters
//! An account number that nobody gave is where the money goes. Attackers' numbers in public attack
//! data are often invalid; a tool may use the national part alone and never look at the check
//! digits.
//!
//! # Example
//! `DE12-5001-0517-0648-4898-90` is `DE12500105170648489890`.
//!
//! # What it misses
//! A number that is one digit short, in a field and under a tool that speak of nothing.

use super::bytes::{char_at, char_before, run_end, slice};
use super::iban_registry as registry;
use super::outline::Digits;
use super::place::Place;

/// The longest IBAN (ISO 13616).
const IBAN_MAX: usize = 34;
/// Separators in a row inside one number.
const SEPARATORS_MAX: usize = 3;

/// One account number in a text: letters and digits, upper case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Iban {
    pub(super) number: String,
    /// Whether country, length, shape and check digits hold.
    pub(super) valid: bool,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Calls `sink` with every account number in `text`.
pub(super) fn find(text: &str, digits: &Digits, place: Place, sink: &mut dyn FnMut(Iban)) {
    let mut any = false;
    let mut from = 0;
    let mut done = 0;
    let mut walk = digits.walk();
    while let Some(digit) = walk.next(from) {
        // Only the first digit of a run can follow a letter.
        from = run_end(text, digit, |c| c.is_ascii_digit());
        if digit < done {
            continue;
        }
        let Some(start) = start_before(text, digit, done) else {
            continue;
        };
        if let Some(iban) = at(text, start, place) {
            done = iban.end;
            from = done.max(from);
            any = true;
            sink(iban);
        }
    }
    if !any
        && (place.payment || place.account)
        && !place.reference
        && let Some(iban) = shaped(text)
    {
        sink(iban);
    }
}

/// Where a number would start whose first check digit stands at `digit`: two letters before it.
fn start_before(text: &str, digit: usize, floor: usize) -> Option<usize> {
    let second = letter_before(text, digit)?;
    let first = letter_before(text, second)?;
    (first >= floor).then_some(first)
}

fn letter_before(text: &str, at: usize) -> Option<usize> {
    let mut at = at;
    for _ in 0..=SEPARATORS_MAX {
        let character = char_before(text, at)?;
        at -= character.len_utf8();
        if latin(character).is_some_and(|letter| letter.is_ascii_alphabetic()) {
            return Some(at);
        }
        if !is_separator(character) {
            return None;
        }
    }
    None
}

pub(super) fn is_separator(character: char) -> bool {
    character.is_whitespace()
        || matches!(character, '-' | '.' | '/' | '_' | '\u{2010}'..='\u{2015}' | '\u{2212}')
}

/// The ASCII letter or digit that a character is or looks like, in upper case.
fn latin(character: char) -> Option<char> {
    if character.is_ascii_alphanumeric() {
        return Some(character.to_ascii_uppercase());
    }
    // Capitals of Greek and Cyrillic that are drawn like Latin ones (Unicode's confusables).
    Some(match character {
        'А' | 'Α' | 'а' => 'A',
        'В' | 'Β' => 'B',
        'С' | 'Ϲ' | 'с' => 'C',
        'Е' | 'Ε' | 'е' => 'E',
        'Ԍ' => 'G',
        'Н' | 'Η' => 'H',
        'І' | 'Ι' | 'і' | 'Ӏ' => 'I',
        'Ј' | 'Ϳ' | 'ј' => 'J',
        'К' | 'Κ' => 'K',
        'М' | 'Μ' => 'M',
        'Ν' => 'N',
        'О' | 'Ο' | 'о' | 'ο' => 'O',
        'Р' | 'Ρ' | 'р' => 'P',
        'Ѕ' | 'ѕ' => 'S',
        'Т' | 'Τ' => 'T',
        'Ѵ' => 'V',
        'Ԝ' => 'W',
        'Х' | 'Χ' | 'х' => 'X',
        'У' | 'Υ' | 'Ү' | 'у' => 'Y',
        'Ζ' => 'Z',
        _ => return None,
    })
}

/// The letters and digits from `start` on, at most as many as the longest number has, each with
/// its end.
fn compact(text: &str, start: usize) -> Vec<(char, usize)> {
    let mut compact = Vec::with_capacity(IBAN_MAX);
    let mut at = start;
    let mut separators = 0;
    while compact.len() < IBAN_MAX {
        let Some(character) = char_at(text, at) else {
            break;
        };
        at += character.len_utf8();
        match latin(character) {
            Some(letter) => {
                separators = 0;
                compact.push((letter, at));
            }
            None if is_separator(character) && separators < SEPARATORS_MAX => separators += 1,
            None => break,
        }
    }
    compact
}

/// Whether a country's letters and two check digits stand at `start`: prose has few countries before
/// its numbers.
fn begins(text: &str, start: usize) -> bool {
    let mut letters = slice(text, start, text.len()).chars().filter_map(latin);
    let (Some(first), Some(second)) = (letters.next(), letters.next()) else {
        return false;
    };
    registry::is_country_of(first, second) && letters.take(2).all(|letter| letter.is_ascii_digit())
}

fn at(text: &str, start: usize, place: Place) -> Option<Iban> {
    if !begins(text, start) {
        return None;
    }
    let window = compact(text, start);
    let head: String = window.iter().take(4).map(|(letter, _)| *letter).collect();
    let country = head.get(..2)?;
    let check = head.get(2..4)?;
    if !country.bytes().all(|byte| byte.is_ascii_uppercase())
        || !check.bytes().all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    let number = |length: usize| -> Option<(String, usize)> {
        let end = window.get(length.checked_sub(1)?)?.1;
        Some((window.iter().take(length).map(|(letter, _)| *letter).collect(), end))
    };
    if let Some(shape) = registry::shape(country) {
        let length = 4 + registry::parts(shape).map(|(length, _)| length).sum::<usize>();
        let (number, end) = number(length)?;
        if fits(slice(&number, 4, number.len()), shape) && mod_97(&number) == 1 {
            return Some(Iban { number, valid: true, start, end });
        }
        return None;
    }
    if country == "RF" || !registry::is_country(country) {
        return None;
    }
    for length in registry::unofficial_lengths(country) {
        if let Some((number, end)) = number(*length)
            && mod_97(&number) == 1
            && number.bytes().filter(u8::is_ascii_digit).count() >= 14
        {
            return Some(Iban { number, valid: true, start, end });
        }
    }
    // Outside the registry the length is unknown: in a field for accounts the whole value counts.
    if place.account && start == 0 {
        let (number, end) = number(window.len())?;
        if number.len() >= 15 && end == text.len() && mod_97(&number) == 1 {
            return Some(Iban { number, valid: true, start, end });
        }
    }
    None
}

fn fits(bban: &str, shape: &str) -> bool {
    let mut bytes = bban.bytes();
    registry::parts(shape).all(|(length, class)| {
        bytes.by_ref().take(length).all(|byte| match class {
            b'n' => byte.is_ascii_digit(),
            b'a' => byte.is_ascii_uppercase(),
            _ => byte.is_ascii_alphanumeric(),
        })
    })
}

/// The remainder of ISO 7064 MOD 97-10 with the first four characters moved to the end.
fn mod_97(number: &str) -> u32 {
    let (head, tail) = number.split_at_checked(4).unwrap_or((number, ""));
    tail.bytes().chain(head.bytes()).fold(0, |remainder, byte| match byte {
        b'0'..=b'9' => (remainder * 10 + u32::from(byte - b'0')) % 97,
        _ => (remainder * 100 + u32::from(byte.saturating_sub(b'A')) + 10) % 97,
    })
}

/// A value that is nothing but two letters of a country, two digits and 8 to 30 letters or digits,
/// at least eight digits in all.
fn shaped(text: &str) -> Option<Iban> {
    let trimmed = text.trim();
    let start = text.find(trimmed)?;
    let end = start + trimmed.len();
    if trimmed.len() > IBAN_MAX * 4 {
        return None;
    }
    let window = compact(trimmed, 0);
    if window.last()?.1 != trimmed.len() {
        return None;
    }
    let number: String = window.iter().map(|(letter, _)| *letter).collect();
    // A SEPA creditor identifier says so with `ZZZ`.
    if number.get(4..7) == Some("ZZZ") || !is_printed_as_number(trimmed) {
        return None;
    }
    is_shape(&number).then_some(Iban { number, valid: false, start, end })
}

/// Whether the groups are those of one number: the check digits follow the country's letters at
/// once, as in no number of a document (`SO-2031-…`), the separator stays the same, and no group
/// but a bank's code is a word.
fn is_printed_as_number(text: &str) -> bool {
    let mut letters = text.chars();
    let together = letters.by_ref().take(2).all(|c| latin(c).is_some())
        && letters.next().is_some_and(|c| c.is_ascii_digit());
    let mut separators = text.chars().filter(|c| is_separator(*c));
    let first = separators.next();
    let same = separators.all(|c| Some(c) == first || c.is_whitespace());
    let upper = text.starts_with(char::is_uppercase);
    together
        && same
        && text.split(is_separator).all(|group| {
            group.chars().any(|c| c.is_ascii_digit())
                || (group.chars().count() <= 4 && group.chars().all(|c| c.is_uppercase() == upper))
        })
}

/// Calls `sink` with every number in a source that has the shape of one, valid or not, in any
/// notation: from its two letters on, up to every end of a group.
pub(super) fn shapes(text: &str, digits: &Digits, sink: &mut dyn FnMut(String)) {
    let mut from = 0;
    let mut walk = digits.walk();
    while let Some(digit) = walk.next(from) {
        from = run_end(text, digit, |c| c.is_ascii_digit());
        let Some(start) = start_before(text, digit, 0) else {
            continue;
        };
        if char_before(text, start).is_some_and(char::is_alphanumeric) {
            continue;
        }
        if !begins(text, start) {
            continue;
        }
        let window = compact(text, start);
        let mut number = String::new();
        for (letter, end) in &window {
            number.push(*letter);
            let group_ends = !char_at(text, *end).is_some_and(char::is_alphanumeric);
            if group_ends && is_shape(&number) {
                sink(number.clone());
            }
        }
    }
}

fn is_shape(number: &str) -> bool {
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    number.get(..2).is_some_and(registry::is_country)
        && number.get(2..4).is_some_and(|check| check.bytes().all(|byte| byte.is_ascii_digit()))
        && (12..=IBAN_MAX).contains(&number.len())
        && digits >= 8
}

/// The digits of the national parts of a valid number: bank and account as people write them.
/// Empty where the country's accounts have letters.
pub(super) fn national_parts(number: &str) -> Vec<String> {
    let Some(country) = number.get(..2) else {
        return Vec::new();
    };
    // Bank, then account; `a` parts and check digits of the account are not what people give.
    let lengths: &[(usize, bool)] = match country {
        "DE" => &[(8, true), (10, true)],
        "AT" => &[(5, true), (11, true)],
        "GB" | "IE" => &[(4, false), (6, true), (8, true)],
        "CH" | "LI" => &[(5, true), (12, true)],
        "NL" => &[(4, false), (10, true)],
        "FR" | "MC" => &[(5, true), (5, true), (11, true)],
        "PL" => &[(8, true), (16, true)],
        "CZ" | "SK" => &[(4, true), (16, true)],
        "DK" | "NO" => &[(4, true), (usize::MAX, true)],
        "BE" | "ES" | "PT" | "FI" | "SE" | "HU" | "HR" | "SI" | "EE" | "LT" => {
            &[(usize::MAX, true)]
        }
        _ => return Vec::new(),
    };
    let mut rest = number.get(4..).unwrap_or("");
    let mut parts = Vec::new();
    for (length, counts) in lengths {
        let Some((part, after)) = rest.split_at_checked((*length).min(rest.len())) else {
            return Vec::new();
        };
        rest = after;
        if *counts {
            if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return Vec::new();
            }
            parts.push(part.trim_start_matches('0').to_owned());
        }
    }
    parts
}
