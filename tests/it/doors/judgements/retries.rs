//! The same request once more, in every way in which that may happen: nothing is judged twice, and
//! nothing runs that is not recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use approver::decide::verdict::{Reply as JudgeReply, Tokens};
use approver::judge::scripted::Move;
use approver::service::Timing;
use approver::store::{Listing, Status, TokenKind};
use reqwest::Method;
use serde_json::{Value, json};

use super::super::broken::broken;
use super::super::on_both_stores;
use super::super::world::{ORGANISATION, World};
use super::{APPROVES, NOTE, PATH, approval_id, call, note, only, outcomes, request};

/// The judge approves after a while; how often it was asked.
fn slow_judge(world: &World, pause: Duration) -> Arc<AtomicUsize> {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    world.judge(move |_| {
        count.fetch_add(1, SeqCst);
        let text = APPROVES.to_owned();
        let model = "scripted".to_owned();
        Move::AnswerAfter(pause, JudgeReply { text, model, tokens: Tokens::default() })
    });
    asked
}

async fn a_repeat_is_a_replay_in_any_notation(world: World) {
    let token = world.gateway().await;
    let asked = slow_judge(&world, Duration::ZERO);
    let first = world.judge_calls(&token, "k1", &request(&[note("c1")])).await.expect(200);
    assert_eq!(first["replayed"], false);
    // Another order of members, and white space.
    let body = request(&[note("c1")]);
    let members = body.as_object().unwrap().iter().rev();
    let turned: serde_json::Map<String, Value> =
        members.map(|(key, value)| (key.clone(), value.clone())).collect();
    let text = serde_json::to_string_pretty(&turned).unwrap();
    assert_ne!(text, body.to_string());
    let headers = [("Idempotency-Key", "k1")];
    let again = world.send(Method::POST, PATH, Some(&token), &headers, Some(text)).await;
    let again = again.expect(200);
    assert_eq!(again["replayed"], true);
    assert_eq!(again["results"], first["results"]);
    assert_eq!(again["conversation_mode"], first["conversation_mode"]);
    assert_eq!(asked.load(SeqCst), 1);
}

async fn the_same_calls_under_another_key_are_a_replay(world: World) {
    let token = world.gateway().await;
    let asked = slow_judge(&world, Duration::ZERO);
    let calls = [note("c1"), call("c2", "find", "{}"), call("c3", "purge", "{}")];
    let first = world.judge_calls(&token, "k1", &request(&calls)).await.expect(200);
    let other = world.token("second", TokenKind::Gateway { decide: true }).await;
    // The key is another token's own.
    for (token, key) in [(&token, "k2"), (&other, "k1")] {
        let again = world.judge_calls(token, key, &request(&calls)).await.expect(200);
        assert_eq!(again["replayed"], true);
        assert_eq!(again["results"], first["results"]);
    }
    // With a new call beside them only that one is judged; the answer as a whole is a replay.
    let mut calls = calls.to_vec();
    let text = r#"{"contact":"C-1042","text":"Note on"}"#;
    calls.insert(0, call("c0", "note_add", text));
    let mixed = world.judge_calls(&token, "k3", &request(&calls)).await.expect(200);
    assert_eq!(mixed["replayed"], true);
    assert_eq!(outcomes(&mixed)[0], "approved");
    assert_eq!(mixed["results"].as_array().unwrap()[1..], *first["results"].as_array().unwrap());
    assert_eq!(asked.load(SeqCst), 2);
    let again = world.judge_calls(&token, "k3", &request(&calls)).await.expect(200);
    assert_eq!(again["results"], mixed["results"]);
    assert_eq!(asked.load(SeqCst), 2);
}

/// A connector's call runs as the member whose turn it is: for another it is another call.
async fn a_connectors_call_of_another_member_is_another_call(world: World) {
    let token = world.gateway().await;
    let mut orders = call("c1", "orders_create", NOTE);
    orders["server_label"] = json!("erp");
    let body = request(&[orders]);
    let first = world.judge_calls(&token, "k1", &body).await.expect(200);
    let mut other = body.clone();
    other["user"] = json!("usr_82");
    let reply = world.judge_calls(&token, "k2", &other).await;
    assert_eq!(reply.json["error"]["param"], "$.calls[0]");
    assert_eq!(reply.error(409), "call_conflict");
    assert_eq!(world.judge_calls(&token, "k1", &other).await.error(409), "idempotency_conflict");
    let again = world.judge_calls(&token, "k3", &body).await.expect(200);
    assert_eq!((&again["replayed"], &again["results"]), (&json!(true), &first["results"]));
    // The agent's own tools run as the agent, whoever the turn is for.
    world.judge_calls(&token, "k4", &request(&[note("c2")])).await.expect(200);
    let mut other = request(&[note("c2")]);
    other["user"] = json!("usr_82");
    assert_eq!(world.judge_calls(&token, "k5", &other).await.expect(200)["replayed"], true);
}

async fn the_same_write_twice_in_a_turn_waits(world: World) {
    let token = world.gateway().await;
    world.judge_calls(&token, "k1", &request(&[note("c1")])).await.expect(200);
    let other_notation = r#"{ "text":"call back Monday","contact":"C-1042" }"#;
    let body = request(&[call("c2", "note_add", other_notation)]);
    let answer = world.judge_calls(&token, "k2", &body).await.expect(200);
    assert_eq!(only(&answer)["pause_reason"], "repeated_call");
}

