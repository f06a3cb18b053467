//! Creating, replaying, cancelling, expiring; and what is refused.

use std::time::Duration;

use approver::judge::scripted::Move;
use approver::store::{Decided, TokenKind};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    INSTANCES, REQUESTS, approve, asking, call, channel, code, decide, id, members, note,
    provision, provisioner,
};
use crate::doors::world::{ORGANISATION, World};
use crate::doors::{judgements, on_both_stores};

async fn a_request_lives_from_question_to_outcome(world: World) {
    let asking = asking(&world).await;
    let body = json!({
        "tool": "note_add", "arguments": {"contact": "C-1042", "text": "ä"}, "timeout": "30m",
        "agent_reasoning": "The user wants it.", "context": {"framework": "test", "n": 1.50},
    });
    let made = asking.raise("k1", &body).await;
    let shown = [
        "agent_reasoning",
        "arguments",
        "context",
        "created_at",
        "deadline_at",
        "id",
        "status",
        "timeout",
        "tool",
    ];
    assert_eq!(members(&made), shown);
    assert_eq!(made["status"], "pending");
    assert_eq!(made["created_at"], "2027-01-15T08:00:00Z");
    assert_eq!(made["deadline_at"], "2027-01-15T08:30:00Z");
    for name in ["tool", "arguments", "timeout", "agent_reasoning", "context"] {
        assert_eq!(made[name], body[name], "{name}");
    }
    assert!(uuid::Uuid::parse_str(id(&made)).is_ok());
    let id = id(&made);
    assert_eq!(asking.get(id).await.expect(200), made);
    world.pass(Duration::from_secs(120));
    let done = decide(&world, id, true, Some("It is right.")).await;
    assert!(matches!(done, Decided::Done(_)));
    let approved = asking.get(id).await.expect(200);
    let decision = json!({
        "status": "approved", "note": "It is right.", "decided_at": "2027-01-15T08:02:00Z",
        "expires_at": "2027-01-15T08:07:00Z",
    });
    let mut expected = made.clone();
    expected["status"] = json!("approved");
    expected["decision"] = decision;
    assert_eq!(approved, expected);
    world.pass(Duration::from_millis(1_500));
    let consumed = asking.consume(id, "c1").await.expect(200);
    expected["consumption"] = json!({"consumed_at": "2027-01-15T08:02:01.500Z"});
    assert_eq!(consumed, expected);
    world.pass(Duration::from_millis(500));
    let report = json!({"status": "failed", "note": "no such contact"});
    let reported = asking.outcome(id, &report).await.expect(200);
    expected["consumption"]["outcome"] = json!({
        "status": "failed", "note": "no such contact", "reported_at": "2027-01-15T08:02:02Z",
    });
    assert_eq!(reported, expected);
    assert_eq!(asking.get(id).await.expect(200), expected);
    assert_eq!(asking.submit("k1", &body).await.expect(200), expected);
}

async fn a_key_makes_one_request(world: World) {
    let provisioner = provisioner(&world).await;
    let asking = provision(&world, &provisioner, "k").await;
    let other = provision(&world, &provisioner, "k2").await;
    let text = r#"{"tool":"note_add","arguments":{"a":1.5,"b":[1,2]},"timeout":"30m"}"#;
    let same = "{ \"timeout\":\"30m\",\n\"arguments\":{\"b\":[1.0,2], \"a\":15e-1},\
                \"tool\":\"note_add\" }";
    let send = async |token: &str, key: &str, text: &str| {
        let headers = [("Idempotency-Key", key)];
        world.send(Method::POST, REQUESTS, Some(token), &headers, Some(text.to_owned())).await
    };
    let made = send(&asking.token, "k1", text).await;
    let first = made.text.clone();
    made.expect(201);
    // The same values are the same request, echoed as it came first.
    for repeat in [text, same] {
        let reply = send(&asking.token, "k1", repeat).await;
        assert_eq!((reply.status, &reply.text), (200, &first));
    }
    for change in [("1.5", "1.25"), ("[1,2]", "[2,1]"), ("30m", "31m"), ("note_add", "find")] {
        let changed = text.replace(change.0, change.1);
        let reply = send(&asking.token, "k1", &changed).await;
        assert_eq!(code(reply, 409, "conflict"), "idempotency_conflict", "{change:?}");
    }
    let added = text.replace("{\"tool\"", "{\"agent_reasoning\":\"\",\"tool\"");
    let reply = send(&asking.token, "k1", &added).await;
    assert_eq!(code(reply, 409, "conflict"), "idempotency_conflict");
    // Another key, or another instance's same key, is another request.
    for (token, key) in [(&asking.token, "k2"), (&other.token, "k1")] {
        let again = send(token, key, text).await.expect(201);
        assert!(!first.contains(id(&again)));
    }
    // Long afterwards too, and after it ended.
    let made: Value = serde_json::from_str(&first).unwrap();
    approve(&world, id(&made)).await;
    world.pass(Duration::from_secs(7 * 24 * 3_600));
    let reply = send(&asking.token, "k1", text).await.expect(200);
    assert_eq!(reply["status"], "approved");
    let reply = send(&asking.token, "k1", &added).await;
    assert_eq!(code(reply, 409, "conflict"), "idempotency_conflict");
}

