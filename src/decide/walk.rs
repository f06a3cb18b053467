//! Walks a [`Json`] value by hand and collects every problem with its place, so that whoever wrote
//! the text mends all of it at once.
//!
//! Policies, tools and requests are read with this. Derived readers stop at the first error; this
//! one never does, and it never lets a member pass that nobody asked for.
//!
//! What a problem says of the text it is about: where, and what was expected. A path names members
//! that are ours, and an unknown one only where it looks like a name ([`is_plain_name`]); it never
//! enters what others fill as they like, such as arguments or a conversation's items. A value comes
//! back in no problem of a request; authors of policies and fixtures see theirs quoted.

mod repeated;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

pub use self::repeated::{duplicate_members, duplicates, duplicates_of_request, unreadable};

use super::json::Json;
use super::text::{head, shown};

/// A key is shown in a path up to this many bytes.
const KEY_LIMIT: usize = 80;
/// A whole path is shown up to this many bytes, `…` not counted.
const PATH_LIMIT: usize = 400;
/// A foreign value is shown in a problem's text up to this many bytes.
const VALUE_LIMIT: usize = 80;
/// An unknown member is named when its name is no longer than this, in bytes.
const NAME_LIMIT: usize = 40;

/// Something wrong at one place of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// JSON path (`$.judge.allow[3]`) of the member, on one line and of bounded length.
    pub path: String,
    /// One sentence fragment: lower case, no full stop.
    pub text: String,
}

impl Problem {
    /// A problem at `path`, which is cut when it is very long.
    #[must_use]
    pub fn new(path: &str, text: impl Into<String>) -> Self {
        let cut = head(path, PATH_LIMIT);
        let path = if cut.len() < path.len() { format!("{cut}…") } else { cut.to_owned() };
        Self { path, text: text.into() }
    }
}

/// The path of member `key` of the object at `path`: `$.a`, or `$["a b"]` for what is no identifier.
/// Controls and invisible characters stand as escapes; a long key is cut.
#[must_use]
pub fn member_path(path: &str, key: &str) -> String {
    let mut characters = key.chars();
    let identifier =
        characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
            && characters.all(|character| character.is_ascii_alphanumeric() || character == '_');
    if identifier && key.len() <= KEY_LIMIT {
        return format!("{path}.{key}");
    }
    let cut = head(key, KEY_LIMIT);
    let marker = if cut.len() < key.len() { "…" } else { "" };
    let escaped = shown(&cut.replace('\\', "\\\\").replace('"', "\\\""));
    format!("{path}[\"{escaped}{marker}\"]")
}

/// The path of element `index` of the list at `path`.
#[must_use]
pub fn index_path(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

/// Whether a member's name may be repeated although nobody knows it: a short identifier, which may be
/// a slip, and no text.
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    begins && name.len() <= NAME_LIMIT && name.bytes().all(plain)
}

/// A foreign value for a problem's text: in backticks, on one line, cut when it is long.
#[must_use]
pub fn quoted(value: &str) -> String {
    let cut = head(value, VALUE_LIMIT);
    let marker = if cut.len() < value.len() { "…" } else { "" };
    format!("`{}{marker}`", shown(cut))
}

/// The text of a problem with a value of the wrong type.
#[must_use]
pub fn wrong_type(expected: &str, found: &Json) -> String {
    format!("expected {expected}, found {}", found.kind())
}

/// The members of one object, taken by name. Names that were never asked for are reported when the
/// walk ends, which is when this value is dropped: forgetting [`Members::finish`] lets nothing pass.
///
/// Repeated members are [`duplicates`]'s to report; here the first one counts.
#[derive(Debug)]
pub struct Members<'json, 'problems> {
    path: String,
    members: &'json [(String, Json)],
    asked: Vec<&'static str>,
    problems: &'problems mut Vec<Problem>,
}

impl<'json, 'problems> Members<'json, 'problems> {
    /// Begins a walk of the object at `path`. What is no object is reported, and there is no walk.
    #[must_use]
    pub fn new(
        path: &str,
        value: &'json Json,
        problems: &'problems mut Vec<Problem>,
    ) -> Option<Self> {
        match value {
            Json::Object(members) => {
                Some(Self { path: path.to_owned(), members, asked: Vec::new(), problems })
            }
            other => {
                problems.push(Problem::new(path, wrong_type("an object", other)));
                None
            }
        }
    }

