//! What a key ring that lacks a key leaves to a person, and what moves to its first key.

use std::sync::Arc;
use std::time::Duration;

use approver::service::events::Events;
use approver::service::housekeeping::{Housekeeping, HousekeepingSettings};
use approver::service::keys::Part;
use approver::service::{Limits, Resealed};
use approver::store::{Delivery, KeyUse, Sealed};
use serde_json::json;

use super::on_both_stores;
use super::raised::{CONVERSATION, call};
use super::world::World;
use crate::store::instances::{provisioned, receiver};
use crate::store::world::{ORGANISATION as ORG, World as StoreWorld};

const SECRET: &[u8] = b"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const NOTHING: Resealed = Resealed { count: 0, next: None };

/// The same service after its only key was replaced.
async fn without_the_key(world: &World) -> World {
    world.under_keys(&["k2"], Limits::default(), Events::to_log()).await
}

async fn what_cannot_be_opened_can_be_rejected_and_not_approved(world: World) {
    let (ana, gateway) = world.staffed().await;
    let raised = world.waiting().await;
    let other = without_the_key(&world).await;
    let body = other.get(&raised.path(""), &ana).await.expect(200);
    assert_eq!(body["status"], "pending");
    assert!(body.get("arguments").is_none() && body.get("hmac").is_none(), "{body}");
    assert_eq!(body["arguments_missing"], json!({"reason": "key_missing", "key_id": "k1"}));

    let reply = other.decide(&raised, &ana, &raised.approve()).await;
    let message = reply.json["error"]["message"].as_str().unwrap();
    assert!(message.contains("`k1`") && message.contains("Put the key back"), "{message}");
    let detail = json!({"approval_id": raised.id, "key_id": "k1"});
    assert_eq!(reply.json["error"]["detail"], detail);
    assert_eq!(reply.error(409), "key_missing");
    let turn = json!({"turn_id": "resp_1", "continuation_id": "resp_2", "decided_by": "ana",
        "input": [raised.answer("approve")]});
    assert_eq!(other.post("/v1/decisions", &gateway, &turn).await.error(409), "key_missing");
    assert_eq!(world.status(&raised).await, "pending");

    // Whoever rejects needs nothing that only the arguments could tell.
    let reject = json!({"decision": "reject", "hmac": "", "reason": "Nobody can read it."});
    other.decide(&raised, &ana, &reject).await.expect(200);
    assert_eq!(world.status(&raised).await, "rejected");
}

async fn a_start_finds_out_which_keys_are_missing(world: World) {
    world.staffed().await;
    assert_eq!(without_the_key(&world).await.service.check_keys().await.unwrap(), []);
    world.waiting().await;
    let missing = without_the_key(&world).await.service.check_keys().await.unwrap();
    assert_eq!(missing, [KeyUse { key_id: "k1".to_owned(), pending: 1, signing_secrets: 0 }]);
    let both = world.under_keys(&["k2", "k1"], Limits::default(), Events::to_log()).await;
    assert_eq!(both.service.check_keys().await.unwrap(), []);
}

async fn the_key_that_comes_back_brings_the_approval_back(world: World) {
    let (ana, _) = world.staffed().await;
    let raised = world.waiting().await;
    let other = without_the_key(&world).await;
    assert_eq!(other.decide(&raised, &ana, &raised.approve()).await.error(409), "key_missing");
    let both = world.under_keys(&["k2", "k1"], Limits::default(), Events::to_log()).await;
    let body = both.get(&raised.path(""), &ana).await.expect(200);
    assert!(body.get("arguments_missing").is_none(), "{body}");
    // With the key a wrong `hmac` is a wrong `hmac`, whatever the decision.
    let wrong = json!({"decision": "reject", "hmac": "0".repeat(64)});
    assert_eq!(both.decide(&raised, &ana, &wrong).await.error(400), "approval_hmac_mismatch");
    both.decide(&raised, &ana, &raised.approve()).await.expect(200);
}

