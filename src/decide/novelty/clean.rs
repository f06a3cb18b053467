//! View V1: the text as a reader sees it, without invisible characters and with compatibility
//! forms folded.
//!
//! Dropping an invisible character is remembered in the view: an item that holds one is never
//! known.

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

use super::bytes::{char_at, char_before, run_end, run_start, slice};
use super::view::{Rewriter, View};
use crate::decide::text::is_invisible;

/// The cleaned view of `view`, or `None` where it is clean already.
pub(super) fn clean(view: &View<'_>) -> Option<View<'static>> {
    if view.text.is_ascii() {
        return None;
    }
    let visible = drop_invisible(view);
    let composed = fold(visible.as_ref().unwrap_or(view)).or(visible);
    let dropped = composed.as_ref().and_then(drop_invisible).or(composed);
    let current = dropped.as_ref().unwrap_or(view);
    digits_and_stops(current).or(dropped)
}

fn drop_invisible(view: &View<'_>) -> Option<View<'static>> {
    let text: &str = &view.text;
    let mut rewriter = Rewriter::new(view);
    for (at, character) in text.char_indices() {
        if !character.is_ascii() && is_invisible(character) {
            rewriter.keep_to(at);
            rewriter.hide_to(at + character.len_utf8());
        }
    }
    rewriter.finish()
}

/// NFKC, run by run of non-ASCII characters; a run takes the ASCII character before it along,
/// because a combining mark changes it.
fn fold(view: &View<'_>) -> Option<View<'static>> {
    let text: &str = &view.text;
    if is_nfkc_quick(text.chars()) == IsNormalized::Yes {
        return None;
    }
    let mut rewriter = Rewriter::new(view);
    let mut at = 0;
    while let Some(offset) =
        text.as_bytes().get(at..).and_then(|rest| rest.iter().position(|byte| !byte.is_ascii()))
    {
        let start = at + offset;
        let end = run_end(text, start, |character| !character.is_ascii());
        let with_base = match char_before(text, start) {
            Some(base) if base.is_ascii() && start > rewriter.cursor() => start - 1,
            _ => start,
        };
        let run = slice(text, with_base, end);
        if is_nfkc_quick(run.chars()) != IsNormalized::Yes {
            let folded: String = run.nfkc().collect();
            if folded != run {
                rewriter.keep_to(with_base);
                rewriter.replace_to(end, &folded);
            }
        }
        at = end;
    }
    rewriter.finish()
}

/// Decimal digits of every script to ASCII, and the ideographic full stop to a dot where it can
/// only be one: between ASCII letters or digits, in a token that has `@` or `://`.
fn digits_and_stops(view: &View<'_>) -> Option<View<'static>> {
    let text: &str = &view.text;
    let mut rewriter = Rewriter::new(view);
    let mut token_end = 0;
    let mut token_is_address = false;
    for (at, character) in text.char_indices() {
        if character.is_ascii() {
            continue;
        }
        let end = at + character.len_utf8();
        if let Some(digit) = decimal_digit(character) {
            rewriter.keep_to(at);
            rewriter.replace_to(end, digit);
        } else if matches!(character, '\u{3002}' | '\u{FF61}') {
            let between = char_before(text, at).is_some_and(|c| c.is_ascii_alphanumeric())
                && char_at(text, end).is_some_and(|c| c.is_ascii_alphanumeric());
            if !between {
                continue;
            }
            if at >= token_end {
                let start = run_start(text, at, token_end, |c| !c.is_whitespace());
                token_end = run_end(text, at, |c| !c.is_whitespace());
                let token = slice(text, start, token_end);
                token_is_address = token.contains('@') || token.contains("://");
            }
            if token_is_address {
                rewriter.keep_to(at);
                rewriter.replace_to(end, ".");
            }
        }
    }
    rewriter.finish()
}

/// The ASCII digit that a character of category Nd stands for, where NFKC leaves it as it is.
/// The starts of the blocks are those of Unicode 16; each holds ten digits in order.
fn decimal_digit(character: char) -> Option<&'static str> {
    const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    const ZEROS: &[u32] = &[
        0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6,
        0x0D66, 0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0,
        0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0,
        0xAA50, 0xABF0, 0xFF10, 0x104A0, 0x10D30, 0x10D40, 0x11066, 0x110F0, 0x11136, 0x111D0,
        0x112F0, 0x11450, 0x114D0, 0x11650, 0x116C0, 0x116D0, 0x116DA, 0x11730, 0x118E0, 0x11950,
        0x11BF0, 0x11C50, 0x11D50, 0x11DA0, 0x11F50, 0x16130, 0x16A60, 0x16AC0, 0x16B50, 0x16D70,
        0x1CCF0, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6, 0x1E140, 0x1E2F0, 0x1E4F0, 0x1E5F1,
        0x1E950, 0x1FBF0,
    ];
    let code = u32::from(character);
    let after = ZEROS.partition_point(|zero| *zero <= code);
    let zero = ZEROS.get(after.checked_sub(1)?)?;
    DIGITS.get((code - zero) as usize).copied()
}
