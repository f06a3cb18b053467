//! What a gateway does with an approval: claim, execution, cancellation.

use std::sync::Arc;
use std::time::Duration;

use approver::store::{ExecutionStatus, Standing, TokenKind};
use reqwest::Method;
use serde_json::json;

use super::on_both_stores;
use super::raised::{Raise, Raised, call, wire};
use super::world::{ORGANISATION, World};

async fn approved(world: &World, ana: &str, call_id: &str) -> Raised {
    let raised = world.raise(call(call_id, "note_add")).await;
    world.decide(&raised, ana, &raised.approve()).await.expect(200);
    raised
}

async fn one_key_gets_the_call(world: World) {
    let (ana, gateway) = world.staffed().await;
    let second = world.token("gw2", TokenKind::Gateway { decide: false }).await;
    let raised = approved(&world, &ana, "call_1").await;
    let start_by = wire(world.now().plus(Duration::from_secs(300)));
    let released = json!({"release": true, "start_by": start_by});
    assert_eq!(world.claim(&raised, &gateway, "k1").await.expect(200), released);
    // Its repeats get the same, also after the time to start; a key means nothing under another token.
    assert_eq!(world.claim(&raised, &gateway, "k1").await.expect(200), released);
    assert_eq!(world.claim(&raised, &gateway, "k2").await.error(409), "already_claimed");
    assert_eq!(world.claim(&raised, &second, "k1").await.error(409), "already_claimed");
    world.pass(Duration::from_secs(300));
    assert_eq!(world.claim(&raised, &gateway, "k1").await.expect(200), released);
    assert_eq!(world.claim(&raised, &gateway, "k2").await.error(409), "already_claimed");
}

async fn of_many_claims_one_releases(world: World) {
    let (ana, gateway) = world.staffed().await;
    let raised = Arc::new(approved(&world, &ana, "call_1").await);
    let world = Arc::new(world);
    let claims: Vec<_> = (0..64)
        .map(|number| {
            let (world, raised, gateway) =
                (Arc::clone(&world), Arc::clone(&raised), gateway.clone());
            tokio::spawn(
                async move { world.claim(&raised, &gateway, &format!("key-{number}")).await },
            )
        })
        .collect();
    let mut released = 0;
    for claim in claims {
        let reply = claim.await.unwrap();
        if reply.status == 200 {
            assert_eq!(reply.json["release"], true);
            released += 1;
        } else {
            assert_eq!(reply.error(409), "already_claimed");
        }
    }
    assert_eq!(released, 1);
}

async fn what_is_not_approved_is_not_released(world: World) {
    let (ana, gateway) = world.staffed().await;
    let pending = world.waiting().await;
    let rejected = world.raise(call("call_2", "note_add")).await;
    world.decide(&rejected, &ana, &rejected.reject()).await.expect(200);
    for (raised, status) in [(&pending, "pending"), (&rejected, "rejected")] {
        let reply = world.claim(raised, &gateway, "k").await;
        assert_eq!(reply.json["error"]["detail"], json!({"status": status}));
        assert_eq!(reply.error(409), "not_approved");
    }
    let late = approved(&world, &ana, "call_3").await;
    world.pass(Duration::from_millis(299_999));
    let early = approved(&world, &ana, "call_4").await;
    world.claim(&late, &gateway, "k").await.expect(200);
    world.pass(Duration::from_secs(300));
    assert_eq!(world.claim(&early, &gateway, "k").await.error(409), "approval_expired");
    // What a person never got to is expired, whoever asks first.
    world.pass(Duration::from_secs(3600));
    let reply = world.claim(&pending, &gateway, "k").await;
    assert_eq!(reply.json["error"]["detail"], json!({"status": "expired"}));
    assert_eq!(reply.error(409), "not_approved");
}

async fn only_gateways_run_calls(world: World) {
    let (ana, _) = world.staffed().await;
    let raised = approved(&world, &ana, "call_1").await;
    let owner = world.token("owner", TokenKind::PolicyOwner).await;
    let foreign = world.token_of("birch", "gw", TokenKind::Gateway { decide: true }).await;
    for rest in ["/claim", "/execution", "/cancel"] {
        let body = json!({"status": "OK"});
        for token in [&ana, &owner] {
            let reply = world.post_once(&raised.path(rest), token, "k", &body).await;
            assert_eq!(reply.error(403), "forbidden", "{rest}");
        }
        let reply = world.post_once(&raised.path(rest), &foreign, "k", &body).await;
        assert_eq!(reply.error(404), "not_found", "{rest}");
    }
}