async fn equal_requests_at_once_are_one(world: World) {
    let asking = asking(&world).await;
    asking.set(Some(approver::decide::policy::Mode::Auto), false).await;
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = std::sync::Arc::clone(&asked);
    world.judge(move |_| {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Move::say("no answer")
    });
    let mut running = JoinSet::new();
    for _ in 0..20 {
        let (client, url) = (world.client.clone(), format!("{}{REQUESTS}", world.url));
        let (token, body) = (asking.token.clone(), note().to_string());
        running.spawn(async move {
            let request = client.post(url).bearer_auth(token).header("Idempotency-Key", "k1");
            let reply = request.header("Content-Type", "application/json").body(body).send();
            let reply = reply.await.unwrap();
            (reply.status().as_u16(), reply.text().await.unwrap())
        });
    }
    let replies = running.join_all().await;
    let made = replies.iter().filter(|(status, _)| *status == 201).count();
    assert_eq!(made, 1, "{replies:?}");
    for (status, text) in &replies {
        assert!([200, 201].contains(status), "{text}");
        assert_eq!(text, &replies[0].1);
    }
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1);
}

async fn what_is_malformed_is_named(world: World) {
    let asking = asking(&world).await;
    let missing = world.post(REQUESTS, &asking.token, &note()).await;
    assert_eq!(code(missing, 400, "invalid_request"), "missing_idempotency_key");
    let empty = asking.submit("", &note()).await;
    assert_eq!(code(empty, 400, "invalid_request"), "missing_idempotency_key");
    let with = |name: &str, value: Value| {
        let mut body = note();
        body[name] = value;
        body
    };
    let without = |name: &str| {
        let mut body = note();
        body.as_object_mut().unwrap().remove(name);
        body
    };
    for (body, param) in [
        (without("tool"), "tool"),
        (without("arguments"), "arguments"),
        (without("timeout"), "timeout"),
        (with("tool", json!("")), "tool"),
        (with("tool", Value::Null), "tool"),
        (with("server", json!("")), "server"),
        (with("server", Value::Null), "server"),
        (with("arguments", json!([])), "arguments"),
        (with("arguments", json!("{}")), "arguments"),
        (with("timeout", json!("0s")), "timeout"),
        (with("timeout", json!("1d")), "timeout"),
        (with("timeout", json!(60)), "timeout"),
        (with("agent_reasoning", Value::Null), "agent_reasoning"),
        (with("context", Value::Null), "context"),
        (with("context", json!([])), "context"),
        (with("decided_by", json!("ana")), "decided_by"),
        (with("status", json!("approved")), "status"),
        (with("context", json!({"approver": {"policy": {}}})), "context.approver.policy"),
    ] {
        let reply = asking.submit("k1", &body).await;
        assert_eq!(reply.json["error"]["param"], param, "{}", reply.text);
        assert_eq!(code(reply, 400, "invalid_request"), "invalid_request", "{param}");
    }
    let raw = async |text: &str| {
        let headers = [("Idempotency-Key", "k1")];
        let text = Some(text.to_owned());
        world.send(Method::POST, REQUESTS, Some(&asking.token), &headers, text).await
    };
    for text in
        ["", "{", "[]", "{\"tool\":\"t\",\"tool\":\"t\",\"arguments\":{},\"timeout\":\"1s\"}"]
    {
        code(raw(text).await, 400, "invalid_request");
    }
    // Nothing of it took the key.
    asking.raise("k1", &note()).await;
}