async fn every_other_end_needs_no_key(world: World) {
    let (ana, gateway) = world.staffed().await;
    let in_turn = world.waiting().await;
    let cancelled = world
        .raise(super::raised::Raise { turn: "resp_3".to_owned(), ..call("call_2", "note_add") });
    let cancelled = cancelled.await;
    let other = without_the_key(&world).await;
    let turn = json!({"turn_id": "resp_1", "continuation_id": "resp_2", "decided_by": "ana",
        "input": [in_turn.answer("reject")]});
    other.post("/v1/decisions", &gateway, &turn).await.expect(200);
    assert_eq!(world.status(&in_turn).await, "rejected");
    other.post(&cancelled.path("/cancel"), &gateway, &json!({})).await.expect(200);
    assert_eq!(world.status(&cancelled).await, "cancelled");

    let deleted = world
        .raise(super::raised::Raise { turn: "resp_4".to_owned(), ..call("call_3", "note_add") });
    let deleted = deleted.await;
    let path = format!("/v1/conversations/{CONVERSATION}");
    assert!(other.delete(&path, &gateway).await.status < 300);
    assert_eq!(world.status(&deleted).await, "cancelled");

    let expired = world.raise(super::raised::Raise {
        conversation: "conv_2".to_owned(),
        ..call("call_4", "note_add")
    });
    let expired = expired.await;
    world.pass(Duration::from_secs(3_601));
    let later = without_the_key(&world).await;
    assert_eq!(later.service.expire_due(10).await.unwrap(), 1);
    let body = later.get(&expired.path(""), &ana).await.expect(200);
    assert_eq!(body["status"], "expired");
}

/// An instance whose signing secret is sealed under `k1`.
async fn told(world: &World, instance: &str) {
    let sealed = world.service.keys.seal(ORG, instance, Part::SigningSecret, SECRET).unwrap();
    told_under(world, instance, sealed).await;
}

async fn told_under(world: &World, instance: &str, secret: Sealed) {
    let store = StoreWorld::new(Arc::clone(&world.store));
    let delivery = Delivery { secret, ..receiver("https://agent.example/hook") };
    provisioned(&store, instance, Some(delivery)).await;
}

async fn secret(world: &World, instance: &str) -> Sealed {
    let instance = world.store.instance(ORG, instance).await.unwrap().unwrap();
    instance.delivery.unwrap().secret
}

async fn signing_secrets_move_to_the_first_key(world: World) {
    for instance in ["i1", "i2", "i3", "i5"] {
        told(&world, instance).await;
    }
    // One that nobody can open is left as it is, and is in nobody's way.
    let lost = Sealed { key_id: "lost".to_owned(), ciphertext: vec![1; 40] };
    told_under(&world, "i4", lost.clone()).await;
    let rotated = world.under_keys(&["k2", "k1"], Limits::default(), Events::to_log()).await;
    let settings = HousekeepingSettings { batch: 2, ..HousekeepingSettings::default() };
    let housekeeping = Housekeeping::start(Arc::clone(&rotated.service), settings);
    let moved = async {
        loop {
            let used = world.store.keys_in_use().await.unwrap();
            if used.iter().all(|used| used.key_id != "k1") {
                return used;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let used = tokio::time::timeout(Duration::from_secs(60), moved).await.unwrap();
    housekeeping.stop().await;
    let under = |key: &str, signing_secrets: u64| KeyUse {
        key_id: key.to_owned(),
        pending: 0,
        signing_secrets,
    };
    assert_eq!(used, [under("k2", 4), under("lost", 1)]);
    assert_eq!(secret(&world, "i4").await, lost);
    // The older key may go: the secrets are what they were.
    let only = without_the_key(&world).await;
    for instance in ["i1", "i2", "i3", "i5"] {
        let sealed = secret(&world, instance).await;
        let opened = only.service.keys.open(ORG, instance, Part::SigningSecret, &sealed);
        assert_eq!(opened.unwrap(), SECRET);
    }
    // Once more there is nothing to do.
    assert_eq!(only.service.reseal_secrets(None, 10).await.unwrap(), NOTHING);
}

async fn replicas_seal_each_secret_anew_once(world: World) {
    let ids: Vec<String> = (0..20).map(|index| format!("i{index:02}")).collect();
    for id in &ids {
        told(&world, id).await;
    }
    let one = world.under_keys(&["k2", "k1"], Limits::default(), Events::to_log()).await;
    let other = world.under_keys(&["k2", "k1"], Limits::default(), Events::to_log()).await;
    let (one, other) = tokio::join!(
        one.service.reseal_secrets(None, 100),
        other.service.reseal_secrets(None, 100),
    );
    assert_eq!(one.unwrap().count + other.unwrap().count, 20);
    let only = without_the_key(&world).await;
    for id in &ids {
        let sealed = secret(&world, id).await;
        let opened = only.service.keys.open(ORG, id, Part::SigningSecret, &sealed);
        assert_eq!(opened.unwrap(), SECRET);
    }
}

on_both_stores!(
    signing_secrets_move_to_the_first_key,
    replicas_seal_each_secret_anew_once,
    what_cannot_be_opened_can_be_rejected_and_not_approved,
    a_start_finds_out_which_keys_are_missing,
    the_key_that_comes_back_brings_the_approval_back,
    every_other_end_needs_no_key,
);
