//! External cases: JSON lines, one call a line, as data sets of agents' conversations are converted
//! to. They run in auto mode with every class at `approve`.
//!
//! Lines are read one at a time and dropped once judged. A line's members are `id`, `source`,
//! `licence`, `instructions`, `tool`, `arguments`, `conversation`, `expected`, `why`, `attack`,
//! `novel` and `meta`; of `meta`, `kind` and `label_strength` are read, and of `novel` nothing.

use std::sync::{Arc, LazyLock};

use super::case::{Case, Expect, Group, Labels, Strength};
use crate::decide::json::{self, Json};
use crate::decide::policy::{Action, Class, Mode, Policy};
use crate::decide::request::{Agent, Annotations, Call, Conversation, Item, Origin, Tool};
use crate::decide::walk::{Members, Problem, index_path, quoted, wrong_type};
use crate::host::tool;

/// An external case, read.
#[derive(Debug, Clone)]
pub struct External {
    /// Unique in its source.
    pub id: Arc<str>,
    /// The data set, which is the suite.
    pub source: Arc<str>,
    /// What kind of call it is, in the data set's words.
    pub kind: String,
    case: Case,
}

impl External {
    /// Reads one line.
    ///
    /// # Errors
    /// Every problem of the line.
    pub fn read(line: &str) -> Result<Self, Vec<Problem>> {
        let value = match json::read(line) {
            Ok(value) => value,
            Err(unreadable) => return Err(vec![Problem::new("$", unreadable.to_string())]),
        };
        let mut problems = Vec::new();
        match read(&value, &mut problems) {
            Some(external) if problems.is_empty() => Ok(external),
            _ => Err(problems),
        }
    }

    /// The case to be judged.
    #[must_use]
    pub fn into_case(self) -> Case {
        self.case
    }
}

/// Every class at `approve`, and no lists.
static POLICY: LazyLock<Arc<Policy>> = LazyLock::new(|| {
    let classes = Class::ALL.into_iter().map(|class| (class, Action::Approve)).collect();
    Arc::new(Policy { classes, ..Policy::default() })
});

fn read(value: &Json, problems: &mut Vec<Problem>) -> Option<External> {
    let mut members = Members::new("$", value, problems)?;
    let id = members.required_string("id");
    let source = members.required_string("source");
    for (member, text) in [("id", id), ("source", source)] {
        if text.is_some_and(|text| text.trim().is_empty()) {
            members.report(member, "expected a name");
        }
    }
    members.string("licence");
    members.string("why");
    members.optional("novel");
    let instructions = members.required_string("instructions").unwrap_or_default();
    let tool = members.required_object("tool");
    let tool_path = members.path_of("tool");
    let tool = tool.and_then(|tool| read_tool(tool, &tool_path, members.problems()));
    let arguments = members.required_object("arguments");
    let conversation = members.required_list("conversation").unwrap_or_default();
    let conversation_path = members.path_of("conversation");
    let items = read_items(conversation, &conversation_path, members.problems());
    let expect = read_expected(&mut members);
    let attack = members.required_boolean("attack");
    if attack == Some(true) && expect == Some(Expect::Approve) {
        members.report("expected", "an attack is never to be approved");
    }
    let meta = members.required_object("meta");
    let meta_path = members.path_of("meta");
    let meta = meta.and_then(|meta| read_meta(meta, &meta_path, members.problems()));
    members.finish();
    let (id, source, tool): (Arc<str>, Arc<str>, Tool) = (id?.into(), source?.into(), tool?);
    let (expect, (kind, strength)) = (expect?, meta?);
    let group = match (attack?, expect) {
        (true, _) => Group::Attack,
        (false, Expect::Approve) => Group::Benign,
        (false, Expect::Escalate | Expect::Either | Expect::Execute | Expect::Block) => {
            Group::Unsafe
        }
    };
    let labels = Labels {
        suite: Arc::clone(&source),
        fixture: Arc::clone(&id),
        call: tool.name.clone(),
        expect,
        codes: Vec::new(),
        strength,
        group,
        pair: None,
        mode: Mode::Auto,
    };
    let case = Case {
        labels: Arc::new(labels),
        call: Call::new("call", &tool.name, None, &arguments?.to_string()),
        agent: Arc::new(Agent { instructions: instructions.to_owned(), tools: vec![tool] }),
        policy: Some(Arc::clone(&POLICY)),
        conversation: Conversation { items },
        tools: Vec::new(),
        state: Arc::default(),
        answer: None,
    };
    Some(External { id, source, kind, case })
}

fn read_tool(value: &Json, path: &str, problems: &mut Vec<Problem>) -> Option<Tool> {
    let mut members = Members::new(path, value, problems)?;
    let name = members.required_string("name");
    if name.is_some_and(|name| !tool::is_name(name)) {
        members.report("name", "expected 1 to 128 letters, digits or characters of `_./-`");
    }
    let description = members.string("description");
    let input_schema = members.object("inputSchema");
    let annotations = members.unless_null("annotations");
    members.finish();
    Some(Tool {
        description: description.map(str::to_owned),
        input_schema: input_schema.cloned(),
        annotations: annotations
            .map_or(Annotations::Absent, |value| Annotations::Present(value.clone())),
        ..Tool::new(name?, Origin::Function)
    })
}

fn read_expected(members: &mut Members<'_, '_>) -> Option<Expect> {
    match members.required_string("expected")? {
        "approve" => Some(Expect::Approve),
        "escalate" => Some(Expect::Escalate),
        other => {
            let found = quoted(other);
            members.report("expected", format!("expected `approve` or `escalate`, found {found}"));
            None
        }
    }
}

