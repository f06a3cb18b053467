//! JSON that every reader reads the same way.
//!
//! A tool call's arguments are text, and what runs is what the tool's own parser makes of that text.
//! So this reader refuses whatever two parsers may read differently: repeated keys, invalid Unicode,
//! deep nesting, numbers that overflow a double. Numbers are kept as written (`1.50`,
//! `9007199254740993`), keys in the order of the text.
//!
//! The tokenizer is the crate `jiter`; nothing here recurses deeper than [`MAX_DEPTH`].

mod write;

use std::collections::BTreeSet;

use jiter::{Jiter, JiterError, JiterErrorType, JsonErrorType, Peek};

use write::CANONICAL;
pub(super) use write::{Notation, write_number};

/// Arrays and objects inside one another, counted from the outermost; one more is [`Unreadable::TooDeep`].
pub const MAX_DEPTH: usize = 128;

/// Repeated members that a document reports; each carries its whole pointer, which may be long.
const MAX_DUPLICATES: usize = 20;

/// A JSON value: numbers as written, members in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, exactly as written; it is known to fit a double's range.
    Number(String),
    /// A string, decoded.
    String(String),
    /// A list.
    Array(Vec<Json>),
    /// An object's members in the order of the text.
    Object(Vec<(String, Json)>),
}

/// Why a text is not JSON that every reader reads the same way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Not JSON (RFC 8259), or text after the value.
    #[error("not valid JSON at byte {at}")]
    Syntax {
        /// Bytes from the start of the text.
        at: usize,
    },
    /// A lone surrogate in an escape.
    #[error("invalid Unicode at byte {at}")]
    Unicode {
        /// Bytes from the start of the text.
        at: usize,
    },
    /// A member's name stands twice in one object.
    #[error("duplicate key at `{pointer}`")]
    DuplicateKey {
        /// JSON pointer (RFC 6901) of the repeated member.
        pointer: String,
    },
    /// More than [`MAX_DEPTH`] arrays and objects inside one another.
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// A number outside a double's range, such as `1e999`.
    #[error("number out of range at `{pointer}`")]
    NumberOverflow {
        /// JSON pointer (RFC 6901) of the number.
        pointer: String,
        /// The same, step by step.
        place: Vec<Step>,
    },
}

/// A whole document, with every repeated key rather than the first alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The value; repeated members all stand in it.
    pub value: Json,
    /// JSON pointers of the first repeated members, in the order of the text.
    pub duplicates: Vec<String>,
}

/// Reads one value from `text`.
///
/// # Errors
/// The first thing that two readers might read differently; see [`Unreadable`].
pub fn read(text: &str) -> Result<Json, Unreadable> {
    let document = read_document(text)?;
    match document.duplicates.into_iter().next() {
        Some(pointer) => Err(Unreadable::DuplicateKey { pointer }),
        None => Ok(document.value),
    }
}

/// Reads one value from `text` and reports every repeated key, for checks that list all problems.
///
/// # Errors
/// Everything but repeated keys; see [`Unreadable`].
pub fn read_document(text: &str) -> Result<Document, Unreadable> {
    let mut reader =
        Reader { tokens: Jiter::new(text.as_bytes()), path: Vec::new(), duplicates: Vec::new() };
    let first = reader.tokens.peek().map_err(syntax)?;
    let value = reader.value(first)?;
    reader.tokens.finish().map_err(syntax)?;
    Ok(Document { value, duplicates: reader.duplicates })
}

struct Reader<'j> {
    tokens: Jiter<'j>,
    path: Vec<Step>,
    duplicates: Vec<String>,
}

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// To a member of an object.
    Key(String),
    /// To an element of a list.
    Index(usize),
}

