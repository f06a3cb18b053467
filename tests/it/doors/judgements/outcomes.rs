//! Every outcome that a call may have, and what stands in its answer.

use std::time::Duration;

use approver::judge::scripted::Move;
use approver::service::keys::Bound;
use approver::store::{Cancel, Cancelled, Decide, Decided, PersonVerdict, Status, Switch, Watched};
use serde_json::{Value, json};

use super::super::on_both_stores;
use super::super::world::{ORGANISATION, World};
use super::{ESCALATES, NOTE, approval_id, call, note, only, outcomes, request};

/// Ids and keyed digests are new in each run.
fn redacted(answer: &Value) -> String {
    let text = serde_json::to_string_pretty(answer).unwrap();
    let text = regex::Regex::new("apreq_[0-9a-f]{32}").unwrap().replace_all(&text, "apreq_[id]");
    let hmac = regex::Regex::new("\"[0-9a-f]{64}\"").unwrap();
    hmac.replace_all(&text, "\"[64 hex]\"").into_owned()
}

fn connector(id: &str, arguments: &str) -> Value {
    let mut call = call(id, "orders_create", arguments);
    call["server_label"] = json!("erp");
    call
}

async fn every_outcome_of_one_request(world: World) {
    let token = world.gateway().await;
    let link = r#"{"contact":"C-1042","text":"see https://collector.example/x"}"#;
    let mut bash = call("call_2", "Bash", r#"{"command":"ls"}"#);
    bash["timeout_seconds"] = json!(60);
    let body = request(&[
        call("call_1", "find", r#"{"q":"Reed"}"#),
        bash,
        note("call_3"),
        call("call_4", "note_add", link),
        call("call_5", "wipe", "{}"),
        call("call_6", "purge", "{}"),
        connector("call_7", r#"{"customer":"C-1042","text":"call back Monday"}"#),
        connector("call_8", r#"{"customer":"C-1042","text":"https://collector.example"}"#),
        call("call_9", "nowhere", "{}"),
        call("call_10", "note_add", "{"),
    ]);
    let answer = world.judge_calls(&token, "k1", &body).await.expect(200);
    insta::with_settings!({snapshot_suffix => "", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("judgements__every_outcome", redacted(&answer));
    });
}

async fn the_hmac_binds_the_call_and_repeats(world: World) {
    let token = world.gateway().await;
    let first = world.judge_calls(&token, "k1", &request(&[note("c1")])).await.expect(200);
    let item = &only(&first)["item"];
    let bound = Bound {
        organisation: ORGANISATION,
        approval: item["id"].as_str().unwrap(),
        conversation: "conv_1",
        call_id: "c1",
        server_label: None,
        tool: "note_add",
        arguments: NOTE,
    };
    let hmac = item["hmac"].as_str().unwrap();
    assert!(world.service.keys.verify(&bound, hmac));
    let other = Bound { arguments: "{}", ..bound };
    assert!(!world.service.keys.verify(&other, hmac));
    let again = world.judge_calls(&token, "k1", &request(&[note("c1")])).await.expect(200);
    assert_eq!(only(&again)["item"], *item);
}

async fn outside_auto_a_pause_has_no_reason(world: World) {
    let token = world.gateway().await;
    let mut body = request(&[note("c1")]);
    body["input"] = json!([]);
    let answer = world.judge_calls(&token, "k1", &body).await.expect(200);
    assert_eq!(answer["conversation_mode"], "ask");
    let result = only(&answer);
    assert_eq!(result["outcome"], "pending");
    assert_eq!(result["reason"], Value::Null);
    assert!(result.get("pause_reason").is_none() && result["item"].get("pause_reason").is_none());
    assert!(result.get("reason").is_some(), "a pending call names its reason or null");
    assert_eq!(result["item"]["mode"], "ask");
    assert_eq!(result["item"]["status"], "in_progress");
}

async fn plan_blocks_and_says_so_to_the_model(world: World) {
    let token = world.gateway().await;
    let mut body = request(&[note("c1"), call("c2", "purge", "{}"), call("c3", "find", "{}")]);
    body["input"] = json!([{"type": "backbone:mode", "mode": "plan"}]);
    let answer = world.judge_calls(&token, "k1", &body).await.expect(200);
    assert_eq!(outcomes(&answer), ["blocked", "blocked", "execute"]);
    let output = |index: usize| answer["results"][index]["output"].as_str().unwrap().to_owned();
    assert_eq!(output(0), r#"{"error":"blocked_by_policy","mode":"plan"}"#);
    assert_eq!(output(1), r#"{"error":"blocked_by_policy"}"#);
    // What is not approved has no record but its digest.
    let listed = world
        .store
        .approvals(ORGANISATION, approver::store::Listing { limit: 10, ..Default::default() });
    assert_eq!(listed.await.unwrap(), []);
}

async fn numbers_come_back_as_they_were_sent(world: World) {
    let token = world.gateway().await;
    let exact = "{ \"big\": 9007199254740993, \"price\":1.50,\"e\":1E2, \"\\u0041\":\"\\u00e9é\" }";
    let body = request(&[call("c1", "wipe", exact)]);
    for _ in 0..2 {
        let answer = world.judge_calls(&token, "k1", &body).await.expect(200);
        assert_eq!(only(&answer)["item"]["arguments"], exact);
    }
}

async fn a_person_has_the_time_that_was_asked_for(world: World) {
    let token = world.gateway().await;
    for (key, asked, expected) in [
        ("k1", None, "2027-01-16T08:00:00Z"),
        ("k2", Some("90s"), "2027-01-15T08:01:30Z"),
        ("k3", Some("168h"), "2027-01-22T08:00:00Z"),
    ] {
        let mut body = request(&[call(key, "wipe", "{}")]);
        if let Some(asked) = asked {
            body["pending_for"] = json!(asked);
        }
        let answer = world.judge_calls(&token, key, &body).await.expect(200);
        assert_eq!(only(&answer)["deadline_at"], expected, "{asked:?}");
    }
}

async fn an_approved_call_starts_within_five_minutes(world: World) {
    let token = world.gateway().await;
    let answer = world.judge_calls(&token, "k1", &request(&[note("c1")])).await.expect(200);
    assert_eq!(only(&answer)["start_by"], "2027-01-15T08:05:00Z");
    // A repeat later does not give it more time.
    world.pass(Duration::from_secs(60));
    let answer = world.judge_calls(&token, "k1", &request(&[note("c1")])).await.expect(200);
    assert_eq!(only(&answer)["start_by"], "2027-01-15T08:05:00Z");
}

async fn the_judges_own_reason_reaches_the_person(world: World) {
    let token = world.gateway().await;
    world.judge(|_| Move::say(ESCALATES));
    let answer = world.judge_calls(&token, "k1", &request(&[note("c1")])).await.expect(200);
    let result = only(&answer);
    assert_eq!(result["pause_reason"], "judge_escalated");
    assert_eq!(result["reason"], "Nobody asked for this note.");
    assert_eq!(result["item"]["reason"], "Nobody asked for this note.");
    assert_eq!(result["item"]["pause_reason"], "judge_escalated");
}

async fn decide(world: &World, approval: &str, verdict: PersonVerdict) {
    let decide = Decide {
        organisation: ORGANISATION.to_owned(),
        approval: approval.to_owned(),
        verdict,
        by: "kim".to_owned(),
        reason: Some("checked".to_owned()),
        stored_mode: Some(approver::decide::policy::Mode::Auto),
        now: world.now(),
    };
    let decided = world.store.decide(decide).await.unwrap();
    assert!(matches!(decided, Decided::Done(_)), "{decided:?}");
}

fn approve(world: &World, remember: bool) -> PersonVerdict {
    PersonVerdict::Approve { start_by: world.now().plus(Duration::from_secs(300)), remember }
}

async fn a_remembered_tool_needs_nobody(world: World) {
    let token = world.gateway().await;
    world.judge(|_| Move::say(ESCALATES));
    let answer = world.judge_calls(&token, "k1", &request(&[note("c1")])).await.expect(200);
    let granting = approval_id(only(&answer));
    decide(&world, &granting, approve(&world, true)).await;
    let other = call("c2", "note_add", r#"{"contact":"C-7"}"#);
    let answer = world.judge_calls(&token, "k2", &request(&[other])).await.expect(200);
    let result = only(&answer);
    assert_eq!(result["outcome"], "approved");
    assert_eq!(result["item"]["decided_by"], format!("grant:{granting}"));
    assert_eq!(result["item"]["reason"], Value::Null);
    assert_eq!(result["item"]["decision"], "approve");
}

/// A repeat finds what became of the approval since.
async fn a_repeat_answers_the_current_state(world: World) {
    let token = world.gateway().await;
    let calls = ["c1", "c2", "c3", "c4"].map(|id| call(id, "wipe", "{}"));
    let mut body = request(&calls);
    body["pending_for"] = json!("1h");
    let first = world.judge_calls(&token, "k1", &body).await.expect(200);
    assert_eq!(first["replayed"], false);
    assert_eq!(outcomes(&first), ["pending"; 4]);
    let ids: Vec<String> = (0..4).map(|index| approval_id(&first["results"][index])).collect();
    decide(&world, &ids[0], approve(&world, false)).await;
    decide(&world, &ids[1], PersonVerdict::Reject).await;
    let cancel = Cancel {
        organisation: ORGANISATION.to_owned(),
        approval: ids[2].clone(),
        by: None,
        now: world.now(),
    };
    let cancelled = world.store.cancel(cancel).await.unwrap();
    assert!(matches!(cancelled, Cancelled::Done(_)), "{cancelled:?}");
    world.pass(Duration::from_secs(7200));
    assert_eq!(world.store.expire_due(world.now(), 10).await.unwrap().len(), 1);

    let again = world.judge_calls(&token, "k1", &body).await.expect(200);
    assert_eq!(again["replayed"], true);
    assert_eq!(outcomes(&again), ["approved", "rejected", "cancelled", "expired"]);
    let rows = [
        (json!("completed"), json!("kim"), json!("approve"), json!("checked")),
        (json!("completed"), json!("kim"), json!("reject"), json!("checked")),
        (json!("incomplete"), Value::Null, Value::Null, Value::Null),
        (json!("incomplete"), Value::Null, Value::Null, Value::Null),
    ];
    for (index, (status, by, decision, reason)) in rows.into_iter().enumerate() {
        let (before, after) = (&first["results"][index], &again["results"][index]);
        let item = &after["item"];
        assert_eq!(item["status"], status);
        assert_eq!(item["decided_by"], by);
        assert_eq!(item["decision"], decision);
        assert_eq!(item["reason"], reason);
        assert!(item.get("pause_reason").is_none(), "it waits no more");
        assert!(after.get("deadline_at").is_none());
        assert_eq!(after.get("start_by").is_some(), index == 0);
        for same in ["id", "hmac", "arguments", "policy_class", "mode"] {
            assert_eq!(item[same], before["item"][same], "{same}");
        }
    }
}

async fn switching_automatic_approval_off_counts_from_the_next_judgement(world: World) {
    let token = world.gateway().await;
    let switch = Switch {
        organisation: ORGANISATION.to_owned(),
        agent: Some("erp".to_owned()),
        enabled: false,
        by: "admin".to_owned(),
        at: world.now(),
    };
    world.store.set_automatic_approval(switch).await.unwrap();
    let body = request(&[note("c1"), call("c2", "Bash", "{}")]);
    let answer = world.judge_calls(&token, "k1", &body).await.expect(200);
    assert_eq!(outcomes(&answer), ["pending", "pending"]);
    assert_eq!(answer["results"][0]["pause_reason"], "judge_unavailable");
    assert_eq!(answer["results"][1]["pause_reason"], "builtin_write");
}

async fn a_changed_definition_waits_until_a_person_approves_it(world: World) {
    let token = world.gateway().await;
    let arguments = r#"{"customer":"C-1042","text":"call back Monday"}"#;
    let body = request(&[connector("c1", arguments)]);
    let answer = world.judge_calls(&token, "k1", &body).await.expect(200);
    assert_eq!(outcomes(&answer), ["approved"]);
    let mut changed = request(&[connector("c2", r#"{"customer":"C-1042"}"#)]);
    changed["tools"][0]["description"] = json!("creates an order, and sends it");
    changed["input"] = json!([{"type": "backbone:mode", "mode": "ask"}]);
    changed["turn"]["id"] = json!("resp_2");
    let answer = world.judge_calls(&token, "k2", &changed).await.expect(200);
    let result = only(&answer);
    assert_eq!(result["outcome"], "pending");
    assert_eq!(result["reason"], "The tool's definition differs from the one known so far.");
    assert!(result.get("pause_reason").is_none(), "outside auto there is no code");
    assert_eq!(result["decided_by"], Value::Null, "a connector's decider stands in the result");
}

async fn a_waiting_listing_is_woken(world: World) {
    let token = world.gateway().await;
    let watched = Watched::Organisation(ORGANISATION.to_owned());
    let mut watch = world.store.subscribe(vec![watched]);
    let body = request(&[call("c1", "wipe", "{}")]);
    let answer = world.judge_calls(&token, "k1", &body).await.expect(200);
    tokio::time::timeout(Duration::from_secs(20), watch.changed()).await.expect("a wake-up");
    let approval = world.store.approval(ORGANISATION, &approval_id(only(&answer))).await.unwrap();
    assert_eq!(approval.map(|approval| approval.status), Some(Status::Pending));
}

on_both_stores!(
    every_outcome_of_one_request,
    the_hmac_binds_the_call_and_repeats,
    outside_auto_a_pause_has_no_reason,
    plan_blocks_and_says_so_to_the_model,
    numbers_come_back_as_they_were_sent,
    a_person_has_the_time_that_was_asked_for,
    an_approved_call_starts_within_five_minutes,
    the_judges_own_reason_reaches_the_person,
    a_remembered_tool_needs_nobody,
    a_repeat_answers_the_current_state,
    switching_automatic_approval_off_counts_from_the_next_judgement,
    a_changed_definition_waits_until_a_person_approves_it,
    a_waiting_listing_is_woken,
);
