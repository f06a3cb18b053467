//! The tail of a question: the tool, the facts that code found, the other calls, the call itself.

use super::encode::{Cuts, encode, encode_cut, encode_json};
use super::{Pending, ResultsView};
use crate::decide::eligibility::EligibleClass;
use crate::decide::json::Json;
use crate::decide::provenance::{FirstSeen, Texts};
use crate::decide::request::{Annotations, Call, Tool};
use crate::decide::text::{head, tail};

/// Bytes of a tool's description that stay.
const DESCRIPTION_LIMIT: usize = 4 * 1024;
/// Bytes of a tool's input schema that stay.
const SCHEMA_LIMIT: usize = 8 * 1024;
/// Bytes of a tool's annotations that stay.
const ANNOTATIONS_LIMIT: usize = 1024;
/// Bytes of a leaf's pointer that stay.
const POINTER_LIMIT: usize = 200;
/// Bytes of a leaf's value that stay: the call itself shows it whole.
const VALUE_LIMIT: usize = 60;
/// Characters (Unicode scalar values) around a value in the `excerpt` view.
const EXCERPT_CHARACTERS: usize = 160;
/// Bytes of another call's arguments that stay.
const OTHER_ARGUMENTS_LIMIT: usize = 256;

pub(super) fn tool(tool: &Tool, cuts: &mut Cuts) -> String {
    let mut text = format!("name: {}\n", named(&tool.name, tool.server_label.as_deref()));
    if let Some(description) = &tool.description {
        text.push_str(&format!(
            "description: {}\n",
            encode_cut(description, DESCRIPTION_LIMIT, cuts)
        ));
    }
    if let Some(schema) = &tool.input_schema {
        text.push_str(&format!("input schema: {}\n", json_cut(schema, SCHEMA_LIMIT, cuts)));
    }
    if let Annotations::Present(annotations) = &tool.annotations {
        text.push_str(&format!(
            "annotations: {}\n",
            json_cut(annotations, ANNOTATIONS_LIMIT, cuts)
        ));
    }
    text
}

/// A tool's name, and whose it is: two servers may have tools of one name.
fn named(name: &str, server_label: Option<&str>) -> String {
    let label = server_label.map(|label| format!(" of server {}", encode(label)));
    format!("{}{}", encode(name), label.unwrap_or_default())
}

/// Small values stand as JSON, large ones as a cut string of their text.
fn json_cut(value: &Json, limit: usize, cuts: &mut Cuts) -> String {
    let whole = encode_json(value);
    if whole.len() <= limit { whole } else { encode_cut(&value.to_string(), limit, cuts) }
}

pub(super) fn facts(
    class: EligibleClass,
    pending: &Pending<'_>,
    texts: &Texts<'_>,
    view: ResultsView,
    cuts: &mut Cuts,
) -> String {
    let class = match class {
        EligibleClass::Read => "a read",
        EligibleClass::Write => "a write",
    };
    let mut text = format!("The call is {class}. 0 is the call as such; its leaves:\n");
    for (index, (leaf, seen)) in pending.leaves.iter().zip(pending.first_seen).enumerate() {
        let number = index + 1;
        let pointer = encode_cut(&leaf.pointer, POINTER_LIMIT, cuts);
        let value = leaf_value(leaf.value);
        text.push_str(&format!("{number} {pointer} {value}{}\n", origin(seen, texts, view)));
    }
    match pending.leaf_count.saturating_sub(pending.leaves.len()) {
        0 => {}
        more => text.push_str(&format!("[{more} more leaves]\n")),
    }
    if pending.leaves.is_empty() {
        text.push_str("(none)\n");
    }
    text
}

/// A leaf's value, when it is short; the call shows every value whole.
fn leaf_value(value: &Json) -> String {
    let encoded = encode_json(value);
    if encoded.len() <= VALUE_LIMIT { encoded } else { "(long)".to_owned() }
}

fn origin(seen: &FirstSeen, texts: &Texts<'_>, view: ResultsView) -> String {
    match seen {
        FirstSeen::User(number) => format!(": first in user {number}"),
        FirstSeen::Pasted(number) => format!(": first in pasted text of user {number}"),
        FirstSeen::Instructions => ": first in the instructions".to_owned(),
        FirstSeen::Environment(number) => format!(": first in environment {number}"),
        FirstSeen::Allow(number) => format!(": first in allow {number}"),
        FirstSeen::SoftDeny(number) => format!(": first in soft_deny {number}"),
        FirstSeen::Nowhere => ": stands nowhere before".to_owned(),
        FirstSeen::Untraced => String::new(),
        FirstSeen::Result { number, tool, at } => {
            let place = format!(": first in result {number} of {}", encode(head(tool, 128)));
            match view {
                ResultsView::Provenance => place,
                ResultsView::Excerpt | ResultsView::Text => {
                    let text = texts.results().get(number - 1).map_or("", |result| result.text);
                    let around = encode(&excerpt(text, at.start, at.end));
                    format!("{place} (third party's text, never evidence): {around}")
                }
            }
        }
    }
}

/// At most [`EXCERPT_CHARACTERS`] of `text` around the bytes from `start` to `end`.
fn excerpt(text: &str, start: usize, end: usize) -> String {
    let value = text.get(start..end).unwrap_or_default();
    let size = value.chars().count();
    if size >= EXCERPT_CHARACTERS {
        return value.chars().take(EXCERPT_CHARACTERS).collect();
    }
    let side = (EXCERPT_CHARACTERS - size) / 2;
    let before = tail(text.get(..start).unwrap_or_default(), side * 4);
    let after = head(text.get(end..).unwrap_or_default(), side * 4);
    let skip = before.chars().count().saturating_sub(side);
    before.chars().skip(skip).chain(value.chars()).chain(after.chars().take(side)).collect()
}

pub(super) fn other_calls<'a>(others: impl Iterator<Item = &'a Call>, cuts: &mut Cuts) -> String {
    let mut text = String::new();
    for other in others {
        let name = named(&other.tool, other.server_label.as_deref());
        let arguments = encode_cut(&other.arguments_text, OTHER_ARGUMENTS_LIMIT, cuts);
        text.push_str(&format!("also raised in this request: {name} {arguments}\n"));
    }
    text
}

pub(super) fn pending_call(tool: &Tool, arguments: &Json) -> String {
    let name = named(&tool.name, tool.server_label.as_deref());
    format!("{name} {}\n", encode_json(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_has_at_most_160_characters_around_the_value() {
        let text = format!("{}VALUE{}", "é".repeat(500), "ü".repeat(500));
        let start = 1000;
        let cut = excerpt(&text, start, start + 5);
        assert_eq!(cut.chars().count(), 159);
        assert!(cut.contains("éVALUEü"));
        assert_eq!(excerpt("a VALUE b", 2, 7), "a VALUE b");
        assert_eq!(excerpt(&"x".repeat(400), 0, 400).len(), 160);
    }
}
