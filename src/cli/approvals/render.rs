//! Approvals for a person at a terminal. Whatever others wrote stands on one line, with hidden
//! characters as escapes, so that nothing of it can move the cursor or pass for our own words.
//!
//! The arguments are never cut where somebody decides on them.

use std::fmt::Write as _;

use serde_json::Value;

use crate::decide::json::{self, Json};
use crate::decide::reason::Reason;
use crate::decide::text::{head, shown};

/// Bytes of a foreign text in a list.
const LINE_LIMIT: usize = 160;
/// Bytes of one argument beside its place; the whole arguments stand above it.
const VALUE_LIMIT: usize = 80;
/// Arguments whose values are looked up.
const LEAVES: usize = 64;

/// An approval in two lines.
pub(super) fn brief(approval: &Value) -> String {
    let mut text = String::new();
    line(
        &mut text,
        &format!(
            "{} {} {}",
            word(approval, "id"),
            word(approval, "status"),
            word(approval, "created_at")
        ),
    );
    let arguments = approval["arguments"].as_str().map_or_else(|| missing(approval), shown);
    line(&mut text, &format!("  {} {}", call(approval), cut(&arguments, LINE_LIMIT)));
    let why = match (word(approval, "pause_reason"), because(approval)) {
        (code, reason) if code.is_empty() => reason,
        (code, reason) if reason.is_empty() => code,
        (code, reason) => format!("{code}: {reason}"),
    };
    if !why.is_empty() {
        line(&mut text, &format!("  {}", cut(&why, LINE_LIMIT)));
    }
    text
}

/// Why it waited, or what approved it, in a sentence; what a person said since is not that. Where a
/// gate's code stands alone a page says what it means.
fn because(approval: &Value) -> String {
    let said = [word(approval, "pause_sentence"), word(&approval["judge"], "reason")];
    let gate = || Reason::sentence_of_gate(approval["pause_reason"].as_str()?);
    said.into_iter()
        .find(|sentence| !sentence.is_empty())
        .or_else(gate)
        .unwrap_or_else(|| word(approval, "reason"))
}

/// How an approval that somebody watched ended, in one line.
pub(super) fn ended(approval: &Value) -> String {
    let by = word(&approval["decision"], "decided_by");
    let by = if by.is_empty() { String::new() } else { format!(" by {by}") };
    let (id, status) = (word(approval, "id"), word(approval, "status"));
    format!("{id} {status}{by}: {}\n", call(approval))
}

/// What a decision came to.
pub(super) fn decided(answer: &Value) -> String {
    let start_by = word(answer, "start_by");
    let until =
        if start_by.is_empty() { String::new() } else { format!(", must start by {start_by}") };
    format!("{} {}{until}\n", word(answer, "approval_id"), word(answer, "status"))
}

/// An approval with everything that helps to decide.
pub(super) fn whole(approval: &Value) -> String {
    let mut text = String::new();
    line(&mut text, &format!("{} {}", word(approval, "id"), word(approval, "status")));
    field(&mut text, "call", &call(approval));
    let arguments = approval["arguments"].as_str();
    field(&mut text, "arguments", &arguments.map_or_else(|| missing(approval), shown));
    let code = word(approval, "pause_reason");
    if !code.is_empty() {
        field(&mut text, "waits", &code);
    }
    let because = because(approval);
    if !because.is_empty() {
        field(&mut text, "because", &because);
    }
    for (name, member) in [
        ("agent", "agent"),
        ("version", "version"),
        ("surface", "surface"),
        ("conversation", "conversation"),
        ("turn", "turn"),
        ("user", "user"),
        ("mode", "mode"),
        ("raised", "created_at"),
        ("until", "deadline_at"),
    ] {
        let value = word(approval, member);
        if !value.is_empty() {
            field(&mut text, name, &value);
        }
    }
    for finding in list(approval, "findings") {
        field(&mut text, "found", &word(finding, "sentence"));
    }
    let read = arguments.and_then(|arguments| json::read(arguments).ok());
    let leaves = read.as_ref().map(|read| read.leaves(LEAVES)).unwrap_or_default();
    for traced in list(approval, "provenance") {
        let pointer = traced["pointer"].as_str().unwrap_or_default();
        let value = leaves.iter().find(|leaf| leaf.pointer == pointer).map(|leaf| leaf.value);
        let value = value.map(|value| format!(" {}", quoted(value))).unwrap_or_default();
        field(&mut text, "argument", &format!("{}{value} {}", shown(pointer), place(traced)));
    }
    for evidence in list(approval, "evidence") {
        field(&mut text, "evidence", &quote(evidence));
    }
    let judge = &approval["judge"];
    if judge.is_object() {
        field(&mut text, "judge", &word(judge, "model"));
        let reason = word(judge, "reason");
        if !reason.is_empty() {
            field(&mut text, "it says", &reason);
        }
    }
    resolution(approval, &mut text);
    text
}

