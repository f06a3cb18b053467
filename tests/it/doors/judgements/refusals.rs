//! Every way to be refused: the code, the place, and nothing of what was sent.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use approver::service::Timing;
use approver::store::{Begin, BeginCall, Begun, Idempotency, ModeChoice, Reserved, TokenKind};
use reqwest::Method;
use serde_json::{Value, json};

use super::super::on_both_stores;
use super::super::world::{ORGANISATION, Reply, World};
use super::{PATH, call, content, note, outcomes, request};

#[track_caller]
fn refused(reply: Reply, status: u16, code: &str, param: Option<&str>) -> Value {
    assert_eq!(reply.json["error"]["param"].as_str(), param, "{}", reply.text);
    let retry = reply.headers.contains_key("retry-after");
    assert_eq!(retry, status == 503 || status == 429);
    let error = reply.json["error"].clone();
    assert_eq!(reply.error(status), code);
    error
}

async fn only_a_gateways_token_may_ask(world: World) {
    world.gateway().await;
    let body = Some(request(&[note("c1")]).to_string());
    let headers = [("Idempotency-Key", "k1")];
    let reply = world.send(Method::POST, PATH, None, &headers, body.clone()).await;
    refused(reply, 401, "unauthenticated", None);
    let reply = world.send(Method::POST, PATH, Some("no-such"), &headers, body.clone()).await;
    refused(reply, 401, "unauthenticated", None);
    let kinds = [
        TokenKind::Instance { instance: "i1".to_owned() },
        TokenKind::Provisioner { versions: vec![("erp".to_owned(), "7".to_owned())] },
        TokenKind::Operator,
        TokenKind::PolicyOwner,
        TokenKind::Admin,
    ];
    for kind in kinds {
        let token = world.token("other", kind).await;
        let reply = world.send(Method::POST, PATH, Some(&token), &headers, body.clone()).await;
        refused(reply, 403, "forbidden", None);
        // Before anything of the request is read.
        let reply = world.send(Method::POST, PATH, Some(&token), &[], Some("{".to_owned())).await;
        refused(reply, 403, "forbidden", None);
    }
}

async fn the_idempotency_key_is_required_and_plain(world: World) {
    let token = world.gateway().await;
    let body = request(&[note("c1")]);
    refused(world.put(PATH, &token, &body).await, 405, "method_not_allowed", None);
    let reply = world.post(PATH, &token, &body).await;
    refused(reply, 400, "missing_idempotency_key", Some("Idempotency-Key"));
    for key in ["", "a b", "\u{e9}", &"k".repeat(256)] {
        let reply = world.judge_calls(&token, key, &body).await;
        refused(reply, 400, "invalid_request", Some("Idempotency-Key"));
    }
    let twice = [("Idempotency-Key", "k1"), ("Idempotency-Key", "k2")];
    let reply = world.send(Method::POST, PATH, Some(&token), &twice, Some(body.to_string())).await;
    refused(reply, 400, "invalid_request", Some("Idempotency-Key"));
    world.judge_calls(&token, &"k".repeat(255), &body).await.expect(200);
}

async fn a_malformed_body_names_each_place(world: World) {
    let token = world.gateway().await;
    let mut body = request(&[json!({"call_id": "c1", "tool": "no spaces", "arguments": {}})]);
    body["extra"] = json!(1);
    body["turn"] = json!({});
    let error = refused(
        world.judge_calls(&token, "k1", &body).await,
        400,
        "invalid_request",
        Some("$.turn.id"),
    );
    let problems = error["detail"]["problems"].as_array().unwrap();
    let places: Vec<&str> =
        problems.iter().map(|problem| problem["param"].as_str().unwrap()).collect();
    for place in ["$.turn.id", "$.calls[0].tool", "$.calls[0].arguments", "$.extra"] {
        assert!(places.contains(&place), "{place}: {places:?}");
    }
    let send = |body: &str| {
        let (token, body) = (token.clone(), body.to_owned());
        let world = &world;
        async move {
            let headers = [("Idempotency-Key", "k1")];
            world.send(Method::POST, PATH, Some(&token), &headers, Some(body)).await
        }
    };
    refused(send("{").await, 400, "invalid_request", Some("$"));
    refused(send("[]").await, 400, "invalid_request", Some("$"));
    let text = request(&[note("c1")]).to_string();
    let twice = text.replacen("{\"agent\"", "{\"version\":\"1\",\"agent\"", 1);
    assert_ne!(twice, text);
    refused(send(&twice).await, 400, "invalid_request", Some("$.version"));
    // Whoever it runs for cannot be shown as what decides.
    let machine = text.replacen("usr_81", "ａuto：approver", 1);
    refused(send(&machine).await, 400, "invalid_request", Some("$.user"));
    let reply = send(&text).await;
    assert_eq!(reply.status, 200, "the key is free: {}", reply.text);
}

