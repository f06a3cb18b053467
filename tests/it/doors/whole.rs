//! From a judgement to the call's own end, as gateway and person meet it.

use std::time::Duration;

use approver::judge::scripted::Move;
use approver::service::Limits;
use approver::service::events::{Events, WebhookSettings};
use approver::store::TokenKind;
use serde_json::{Value, json};

use super::events::{SECRET, drained, receiver};
use super::judgements::{ESCALATES, approval_id, call, note, request};
use super::on_both_stores;
use super::world::World;

async fn what_was_judged_is_decided_and_run(world: World) {
    let gateway = world.gateway().await;
    world.judge(|_| Move::say(ESCALATES));
    let ana = world.token("ana", TokenKind::Operator).await;
    // A tool of the version, one that nobody defines, a connector's, and arguments that no one reads.
    let mut orders = call("call_3", "orders_create", "{\"customer\":\"C-1042\"}");
    orders["server_label"] = json!("erp");
    let calls = [
        note("call_1"),
        call("call_2", "mystery", "{}"),
        orders,
        call("call_4", "wipe", "{not json"),
    ];
    let judged = world.judge_calls(&gateway, "k1", &request(&calls)).await.expect(200);
    for (result, call) in judged["results"].as_array().unwrap().iter().zip(&calls) {
        assert_eq!(result["outcome"], "pending", "{result}");
        let item = &result["item"];
        let path = format!("/v1/approvals/{}", approval_id(result));
        let shown = world.get(&path, &ana).await.expect(200);
        assert_eq!(shown["arguments"], call["arguments"]);
        // A connector's item has no hmac; a person gets it with the approval.
        if item["type"] == "backbone:approval_request" {
            assert_eq!(shown["hmac"], item["hmac"]);
        }
        let decision = json!({"decision": "approve", "hmac": shown["hmac"]});
        world.post(&format!("{path}/decision"), &ana, &decision).await.expect(200);
        let claim = world.post_once(&format!("{path}/claim"), &gateway, "k", &json!({})).await;
        assert_eq!(claim.expect(200)["release"], true);
        let report = json!({"status": "OK", "output": "done"});
        world.post(&format!("{path}/execution"), &gateway, &report).await.expect(200);
    }
    let shown = world.get("/v1/agents/erp/approvals", &ana).await.expect(200);
    let first = shown["approvals"].as_array().unwrap().last().unwrap();
    assert_eq!(first["judgeReason"], "Nobody asked for this note.");
    assert_eq!(first["pause_reason"], "judge_escalated");
    assert_eq!(first["decision"]["decided_by"], "ana");
    assert_eq!(first["provenance"][0]["pointer"], "/contact");
    // A replay shows what became of them.
    let again = world.judge_calls(&gateway, "k1", &request(&calls)).await.expect(200);
    let outcomes: Vec<&Value> =
        again["results"].as_array().unwrap().iter().map(|result| &result["outcome"]).collect();
    assert_eq!(outcomes, ["approved"; 4]);
}

async fn a_judgement_and_a_deletion_are_told(world: World) {
    let gateway = world.gateway().await;
    let ana = world.token("ana", TokenKind::Operator).await;
    let (url, taken, _) = receiver(0).await;
    let events = Events::to_webhook(WebhookSettings::new(&url, SECRET.into())).unwrap();
    // Its judge answers nothing readable.
    let world = world.beside(Limits::default(), events.clone()).await;
    let body = request(&[note("call_1")]);
    let judged = world.judge_calls(&gateway, "k1", &body).await.expect(200);
    world.judge_calls(&gateway, "k1", &body).await.expect(200);
    let id = approval_id(&judged["results"][0]);
    let path = format!("/v1/approvals/{id}");
    let hmac = &judged["results"][0]["item"]["hmac"];
    world.delete("/v1/conversations/conv_1", &gateway).await;
    let decision = json!({"decision": "approve", "hmac": hmac});
    let reply = world.post(&format!("{path}/decision"), &ana, &decision).await;
    assert_eq!(reply.json["error"]["detail"]["status"], "cancelled");
    assert_eq!(reply.error(409), "approval_already_decided");
    drained(&events).await;
    let told: Vec<Value> = taken
        .lock()
        .unwrap()
        .iter()
        .map(|(_, body)| serde_json::from_str::<Value>(body).unwrap())
        .map(|event| {
            json!([event["type"], event["data"]["approval_id"], event["data"]["reason_code"]])
        })
        .collect();
    let expected = [
        json!(["approval-requested", id, "judge_unreadable"]),
        json!(["approval-cancelled", id, "judge_unreadable"]),
    ];
    assert_eq!(told, expected);
}

async fn what_a_machine_decided_is_told_as_both(world: World) {
    let gateway = world.gateway().await;
    let (url, taken, _) = receiver(0).await;
    let events = Events::to_webhook(WebhookSettings::new(&url, SECRET.into())).unwrap();
    let world = world.with_events(events.clone()).await;
    let judged = world.judge_calls(&gateway, "k1", &request(&[note("call_1")])).await.expect(200);
    assert_eq!(judged["results"][0]["outcome"], "approved");
    tokio::time::timeout(Duration::from_secs(20), drained(&events)).await.unwrap();
    let told: Vec<Value> = taken
        .lock()
        .unwrap()
        .iter()
        .map(|(_, body)| serde_json::from_str::<Value>(body).unwrap())
        .map(|event| json!([event["type"], event["data"]["decided_by"], event["data"]["decision"]]))
        .collect();
    let expected =
        [json!(["approval-requested", null, null]), json!(["approval-decided", "auto", "approve"])];
    assert_eq!(told, expected);
}

on_both_stores!(
    what_was_judged_is_decided_and_run,
    a_judgement_and_a_deletion_are_told,
    what_a_machine_decided_is_told_as_both,
);