/// Why no arguments are shown.
fn missing(approval: &Value) -> String {
    let missing = &approval["arguments_missing"];
    match missing["reason"].as_str() {
        Some("key_missing") => format!(
            "cannot be read: they are sealed under the key `{}`, which is not in the service's key \
             ring; the call can be rejected, and approved once the key is back",
            word(missing, "key_id")
        ),
        Some("unreadable") => {
            "cannot be read: they are not what was sealed, or the secret of their key is another one \
             now; the call can be rejected"
                .to_owned()
        }
        Some(_) | None => "no longer kept".to_owned(),
    }
}

fn resolution(approval: &Value, text: &mut String) {
    let decision = &approval["decision"];
    if decision.is_object() {
        let by = word(decision, "decided_by");
        let by = if by.is_empty() { String::new() } else { format!("by {by} ") };
        field(text, "ended", &format!("{by}at {}", word(decision, "at")));
        for (name, member) in [("reason", "reason"), ("start by", "start_by")] {
            let value = word(decision, member);
            if !value.is_empty() {
                field(text, name, &value);
            }
        }
    }
    if approval["claim"].is_object() {
        field(text, "claimed", &word(&approval["claim"], "at"));
    }
    let execution = &approval["execution"];
    if execution.is_object() {
        field(text, "ran", &format!("{} at {}", word(execution, "status"), word(execution, "at")));
        if let Some(output) = execution["output"].as_str() {
            field(text, "output", &shown(output));
        }
    }
}

/// Tool, class and connector.
fn call(approval: &Value) -> String {
    let class = word(approval, "policy_class");
    let class = if class.is_empty() { "no class".to_owned() } else { class };
    let label = word(approval, "server_label");
    let of = if label.is_empty() { String::new() } else { format!(" of {label}") };
    format!("{}{of} ({class})", word(approval, "tool"))
}

fn place(traced: &Value) -> String {
    let source = word(traced, "source");
    let number = traced["index"].as_u64();
    match (source.as_str(), number) {
        ("nowhere", _) => "stands nowhere before".to_owned(),
        ("untraced", _) => "is not traced".to_owned(),
        ("result", Some(number)) => {
            format!("first in result {number} of {}", word(traced, "tool"))
        }
        ("pasted", Some(number)) => format!("first in pasted text of user {number}"),
        (source, Some(number)) => format!("first in {source} {number}"),
        (source, None) => format!("first in the {source}"),
    }
}

fn quote(evidence: &Value) -> String {
    let covers: Vec<String> = list(evidence, "covers")
        .iter()
        .filter_map(Value::as_str)
        .map(|pointer| if pointer.is_empty() { "the call".to_owned() } else { shown(pointer) })
        .collect();
    let source = match (word(evidence, "source"), evidence["index"].as_u64()) {
        (source, _) if source == "instructions" => source,
        (source, Some(number)) => format!("{source} {number}"),
        (source, None) => source,
    };
    format!("{source} “{}” for {}", word(evidence, "quote"), covers.join(", "))
}

fn quoted(value: &Json) -> String {
    cut(&shown(&value.to_string()), VALUE_LIMIT)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A member's text on one line; empty when it is absent, `null` or no text.
fn word(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).map(shown).unwrap_or_default()
}

fn cut(line: &str, limit: usize) -> String {
    let short = head(line, limit);
    if short.len() < line.len() { format!("{short}…") } else { line.to_owned() }
}

fn field(text: &mut String, name: &str, value: &str) {
    line(text, &format!("  {name:<12} {value}"));
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}
