//! Where an argument's value was first seen: the fact that lets a person decide in a second and a
//! judge tell a value that the person gave from one that a tool brought.
//!
//! A value counts as seen where its exact text stands between word boundaries. Nothing here is a
//! permission: the detectors and the evidence have rules of their own.

use std::ops::Range;

use memchr::memmem::Finder;

use super::json::Json;
use super::policy::Lists;
use super::request::{Agent, Conversation, Item};
use super::verdict::own_words;

/// Leaves of a call that are traced; further ones count as [`FirstSeen::Untraced`]. It bounds the
/// work to this many passes over the conversation.
pub const MAX_TRACED: usize = 64;

/// Where a value was first seen; what a person said comes before what the organisation wrote, and
/// that before what a tool answered. Numbers count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstSeen {
    /// In the text that a person typed.
    User(usize),
    /// In text that a person pasted into a message: somebody else's words.
    Pasted(usize),
    /// In the agent's instructions.
    Instructions,
    /// In an entry of `environment`.
    Environment(usize),
    /// In an entry of `allow`.
    Allow(usize),
    /// In an entry of `soft_deny`.
    SoftDeny(usize),
    /// In a tool's result.
    Result {
        /// Which result of the conversation.
        number: usize,
        /// The tool that answered, by the name under which it was called.
        tool: String,
        /// Bytes of the value in that result's text.
        at: Range<usize>,
    },
    /// In nothing that we have.
    Nowhere,
    /// Not looked for: a truth value, `null`, an empty value, or beyond [`MAX_TRACED`].
    Untraced,
}

/// One tool result of a conversation.
#[derive(Debug, Clone, Copy)]
pub struct ToolResult<'a> {
    /// The tool's name as called; empty when no call with that id is known.
    pub tool: &'a str,
    /// The result's text.
    pub text: &'a str,
}

/// The texts in which values are looked for, gathered once a request.
#[derive(Debug, Clone)]
pub struct Texts<'a> {
    persons: Vec<&'a str>,
    instructions: &'a str,
    lists: &'a Lists,
    results: Vec<ToolResult<'a>>,
}

impl<'a> Texts<'a> {
    /// Gathers the texts of a conversation and its agent.
    #[must_use]
    pub fn new(conversation: &'a Conversation, agent: &'a Agent, lists: &'a Lists) -> Self {
        let mut persons = Vec::new();
        let mut results = Vec::new();
        let mut called = std::collections::BTreeMap::new();
        for item in &conversation.items {
            match item {
                Item::Person { text, .. } => persons.push(text.as_str()),
                Item::Call { call_id, tool, .. } => {
                    called.insert(call_id.as_str(), tool.as_str());
                }
                Item::Result { call_id, text } => {
                    let tool = called.get(call_id.as_str()).copied().unwrap_or_default();
                    results.push(ToolResult { tool, text });
                }
                Item::Assistant { .. } | Item::Other { .. } | Item::Opaque => {}
            }
        }
        Self { persons, instructions: &agent.instructions, lists, results }
    }

    /// The person's messages, in their order.
    #[must_use]
    pub fn persons(&self) -> &[&'a str] {
        &self.persons
    }

    /// The tools' results, in their order.
    #[must_use]
    pub fn results(&self) -> &[ToolResult<'a>] {
        &self.results
    }

    /// Where `value` was first seen.
    #[must_use]
    pub fn trace(&self, value: &Json) -> FirstSeen {
        let needle = match value {
            Json::String(text) => text.trim(),
            Json::Number(number) => number,
            Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => "",
        };
        if needle.is_empty() {
            return FirstSeen::Untraced;
        }
        let finder = Finder::new(needle);
        let seen = |text: &str| find_word(&finder, text).is_some();
        let entry = |entries: &[String]| number(entries.iter().map(String::as_str), seen);
        let own = |text: &str| own_words(text).iter().any(|run| seen(run));
        let mut pasted = None;
        for (index, text) in self.persons.iter().enumerate() {
            if !seen(text) {
                continue;
            }
            if own(text) {
                return FirstSeen::User(index + 1);
            }
            pasted = pasted.or(Some(FirstSeen::Pasted(index + 1)));
        }
        if let Some(pasted) = pasted {
            return pasted;
        }
        if find_word(&finder, self.instructions).is_some() {
            return FirstSeen::Instructions;
        }
        if let Some(number) = entry(&self.lists.environment) {
            return FirstSeen::Environment(number);
        }
        if let Some(number) = entry(&self.lists.allow) {
            return FirstSeen::Allow(number);
        }
        if let Some(number) = entry(&self.lists.soft_deny) {
            return FirstSeen::SoftDeny(number);
        }
        for (index, result) in self.results.iter().enumerate() {
            if let Some(at) = find_word(&finder, result.text) {
                return FirstSeen::Result { number: index + 1, tool: result.tool.to_owned(), at };
            }
        }
        FirstSeen::Nowhere
    }
}

