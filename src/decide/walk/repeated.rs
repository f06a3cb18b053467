//! What is wrong with a document before any member is asked for: repeated members, and what cannot be
//! read at all; with its place, as far as that may be told.

use std::collections::BTreeSet;

use super::{Problem, index_path, is_plain_name, member_path};
use crate::decide::json::{Json, Step, Unreadable};

const DUPLICATE: &str = "duplicate key";

/// The members that hold objects of ours, or lists of them, in the bodies that any door reads.
/// Whatever stands in any other member is for whoever asked for that to name.
const LEVELS: [&str; 7] =
    ["calls", "conversation", "delivery", "request", "tools", "turn", "versions"];

/// The problem of a request that cannot be read.
#[must_use]
pub fn unreadable(path: &str, unreadable: &Unreadable) -> Problem {
    match unreadable {
        Unreadable::NumberOverflow { place, .. } => {
            let steps = place.iter().map(|step| match step {
                Step::Key(key) => Place::Key(key),
                Step::Index(index) => Place::Index(*index),
            });
            Problem::new(&known_path(path, steps), "number out of range")
        }
        Unreadable::DuplicateKey { .. } => Problem::new(path, DUPLICATE),
        Unreadable::Syntax { .. } | Unreadable::Unicode { .. } | Unreadable::TooDeep => {
            Problem::new(path, unreadable.to_string())
        }
    }
}

/// Reports every repeated member at any depth of `value`, which stands at `path`, by its whole path:
/// for what its author reads.
pub fn duplicates(path: &str, value: &Json, problems: &mut Vec<Problem>) {
    find_duplicates(value, &mut Vec::new(), &mut |steps| {
        let whole = steps.iter().fold(path.to_owned(), |path, step| match step {
            Place::Key(key) => member_path(&path, key),
            Place::Index(index) => index_path(&path, *index),
        });
        problems.push(Problem::new(&whole, DUPLICATE));
    });
}

/// The same for a request, whose paths end where others' texts begin; each place once.
pub fn duplicates_of_request(path: &str, value: &Json, problems: &mut Vec<Problem>) {
    let mut reported = BTreeSet::new();
    find_duplicates(value, &mut Vec::new(), &mut |steps| {
        let known = known_path(path, steps.iter().copied());
        if reported.insert(known.clone()) {
            problems.push(Problem::new(&known, DUPLICATE));
        }
    });
}

/// Reports every repeated member of `value` itself, which stands at `path`, and none of what lies
/// deeper: for documents whose parts have problems of different kinds.
pub fn duplicate_members(path: &str, value: &Json, problems: &mut Vec<Problem>) {
    let mut seen = BTreeSet::new();
    for (key, _) in value.as_object().unwrap_or_default() {
        if !seen.insert(key) {
            problems.push(Problem::new(&member_path(path, key), DUPLICATE));
        }
    }
}

/// The path of a place in a request, as far as it may be told: it ends at the first member that is
/// none of [`LEVELS`], or at the element of it.
fn known_path<'s>(path: &str, steps: impl IntoIterator<Item = Place<'s>>) -> String {
    let mut path = path.to_owned();
    let mut is_ours = true;
    for step in steps {
        match step {
            Place::Index(index) => path = index_path(&path, index),
            Place::Key(key) if is_ours && is_plain_name(key) => {
                path = member_path(&path, key);
                is_ours = LEVELS.contains(&key);
            }
            Place::Key(_) => break,
        }
    }
    path
}

/// A step of a walk, whose keys are the document's.
#[derive(Clone, Copy)]
enum Place<'json> {
    Key(&'json str),
    Index(usize),
}

// A path is put together only where there is something to report: most documents have no problem.
fn find_duplicates<'json>(
    value: &'json Json,
    steps: &mut Vec<Place<'json>>,
    report: &mut dyn FnMut(&[Place<'json>]),
) {
    match value {
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                steps.push(Place::Index(index));
                find_duplicates(item, steps, report);
                steps.pop();
            }
        }
        Json::Object(members) => {
            let mut seen = BTreeSet::new();
            for (key, member) in members {
                steps.push(Place::Key(key));
                if !seen.insert(key) {
                    report(steps);
                }
                find_duplicates(member, steps, report);
                steps.pop();
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::json::read_document;

    #[test]
    fn paths_of_a_request_end_where_others_texts_begin() {
        let text = r#"{"calls":[{"tool":1,"tool":1,"arguments":{"iban":[{"a":1,"a":2}],"iban":1}}],
            "conversation":{"items":[{},{"b":{"c":1,"c":2}}],"mode":{"d":[[{"e":1,"e":1}]]}},
            "argument":{"iban":1,"iban":1},"two words":{"f":1,"f":1},"g":0,"g":0}"#;
        let value = read_document(text).unwrap().value;
        let mut problems = Vec::new();
        duplicates_of_request("$", &value, &mut problems);
        let paths: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
        let expected = [
            "$.calls[0].tool",
            "$.calls[0].arguments",
            "$.conversation.items[1]",
            "$.conversation.mode",
            "$.argument",
            "$",
            "$.g",
        ];
        assert_eq!(paths, expected);
        for (text, path) in [
            (r#"{"turn":{"id":1e999}}"#, "$.turn.id"),
            (r#"{"calls":[{"arguments":{"iban":1e999}}]}"#, "$.calls[0].arguments"),
            (r#"{"4711":1e999}"#, "$"),
        ] {
            let problem = unreadable("$", &read_document(text).unwrap_err());
            assert_eq!(problem, Problem::new(path, "number out of range"));
        }
    }
}