    /// The path of member `name`.
    #[must_use]
    pub fn path_of(&self, name: &str) -> String {
        member_path(&self.path, name)
    }

    /// Reports a problem with member `name`.
    pub fn report(&mut self, name: &str, text: impl Into<String>) {
        let problem = Problem::new(&self.path_of(name), text);
        self.problems.push(problem);
    }

    /// The list that problems go to, for walks of what lies deeper.
    pub fn problems(&mut self) -> &mut Vec<Problem> {
        self.problems
    }

    /// Member `name`, `null` included.
    pub fn optional(&mut self, name: &'static str) -> Option<&'json Json> {
        self.asked.push(name);
        self.members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Member `name`, unless it is absent or `null`.
    pub fn unless_null(&mut self, name: &'static str) -> Option<&'json Json> {
        self.optional(name).filter(|value| **value != Json::Null)
    }

    /// Member `name`, `null` included; its absence is reported.
    pub fn required(&mut self, name: &'static str) -> Option<&'json Json> {
        let value = self.optional(name);
        if value.is_none() {
            self.report(name, "required member is missing");
        }
        value
    }

    /// A string that may be absent.
    pub fn string(&mut self, name: &'static str) -> Option<&'json str> {
        let value = self.optional(name)?;
        self.typed(name, "a string", value, Json::as_str)
    }

    /// A string.
    pub fn required_string(&mut self, name: &'static str) -> Option<&'json str> {
        let value = self.required(name)?;
        self.typed(name, "a string", value, Json::as_str)
    }

    /// A boolean that may be absent.
    pub fn boolean(&mut self, name: &'static str) -> Option<bool> {
        let value = self.optional(name)?;
        self.typed(name, "a boolean", value, Json::as_bool)
    }

    /// A boolean.
    pub fn required_boolean(&mut self, name: &'static str) -> Option<bool> {
        let value = self.required(name)?;
        self.typed(name, "a boolean", value, Json::as_bool)
    }

    /// A whole number within `range`, both ends included, that may be absent.
    pub fn integer(&mut self, name: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.optional(name)?;
        self.whole_number(name, range, value)
    }

    /// A whole number within `range`, both ends included.
    pub fn required_integer(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let value = self.required(name)?;
        self.whole_number(name, range, value)
    }

    /// A list that may be absent.
    pub fn list(&mut self, name: &'static str) -> Option<&'json [Json]> {
        let value = self.optional(name)?;
        self.typed(name, "a list", value, Json::as_array)
    }

    /// A list.
    pub fn required_list(&mut self, name: &'static str) -> Option<&'json [Json]> {
        let value = self.required(name)?;
        self.typed(name, "a list", value, Json::as_array)
    }

    /// An object that may be absent.
    pub fn object(&mut self, name: &'static str) -> Option<&'json Json> {
        let value = self.optional(name)?;
        self.typed(name, "an object", value, object)
    }

    /// An object.
    pub fn required_object(&mut self, name: &'static str) -> Option<&'json Json> {
        let value = self.required(name)?;
        self.typed(name, "an object", value, object)
    }

    /// Ends the walk: whatever was not asked for is reported.
    pub fn finish(self) {}

    fn typed<T>(
        &mut self,
        name: &str,
        expected: &str,
        value: &'json Json,
        read: impl Fn(&'json Json) -> Option<T>,
    ) -> Option<T> {
        let found = read(value);
        if found.is_none() {
            self.report(name, wrong_type(expected, value));
        }
        found
    }

    fn whole_number(
        &mut self,
        name: &str,
        range: RangeInclusive<u64>,
        value: &Json,
    ) -> Option<u64> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let Json::Number(digits) = value else {
            self.report(name, wrong_type(&expected, value));
            return None;
        };
        // `1.0` and `1e0` are refused although some readers take them for whole numbers: a number
        // that readers disagree about is better mended by its author.
        let number = digits.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            self.report(name, format!("expected {expected}"));
        }
        number
    }
}

fn object(value: &Json) -> Option<&Json> {
    value.as_object().map(|_| value)
}

impl Drop for Members<'_, '_> {
    fn drop(&mut self) {
        let mut reported = BTreeSet::new();
        for (key, _) in self.members {
            if self.asked.contains(&key.as_str()) || !reported.insert(key) {
                continue;
            }
            self.problems.push(if is_plain_name(key) {
                Problem::new(&member_path(&self.path, key), "unknown member")
            } else {
                Problem::new(&self.path, "unknown member, whose name is no short identifier")
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::json::read_document;

    #[track_caller]
    fn check(text: &str, walk: impl FnOnce(&mut Members<'_, '_>), expected: &[&str]) {
        let value = read_document(text).unwrap().value;
        let mut problems = Vec::new();
        duplicates("$", &value, &mut problems);
        if let Some(mut members) = Members::new("$", &value, &mut problems) {
            walk(&mut members);
            members.finish();
        }
        let lines: Vec<_> =
            problems.iter().map(|problem| format!("{}: {}", problem.path, problem.text)).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn all_problems_come_at_once() {
        check(
            r#"{"a":1,"b":"x","c":[],"d":5,"e":1.0,"f":-1,"g":{},"h":null,"extra":0}"#,
            |members| {
                assert_eq!(members.string("a"), None);
                assert_eq!(members.boolean("b"), None);
                assert_eq!(members.required_object("c"), None);
                assert_eq!(members.integer("d", 1..=5), Some(5));
                assert_eq!(members.integer("e", 1..=5), None);
                assert_eq!(members.integer("f", 0..=5), None);
                assert_eq!(members.list("g"), None);
                assert_eq!(members.unless_null("h"), None);
                assert_eq!(members.required("i"), None);
                assert_eq!(members.required_string("h"), None);
                assert_eq!(members.string("absent"), None);
            },
            &[
                "$.a: expected a string, found a number",
                "$.b: expected a boolean, found a string",
                "$.c: expected an object, found a list",
                "$.e: expected a whole number from 1 to 5",
                "$.f: expected a whole number from 0 to 5",
                "$.g: expected a list, found an object",
                "$.i: required member is missing",
                "$.h: expected a string, found null",
                "$.extra: unknown member",
            ],
        );
        check("[]", |_| {}, &["$: expected an object, found a list"]);
    }

    #[test]
    fn paths_are_readable_whatever_the_keys_are() {
        for (key, path) in [
            ("_ok9", "$._ok9"),
            ("erp orders", r#"$["erp orders"]"#),
            ("a\"b\\c", r#"$["a\"b\\c"]"#),
            ("x\u{202e}y\n", r#"$["x\u{202e}y\n"]"#),
            ("", r#"$[""]"#),
            ("1st", r#"$["1st"]"#),
        ] {
            assert_eq!(member_path("$", key), path);
        }
        let long = "k".repeat(100_000);
        let path = member_path("$", &long);
        assert_eq!(path, format!("$[\"{}…\"]", "k".repeat(80)));
        let problem = Problem::new(&path.repeat(100), "x");
        assert!(problem.path.len() <= PATH_LIMIT + '…'.len_utf8());
    }

    #[test]
    fn an_unknown_member_is_named_where_it_looks_like_a_name() {
        let long = "k".repeat(41);
        check(
            &format!(r#"{{"_ok9":0,"is-ok":0,"{long}":0,"a b":0,"x\u202ey\n":0,"":0,"1st":0}}"#),
            |_| {},
            &[
                "$._ok9: unknown member",
                r#"$["is-ok"]: unknown member"#,
                "$: unknown member, whose name is no short identifier",
                "$: unknown member, whose name is no short identifier",
                "$: unknown member, whose name is no short identifier",
                "$: unknown member, whose name is no short identifier",
                "$: unknown member, whose name is no short identifier",
            ],
        );
    }

    #[test]
    fn repeated_keys_are_found_at_any_depth() {
        check(
            r#"{"a":[{"b":1,"b":2,"b":3}],"a":0,"c d":{"e":{"e":1,"e":1}}}"#,
            |members| {
                members.optional("a");
            },
            &[
                "$.a[0].b: duplicate key",
                "$.a[0].b: duplicate key",
                "$.a: duplicate key",
                r#"$["c d"].e.e: duplicate key"#,
                "$: unknown member, whose name is no short identifier",
            ],
        );
    }

    #[test]
    fn a_walk_that_nobody_finishes_reports_all_the_same() {
        let value = read_document(r#"{"a":1}"#).unwrap().value;
        let mut problems = Vec::new();
        drop(Members::new("$", &value, &mut problems));
        assert_eq!(problems, [Problem::new("$.a", "unknown member")]);
    }
}