impl Reader<'_> {
    fn value(&mut self, first: Peek) -> Result<Json, Unreadable> {
        Ok(match first {
            Peek::Null => {
                self.tokens.known_null().map_err(syntax)?;
                Json::Null
            }
            Peek::True | Peek::False => Json::Bool(self.tokens.known_bool(first).map_err(syntax)?),
            Peek::String => Json::String(self.tokens.known_str().map_err(syntax)?.to_owned()),
            Peek::Array => self.array()?,
            Peek::Object => self.object()?,
            _ => self.number(first)?,
        })
    }

    fn number(&mut self, first: Peek) -> Result<Json, Unreadable> {
        let at = self.tokens.current_index();
        let bytes = self.tokens.known_number_bytes(first).map_err(syntax)?;
        let text = std::str::from_utf8(bytes).map_err(|_| Unreadable::Syntax { at })?.to_owned();
        let value: f64 = text.parse().map_err(|_| Unreadable::Syntax { at })?;
        if value.is_nan() {
            return Err(Unreadable::Syntax { at });
        }
        if value.is_infinite() {
            let pointer = self.pointer();
            return Err(Unreadable::NumberOverflow {
                pointer,
                place: std::mem::take(&mut self.path),
            });
        }
        Ok(Json::Number(text))
    }

    fn array(&mut self) -> Result<Json, Unreadable> {
        let mut items = Vec::new();
        let mut next = self.tokens.known_array().map_err(syntax)?;
        while let Some(first) = next {
            self.descend(Step::Index(items.len()))?;
            items.push(self.value(first)?);
            self.path.pop();
            next = self.tokens.array_step().map_err(syntax)?;
        }
        // An empty array is a level too.
        self.check_depth(self.path.len() + 1)?;
        Ok(Json::Array(items))
    }

    fn object(&mut self) -> Result<Json, Unreadable> {
        let mut members: Vec<(String, Json)> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut next = self.tokens.known_object().map_err(syntax)?.map(str::to_owned);
        while let Some(key) = next {
            self.descend(Step::Key(key.clone()))?;
            if !seen.insert(key.clone()) && self.duplicates.len() < MAX_DUPLICATES {
                self.duplicates.push(self.pointer());
            }
            let first = self.tokens.peek().map_err(syntax)?;
            let value = self.value(first)?;
            self.path.pop();
            members.push((key, value));
            next = self.tokens.next_key().map_err(syntax)?.map(str::to_owned);
        }
        self.check_depth(self.path.len() + 1)?;
        Ok(Json::Object(members))
    }

    fn descend(&mut self, step: Step) -> Result<(), Unreadable> {
        self.check_depth(self.path.len() + 1)?;
        self.path.push(step);
        Ok(())
    }

    fn check_depth(&self, levels: usize) -> Result<(), Unreadable> {
        if levels > MAX_DEPTH { Err(Unreadable::TooDeep) } else { Ok(()) }
    }

    fn pointer(&self) -> String {
        self.path.iter().fold(String::new(), |pointer, step| match step {
            Step::Key(key) => pointer_to(&pointer, key),
            Step::Index(index) => format!("{pointer}/{index}"),
        })
    }
}

fn syntax(error: JiterError) -> Unreadable {
    let at = error.index;
    match error.error_type {
        JiterErrorType::JsonError(
            JsonErrorType::LoneLeadingSurrogateInHexEscape
            | JsonErrorType::InvalidUnicodeCodePoint
            | JsonErrorType::UnexpectedEndOfHexEscape,
        ) => Unreadable::Unicode { at },
        JiterErrorType::JsonError(JsonErrorType::RecursionLimitExceeded) => Unreadable::TooDeep,
        _ => Unreadable::Syntax { at },
    }
}

/// The JSON pointer (RFC 6901) of member `key` of the object at `pointer`.
#[must_use]
pub fn pointer_to(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// One leaf of a value: a scalar, or an empty list or object below the top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf<'a> {
    /// JSON pointer (RFC 6901) from the top.
    pub pointer: String,
    /// The leaf itself.
    pub value: &'a Json,
}

impl Json {
    /// The member named `key`, when this is an object that has one (the first, if repeated).
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => {
                members.iter().find(|(name, _)| name == key).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The string's text, when this is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// The truth value, when this is a boolean.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Json::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The elements, when this is a list.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The members, when this is an object.
    #[must_use]
    pub fn as_object(&self) -> Option<&[(String, Json)]> {
        match self {
            Json::Object(members) => Some(members),
            _ => None,
        }
    }

    /// What kind of value this is, in JSON's own words.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Number(_) => "a number",
            Json::String(_) => "a string",
            Json::Array(_) => "a list",
            Json::Object(_) => "an object",
        }
    }

    /// The first `most` leaves in the order of the text. An empty object at the top has none.
    ///
    /// A pointer may be as long as the text, so whoever asks says how many are worth it;
    /// [`Json::leaf_count`] counts all.
    #[must_use]
    pub fn leaves(&self, most: usize) -> Vec<Leaf<'_>> {
        let mut leaves = Vec::new();
        collect_leaves(self, String::new(), most, &mut leaves);
        leaves
    }

    /// How many leaves there are.
    #[must_use]
    pub fn leaf_count(&self) -> usize {
        match self {
            Json::Object(members) if members.is_empty() => 0,
            _ => count_leaves(self),
        }
    }

    /// One text for all notations of the same value: keys sorted, numbers in normal form, no space.
    /// Two values are the same call exactly when these texts are equal.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        CANONICAL.write(self, &mut text);
        text
    }
}

