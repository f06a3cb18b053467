//! What becomes of a request at once: by policy, by the judge, or not.

use std::time::Duration;

use approver::decide::policy::Mode;
use approver::judge::scripted::Move;
use serde_json::{Value, json};

use super::{approve, asking, call, id, note};
use crate::doors::judgements::{APPROVES, ESCALATES};
use crate::doors::on_both_stores;
use crate::doors::world::World;

/// What a trusted instance says of the conversation: the person asked for the note.
fn with_conversation(mut body: Value) -> Value {
    body["context"] = json!({"approver": {"conversation": {
        "id": "c1",
        "items": [{"type": "message", "role": "user",
            "content": "Note on C-1042: call back Monday."}],
        "person_items": [0],
    }}});
    body
}

async fn policy_decides_at_once(world: World) {
    let asking = asking(&world).await;
    let allowed = asking.raise("k1", &call("find", json!({"q": "x"}))).await;
    let decision = json!({
        "status": "approved", "decided_at": "2027-01-15T08:00:00Z",
        "expires_at": "2027-01-15T08:05:00Z",
    });
    assert_eq!((&allowed["status"], &allowed["decision"]), (&json!("approved"), &decision));
    let by = asking.stored(id(&allowed)).await.decision.unwrap().by;
    assert_eq!(by.as_deref(), Some("policy:allow"));
    let blocked = asking.raise("k2", &call("purge", json!({}))).await;
    let decision = json!({
        "status": "denied", "decided_at": "2027-01-15T08:00:00Z",
        "note": "The policy forbids this call; nobody was asked.",
    });
    assert_eq!((&blocked["status"], &blocked["decision"]), (&json!("denied"), &decision));
    let by = asking.stored(id(&blocked)).await.decision.unwrap().by;
    assert_eq!(by.as_deref(), Some("policy:block"));
    // What the version does not define waits, and so does what cannot be read one way only.
    for (key, body) in [
        ("k3", call("unheard_of", json!({}))),
        ("k4", json!({"tool": "find", "server": "erp", "arguments": {}, "timeout": "1h"})),
        ("k5", call("wipe", json!({}))),
        ("k6", note()),
    ] {
        let made = asking.raise(key, &body).await;
        assert_eq!(made["status"], "pending", "{key}");
        assert!(made.get("decision").is_none());
    }
}

async fn the_judge_decides_at_once(world: World) {
    let asking = asking(&world).await;
    asking.set(Some(Mode::Auto), true).await;
    world.judge(|_| Move::say(APPROVES));
    let made = asking.raise("k1", &with_conversation(note())).await;
    assert_eq!(made["status"], "approved");
    assert_eq!(made["decision"]["expires_at"], "2027-01-15T08:05:00Z");
    let stored = asking.stored(id(&made)).await;
    assert_eq!(stored.decision.unwrap().by.as_deref(), Some("auto:approver"));
    assert_eq!(stored.facts.instance.as_ref(), Some(&asking.id));
    assert!(stored.facts.conversation.starts_with(&format!("{}:", asking.id)));
    assert!(stored.facts.turn.starts_with(&format!("{}:", asking.id)));
    // It is consumed before it runs, like a person's.
    let reply = asking.outcome(id(&made), &json!({"status": "succeeded"})).await;
    assert_eq!(super::code(reply, 409, "conflict"), "not_consumed");
    asking.consume(id(&made), "c").await.expect(200);
    asking.outcome(id(&made), &json!({"status": "succeeded"})).await.expect(200);
    world.judge(|_| Move::say(ESCALATES));
    let other = with_conversation(call("note_add", json!({"contact": "C-1042", "text": "call"})));
    let made = asking.raise("k2", &other).await;
    assert_eq!(made["status"], "pending");
    assert!(asking.stored(id(&made)).await.facts.judged.is_some());
}

async fn a_failing_judge_leaves_it_to_a_person(world: World) {
    let asking = asking(&world).await;
    asking.set(Some(Mode::Auto), true).await;
    world.judge(|_| panic!("a judge with a bug"));
    for key in ["k1", "k2"] {
        let made = asking.raise(key, &with_conversation(note())).await;
        assert_eq!(made["status"], "pending");
        approve(&world, id(&made)).await;
        world.pass(Duration::from_secs(1));
        assert_eq!(asking.consume(id(&made), "c").await.expect(200)["status"], "approved");
    }
}

on_both_stores!(
    policy_decides_at_once,
    the_judge_decides_at_once,
    a_failing_judge_leaves_it_to_a_person,
);