pub(super) async fn judged_once(worlds: &[&World], token: &str, asked: &AtomicUsize) {
    let body = request(&[note("c1")]);
    let requests = (0..8).map(|index| {
        let world = worlds[index % worlds.len()];
        // Half of them repeat the key, half bring the calls under a key of their own.
        let key = if index < 4 { "k".to_owned() } else { format!("k{index}") };
        let body = &body;
        async move { world.judge_calls(token, &key, body).await.expect(200) }
    });
    let answers = futures::future::join_all(requests).await;
    let fresh = answers.iter().filter(|answer| answer["replayed"] == false).count();
    assert_eq!(fresh, 1);
    for answer in &answers {
        assert_eq!(answer["results"], answers[0]["results"]);
        assert_eq!(only(answer)["outcome"], "approved");
    }
    assert_eq!(asked.load(SeqCst), 1);
}

async fn duplicates_at_the_same_time_ask_once(world: World) {
    let token = world.gateway().await;
    let asked = slow_judge(&world, Duration::from_millis(400));
    judged_once(&[&world], &token, &asked).await;
}

async fn a_caller_who_hangs_up_loses_nothing(world: World) {
    let token = world.gateway().await;
    let asked = slow_judge(&world, Duration::from_millis(700));
    let body = request(&[note("c1")]);
    let impatient = reqwest::Client::builder().no_proxy().build().unwrap();
    let sent = impatient
        .post(format!("{}{PATH}", world.url))
        .bearer_auth(&token)
        .header("Idempotency-Key", "k1")
        .header("Content-Type", "application/json")
        .body(body.to_string())
        .send();
    let begun = async {
        while asked.load(SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        answer = sent => panic!("the judge takes its time: {answer:?}"),
        () = begun => {}
    }
    // The connection goes with its client.
    drop(impatient);
    let recorded = async {
        let listing = Listing { limit: 10, ..Listing::default() };
        while world.store.approvals(ORGANISATION, listing.clone()).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), recorded).await.expect("it is recorded");
    let answer = world.judge_calls(&token, "k1", &body).await.expect(200);
    assert_eq!(answer["replayed"], true);
    assert_eq!(outcomes(&answer), ["approved"]);
    assert_eq!(asked.load(SeqCst), 1);
}

async fn an_approval_that_cannot_be_recorded_waits_for_a_person(world: World) {
    let token = world.gateway().await;
    let broken = broken(&world.store, 1, false);
    let failing = world.on(broken, Timing::default()).await;
    let body = request(&[note("c1"), call("c2", "find", "{}"), call("c3", "wipe", "{}")]);
    let answer = failing.judge_calls(&token, "k1", &body).await.expect(200);
    assert_eq!(outcomes(&answer), ["pending", "execute", "pending"]);
    let result = &answer["results"][0];
    assert_eq!(result["pause_reason"], "not_recorded");
    assert_eq!(result["reason"], "The automatic approval could not be recorded.");
    assert!(result.get("start_by").is_none());
    assert_eq!(answer["results"][2]["pause_reason"], "destructive", "its own reason stays");
    let approval = world.store.approval(ORGANISATION, &approval_id(result)).await.unwrap();
    let approval = approval.unwrap();
    assert_eq!(approval.status, Status::Pending);
    let judged = approval.facts.judged.clone().unwrap();
    assert_eq!(judged.reason.as_deref(), Some("The user asked for this note."));
    assert!(world.service.open_input(&approval).await.unwrap().is_some());
}

async fn what_cannot_be_recorded_at_all_does_not_run(world: World) {
    let token = world.gateway().await;
    let asked = slow_judge(&world, Duration::ZERO);
    let broken = broken(&world.store, 2, false);
    let timing = Timing { request: Duration::from_secs(3), ..Timing::default() };
    let failing = world.on(broken, timing).await;
    let body = request(&[note("c1"), call("c2", "find", "{}")]);
    let reply = failing.judge_calls(&token, "k1", &body).await;
    assert_eq!(reply.headers["retry-after"], "1");
    assert!(!reply.text.contains("outcome"), "{}", reply.text);
    assert_eq!(reply.error(503), "store_unavailable");
    // It is still this attempt's until its lease ends; then it is judged again.
    let reply = failing.judge_calls(&token, "k1", &body).await;
    assert_eq!(reply.error(503), "judgement_in_progress");
    world.pass(Duration::from_secs(60));
    let answer = failing.judge_calls(&token, "k1", &body).await.expect(200);
    assert_eq!(
        (outcomes(&answer), &answer["replayed"]),
        (vec!["approved", "execute"], &json!(false))
    );
    assert_eq!(asked.load(SeqCst), 2);
}

/// The database did store it, and its answer was lost.
async fn a_lost_answer_of_the_store_is_found_again(world: World) {
    let token = world.gateway().await;
    let asked = slow_judge(&world, Duration::ZERO);
    let broken = broken(&world.store, 1, true);
    let failing = world.on(broken, Timing::default()).await;
    let body = request(&[note("c1")]);
    let answer = failing.judge_calls(&token, "k1", &body).await.expect(200);
    assert_eq!(outcomes(&answer), ["approved"]);
    assert_eq!(asked.load(SeqCst), 1);
    let approval = world.store.approval(ORGANISATION, &approval_id(only(&answer))).await.unwrap();
    assert_eq!(approval.map(|approval| approval.status), Some(Status::Approved));
}

on_both_stores!(
    a_repeat_is_a_replay_in_any_notation,
    the_same_calls_under_another_key_are_a_replay,
    a_connectors_call_of_another_member_is_another_call,
    the_same_write_twice_in_a_turn_waits,
    duplicates_at_the_same_time_ask_once,
    a_caller_who_hangs_up_loses_nothing,
    an_approval_that_cannot_be_recorded_waits_for_a_person,
    what_cannot_be_recorded_at_all_does_not_run,
    a_lost_answer_of_the_store_is_found_again,
);
