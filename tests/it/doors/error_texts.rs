//! What an error says of a body: where, and what was expected. Nothing that a caller wrote as a
//! value, or inside what we do not read, comes back in it.

use approver::store::TokenKind;
use reqwest::Method;
use serde_json::{Value, json};

use super::judgements::{self, note, request};
use super::on_both_stores;
use super::raised::call;
use super::world::{Reply, World};

/// A word of an argument or a transcript; as a key it looks like any member's name.
const SECRET: &str = "secret_4711";

#[track_caller]
fn check(reply: &Reply, param: &str) {
    assert_eq!(reply.status, 400, "{}", reply.text);
    assert!(!reply.text.contains("4711"), "{}", reply.text);
    assert_eq!(reply.json["error"]["param"], param, "{}", reply.text);
}

async fn send(world: &World, method: Method, path: &str, token: &str, body: String) -> Reply {
    let headers = [("Idempotency-Key", "k")];
    world.send(method, path, Some(token), &headers, Some(body)).await
}

/// A judgement's body with one piece of its text replaced.
fn with(piece: &str, other: &str) -> String {
    let text = request(&[note("c1")]).to_string();
    assert_eq!(text.matches(piece).count(), 1, "{piece}");
    text.replace(piece, other)
}

async fn paths_end_where_others_texts_begin(world: World) {
    let token = world.gateway().await;
    let twice = format!(r#"{{"{SECRET}":1,"{SECRET}":2}}"#);
    let large = format!(r#"{{"deep":[{{"{SECRET}":1e999}}]}}"#);
    let arguments = json!(judgements::NOTE).to_string();
    for inner in [&twice, &large] {
        for (body, param) in [
            (with(&arguments, inner), "$.calls[0].arguments"),
            (
                with(r#""inputSchema":{}"#, &format!(r#""inputSchema":{inner}"#)),
                "$.tools[0].inputSchema",
            ),
            (with(r#""Note on C-1042: call back Monday.""#, inner), "$.conversation.items[0]"),
            (with(r#""turn":{"#, &format!(r#""turns":{inner},"turn":{{"#)), "$.turns"),
            (with(r#""input":["#, &format!(r#""input":[{inner},"#)), "$.input[0]"),
        ] {
            check(&send(&world, Method::POST, judgements::PATH, &token, body).await, param);
        }
    }
    // Where the levels are ours, a number's place is as exact as any other member's.
    let body = with(r#""call_id":"c1""#, r#""call_id":"c1","timeout_seconds":1e999"#);
    let reply = send(&world, Method::POST, judgements::PATH, &token, body).await;
    check(&reply, "$.calls[0].timeout_seconds");
    assert_eq!(reply.json["error"]["message"], "$.calls[0].timeout_seconds: number out of range");
}

async fn the_approval_protocols_too(world: World) {
    let asking = super::aap::asking(&world).await;
    let twice = format!(r#"{{"{SECRET}":1,"{SECRET}":2}}"#);
    let large = format!(r#"{{"{SECRET}":-1e999}}"#);
    for inner in [&twice, &large] {
        let context = format!(r#"{{"approver":{{"conversation":{{"items":[{inner}]}}}}}}"#);
        for (body, param) in [
            (format!(r#"{{"tool":"find","timeout":"1m","arguments":{inner}}}"#), "arguments"),
            (
                format!(r#"{{"tool":"find","timeout":"1m","arguments":{{}},"context":{context}}}"#),
                "context",
            ),
        ] {
            check(&asking.send(body).await, param);
        }
    }
    let approver = |claims: Value| json!({"tool": "find", "timeout": "1m", "arguments": {}, "context": {"approver": claims}});
    for (body, param) in [
        (json!({"tool": "find", "timeout": SECRET, "arguments": {}}), "timeout"),
        (approver(json!({"mode": SECRET})), "context.approver.mode"),
        (
            approver(json!({"conversation": {"format": SECRET}})),
            "context.approver.conversation.format",
        ),
        (
            approver(json!({"conversation": {"items": [{"type": "message", "role": SECRET}]}})),
            "context.approver.conversation.items[0].role",
        ),
        (approver(json!({"my secret_4711": 1})), "context.approver"),
    ] {
        check(&asking.send(body.to_string()).await, param);
    }
}

async fn values_of_closed_members_do_not_come_back(world: World) {
    let token = world.gateway().await;
    let quoted = format!("\"{SECRET}\"");
    for (body, param) in [
        (with(r#""mode":"auto""#, &format!("\"mode\":{quoted}")), "$.input[0].mode"),
        (
            with(r#""items":["#, &format!(r#""items":[{{"role":{quoted}}},"#))
                .replace(r#""person_items":[0]"#, r#""person_items":[1]"#),
            "$.conversation.items[0].role",
        ),
        (
            with(r#""surface":"responses""#, &format!(r#""surface":"s","format":{quoted}"#)),
            "$.conversation.format",
        ),
        (
            with(r#""person_items":[0]"#, r#""person_items":[4711]"#),
            "$.conversation.person_items[0]",
        ),
        (
            with(r#""person_items":[0]"#, r#""person_items":[-4711]"#),
            "$.conversation.person_items[0]",
        ),
        (with(r#""origin":"builtin""#, &format!("\"origin\":{quoted}")), "$.tools[1].origin"),
        (with(r#""turn":{"#, &format!(r#""pending_for":{quoted},"turn":{{"#)), "$.pending_for"),
        (
            with(r#""call_id":"c1""#, r#""call_id":"c1","timeout_seconds":-4711"#),
            "$.calls[0].timeout_seconds",
        ),
    ] {
        check(&send(&world, Method::POST, judgements::PATH, &token, body).await, param);
    }
    let (ana, gateway) = world.staffed().await;
    let raised = world.waiting().await;
    for (rest, token, body, param) in [
        ("/decision", &ana, json!({"decision": SECRET, "hmac": ""}), "$.decision"),
        (
            "/decision",
            &ana,
            json!({"decision": "approve", "hmac": "", "remember": SECRET}),
            "$.remember",
        ),
        ("/execution", &gateway, json!({"status": SECRET}), "$.status"),
    ] {
        check(&world.post(&raised.path(rest), token, &body).await, param);
    }
    for (item, param) in [
        (json!({"type": SECRET}), "$.input[0].type"),
        (json!({"type": "backbone:mode", "mode": SECRET}), "$.input[0].mode"),
    ] {
        let body =
            json!({"turn_id": "t", "continuation_id": "c", "decided_by": "ana", "input": [item]});
        check(&world.post("/v1/decisions", &gateway, &body).await, param);
    }
    let admin = world.token("root", TokenKind::Admin).await;
    let reply =
        send(&world, Method::PATCH, "/v1/instances/i", &admin, json!({"mode": SECRET}).to_string());
    check(&reply.await, "$.mode");
    for (query, param) in [
        ("status=secret_4711", "status"),
        ("limit=4711", "limit"),
        ("cursor=secret_4711", "cursor"),
        ("wait=secret_4711", "wait"),
        ("secret_4711=1", "query"),
    ] {
        check(&world.get(&format!("/v1/approvals?{query}"), &ana).await, param);
    }
}

/// A short identifier may be a slip, and is named so that it can be mended; anything else may be
/// anything.
async fn unknown_members_are_named_where_they_look_like_names(world: World) {
    let (ana, _) = world.staffed().await;
    let raised = world.raise(call("call_1", "note_add")).await;
    let long = "a".repeat(41);
    for (name, param) in [
        ("remeber", "$.remeber"),
        ("decided-by", "$[\"decided-by\"]"),
        (long.as_str(), "$"),
        ("my secret_4711", "$"),
        ("a\nb\u{202e}", "$"),
        ("DE89 3704", "$"),
        ("", "$"),
    ] {
        let mut body = raised.approve();
        body[name] = json!(1);
        let reply = world.decide(&raised, &ana, &body).await;
        check(&reply, param);
        assert!(!reply.text.contains("DE89") && !reply.text.contains(&long), "{}", reply.text);
    }
}

on_both_stores!(
    paths_end_where_others_texts_begin,
    the_approval_protocols_too,
    values_of_closed_members_do_not_come_back,
    unknown_members_are_named_where_they_look_like_names,
);
