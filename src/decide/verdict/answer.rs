//! The answer's form, read strictly: extra, missing or repeated members, wrong types, numbers out
//! of range, repeated entries and text around the object make it unreadable. No field is guessed.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::decide::json::{self, Json};
use crate::decide::prompt::{MAX_BASIS, MAX_NUMBERS, MAX_REASON, MAX_SOFT_DENY};
use crate::decide::text::is_invisible;

/// Bytes of an answer that are worth reading; a whole answer by the schema has a tenth of it.
const MAX_ANSWER: usize = 256 * 1024;

/// What the judge said, in form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// Entries of `soft_deny` that apply, from 1; each exists.
    pub(super) soft_deny: Vec<usize>,
    /// The quotes and what they cover.
    pub(super) basis: Vec<Basis>,
    /// Leaf numbers without support; 0 is the call as such.
    pub(super) unsupported: BTreeSet<usize>,
    /// One cleaned sentence, never empty.
    pub(super) reason: String,
    /// The verdict.
    pub(super) approve: bool,
}

/// One quote, as claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Basis {
    pub(super) source: Source,
    /// The source's number, from 1; it exists.
    pub(super) index: usize,
    pub(super) quote: String,
    /// Leaf numbers; 0 is the call as such.
    pub(super) covers: BTreeSet<usize>,
}

/// A source that may authorise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A message that the person typed.
    User,
    /// The agent's instructions.
    Instructions,
    /// An entry of `allow`.
    Allow,
}

/// How many of everything there is: what a number in an answer may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) persons: usize,
    pub(super) allow: usize,
    pub(super) soft_deny: usize,
    pub(super) leaves: usize,
}

/// Reads an answer; `None` is unreadable.
pub(super) fn read(text: &str, counts: Counts) -> Option<Answer> {
    if text.len() > MAX_ANSWER {
        return None;
    }
    let object = json::read(text).ok()?;
    members(&object, ["soft_deny", "basis", "unsupported_arguments", "reason", "decision"])?;
    let soft_deny = numbers(object.get("soft_deny")?, 1, counts.soft_deny, MAX_SOFT_DENY)?;
    let unsupported = numbers(object.get("unsupported_arguments")?, 0, counts.leaves, MAX_NUMBERS)?;
    let entries = object.get("basis")?.as_array()?;
    if entries.len() > MAX_BASIS {
        return None;
    }
    let mut basis = Vec::with_capacity(entries.len());
    for entry in entries {
        let entry = read_basis(entry, counts)?;
        if basis.contains(&entry) {
            return None;
        }
        basis.push(entry);
    }
    let reason = clean(object.get("reason")?.as_str()?);
    if reason.is_empty() || reason.chars().nth(MAX_REASON).is_some() {
        return None;
    }
    let approve = match object.get("decision")?.as_str()? {
        "approve" => true,
        "escalate" => false,
        _ => return None,
    };
    Some(Answer { soft_deny: soft_deny.into_iter().collect(), basis, unsupported, reason, approve })
}

fn read_basis(entry: &Json, counts: Counts) -> Option<Basis> {
    members(entry, ["source", "index", "quote", "covers"])?;
    let (source, most) = match entry.get("source")?.as_str()? {
        "user" => (Source::User, counts.persons),
        "instructions" => (Source::Instructions, 1),
        "allow" => (Source::Allow, counts.allow),
        _ => return None,
    };
    let index = number(entry.get("index")?)?;
    if index == 0 || index > most {
        return None;
    }
    let covers = numbers(entry.get("covers")?, 0, counts.leaves, MAX_NUMBERS)?;
    Some(Basis { source, index, quote: entry.get("quote")?.as_str()?.to_owned(), covers })
}

/// Whether an object has exactly these members; `json::read` refuses repeated ones.
fn members<const N: usize>(object: &Json, names: [&str; N]) -> Option<()> {
    let members = object.as_object()?;
    let all = members.len() == N && members.iter().all(|(name, _)| names.contains(&name.as_str()));
    all.then_some(())
}

fn numbers(list: &Json, least: usize, most: usize, at_most: usize) -> Option<BTreeSet<usize>> {
    let items = list.as_array()?;
    if items.len() > at_most {
        return None;
    }
    let mut numbers = BTreeSet::new();
    for item in items {
        let value = number(item)?;
        if value < least || value > most || !numbers.insert(value) {
            return None;
        }
    }
    Some(numbers)
}

fn number(value: &Json) -> Option<usize> {
    match value {
        Json::Number(text) => text.parse().ok(),
        Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => None,
    }
}

/// Terminal escapes, tags, and the target of a Markdown link with its brackets.
static MARKUP: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b.|<[^<>]{0,400}>|\]\([^()]{0,400}\)").ok()
});

/// A reason as one plain line: control and invisible characters, markup and line breaks out.
fn clean(reason: &str) -> String {
    let plain = match MARKUP.as_ref() {
        Some(markup) => markup.replace_all(reason, " ").into_owned(),
        None => return String::new(),
    };
    let visible: String = plain
        .chars()
        .map(|character| if character.is_whitespace() { ' ' } else { character })
        .filter(|character| {
            !character.is_control()
                && !is_invisible(*character)
                && !matches!(character, '<' | '>' | '`' | '*' | '[' | ']' | '|' | '\\' | '#')
        })
        .collect();
    visible.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_become_one_plain_line() {
        for (raw, cleaned) in [
            ("The user asked for it.", "The user asked for it."),
            ("a\n\tb\r\n c", "a b c"),
            ("<b>bold</b> **x** `code`", "bold x code"),
            ("\u{1b}[31mred\u{1b}[0m \u{202e}x\u{7}", "red x"),
            ("see [here](https://x.example/a) now", "see here now"),
            ("<script>alert(1)</script>", "alert(1)"),
            ("日本語の理由。", "日本語の理由。"),
            (" \u{200b}\n", ""),
        ] {
            assert_eq!(clean(raw), cleaned, "{raw:?}");
        }
    }

    #[test]
    fn markup_compiles() {
        assert!(MARKUP.is_some());
    }
}
