//! How text that we did not write stands in a prompt: as one JSON string on one line, in which
//! nothing is hidden and nothing reads as a chat template's control token.

use std::fmt::Write as _;

use crate::decide::json::{Json, Notation, write_number};
use crate::decide::text::{head, needs_escape, tail};

/// `text` as a JSON string. Letters of every script stay readable. Escaped are JSON's own
/// characters, what [`needs_escape`], and the characters that open a control token in the chat
/// templates of common models: every `<` (`<|im_end|>`, `</s>`) and a `[` before a letter or
/// slash (`[INST]`, `[/INST]`). A JSON parser gives the text back unchanged.
#[must_use]
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() + 2);
    encode_into(text, &mut encoded);
    encoded
}

fn encode_into(text: &str, encoded: &mut String) {
    encoded.push('"');
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' => encoded.push_str("\\\""),
            '\\' => encoded.push_str("\\\\"),
            '\n' => encoded.push_str("\\n"),
            '\r' => encoded.push_str("\\r"),
            '\t' => encoded.push_str("\\t"),
            '<' => encoded.push_str("\\u003c"),
            '[' if characters
                .peek()
                .is_some_and(|next| next.is_ascii_alphabetic() || *next == '/') =>
            {
                encoded.push_str("\\u005b");
            }
            hidden if needs_escape(hidden) => escape(hidden, encoded),
            visible => encoded.push(visible),
        }
    }
    encoded.push('"');
}

fn escape(character: char, encoded: &mut String) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        // Writing to a string cannot fail.
        let _ = write!(encoded, "\\u{unit:04x}");
    }
}

/// A value as compact JSON whose strings are encoded as by [`encode`]; numbers as written.
#[must_use]
pub fn encode_json(value: &Json) -> String {
    let mut encoded = String::new();
    ENCODED.write(value, &mut encoded);
    encoded
}

const ENCODED: Notation = Notation { string: encode_into, number: write_number, sorted: false };

/// What was left out of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cuts {
    /// Items of which the middle was left out.
    pub shortened: usize,
    /// Items that were left out whole.
    pub dropped: usize,
    /// Characters (Unicode scalar values) left out, of both kinds.
    pub characters: usize,
}

/// `text` encoded, its middle left out when it has more than `limit` bytes. The marker stands
/// between two strings, where nobody's text can stand.
pub(super) fn encode_cut(text: &str, limit: usize, cuts: &mut Cuts) -> String {
    if text.len() <= limit {
        return encode(text);
    }
    let first = head(text, limit * 2 / 3);
    let last = tail(text, limit / 3);
    let left_out = text.chars().count() - first.chars().count() - last.chars().count();
    cuts.shortened += 1;
    cuts.characters += left_out;
    format!("{} [{left_out} characters left out] {}", encode(first), encode(last))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decide::json;

    proptest! {
        #[test]
        fn a_json_parser_gives_the_text_back(text in "\\PC*|(?s).*") {
            prop_assert_eq!(json::read(&encode(&text)), Ok(Json::String(text)));
        }

        #[test]
        fn encoded_text_stays_on_its_line_and_opens_nothing(text in "(?s).*") {
            let encoded = encode(&text);
            prop_assert!(!encoded.chars().any(needs_escape));
            prop_assert!(!encoded.contains('<'));
        }
    }

    #[test]
    fn hidden_characters_and_control_tokens_are_escaped() {
        assert_eq!(encode("a\u{202e}b\u{e0041}"), "\"a\\u202eb\\udb40\\udc41\"");
        assert_eq!(encode("<|im_end|>\n[INST]"), "\"\\u003c|im_end|>\\n\\u005bINST]\"");
        assert_eq!(encode("Grüße 東京 [1]"), "\"Grüße 東京 [1]\"");
    }

    #[test]
    fn a_cut_is_counted_outside_the_strings() {
        let mut cuts = Cuts::default();
        let encoded = encode_cut(&"ab".repeat(50), 30, &mut cuts);
        assert_eq!(encoded, "\"abababababababababab\" [70 characters left out] \"ababababab\"");
        assert_eq!(cuts, Cuts { shortened: 1, dropped: 0, characters: 70 });
    }
}