async fn a_claim_needs_a_key(world: World) {
    let (ana, gateway) = world.staffed().await;
    let raised = approved(&world, &ana, "call_1").await;
    let path = raised.path("/claim");
    let reply = world.send(Method::POST, &path, Some(&gateway), &[], None).await;
    assert_eq!(reply.json["error"]["param"], "Idempotency-Key");
    assert_eq!(reply.error(400), "missing_idempotency_key");
    let long = "k".repeat(256);
    for keys in [vec![""], vec![&long], vec!["a b"], vec!["a", "b"]] {
        let headers: Vec<_> = keys.iter().map(|key| ("Idempotency-Key", *key)).collect();
        let reply = world.send(Method::POST, &path, Some(&gateway), &headers, None).await;
        assert_eq!(reply.json["error"]["param"], "Idempotency-Key");
        assert_eq!(reply.error(400), "invalid_request");
    }
    // A claim has no body.
    let headers = [("Idempotency-Key", "k")];
    world.send(Method::POST, &path, Some(&gateway), &headers, None).await.expect(200);
}

async fn an_execution_is_reported_once(world: World) {
    let (ana, gateway) = world.staffed().await;
    let raised = world.waiting().await;
    let path = raised.path("/execution");
    let report = json!({"status": "OK", "output": "done, planted-output"});
    assert_eq!(world.post(&path, &gateway, &report).await.error(409), "not_approved");
    world.decide(&raised, &ana, &raised.approve()).await.expect(200);
    assert_eq!(world.post(&path, &gateway, &report).await.error(409), "not_claimed");
    world.claim(&raised, &gateway, "k").await.expect(200);
    for (body, param) in [
        (json!({}), "$.status"),
        (json!({"status": "ok"}), "$.status"),
        (json!({"status": "OK", "output": {}}), "$.output"),
        (json!({"status": "OK", "code": 1}), "$.code"),
    ] {
        let reply = world.post(&path, &gateway, &body).await;
        assert_eq!(reply.json["error"]["param"], param);
        assert_eq!(reply.error(400), "invalid_request");
    }
    let reply = world.post(&path, &gateway, &report).await.expect(200);
    let execution = json!({"status": "OK", "at": wire(world.now())});
    let expected = json!({"approval_id": raised.id, "status": "approved", "execution": execution});
    assert_eq!(reply, expected);
    for status in ["OK", "TIMEOUT"] {
        let reply = world.post(&path, &gateway, &json!({"status": status})).await;
        assert_eq!(reply.json["error"]["detail"], json!({"status": "OK"}));
        assert_eq!(reply.error(409), "execution_already_reported");
    }
    // The output is sealed.
    let sealed = world.store.sealed(ORGANISATION, &raised.id).await.unwrap().output.unwrap();
    let plain = b"planted-output";
    assert!(!sealed.ciphertext.windows(plain.len()).any(|bytes| bytes == plain));
    assert_eq!(
        world.get(&raised.path(""), &ana).await.expect(200)["execution"]["output"],
        report["output"]
    );
}

/// What a machine approved needs no claim, and its execution is reported alike.
async fn what_a_machine_approved_is_reported_too(world: World) {
    let (_, gateway) = world.staffed().await;
    let standing = Standing::Approved {
        by: "auto:approver".to_owned(),
        reason: None,
        start_by: world.now().plus(Duration::from_secs(300)),
    };
    let raised = world.raise(Raise { standing, ..call("call_1", "note_add") }).await;
    let report = json!({"status": "TIMEOUT"});
    world.post(&raised.path("/execution"), &gateway, &report).await.expect(200);
    let stored = world.store.approval(ORGANISATION, &raised.id).await.unwrap().unwrap();
    assert_eq!(stored.execution.unwrap().status, ExecutionStatus::Timeout);
}

async fn what_nobody_waits_for_is_cancelled(world: World) {
    let (ana, gateway) = world.staffed().await;
    let raised = world.waiting().await;
    let path = raised.path("/cancel");
    for _ in 0..2 {
        let reply = world.send(Method::POST, &path, Some(&gateway), &[], None).await;
        assert_eq!(reply.expect(200), json!({"approval_id": raised.id, "status": "cancelled"}));
    }
    let reply = world.decide(&raised, &ana, &raised.approve()).await;
    assert_eq!(reply.json["error"]["detail"]["status"], "cancelled");
    assert_eq!(reply.error(409), "approval_already_decided");
    let decided = approved(&world, &ana, "call_2").await;
    let reply = world.send(Method::POST, &decided.path("/cancel"), Some(&gateway), &[], None).await;
    assert_eq!(reply.json["error"]["detail"]["decided_by"], "ana");
    assert_eq!(reply.error(409), "approval_already_decided");
}

on_both_stores!(
    one_key_gets_the_call,
    of_many_claims_one_releases,
    what_is_not_approved_is_not_released,
    only_gateways_run_calls,
    a_claim_needs_a_key,
    an_execution_is_reported_once,
    what_a_machine_approved_is_reported_too,
    what_nobody_waits_for_is_cancelled,
);
