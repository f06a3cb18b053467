//! `GET` and `DELETE /v1/conversations/{id}`.

use approver::store::{Status, TokenKind};
use serde_json::json;

use super::judgements::{approval_id, call, note, request};
use super::on_both_stores;
use super::world::{ORGANISATION, World};

const CONVERSATION: &str = "/v1/conversations/conv_1";

async fn a_conversation_shows_its_surfaces(world: World) {
    let token = world.gateway().await;
    assert_eq!(world.get(CONVERSATION, &token).await.error(404), "not_found");
    world.judge(|_| approver::judge::scripted::Move::say(super::judgements::ESCALATES));
    world.judge_calls(&token, "k1", &request(&[note("c1")])).await.expect(200);
    let mut chat = request(&[note("c1")]);
    chat["conversation"]["surface"] = json!("chat");
    chat["input"] = json!([]);
    world.judge_calls(&token, "k2", &chat).await.expect(200);
    let operator = world.token("kim", TokenKind::Operator).await;
    let expected = json!({"id": "conv_1", "surfaces": [
        {"surface": "chat", "mode": null, "escalations": 0},
        {"surface": "responses", "mode": "auto", "escalations": 1},
    ]});
    for token in [&token, &operator] {
        assert_eq!(world.get(CONVERSATION, token).await.expect(200), expected);
    }
}

async fn deleting_cancels_what_is_pending(world: World) {
    let token = world.gateway().await;
    let body = request(&[note("c1"), call("c2", "wipe", "{}")]);
    let answer = world.judge_calls(&token, "k1", &body).await.expect(200);
    let ids = [0, 1].map(|index| approval_id(&answer["results"][index]));
    let deleted = world.delete(CONVERSATION, &token).await.expect(200);
    assert_eq!(deleted, json!({"id": "conv_1", "deleted": true, "cancelled": [ids[1]]}));
    for (id, status) in ids.iter().zip([Status::Approved, Status::Cancelled]) {
        let approval = world.store.approval(ORGANISATION, id).await.unwrap();
        assert_eq!(approval.map(|approval| approval.status), Some(status), "the record stays");
    }
    assert_eq!(world.get(CONVERSATION, &token).await.error(404), "not_found");
    // Once more is no error, and there is nothing left to cancel.
    let again = world.delete(CONVERSATION, &token).await.expect(200);
    assert_eq!(again, json!({"id": "conv_1", "deleted": true, "cancelled": []}));
    assert_eq!(world.delete("/v1/conversations/none", &token).await.error(404), "not_found");
    // What was recorded before is still answered, as it stands now, under any key.
    for key in ["k1", "k2", "k2"] {
        let again = world.judge_calls(&token, key, &body).await.expect(200);
        assert_eq!(again["replayed"], true);
        assert_eq!(again["results"][0]["outcome"], "approved");
        assert_eq!(again["results"][1]["outcome"], "cancelled");
    }
    // Nothing new is judged, not even beside what is known; and other bytes are other bytes.
    let more = request(&[note("c1"), call("c3", "find", "{}")]);
    let refused = world.judge_calls(&token, "k3", &more).await;
    assert_eq!(refused.error(409), "conversation_deleted");
    let other = request(&[call("c1", "note_add", "{}")]);
    assert_eq!(world.judge_calls(&token, "k4", &other).await.error(409), "call_conflict");
    // A replay leaves no trace: the mode that it named is not stored.
    let found = world.store.conversation(ORGANISATION, "responses", "conv_1").await.unwrap();
    assert_eq!(found.unwrap().mode, None);
}

/// A person approved, and the conversation went before the call began.
async fn what_was_approved_in_it_is_not_released(world: World) {
    let token = world.gateway().await;
    let operator = world.token("ana", TokenKind::Operator).await;
    let mut orders = call("c3", "orders_create", "{}");
    orders["server_label"] = json!("erp");
    let body = request(&[call("c1", "wipe", "{}"), call("c2", "wipe", "{\"a\":1}"), orders]);
    let answer = world.judge_calls(&token, "k1", &body).await.expect(200);
    let ids = [0, 1, 2].map(|index| approval_id(&answer["results"][index]));
    for id in &ids {
        let path = format!("/v1/approvals/{id}");
        let hmac = world.get(&path, &operator).await.expect(200)["hmac"].clone();
        let approve = json!({"decision": "approve", "hmac": hmac});
        world.post(&format!("{path}/decision"), &operator, &approve).await.expect(200);
    }
    let claim = |id: &str| format!("/v1/approvals/{id}/claim");
    let claimed = world.post_once(&claim(&ids[0]), &token, "r1", &json!({})).await.expect(200);
    world.delete(CONVERSATION, &token).await.expect(200);
    for id in &ids[1..] {
        let reply = world.post_once(&claim(id), &token, "r2", &json!({})).await;
        assert_eq!(reply.error(409), "conversation_deleted");
    }
    // Whoever has the permission keeps it, and may say how the call ran.
    let again = world.post_once(&claim(&ids[0]), &token, "r1", &json!({})).await.expect(200);
    assert_eq!(again, claimed);
    let report = format!("/v1/approvals/{}/execution", ids[0]);
    world.post(&report, &token, &json!({"status": "OK"})).await.expect(200);
}

/// It is deleted while the judge thinks: nothing of it is recorded, and nothing runs.
async fn what_is_being_judged_in_it_is_dropped(world: World) {
    let token = world.gateway().await;
    world.judge(|_| {
        let text = super::judgements::APPROVES.to_owned();
        let model = "scripted".to_owned();
        let reply = approver::decide::verdict::Reply { text, model, tokens: Default::default() };
        approver::judge::scripted::Move::AnswerAfter(std::time::Duration::from_millis(800), reply)
    });
    let body = request(&[note("c1")]);
    let judged = world.judge_calls(&token, "k1", &body);
    let deleted = async {
        // As soon as the request has begun there is something to delete.
        while world.delete(CONVERSATION, &token).await.status == 404 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let (reply, ()) = tokio::join!(judged, deleted);
    assert_eq!(reply.error(409), "conversation_deleted");
}

async fn others_may_not(world: World) {
    let token = world.gateway().await;
    world.judge_calls(&token, "k1", &request(&[note("c1")])).await.expect(200);
    let kinds = [
        (TokenKind::Operator, 200),
        (TokenKind::Instance { instance: "i".to_owned() }, 403),
        (TokenKind::PolicyOwner, 403),
        (TokenKind::Admin, 403),
    ];
    for (kind, read) in kinds {
        let token = world.token("other", kind).await;
        assert_eq!(world.get(CONVERSATION, &token).await.status, read);
        assert_eq!(world.delete(CONVERSATION, &token).await.error(403), "forbidden");
    }
    assert_eq!(world.get(CONVERSATION, "none").await.error(401), "unauthenticated");
}

on_both_stores!(
    a_conversation_shows_its_surfaces,
    deleting_cancels_what_is_pending,
    what_was_approved_in_it_is_not_released,
    what_is_being_judged_in_it_is_dropped,
    others_may_not,
);