async fn each_kind_of_token_has_its_own_paths(world: World) {
    let provisioner = provisioner(&world).await;
    let asking = provision(&world, &provisioner, "k").await;
    let other = provision(&world, &provisioner, "k2").await;
    let made = asking.raise("k1", &note()).await;
    let path = format!("{REQUESTS}/{}", id(&made));
    let (consume, outcome) = (format!("{path}/consume"), format!("{path}/outcome"));
    let report = json!({"status": "failed"}).to_string();
    let requests = [
        (Method::POST, REQUESTS, Some(note().to_string())),
        (Method::GET, path.as_str(), None),
        (Method::DELETE, path.as_str(), None),
        (Method::POST, consume.as_str(), None),
        (Method::POST, outcome.as_str(), Some(report)),
    ];
    let instance = format!("{INSTANCES}/{}", asking.id);
    let name = json!({"instance_name": "x"}).to_string();
    let instances = [
        (Method::POST, INSTANCES, Some("{}".to_owned())),
        (Method::GET, instance.as_str(), None),
        (Method::PATCH, instance.as_str(), Some(name)),
        (Method::DELETE, instance.as_str(), None),
    ];
    let operator = world.token("ana", TokenKind::Operator).await;
    let gateway = world.token("gate", TokenKind::Gateway { decide: true }).await;
    let admin = world.token("root", TokenKind::Admin).await;
    let key = [("Idempotency-Key", "k9")];
    for (wrong, table) in [
        (vec![&provisioner, &operator, &gateway, &admin], &requests[..]),
        (vec![&asking.token, &operator, &gateway, &admin], &instances[..]),
    ] {
        for (method, path, body) in table {
            for token in &wrong {
                let reply = world.send(method.clone(), path, Some(token), &key, body.clone()).await;
                assert_eq!(code(reply, 403, "authorization"), "forbidden", "{method} {path}");
            }
            for token in [None, Some("approver_instance_x")] {
                let reply = world.send(method.clone(), path, token, &key, body.clone()).await;
                assert_eq!(code(reply, 401, "authentication"), "unauthenticated");
            }
        }
    }
    // Another instance's request is none, and neither is what is no request.
    let unknown = format!("{REQUESTS}/{}", uuid::Uuid::new_v4());
    let no_id = format!("{REQUESTS}/apreq_1");
    for (token, path) in [(&other.token, &path), (&asking.token, &unknown), (&asking.token, &no_id)]
    {
        for (method, more, body) in [
            (Method::GET, "", None),
            (Method::DELETE, "", None),
            (Method::POST, "/consume", None),
            (Method::POST, "/outcome", Some(json!({"status": "failed"}).to_string())),
        ] {
            let path = format!("{path}{more}");
            let reply = world.send(method, &path, Some(token), &key, body).await;
            assert_eq!(code(reply, 404, "not_found"), "not_found", "{path}");
        }
    }
    assert_eq!(asking.get(id(&made)).await.expect(200), made);
    // No method for a list, nor for a decision.
    let reply = world.get(REQUESTS, &asking.token).await;
    code(reply, 405, "invalid_request");
    let reply = world.get("/aap/v1/nothing", &asking.token).await;
    code(reply, 404, "not_found");
}

async fn an_approval_of_the_gateway_is_no_request(world: World) {
    let gateway = world.gateway().await;
    let body = judgements::request(&[judgements::call("c", "note_add", judgements::NOTE)]);
    let answer = world.judge_calls(&gateway, "k", &body).await.expect(200);
    let judged = judgements::approval_id(judgements::only(&answer));
    channel(&world, "production", "7").await;
    let versions = vec![("erp".to_owned(), "production".to_owned())];
    let provisioner = world.token("rollout", TokenKind::Provisioner { versions }).await;
    let asking = provision(&world, &provisioner, "k").await;
    let reply = asking.get(&judged).await;
    assert_eq!(code(reply, 404, "not_found"), "not_found");
}

/// What an instance asks for is its own to run, report and cancel, whatever a gateway may.
async fn a_gateway_has_no_part_in_an_instances_requests(world: World) {
    let gateway = world.token("rival", TokenKind::Gateway { decide: true }).await;
    let asking = asking(&world).await;
    let made = asking.raise("k1", &note()).await;
    let path = format!("/v1/approvals/{}", id(&made));
    let facts = world.store.approval(ORGANISATION, id(&made)).await.unwrap().unwrap().facts;
    let shown = world.get(&path, &gateway).await.expect(200);

    let cancel = format!("{path}/cancel");
    let reply = world.send(Method::POST, &cancel, Some(&gateway), &[], None).await;
    assert_eq!(reply.error(404), "not_found");
    let report = json!({"status": "FAILED"});
    let reply = world.post(&format!("{path}/execution"), &gateway, &report).await;
    assert_eq!(reply.error(404), "not_found");
    let reply = world.delete(&format!("/v1/conversations/{}", facts.conversation), &gateway).await;
    assert_eq!(reply.error(404), "not_found");
    let decision = json!({"decision": "approve", "hmac": shown["hmac"], "decided_by": "ana"});
    let reply = world.post(&format!("{path}/decision"), &gateway, &decision).await;
    assert_eq!(reply.error(404), "not_found");
    let reply = world.post_once(&format!("{path}/claim"), &gateway, "c", &json!({})).await;
    assert_eq!(reply.error(404), "not_found");
    let turn = json!({"turn_id": facts.turn, "conversation_id": facts.conversation,
        "surface": facts.surface});
    for turn in [turn, json!({"turn_id": facts.turn})] {
        let reply = world.post("/v1/decisions/next/failed", &gateway, &turn).await;
        assert_eq!(reply.error(404), "not_found");
    }
    let decisions = json!({
        "turn_id": facts.turn,
        "conversation_id": facts.conversation,
        "surface": facts.surface,
        "continuation_id": "next",
        "decided_by": "ana",
        "input": [{
            "type": "backbone:approval_response",
            "approval_id": id(&made),
            "decision": "approve",
            "hmac": shown["hmac"],
        }],
    });
    let reply = world.post("/v1/decisions", &gateway, &decisions).await;
    assert_eq!(reply.error(404), "not_found");
    let mut judged = judgements::request(&[judgements::call("c", "note_add", judgements::NOTE)]);
    judged["conversation"]["surface"] = json!(facts.surface);
    let reply = world.judge_calls(&gateway, "k", &judged).await;
    assert_eq!(reply.json["error"]["param"], "$.conversation.surface");
    assert_eq!(reply.error(400), "invalid_request");
    assert_eq!(asking.get(id(&made)).await.expect(200), made, "nothing happened to it");
}

