//! Which mode a request runs in: its own input, then the stored one, then the version's default.

use approver::store::{ChannelMoved, MoveChannel};
use serde_json::{Value, json};

use super::super::on_both_stores;
use super::super::world::{ORGANISATION, World};
use super::{call, content, note, request};

/// A request of a turn of its own with this input.
fn said(turn: &str, input: Value) -> Value {
    let mut body = request(&[call("c1", "find", "{}")]);
    body["turn"] = json!({"id": turn});
    body["input"] = input;
    body
}

fn mode(mode: Value) -> Value {
    json!([{"type": "backbone:mode", "mode": mode}])
}

async fn stored(world: &World, token: &str) -> Value {
    let conversation = world.get("/v1/conversations/conv_1", token).await.expect(200);
    conversation["surfaces"][0]["mode"].clone()
}

async fn ran(world: &World, token: &str, body: &Value) -> Value {
    let key = format!("key-{}-{}", body["turn"]["id"], body["calls"][0]["call_id"]);
    let answer = world.judge_calls(token, &key.replace('"', ""), body).await.expect(200);
    answer["conversation_mode"].clone()
}

async fn the_first_that_exists_counts(world: World) {
    let token = world.gateway().await;
    assert_eq!(ran(&world, &token, &said("t1", json!([]))).await, "ask", "the default");
    assert_eq!(stored(&world, &token).await, Value::Null, "a default is not stored");
    assert_eq!(ran(&world, &token, &said("t2", mode(json!("auto")))).await, "auto");
    assert_eq!(stored(&world, &token).await, "auto");
    assert_eq!(ran(&world, &token, &said("t3", json!([]))).await, "auto", "the stored one");
    assert_eq!(ran(&world, &token, &said("t4", mode(Value::Null))).await, "ask");
    assert_eq!(stored(&world, &token).await, "auto", "null is for one request");
    let several = json!([
        {"type": "backbone:mode", "mode": "plan"},
        {"type": "message", "role": "user", "content": "hello"},
        {"type": "backbone:mode", "mode": "ask"},
    ]);
    assert_eq!(ran(&world, &token, &said("t5", several)).await, "ask", "the last one wins");
    assert_eq!(stored(&world, &token).await, "ask");
}

async fn the_first_request_of_a_turn_fixes_its_mode(world: World) {
    let token = world.gateway().await;
    assert_eq!(ran(&world, &token, &said("t1", mode(json!("auto")))).await, "auto");
    let mut later = said("t1", mode(json!("plan")));
    later["calls"][0]["call_id"] = json!("c2");
    assert_eq!(ran(&world, &token, &later).await, "auto");
    assert_eq!(stored(&world, &token).await, "plan", "it counts for later turns");
    assert_eq!(ran(&world, &token, &said("t2", json!([]))).await, "plan");
}

async fn a_continuation_keeps_the_paused_turns_mode(world: World) {
    let token = world.gateway().await;
    world.put_content("8", &content().to_string()).await;
    let mut narrow = content();
    narrow["policy"]["conversation_modes"] = json!({"offered": ["plan", "ask"]});
    world.put_content("9", &narrow.to_string()).await;
    assert_eq!(ran(&world, &token, &said("t1", mode(json!("auto")))).await, "auto");
    // Auto is no longer offered, and another mode is stored by now.
    let mut continuation = said("t2", json!([]));
    continuation["version"] = json!("9");
    continuation["turn"]["continues"] = json!("t1");
    assert_eq!(ran(&world, &token, &continuation).await, "auto");
    // With a mode of its own it is a request like any other.
    let mut named = said("t3", mode(json!("auto")));
    named["version"] = json!("9");
    named["turn"]["continues"] = json!("t1");
    let reply = world.judge_calls(&token, "named", &named).await;
    assert_eq!(reply.error(400), "conversation_mode_not_offered");
    let mut named = said("t4", mode(json!("ask")));
    named["turn"]["continues"] = json!("t1");
    assert_eq!(ran(&world, &token, &named).await, "ask");
}

