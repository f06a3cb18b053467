//! The gateway's request: what it may say, and what becomes of a conversation's items.

use std::collections::BTreeSet;

use approver::decide::json;
use approver::decide::policy::{Mode, Modes};
use approver::decide::request::Item;
use approver::host::gateway::{self, Body, Scope, parse_duration};
use approver::host::items::{self, Format};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

const PROBLEMS: &str = include_str!("../../fixtures/gateway/problems.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    merge: String,
    problems: Vec<String>,
}

fn good() -> Value {
    json!({
        "agent": "erp-assistant", "version": "7", "user": "usr_81",
        "conversation": {
            "id": "conv_1", "surface": "responses",
            "items": [
                {"type": "message", "role": "user", "content": "Order 5 for C-1042"},
                {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "1 hit"},
                {"role": "assistant", "content": [{"type": "output_text", "text": "Shall I?"}]},
            ],
            "person_items": [0],
        },
        "turn": {"id": "resp_2", "continues": "resp_1"},
        "input": [{"type": "backbone:mode", "mode": "auto"}],
        "pending_for": "24h",
        "tools": [{"name": "t", "origin": "function"}],
        "calls": [{"call_id": "a", "tool": "t", "arguments": "{}"}],
    })
}

/// RFC 7396: null removes.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                if value.is_null() {
                    into.shift_remove(&key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, from) => *into = from,
    }
}

fn read(body: &Value, scope: Scope) -> Result<Body, Vec<String>> {
    let mut problems = Vec::new();
    let value = json::read(&body.to_string()).unwrap();
    match gateway::parse(&value, "$", scope, &mut problems) {
        Some(body) => Ok(body),
        None => Err(problems
            .iter()
            .map(|problem| format!("{}: {}", problem.path, problem.text))
            .collect()),
    }
}

#[test]
fn every_problem_comes_at_once_with_its_path() {
    let file: File = toml::from_str(PROBLEMS).unwrap();
    let names: BTreeSet<_> = file.case.iter().map(|case| &case.name).collect();
    assert_eq!(names.len(), file.case.len(), "duplicate names");
    let mut failed = Vec::new();
    for case in &file.case {
        let mut body = good();
        merge(&mut body, serde_json::from_str(&case.merge).unwrap());
        let problems = read(&body, Scope::Service).err().unwrap_or_default();
        if problems != case.problems {
            failed.push(format!("{}: {problems:#?}", case.name));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_file_needs_no_agent_no_turn_and_no_member() {
    let mut body = good();
    merge(&mut body, json!({"agent": null, "version": null, "user": null, "turn": null}));
    assert!(read(&body, Scope::File).is_ok());
    assert!(read(&body, Scope::Service).is_err());
}

#[test]
fn at_most_64_calls() {
    let mut body = good();
    let call = |n: usize| json!({"call_id": format!("c{n}"), "tool": "t", "arguments": "{}"});
    body["calls"] = (0..64).map(call).collect();
    assert!(read(&body, Scope::Service).is_ok());
    body["calls"] = (0..65).map(call).collect();
    let problems = read(&body, Scope::Service).unwrap_err();
    assert_eq!(problems, ["$.calls: expected 1 to 64 calls, found 65"]);
}

#[track_caller]
fn check_mode(input: Value, stored: Option<Mode>, expected: Result<Mode, Mode>) {
    let mut body = good();
    body["input"] = input;
    let modes = Modes { offered: vec![Mode::Plan, Mode::Ask], default: Mode::Ask };
    let request = read(&body, Scope::Service).unwrap().into_request(stored, &modes);
    assert_eq!(request.map(|request| request.mode).map_err(|error| error.mode), expected);
}

#[test]
fn the_requests_own_mode_comes_first_then_the_stored_then_the_default() {
    let item = |mode: Value| json!({"type": "backbone:mode", "mode": mode});
    check_mode(json!([]), None, Ok(Mode::Ask));
    check_mode(json!([]), Some(Mode::Plan), Ok(Mode::Plan));
    check_mode(json!([item(json!("plan"))]), Some(Mode::Ask), Ok(Mode::Plan));
    check_mode(json!([item(json!("plan")), item(json!("ask"))]), None, Ok(Mode::Ask));
    check_mode(json!([item(json!(null))]), Some(Mode::Plan), Ok(Mode::Ask));
    // Nothing is put in the place of a mode that is not on offer.
    check_mode(json!([item(json!("auto"))]), None, Err(Mode::Auto));
    check_mode(json!([]), Some(Mode::Auto), Err(Mode::Auto));
}

fn convert(format: Format, persons: &[usize], values: Value) -> Vec<Item> {
    let value = json::read(&values.to_string()).unwrap();
    let mut problems = Vec::new();
    let persons = persons.iter().copied().collect();
    let items = items::parse(value.as_array().unwrap(), format, &persons, "$", &mut problems);
    assert_eq!(problems, []);
    items
}

fn person(text: &str, attachments: usize) -> Item {
    Item::Person { text: text.into(), attachments }
}

fn call(call_id: &str, tool: &str, arguments: &str) -> Item {
    Item::Call { call_id: call_id.into(), tool: tool.into(), arguments: arguments.into() }
}

fn result(call_id: &str, text: &str) -> Item {
    Item::Result { call_id: call_id.into(), text: text.into() }
}

#[test]
fn responses_items() {
    let items = convert(
        Format::Responses,
        &[0, 1],
        json!([
            {"role": "user", "content": "short form"},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "one"}, {"type": "input_image", "image_url": "x"},
                {"type": "input_text", "text": "two"}, {"type": "input_file", "file_id": "f"}]},
            {"role": "user", "content": "an agent wrote this"},
            {"role": "developer", "content": "d"},
            {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "hit"}]},
            {"type": "custom_tool_call", "call_id": "c2", "name": "shell", "input": "ls"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": "a b"},
            {"type": "mcp_call", "id": "m1", "name": "orders", "server_label": "erp", "arguments": "{}", "output": "none"},
            {"type": "reasoning", "summary": []},
            {"type": "backbone:approval_request", "id": "apreq_1"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
        ]),
    );
    assert_eq!(
        items,
        [
            person("short form", 0),
            person("one\n\u{FFFC}\ntwo", 2),
            Item::Other { role: "user", text: "an agent wrote this".into() },
            Item::Other { role: "developer", text: "d".into() },
            call("c1", "find", "{}"),
            result("c1", "hit"),
            call("c2", "shell", "ls"),
            result("c2", "a b"),
            call("m1", "orders", "{}"),
            result("m1", "none"),
            Item::Opaque,
            Item::Opaque,
            Item::Assistant { text: "Done.".into() },
        ]
    );
}

