//! Text as a list of numbers: hex dumps, codes of characters, bits.

use super::super::bytes::{byte, byte_before, slice};
use super::super::outline::Digits;
use super::super::{decode, patterns};
use super::{Encoded, Says, is_item};

/// Adds every list in `text` that says something.
pub(super) fn find(text: &str, digits: &Digits, hits: &mut Vec<Encoded>) {
    let mut from = 0;
    let mut walk = digits.walk();
    while let Some(digit) = walk.next(from) {
        let (start, end, groups) = region(text, digit, from);
        if groups >= LIST_MIN || end - start >= BITS_MIN {
            lists(text, start, end, hits);
        }
        from = end.max(digit + 1);
    }
}

/// Groups of a list, and bits without separators, from which on a list is read.
const LIST_MIN: usize = 8;
const BITS_MIN: usize = 32;

/// The list around the digit at `at`: short groups of hex digits with a separator between them.
fn region(text: &str, at: usize, floor: usize) -> (usize, usize, usize) {
    let is_digit = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'x' | b'X');
    let is_separator = |byte: u8| {
        matches!(
            byte,
            b' ' | b':' | b';' | b',' | b'_' | b'|' | b'-' | b'.' | b'/' | b'\t' | b'\n' | b'\r'
        )
    };
    let mut start = at;
    let mut length = 0;
    while start > floor {
        let before = byte_before(text, start);
        if is_digit(before) && length < GROUP_MAX {
            length += 1;
        } else if is_separator(before) && length <= GROUP_MAX {
            length = 0;
        } else {
            break;
        }
        start -= 1;
    }
    let mut end = at;
    let mut groups = 1;
    let mut gap = 0;
    loop {
        let next = byte(text, end);
        if is_digit(next) {
            if gap > 0 {
                groups += 1;
            }
            gap = 0;
        } else if is_separator(next) && gap < 3 {
            gap += 1;
        } else {
            break;
        }
        end += 1;
    }
    let before = slice(text, start, at).bytes().filter(|byte| is_separator(*byte)).count();
    (start, end, groups + before)
}

/// Digits of one group: eight bits, or `0x` and two digits.
const GROUP_MAX: usize = 8;

fn lists(whole: &str, from: usize, to: usize, hits: &mut Vec<Encoded>) {
    let text = slice(whole, from, to);
    let mut each = |pattern: &patterns::Pattern,
                    decode: &dyn Fn(&str) -> Option<Vec<u8>>,
                    like_words: bool| {
        for found in pattern.iter().flat_map(|pattern| pattern.find_iter(text)) {
            let Some(bytes) = decode(found.as_str()) else {
                continue;
            };
            let says = decode::text_of(&bytes).filter(|text| {
                // Two digits each may be any numbers; a hex letter or a prefix says bytes.
                let numbers = !found.as_str().bytes().any(|byte| byte.is_ascii_alphabetic());
                !(like_words || numbers) || wordlike(text)
            });
            if let Some(says) = says {
                hits.push(Encoded {
                    says: Says::Text(says),
                    run: found.as_str().split_whitespace().collect(),
                    start: from + found.start(),
                    end: from + found.end(),
                });
            }
        }
    };
    each(
        &patterns::HEX_LIST,
        &|list| {
            let digits: String = list
                .replace("0x", "")
                .replace("0X", "")
                .chars()
                .filter(char::is_ascii_hexdigit)
                .collect();
            decode::hex_bytes(&digits)
        },
        false,
    );
    each(
        &patterns::CODE_LIST,
        &|list| {
            codes(list, 10)
                .filter(|bytes| decode::plain_text(bytes).is_some())
                .or_else(|| codes(list, 8))
        },
        true,
    );
    each(
        &patterns::BITS,
        &|list| {
            let digits: String =
                list.replace("0b", "").chars().filter(char::is_ascii_digit).collect();
            digits
                .as_bytes()
                .chunks_exact(8)
                .map(|eight| u8::from_str_radix(std::str::from_utf8(eight).ok()?, 2).ok())
                .collect()
        },
        false,
    );
}

fn codes(list: &str, radix: u32) -> Option<Vec<u8>> {
    list.split(|c: char| !c.is_ascii_digit())
        .filter(|code| !code.is_empty())
        .map(|code| u8::from_str_radix(code, radix).ok())
        .collect()
}

/// Whether decoded numbers read like words rather than like a histogram: mostly letters, digits
/// and spaces, with lower-case letters in a row.
fn wordlike(text: &str) -> bool {
    let length = text.chars().count();
    let plain = text.chars().filter(|c| c.is_alphanumeric() || *c == ' ').count();
    let mut row = 0;
    let mut longest = 0;
    for character in text.chars() {
        row = if character.is_lowercase() || (!character.is_ascii() && character.is_alphabetic()) {
            row + 1
        } else {
            0
        };
        longest = longest.max(row);
    }
    let spaced = text.contains(' ') && plain * 10 >= length * 7 && longest >= 3;
    spaced
        || (length >= 16 && plain * 10 >= length * 8 && longest >= 4)
        || (is_item(text) && plain * 10 >= length * 8)
}