async fn a_mode_that_is_not_offered_is_refused(world: World) {
    let token = world.gateway().await;
    let mut narrow = content();
    narrow["policy"]["conversation_modes"] = json!({"offered": ["plan", "ask"]});
    world.put_content("8", &narrow.to_string()).await;
    let mut body = said("t1", mode(json!("auto")));
    body["version"] = json!("8");
    let reply = world.judge_calls(&token, "k1", &body).await;
    let error = reply.json["error"].clone();
    assert_eq!(reply.error(400), "conversation_mode_not_offered");
    assert_eq!(error["detail"], json!({"mode": "auto", "offered": ["plan", "ask"]}));
    assert_eq!(
        world.get("/v1/conversations/conv_1", &token).await.status,
        404,
        "nothing is stored"
    );
    // A stored mode that is no longer offered is refused as well, and stays.
    assert_eq!(ran(&world, &token, &said("t2", mode(json!("auto")))).await, "auto");
    let mut body = said("t3", json!([]));
    body["version"] = json!("8");
    let reply = world.judge_calls(&token, "k3", &body).await;
    assert_eq!(reply.json["error"]["detail"]["mode"], "auto");
    assert_eq!(reply.error(400), "conversation_mode_not_offered");
    assert_eq!(stored(&world, &token).await, "auto");
    // Naming one, or the default, helps.
    let mut body = said("t4", mode(Value::Null));
    body["version"] = json!("8");
    assert_eq!(ran(&world, &token, &body).await, "ask");
}

async fn a_refused_request_stores_no_mode(world: World) {
    let token = world.gateway().await;
    assert_eq!(ran(&world, &token, &said("t1", mode(json!("ask")))).await, "ask");
    // Invalid, unknown version, and a conflict.
    let mut invalid = said("t2", mode(json!("auto")));
    invalid["calls"] = json!([]);
    assert_eq!(world.judge_calls(&token, "k1", &invalid).await.status, 400);
    let mut unknown = said("t2", mode(json!("auto")));
    unknown["version"] = json!("70");
    assert_eq!(world.judge_calls(&token, "k1", &unknown).await.status, 404);
    let mut conflict = said("t1", mode(json!("auto")));
    conflict["calls"][0]["arguments"] = json!("{ }");
    assert_eq!(world.judge_calls(&token, "k1", &conflict).await.status, 409);
    assert_eq!(stored(&world, &token).await, "ask");
    // Neither does a repeat of an old one.
    assert_eq!(ran(&world, &token, &said("t3", mode(json!("plan")))).await, "plan");
    assert_eq!(ran(&world, &token, &said("t1", mode(json!("ask")))).await, "ask");
    assert_eq!(stored(&world, &token).await, "plan");
}

/// One that fails after it passed validation keeps it.
async fn a_mode_is_stored_although_recording_fails(world: World) {
    let token = world.gateway().await;
    let broken = super::super::broken::broken(&world.store, usize::MAX, false);
    let failing = world.on(broken, Default::default()).await;
    let body = said("t1", mode(json!("plan")));
    assert_eq!(failing.judge_calls(&token, "k1", &body).await.status, 503);
    assert_eq!(stored(&world, &token).await, "plan");
}

async fn a_channel_stands_for_its_version(world: World) {
    let token = world.gateway().await;
    let channel = MoveChannel {
        organisation: ORGANISATION.to_owned(),
        agent: "erp".to_owned(),
        name: "production".to_owned(),
        version: "7".to_owned(),
        by: "owner".to_owned(),
        now: world.now(),
    };
    assert_eq!(world.store.move_channel(channel).await.unwrap(), ChannelMoved::Done);
    let mut body = request(&[note("c1")]);
    body["version"] = json!("production");
    let answer = world.judge_calls(&token, "k1", &body).await.expect(200);
    let id = super::approval_id(super::only(&answer));
    let approval = world.store.approval(ORGANISATION, &id).await.unwrap().unwrap();
    assert_eq!(approval.facts.version, "7");
}

on_both_stores!(
    the_first_that_exists_counts,
    the_first_request_of_a_turn_fixes_its_mode,
    a_continuation_keeps_the_paused_turns_mode,
    a_mode_that_is_not_offered_is_refused,
    a_refused_request_stores_no_mode,
    a_mode_is_stored_although_recording_fails,
    a_channel_stands_for_its_version,
);
