//! What the eye does not see in a text, in one place for the detectors, the prompt and the quotes.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

/// Whether a character leaves no mark of its own on a page: default-ignorable and bidirectional
/// controls, variation selectors and tags (Unicode 16, `Default_Ignorable_Code_Point` and the
/// bidirectional formatting characters).
#[must_use]
pub const fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{00AD}'
            | '\u{034F}'
            | '\u{061C}'
            | '\u{115F}'..='\u{1160}'
            | '\u{17B4}'..='\u{17B5}'
            | '\u{180B}'..='\u{180F}'
            | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{3164}'
            | '\u{FE00}'..='\u{FE0F}'
            | '\u{FEFF}'
            | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFFB}'
            | '\u{1BCA0}'..='\u{1BCA3}'
            | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}'
    )
}

/// Whether a character must be shown as an escape to be seen: invisible ones, controls, and the
/// separators that some programs take for a line's end.
#[must_use]
pub fn needs_escape(character: char) -> bool {
    // Most text is ASCII, of which only the controls are hidden.
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    is_invisible(character)
        || character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{FFFE}' | '\u{FFFF}')
}

/// `text` for a person's eyes: what [`needs_escape`] stands as `\u{…}`, the rest as it is. Line
/// breaks are escaped too, so that the result is one line.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => line.push_str("\\n"),
            '\t' => line.push_str("\\t"),
            '\r' => line.push_str("\\r"),
            hidden if needs_escape(hidden) => {
                line.push_str(&format!("\\u{{{:x}}}", u32::from(hidden)));
            }
            visible => line.push(visible),
        }
    }
    line
}

/// The form in which a quote and its source are compared: NFC, invisible characters dropped, every
/// run of white space one space, none at the ends; case kept.
#[must_use]
pub fn quotable(text: &str) -> String {
    // ASCII is NFC as it is, and nothing of it is invisible.
    let visible: Cow<'_, str> = if text.is_ascii() {
        text.into()
    } else {
        text.chars().filter(|character| !is_invisible(*character)).nfc().collect()
    };
    let mut words = String::with_capacity(visible.len());
    for word in visible.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    words
}

/// At most `limit` bytes of `text`, cut at a character's boundary.
#[must_use]
pub fn head(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or(text)
}

/// At most the last `limit` bytes of `text`, cut at a character's boundary.
#[must_use]
pub fn tail(text: &str, limit: usize) -> &str {
    let mut start = text.len().saturating_sub(limit);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_compare_without_what_the_eye_does_not_see() {
        assert_eq!(quotable(" a\u{200b}b \n\t c\u{a0}d "), "ab c d");
        assert_eq!(quotable("e\u{301}"), "\u{e9}");
        assert_ne!(quotable("Case"), quotable("case"));
    }

    proptest! {
        /// What the shortcuts for ASCII must not change.
        #[test]
        fn ascii_is_read_like_any_other_text(text in "[\\x00-\\x7f]{0,40}") {
            let slowly: String =
                text.chars().filter(|character| !is_invisible(*character)).nfc().collect();
            let slowly = slowly.split_whitespace().collect::<Vec<_>>().join(" ");
            prop_assert_eq!(quotable(&text), slowly);
            for character in text.chars() {
                let hidden = is_invisible(character) || character.is_control();
                prop_assert_eq!(needs_escape(character), hidden);
            }
        }
    }

    #[test]
    fn hidden_characters_are_shown() {
        assert_eq!(shown("a\u{202e}b\u{1b}[31m\n"), "a\\u{202e}b\\u{1b}[31m\\n");
        assert_eq!(shown("Grüße, 東京 مرحبا"), "Grüße, 東京 مرحبا");
    }

    #[test]
    fn cuts_keep_whole_characters() {
        assert_eq!(head("aé", 2), "a");
        assert_eq!(tail("éa", 2), "a");
        assert_eq!(head("ab", 9), "ab");
    }
}