async fn the_body_is_json_of_at_most_eight_mebibytes(world: World) {
    let token = world.gateway().await;
    let url = format!("{}{PATH}", world.url);
    let post = || world.client.post(&url).bearer_auth(&token).header("Idempotency-Key", "k1");
    let reply = post().body("agent=erp").send().await.unwrap();
    assert_eq!(reply.status(), 415);
    assert!(reply.text().await.unwrap().contains("unsupported_media_type"));

    // Just below the limit, and above axum's own.
    let mut large = request(&[note("c1")]);
    let mut add = |mebibytes: usize| {
        let content = "a".repeat(mebibytes * 1024 * 1024);
        let item = json!({"type": "message", "role": "assistant", "content": content});
        large["conversation"]["items"].as_array_mut().unwrap().push(item);
        large.clone()
    };
    world.judge_calls(&token, "k1", &add(7)).await.expect(200);
    let reply = world.judge_calls(&token, "k2", &add(1)).await;
    refused(reply, 413, "body_too_large", None);
}

async fn versions_that_cannot_be_used(world: World) {
    let token = world.gateway().await;
    let mut body = request(&[note("c1")]);
    body["version"] = json!("8");
    let reply = world.judge_calls(&token, "k1", &body).await;
    refused(reply, 404, "not_found", Some("$.version"));
    // A policy from before a rule that it breaks.
    let mut old = content();
    old["policy"]["classes"]["write"] = json!("allow");
    world.put_content("8", &old.to_string()).await;
    let reply = world.judge_calls(&token, "k1", &body).await;
    refused(reply, 400, "invalid_hitl_policy", Some("$.policy.classes.write"));
    // Annotations from before they were checked are read strictly, and nothing else is refused.
    let mut old = content();
    old["tools"][1]["annotations"] = json!({"readOnlyHint": "no"});
    world.put_content("9", &old.to_string()).await;
    body["version"] = json!("9");
    let answer = world.judge_calls(&token, "k1", &body).await.expect(200);
    assert_eq!(answer["results"][0]["pause_reason"], "not_declared_harmless");
}

async fn a_person_waits_no_longer_than_allowed(world: World) {
    let token = world.gateway().await;
    for asked in ["169h", "0s", "1d", ""] {
        let mut body = request(&[note("c1")]);
        body["pending_for"] = json!(asked);
        let reply = world.judge_calls(&token, "k1", &body).await;
        refused(reply, 400, "invalid_request", Some("$.pending_for"));
    }
}

