//! Where an argument's value was first seen: the fact that lets a person decide in a second and a
//! judge tell a value that the person gave from one that a tool brought.
//!
//! A value counts as seen where its exact text stands between word boundaries. Nothing here is a
//! permission: the detectors and the evidence have rules of their own.

use std::cell::{Cell, OnceCell};
use std::ops::Range;

use memchr::memmem::Finder;

use super::json::Json;
use super::policy::Lists;
use super::request::{Agent, Conversation, Item};
use super::verdict::own_words;

/// Leaves of a call that are traced: as many as an answer can number.
pub const MAX_TRACED: usize = 64;

/// Bytes of text that the tracing of one request may read: past it, values count as untraced. A
/// hundred calls with a long conversation stay below.
const MAX_READ: usize = 256 * 1024 * 1024;
/// Places in one text where a value may stand inside a word before the text is given up.
const MAX_INSIDE_WORDS: usize = 1_000;

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
    /// Not looked for, or given up: a truth value, `null`, an empty value, or one that takes too
    /// long to find.
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
    /// What is left of each message without its pasted parts, made when first needed.
    own_words: Vec<OnceCell<Vec<String>>>,
    /// Bytes that may still be read.
    budget: Cell<usize>,
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
        Self {
            own_words: vec![OnceCell::new(); persons.len()],
            persons,
            instructions: &agent.instructions,
            lists,
            results,
            budget: Cell::new(MAX_READ),
        }
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
        self.search(&Finder::new(needle)).unwrap_or(FirstSeen::Untraced)
    }

    /// `None` when a text was given up: what comes after it may not be the first.
    fn search(&self, finder: &Finder<'_>) -> Option<FirstSeen> {
        let mut pasted = None;
        for (index, (text, own)) in self.persons.iter().zip(&self.own_words).enumerate() {
            if self.find(finder, text)?.is_none() {
                continue;
            }
            for run in own.get_or_init(|| own_words(text)) {
                if self.find(finder, run)?.is_some() {
                    return Some(FirstSeen::User(index + 1));
                }
            }
            pasted = pasted.or(Some(FirstSeen::Pasted(index + 1)));
        }
        if pasted.is_some() {
            return pasted;
        }
        if self.find(finder, self.instructions)?.is_some() {
            return Some(FirstSeen::Instructions);
        }
        let lists = [
            (&self.lists.environment, FirstSeen::Environment as fn(usize) -> FirstSeen),
            (&self.lists.allow, FirstSeen::Allow),
            (&self.lists.soft_deny, FirstSeen::SoftDeny),
        ];
        for (entries, seen) in lists {
            for (index, entry) in entries.iter().enumerate() {
                if self.find(finder, entry)?.is_some() {
                    return Some(seen(index + 1));
                }
            }
        }
        for (index, result) in self.results.iter().enumerate() {
            if let Some(at) = self.find(finder, result.text)? {
                let tool = result.tool.to_owned();
                return Some(FirstSeen::Result { number: index + 1, tool, at });
            }
        }
        Some(FirstSeen::Nowhere)
    }

    /// The first place where the needle stands as a word of its own: `5` is not seen in `15`.
    /// `None` when the budget is used up or the text has too many places inside words.
    fn find(&self, finder: &Finder<'_>, text: &str) -> Option<Option<Range<usize>>> {
        self.budget.set(self.budget.get().checked_sub(text.len())?);
        let length = finder.needle().len();
        let mut inside = 0;
        for start in finder.find_iter(text.as_bytes()) {
            if is_word(text, start, start + length) {
                return Some(Some(start..start + length));
            }
            inside += 1;
            if inside > MAX_INSIDE_WORDS {
                return None;
            }
        }
        Some(None)
    }
}

fn is_word(text: &str, start: usize, end: usize) -> bool {
    let (Some(before), Some(found), Some(after)) =
        (text.get(..start), text.get(start..end), text.get(end..))
    else {
        return false;
    };
    let open = joined(before.chars().next_back(), found.chars().next());
    let close = joined(found.chars().next_back(), after.chars().next());
    !open && !close
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

    fn find_in(result: &str, value: &str) -> FirstSeen {
        let items = vec![Item::Result { call_id: "c".into(), text: result.into() }];
        let (agent, lists) = (Agent::default(), Lists::default());
        Texts::new(&Conversation { items }, &agent, &lists).trace(&Json::String(value.into()))
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
        let found = |text: &str| find_in(text, "z");
        assert_eq!(found("a z b"), FirstSeen::Result { number: 1, tool: String::new(), at: 2..3 });
        assert_eq!(found(&"z".repeat(5_000)), FirstSeen::Untraced);
        for untraced in ["true", "null", "[]", "{}", r#""""#, r#"" ""#] {
            check(untraced, FirstSeen::Untraced);
        }
    }
}