async fn cancelling_is_for_what_is_pending(world: World) {
    let asking = asking(&world).await;
    let made = asking.raise("k1", &note()).await;
    world.pass(Duration::from_secs(1));
    let cancelled = asking.cancel(id(&made)).await.expect(200);
    let decision = json!({"status": "cancelled", "decided_at": "2027-01-15T08:00:01Z"});
    let mut expected = made.clone();
    expected["status"] = json!("cancelled");
    expected["decision"] = decision;
    assert_eq!(cancelled, expected);
    world.pass(Duration::from_secs(1));
    assert_eq!(asking.cancel(id(&made)).await.expect(200), cancelled);
    assert_eq!(asking.submit("k1", &note()).await.expect(200), cancelled);
    assert!(matches!(decide(&world, id(&made), true, None).await, Decided::TooLate(_)));
    for (key, yes) in [("k2", true), ("k3", false)] {
        let made = asking.raise(key, &note()).await;
        decide(&world, id(&made), yes, None).await;
        let before = asking.get(id(&made)).await.expect(200);
        let reply = asking.cancel(id(&made)).await;
        assert_eq!(code(reply, 409, "conflict"), "already_terminal");
        assert_eq!(asking.get(id(&made)).await.expect(200), before);
    }
    let made = asking.raise("k4", &note()).await;
    world.pass(Duration::from_secs(1_800));
    let reply = asking.cancel(id(&made)).await;
    assert_eq!(code(reply, 409, "conflict"), "already_terminal");
    assert_eq!(asking.get(id(&made)).await.expect(200)["status"], "expired");
}

async fn a_request_expires_at_its_deadline(world: World) {
    let asking = asking(&world).await;
    let made = asking.raise("k1", &note()).await;
    world.pass(Duration::from_millis(1_799_999));
    assert_eq!(asking.get(id(&made)).await.expect(200), made);
    world.pass(Duration::from_millis(1));
    let expired = asking.get(id(&made)).await.expect(200);
    let decision = json!({"status": "expired", "decided_at": "2027-01-15T08:30:00Z"});
    assert_eq!((&expired["status"], &expired["decision"]), (&json!("expired"), &decision));
    assert!(matches!(decide(&world, id(&made), true, None).await, Decided::TooLate(_)));
    let reply = asking.consume(id(&made), "c").await;
    assert_eq!(code(reply, 409, "conflict"), "not_approved");
    // A window may be shortened, and never lengthened; it is echoed as it was asked for.
    for (key, timeout, deadline) in [
        ("k2", "1s", "2027-01-15T08:30:01Z"),
        ("k3", "604800s", "2027-01-22T08:30:00Z"),
        ("k4", "169h", "2027-01-22T08:30:00Z"),
        ("k5", "99999999999999999999h", "2027-01-22T08:30:00Z"),
    ] {
        let mut body = call("note_add", json!({}));
        body["timeout"] = json!(timeout);
        let made = asking.raise(key, &body).await;
        assert_eq!((&made["timeout"], &made["deadline_at"]), (&json!(timeout), &json!(deadline)));
    }
}

on_both_stores!(
    a_request_lives_from_question_to_outcome,
    a_key_makes_one_request,
    equal_requests_at_once_are_one,
    what_is_malformed_is_named,
    each_kind_of_token_has_its_own_paths,
    an_approval_of_the_gateway_is_no_request,
    a_gateway_has_no_part_in_an_instances_requests,
    cancelling_is_for_what_is_pending,
    a_request_expires_at_its_deadline,
);