async fn other_bytes_are_conflicts(world: World) {
    let token = world.gateway().await;
    world.judge_calls(&token, "k1", &request(&[note("c1")])).await.expect(200);
    let mut other = request(&[note("c1")]);
    other["user"] = json!("usr_82");
    let reply = world.judge_calls(&token, "k1", &other).await;
    refused(reply, 409, "idempotency_conflict", Some("Idempotency-Key"));
    let changes = [
        ("arguments", json!("{}")),
        ("arguments", json!(r#"{"text":"call back Monday","contact":"C-1042"}"#)),
        ("tool", json!("find")),
        ("timeout_seconds", json!(5)),
    ];
    for (index, (member, value)) in changes.into_iter().enumerate() {
        let mut changed = note("c1");
        changed[member] = value;
        let body = request(&[note(&format!("n{index}")), changed]);
        let reply = world.judge_calls(&token, &format!("x{index}"), &body).await;
        let error = refused(reply, 409, "call_conflict", Some("$.calls[1]"));
        assert_eq!(error["detail"]["call_id"], "c1");
    }
    // The calls beside a conflict were not begun.
    let answer = world.judge_calls(&token, "k9", &request(&[note("n0")])).await.expect(200);
    assert_eq!((answer["replayed"].clone(), outcomes(&answer).len()), (json!(false), 1));
}

async fn a_deleted_conversation_takes_nothing(world: World) {
    let token = world.gateway().await;
    world.judge_calls(&token, "k1", &request(&[note("c1")])).await.expect(200);
    world.delete("/v1/conversations/conv_1", &token).await.expect(200);
    let reply = world.judge_calls(&token, "k2", &request(&[note("c2")])).await;
    refused(reply, 409, "conversation_deleted", None);
}

async fn another_organisation_sees_nothing(world: World) {
    let token = world.gateway().await;
    let other = world.token_of("oak", "gateway", TokenKind::Gateway { decide: false }).await;
    world.judge_calls(&token, "k1", &request(&[note("c1")])).await.expect(200);
    let reply = world.judge_calls(&other, "k1", &request(&[note("c1")])).await;
    refused(reply, 404, "not_found", Some("$.version"));
    let reply = world.get("/v1/conversations/conv_1", &other).await;
    refused(reply, 404, "not_found", None);
    let reply = world.delete("/v1/conversations/conv_1", &other).await;
    refused(reply, 404, "not_found", None);
}

/// Somebody else holds the call, and does not end.
async fn what_is_still_being_judged_is_asked_for_again_later(world: World) {
    let token = world.gateway().await;
    let begin = Begin {
        organisation: ORGANISATION.to_owned(),
        idempotency: Idempotency {
            caller: "another".to_owned(),
            endpoint: "judgements".to_owned(),
            key: "k".to_owned(),
            digest: "d".to_owned(),
        },
        door: approver::decide::request::Door::Gateway,
        instance: None,
        agent: "erp".to_owned(),
        surface: "responses".to_owned(),
        conversation: "conv_1".to_owned(),
        turn: "resp_1".to_owned(),
        continues: None,
        mode: ModeChoice::Unsaid,
        modes: Default::default(),
        calls: vec![BeginCall {
            call_id: "c1".to_owned(),
            digest: approver::decide::digest(&["call-bytes-1", "", "note_add", super::NOTE, ""]),
            identity: None,
        }],
        tools: Vec::new(),
        reserve: Reserved::default(),
        instance_after: None,
        now: world.now(),
        lease: Duration::from_secs(60),
    };
    assert!(matches!(world.store.begin(begin).await.unwrap(), Begun::Judge(_)));
    let timing = Timing { request: Duration::from_millis(600), ..Timing::default() };
    let hasty = world.on(Arc::clone(&world.store), timing).await;
    let mut body = request(&[note("c1")]);
    body["input"] = json!([]);
    let reply = hasty.judge_calls(&token, "k1", &body).await;
    refused(reply, 503, "judgement_in_progress", None);
    // Its owner died: the lease ends, and the call is judged.
    world.pass(Duration::from_secs(61));
    let answer = world.judge_calls(&token, "k1", &body).await.expect(200);
    assert_eq!((outcomes(&answer), &answer["replayed"]), (vec!["pending"], &json!(false)));
}

/// All that is logged on this thread and its runtime's.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whatever goes wrong, neither an error nor the log says what was in the call.
#[test]
fn nothing_planted_reaches_an_error_or_the_log() {
    const PLANTED: &str = "planted-4711";
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // On one thread, so that the subscriber sees every task.
    tracing::subscriber::with_default(subscriber, || {
        runtime.block_on(async {
            let place = crate::store::place::SqlitePlace::new();
            let world = World::start(place.open().await).await;
            let token = world.gateway().await;
            let arguments = format!(r#"{{"contact":"C-1042","text":"{PLANTED}"}}"#);
            let mut body = request(&[call("c1", "note_add", &arguments)]);
            body["conversation"]["items"][0]["content"] = json!(PLANTED);
            let broken = super::super::broken::broken(&world.store, usize::MAX, false);
            let failing = world.on(broken, Timing::default()).await;
            let mut replies = vec![failing.judge_calls(&token, "k0", &body).await];
            assert_eq!(replies[0].status, 503, "{}", replies[0].text);
            let mut turn = body.clone();
            turn["turn"]["id"] = json!("resp_2");
            world.judge_calls(&token, "k1", &turn).await.expect(200);
            let mut other = turn.clone();
            other["user"] = json!(PLANTED);
            replies.push(world.judge_calls(&token, "k1", &other).await);
            other["calls"][0]["arguments"] = json!(format!("{arguments} "));
            replies.push(world.judge_calls(&token, "k2", &other).await);
            other["calls"][0]["arguments"] = json!([PLANTED]);
            replies.push(world.judge_calls(&token, "k3", &other).await);
            let broken_text = format!("{{\"agent\":\"{PLANTED}");
            let headers = [("Idempotency-Key", "k4")];
            replies.push(
                world.send(Method::POST, PATH, Some(&token), &headers, Some(broken_text)).await,
            );
            for reply in replies {
                assert!(reply.status >= 400);
                assert!(!reply.text.contains(PLANTED), "{}", reply.text);
            }
            let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
            assert!(text.contains("was not recorded"), "the log is read: {text}");
            // The test's own client and servers log what they send; ours do not.
            for line in text.lines().filter(|line| line.contains("approver::")) {
                assert!(!line.contains(PLANTED) && !line.contains(&token), "{line}");
            }
        });
    });
}

on_both_stores!(
    only_a_gateways_token_may_ask,
    the_idempotency_key_is_required_and_plain,
    a_malformed_body_names_each_place,
    the_body_is_json_of_at_most_eight_mebibytes,
    versions_that_cannot_be_used,
    a_person_waits_no_longer_than_allowed,
    other_bytes_are_conflicts,
    a_deleted_conversation_takes_nothing,
    another_organisation_sees_nothing,
    what_is_still_being_judged_is_asked_for_again_later,
);