/// The data set's own notes: what they hold beyond the two members is its own affair.
fn read_meta(value: &Json, path: &str, problems: &mut Vec<Problem>) -> Option<(String, Strength)> {
    let kind = value.get("kind").and_then(Json::as_str);
    let word = value.get("label_strength").and_then(Json::as_str);
    let strength = word.and_then(Strength::from_word);
    if kind.is_none() {
        problems.push(Problem::new(&format!("{path}.kind"), "expected a string"));
    }
    if strength.is_none() {
        let place = format!("{path}.label_strength");
        problems.push(Problem::new(&place, "expected `hard` or `soft`"));
    }
    Some((kind?.to_owned(), strength?))
}

fn read_items(values: &[Json], path: &str, problems: &mut Vec<Problem>) -> Vec<Item> {
    let mut items = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let here = index_path(path, index);
        let Some(mut item) = Members::new(&here, value, problems) else {
            continue;
        };
        match item.required_string("role") {
            Some("user") => {
                if let Some(text) = item.required_string("content") {
                    items.push(Item::Person { text: text.to_owned(), attachments: 0 });
                }
            }
            Some("assistant") => {
                if let Some(text) = item.string("content").filter(|text| !text.is_empty()) {
                    items.push(Item::Assistant { text: text.to_owned() });
                }
                let calls = item.list("tool_calls").unwrap_or_default();
                let calls_path = item.path_of("tool_calls");
                read_tool_calls(calls, &calls_path, item.problems(), &mut items);
            }
            Some("tool") => {
                // The result's call names the tool as well.
                item.string("name");
                let id = item.required_string("tool_call_id");
                let text = item.required_string("content");
                if let (Some(id), Some(text)) = (id, text) {
                    items.push(Item::Result { call_id: id.to_owned(), text: text.to_owned() });
                }
            }
            Some(other) => {
                let found = quoted(other);
                item.report(
                    "role",
                    format!("expected `user`, `assistant` or `tool`, found {found}"),
                );
            }
            None => {}
        }
        item.finish();
    }
    items
}

fn read_tool_calls(
    values: &[Json],
    path: &str,
    problems: &mut Vec<Problem>,
    items: &mut Vec<Item>,
) {
    for (index, value) in values.iter().enumerate() {
        let here = index_path(path, index);
        let Some(mut call) = Members::new(&here, value, problems) else {
            continue;
        };
        let id = call.required_string("id");
        let name = call.required_string("name");
        let arguments = match call.required("arguments") {
            Some(Json::String(text)) => Some(text.clone()),
            Some(object @ Json::Object(_)) => Some(object.to_string()),
            Some(other) => {
                call.report("arguments", wrong_type("an object or its text", other));
                None
            }
            None => None,
        };
        call.finish();
        if let (Some(id), Some(name), Some(arguments)) = (id, name, arguments) {
            items.push(Item::Call { call_id: id.to_owned(), tool: name.to_owned(), arguments });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(arguments: &str, expected: &str, attack: bool) -> String {
        format!(
            r#"{{"id":"x#1","source":"set","licence":"MIT","instructions":"","tool":{{"name":"note","annotations":null}},"arguments":{arguments},"conversation":[{{"role":"user","content":"hi"}},{{"role":"assistant","content":"","tool_calls":[{{"id":"c","name":"f","arguments":{{"n":1.50}}}}]}},{{"role":"tool","tool_call_id":"c","name":"f","content":"1"}}],"expected":"{expected}","why":"","attack":{attack},"novel":{{}},"meta":{{"kind":"benign","label_strength":"soft","more":1}}}}"#
        )
    }

    #[test]
    fn a_line_becomes_a_case_with_its_numbers_as_written() {
        let arguments = r#"{"b":1.50,"a":[12345678901234567890,"é\n\u0000"],"c":{},"d":null}"#;
        let case = External::read(&line(arguments, "approve", false)).unwrap().into_case();
        assert_eq!(case.call.arguments_text, arguments);
        assert!(case.call.arguments.is_ok());
        assert_eq!(case.labels.group, Group::Benign);
        assert_eq!(case.labels.strength, Strength::Soft);
        assert_eq!(case.conversation.items.len(), 3);
        let Item::Call { arguments, .. } = &case.conversation.items[1] else { panic!() };
        assert_eq!(arguments, r#"{"n":1.50}"#);
    }

    #[test]
    fn groups() {
        let group = |expected, attack| {
            External::read(&line("{}", expected, attack)).unwrap().into_case().labels.group
        };
        assert_eq!(group("escalate", true), Group::Attack);
        assert_eq!(group("escalate", false), Group::Unsafe);
        let problems = External::read(&line("{}", "approve", true)).unwrap_err();
        assert_eq!(problems, [Problem::new("$.expected", "an attack is never to be approved")]);
    }

    #[test]
    fn all_problems_of_a_line_come_at_once() {
        let text = r#"{"id":"","source":"s","instructions":"","tool":{"name":"a b"},"arguments":[],"conversation":[{"role":"system","content":""}],"expected":"maybe","attack":0,"meta":{},"extra":1}"#;
        let found: Vec<_> = External::read(text)
            .unwrap_err()
            .into_iter()
            .map(|problem| format!("{}: {}", problem.path, problem.text))
            .collect();
        insta::assert_snapshot!(found.join("\n"));
        assert_eq!(External::read("{").unwrap_err()[0].path, "$");
    }
}
