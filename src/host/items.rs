//! A conversation's items: OpenAI Responses items or Chat Completions messages, by who wrote them.
//!
//! A person's message is one that the gateway marks so and that stands in the user's role; nothing
//! an item says of itself makes it one. Kinds that we do not know stay as opaque items.

use std::collections::BTreeSet;

use crate::decide::json::Json;
use crate::decide::request::Item;
use crate::decide::walk::{Problem, index_path, member_path, wrong_type};

/// The two forms in which a conversation comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Items of the OpenAI Responses API.
    #[default]
    Responses,
    /// Messages of the Chat Completions API.
    Chat,
}

/// Reads the items at `path`; `persons` holds the indexes that a person typed.
pub fn parse(
    values: &[Json],
    format: Format,
    persons: &BTreeSet<usize>,
    path: &str,
    problems: &mut Vec<Problem>,
) -> Vec<Item> {
    let mut items = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let mut reader = ItemReader { path: index_path(path, index), problems, items: &mut items };
        if value.as_object().is_none() {
            reader.problem(None, wrong_type("an object", value));
            continue;
        }
        let person = persons.contains(&index);
        match format {
            Format::Responses => reader.responses_item(value, person),
            Format::Chat => reader.message(value, person),
        }
    }
    items
}

struct ItemReader<'a> {
    path: String,
    problems: &'a mut Vec<Problem>,
    items: &'a mut Vec<Item>,
}

impl ItemReader<'_> {
    fn problem(&mut self, member: Option<&str>, text: impl Into<String>) {
        let path = member.map_or_else(|| self.path.clone(), |name| member_path(&self.path, name));
        self.problems.push(Problem::new(&path, text));
    }

    fn responses_item(&mut self, value: &Json, person: bool) {
        // An item without a type that has a role is the short form of a message.
        let kind = match value.get("type") {
            Some(Json::String(kind)) => kind.as_str(),
            None if value.get("role").is_some() => "message",
            None => "",
            Some(other) => return self.problem(Some("type"), wrong_type("a string", other)),
        };
        if kind == "message" {
            return self.message(value, person);
        }
        if person {
            self.problem(None, "a person's item must be a message in the user's role");
        }
        match kind {
            "function_call" => self.call(value, "call_id", value, "name", "arguments"),
            "custom_tool_call" => self.call(value, "call_id", value, "name", "input"),
            "function_call_output" | "custom_tool_call_output" => {
                self.result(value, "call_id", "output");
            }
            "mcp_call" => {
                self.call(value, "id", value, "name", "arguments");
                if matches!(value.get("output"), Some(Json::String(_))) {
                    self.result(value, "id", "output");
                }
            }
            _ => self.items.push(Item::Opaque),
        }
    }

    fn message(&mut self, value: &Json, person: bool) {
        let role = match value.get("role") {
            Some(Json::String(role)) => role.as_str(),
            Some(other) => return self.problem(Some("role"), wrong_type("a string", other)),
            None => return self.problem(Some("role"), "required member is missing"),
        };
        if person && role != "user" {
            return self.problem(None, "a person's item must be a message in the user's role");
        }
        match role {
            "user" if person => {
                let (text, attachments) = self.content(value);
                self.items.push(Item::Person { text, attachments });
            }
            "user" => self.other("user", value),
            "system" => self.other("system", value),
            "developer" => self.other("developer", value),
            "assistant" => self.assistant(value),
            "tool" => self.result(value, "tool_call_id", "content"),
            // The form before tools: a result that names its function alone.
            "function" => self.result(value, "name", "content"),
            _ => self.problem(Some("role"), "unknown role"),
        }
    }

    fn other(&mut self, role: &'static str, value: &Json) {
        let (text, _) = self.content(value);
        self.items.push(Item::Other { role, text });
    }

    fn assistant(&mut self, value: &Json) {
        let (text, _) = self.content(value);
        if !text.is_empty() {
            self.items.push(Item::Assistant { text });
        }
        match value.get("tool_calls") {
            None | Some(Json::Null) => {}
            Some(Json::Array(calls)) => {
                let path = self.path.clone();
                let list = member_path(&path, "tool_calls");
                for (index, call) in calls.iter().enumerate() {
                    self.path = index_path(&list, index);
                    let function = call.get("function").unwrap_or(&Json::Null);
                    self.call(call, "id", function, "name", "arguments");
                }
                self.path = path;
            }
            Some(other) => self.problem(Some("tool_calls"), wrong_type("a list", other)),
        }
    }

    fn call(&mut self, outer: &Json, id: &str, inner: &Json, name: &str, arguments: &str) {
        let call_id = self.string(outer, id);
        let tool = self.string(inner, name);
        let arguments = self.string(inner, arguments);
        if let (Some(call_id), Some(tool), Some(arguments)) = (call_id, tool, arguments) {
            self.items.push(Item::Call { call_id, tool, arguments });
        }
    }

    fn result(&mut self, value: &Json, id: &str, content: &str) {
        let call_id = self.string(value, id);
        let text = self.text(value, content).0;
        if let Some(call_id) = call_id {
            self.items.push(Item::Result { call_id, text });
        }
    }

    fn string(&mut self, value: &Json, name: &str) -> Option<String> {
        match value.get(name) {
            Some(Json::String(text)) => Some(text.clone()),
            Some(other) => {
                self.problem(Some(name), wrong_type("a string", other));
                None
            }
            None => {
                self.problem(Some(name), "required member is missing");
                None
            }
        }
    }

    fn content(&mut self, value: &Json) -> (String, usize) {
        self.text(value, "content")
    }

    /// The text parts of a member, joined by line breaks (and U+FFFC, the character for an embedded
    /// object, where other parts lie between), and how many parts are no text.
    fn text(&mut self, value: &Json, name: &str) -> (String, usize) {
        match value.get(name) {
            Some(Json::String(text)) => (text.clone(), 0),
            None | Some(Json::Null) => (String::new(), 0),
            Some(Json::Array(parts)) => {
                let mut texts = String::new();
                let mut others = 0;
                // What stands between two texts keeps a quote from joining them.
                let mut between = 0;
                for part in parts {
                    let kind = part.get("type").and_then(Json::as_str);
                    let text = part.get("text").and_then(Json::as_str);
                    match (kind, text) {
                        (Some("text" | "input_text" | "output_text"), Some(text)) => {
                            if !texts.is_empty() {
                                texts.push_str(if between > 0 { "\n\u{FFFC}\n" } else { "\n" });
                            }
                            texts.push_str(text);
                            between = 0;
                        }
                        _ => {
                            others += 1;
                            between += 1;
                        }
                    }
                }
                (texts, others)
            }
            Some(other) => {
                self.problem(Some(name), wrong_type("a string or a list of parts", other));
                (String::new(), 0)
            }
        }
    }
}