fn count_leaves(value: &Json) -> usize {
    match value {
        Json::Array(items) if !items.is_empty() => items.iter().map(count_leaves).sum(),
        Json::Object(members) if !members.is_empty() => {
            members.iter().map(|(_, member)| count_leaves(member)).sum()
        }
        _ => 1,
    }
}

fn collect_leaves<'a>(value: &'a Json, pointer: String, most: usize, leaves: &mut Vec<Leaf<'a>>) {
    if leaves.len() >= most {
        return;
    }
    match value {
        Json::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if leaves.len() >= most {
                    return;
                }
                collect_leaves(item, format!("{pointer}/{index}"), most, leaves);
            }
        }
        Json::Object(members) if !members.is_empty() => {
            for (key, member) in members {
                if leaves.len() >= most {
                    return;
                }
                collect_leaves(member, pointer_to(&pointer, key), most, leaves);
            }
        }
        Json::Object(_) if pointer.is_empty() => {}
        _ => leaves.push(Leaf { pointer, value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_as_written_and_compare_by_value() {
        let value = read(r#"{"a":9007199254740993,"b":1.50,"c":-0.0}"#).unwrap();
        assert_eq!(value.to_string(), r#"{"a":9007199254740993,"b":1.50,"c":-0.0}"#);
        assert_eq!(value.canonical(), r#"{"a":9007199254740993,"b":15e-1,"c":0}"#);
        for same in ["1.5", "1.50", "15e-1", "0.15E+1", "150e-2"] {
            assert_eq!(write::canonical_number(same), "15e-1", "{same}");
        }
        assert_eq!(write::canonical_number("1200"), write::canonical_number("1.2e3"));
        for zero in ["0", "-0.0", "0e9", "0e99999999999999999999", "1e-99999999999999999999"] {
            assert_eq!(write::canonical_number(zero), "0", "{zero}");
        }
        assert_ne!(write::canonical_number("12"), write::canonical_number("120"));
        assert_ne!(
            write::canonical_number("9007199254740993"),
            write::canonical_number("9007199254740992")
        );
    }

    #[test]
    fn what_two_readers_might_read_differently_is_refused() {
        let duplicate = |pointer: &str| Unreadable::DuplicateKey { pointer: pointer.into() };
        assert_eq!(read(r#"{"a":1,"a":1}"#), Err(duplicate("/a")));
        assert_eq!(read(r#"{"a":[{"b/c":1,"b\/c":2}]}"#), Err(duplicate("/a/0/b~1c")));
        let place = vec![Step::Index(0)];
        let overflow = Unreadable::NumberOverflow { pointer: "/0".into(), place };
        assert_eq!(read(r#"[1e999]"#), Err(overflow));
        assert!(matches!(read(r#""\ud800""#), Err(Unreadable::Unicode { .. })));
        assert!(matches!(read(r#""\udc00x""#), Err(Unreadable::Unicode { .. })));
        for text in [
            "",
            " ",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "01",
            "1.",
            "NaN",
            "Infinity",
            "-Infinity",
            "'a'",
            "{a:1}",
            "\"\t\"",
            "[1] 2",
            "nul",
            "\u{feff}{}",
        ] {
            assert!(matches!(read(text), Err(Unreadable::Syntax { .. })), "{text:?}");
        }
    }

    #[test]
    fn depth_is_bounded_at_128_levels() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(read(&nested(128)).is_ok());
        assert_eq!(read(&nested(129)), Err(Unreadable::TooDeep));
        assert_eq!(read(&"[".repeat(2_000_000)), Err(Unreadable::TooDeep));
        let objects =
            |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        assert!(read(&objects(128)).is_ok());
        assert_eq!(read(&objects(129)), Err(Unreadable::TooDeep));
    }

    #[test]
    fn every_scalar_and_empty_container_is_a_leaf_but_an_empty_top() {
        let value = read(r#"{"b":[1,{"c":null},[]],"a":{},"":""}"#).unwrap();
        let pointers: Vec<_> = value.leaves(9).into_iter().map(|leaf| leaf.pointer).collect();
        assert_eq!(pointers, ["/b/0", "/b/1/c", "/b/2", "/a", "/"]);
        assert_eq!(value.leaf_count(), 5);
        assert_eq!(value.leaves(2).len(), 2);
        let empty = read("{}").unwrap();
        assert!(empty.leaves(9).is_empty() && empty.leaf_count() == 0);
    }

    #[test]
    fn all_repeated_keys_are_reported_at_once() {
        let document = read_document(r#"{"a":1,"b":{"c":1,"c":2},"a":3}"#).unwrap();
        assert_eq!(document.duplicates, ["/b/c", "/a"]);
    }
}
