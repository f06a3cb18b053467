//! What is sent comes back exactly, whatever it is.

use approver::decide::json;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reqwest::Method;

use super::{REQUESTS, asking};
use crate::doors::world::World;
use crate::store::place::SqlitePlace;

/// A number's text as JSON has it: more digits than a double, signs, exponents.
fn number() -> impl Strategy<Value = String> {
    "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?"
}

/// A string's text as JSON has it, escapes and all.
fn string() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        Just(r#""\u00e4\uD83D\uDE00\/\u0000""#.to_owned()),
    ]
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        number(),
        string(),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(" , "))),
            object(inner),
        ]
    })
}

fn object(inner: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    prop::collection::btree_map(any::<String>(), inner, 0..4).prop_map(|members| {
        let members: Vec<String> = members
            .iter()
            .map(|(name, value)| format!("{} :{value}", serde_json::to_string(name).unwrap()))
            .collect();
        format!("{{{}}}", members.join(","))
    })
}

fn context() -> impl Strategy<Value = String> {
    // Our own member is not open, and has tests of its own.
    let free = |text: &String| json::read(text).is_ok_and(|value| value.get("approver").is_none());
    object(value()).prop_filter("our own member", free)
}

/// Readable by every reader: a number that no double holds is refused.
fn readable(text: &str) -> bool {
    json::read(text).is_ok()
}

#[test]
fn what_is_sent_comes_back_exactly() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let place = SqlitePlace::new();
    let world = runtime.block_on(async { World::start(place.open().await).await });
    let asking = runtime.block_on(asking(&world));
    let cases = (object(value()), context(), any::<String>(), "[1-9][0-9]{0,3}[smh]");
    let mut runner =
        TestRunner::new(Config { cases: 96, failure_persistence: None, ..Config::default() });
    let number = std::cell::Cell::new(0);
    let checked = runner.run(&cases, |(arguments, context, reasoning, timeout)| {
        prop_assume!(readable(&arguments) && readable(&context));
        number.set(number.get() + 1);
        let key = format!("k{}", number.get());
        let reasoning = serde_json::to_string(&reasoning).unwrap();
        let body = format!(
            "{{\"tool\":\"note_add\",\"arguments\":{arguments},\"context\":{context},\
             \"agent_reasoning\":{reasoning},\"timeout\":\"{timeout}\"}}"
        );
        let headers = [("Idempotency-Key", key.as_str())];
        let token = Some(asking.token.as_str());
        let send = |body| world.send(Method::POST, REQUESTS, token, &headers, body);
        let made = runtime.block_on(send(Some(body.clone())));
        prop_assert_eq!(made.status, 201, "{}", made.text);
        let read = json::read(&made.text).unwrap();
        let sent = json::read(&body).unwrap();
        for name in ["tool", "arguments", "context", "agent_reasoning", "timeout"] {
            // As values, and with numbers as they were written.
            prop_assert_eq!(read.get(name), sent.get(name), "{}", name);
        }
        prop_assert!(made.text.contains(&arguments) && made.text.contains(&context));
        let id = made.json["id"].as_str().unwrap_or_default().to_owned();
        let again = runtime.block_on(asking.get(&id));
        prop_assert_eq!(&again.text, &made.text);
        let replayed = runtime.block_on(send(Some(body)));
        prop_assert_eq!((replayed.status, &replayed.text), (200, &made.text));
        Ok(())
    });
    checked.unwrap();
}