#[test]
fn chat_messages() {
    let items = convert(
        Format::Chat,
        &[1],
        json!([
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "image_url", "image_url": {}}]},
            {"role": "assistant", "content": "Let me look.", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}},
                {"id": "c2", "type": "function", "function": {"name": "list", "arguments": "{\"a\":1}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "hit"},
            {"role": "function", "name": "old", "content": "hit"},
            {"role": "user", "content": "not typed"},
        ]),
    );
    assert_eq!(
        items,
        [
            Item::Other { role: "system", text: "s".into() },
            person("hello", 1),
            Item::Assistant { text: "Let me look.".into() },
            call("c1", "find", "{}"),
            call("c2", "list", "{\"a\":1}"),
            result("c1", "hit"),
            result("old", "hit"),
            Item::Other { role: "user", text: "not typed".into() },
        ]
    );
}

#[test]
fn durations() {
    for (text, seconds) in
        [("1s", Some(1)), ("90s", Some(90)), ("30m", Some(1800)), ("168h", Some(604_800))]
    {
        assert_eq!(parse_duration(text), seconds, "{text}");
    }
    for text in [
        "",
        "s",
        "0s",
        "01s",
        "1",
        "1d",
        "-1s",
        "+1s",
        "1.5h",
        "1 s",
        "1S",
        "1h ",
        "99999999999999999999h",
        "١s",
    ] {
        assert_eq!(parse_duration(text), None, "{text:?}");
    }
}

proptest! {
    /// Whatever JSON stands in a body, reading it ends, with a body or with problems.
    #[test]
    fn any_json_is_read_or_refused(text in "[\\[\\]{}\":,a-z0-9 ]{0,200}") {
        if let Ok(value) = json::read(&text) {
            let mut problems = Vec::new();
            let body = gateway::parse(&value, "$", Scope::Service, &mut problems);
            prop_assert_eq!(body.is_none(), !problems.is_empty());
        }
    }
}