/// The number, from 1, of the first text in which something is seen.
fn number<'t>(
    mut texts: impl Iterator<Item = &'t str>,
    seen: impl Fn(&str) -> bool,
) -> Option<usize> {
    texts.position(seen).map(|index| index + 1)
}

/// The first place where the needle stands as a word of its own: `5` is not seen in `15`.
fn find_word(finder: &Finder<'_>, text: &str) -> Option<Range<usize>> {
    let needle_length = finder.needle().len();
    finder.find_iter(text.as_bytes()).find_map(|start| {
        let end = start + needle_length;
        let found = text.get(start..end)?;
        let before = text.get(..start)?.chars().next_back();
        let after = text.get(end..)?.chars().next();
        let open = joined(before, found.chars().next());
        let close = joined(found.chars().next_back(), after);
        (!open && !close).then_some(start..end)
    })
}

/// Whether two neighbouring characters belong to one word. Scripts without spaces between words
/// have no such boundary, so only letters and digits with case or of ASCII count.
fn joined(left: Option<char>, right: Option<char>) -> bool {
    let word = |character: char| {
        character.is_ascii_alphanumeric() || character.is_lowercase() || character.is_uppercase()
    };
    left.is_some_and(word) && right.is_some_and(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, expected: FirstSeen) {
        let agent = Agent { instructions: "Keep ledger L-7 tidy.".into(), tools: vec![] };
        let lists = Lists {
            environment: vec!["Plant 12 is in Ulm.".into()],
            allow: vec!["Notes are routine.".into(), "Tag blue is free.".into()],
            soft_deny: vec!["Never touch K-9.".into()],
        };
        let conversation = Conversation {
            items: vec![
                Item::Person { text: "Order 15 of C-1042".into(), attachments: 0 },
                Item::Assistant { text: "assistant-only".into() },
                Item::Call { call_id: "c".into(), tool: "find".into(), arguments: "{}".into() },
                Item::Result { call_id: "c".into(), text: "C-1042 owes 5 to 東京支店".into() },
                Item::Person { text: "and 5 more\n> or K-77 and 15".into(), attachments: 0 },
            ],
        };
        let value = super::super::json::read(value).unwrap();
        assert_eq!(Texts::new(&conversation, &agent, &lists).trace(&value), expected);
    }

    #[test]
    fn values_are_found_as_words_and_the_person_comes_first() {
        check("15", FirstSeen::User(1));
        check("5", FirstSeen::User(2));
        check(r#""C-1042""#, FirstSeen::User(1));
        check(r#""K-77""#, FirstSeen::Pasted(2));
        check(r#""L-7""#, FirstSeen::Instructions);
        check("12", FirstSeen::Environment(1));
        check(r#""blue""#, FirstSeen::Allow(2));
        check(r#""K-9""#, FirstSeen::SoftDeny(1));
        check(r#""104""#, FirstSeen::Nowhere);
        check(r#""assistant-only""#, FirstSeen::Nowhere);
        let result = |at| FirstSeen::Result { number: 1, tool: "find".into(), at };
        check(r#""owes""#, result(7..11));
        check(r#""東京""#, result(17..23));
        for untraced in ["true", "null", "[]", "{}", r#""""#, r#"" ""#] {
            check(untraced, FirstSeen::Untraced);
        }
    }
}
