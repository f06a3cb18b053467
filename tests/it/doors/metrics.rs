//! Metrics over HTTP, and what a stop and its limits look like from outside.

use std::time::Duration;

use approver::judge::scripted::Move;
use approver::store::TokenKind;
use reqwest::Method;
use serde_json::json;

use super::judgements::{ESCALATES, note, request};
use super::on_both_stores;
use super::raised::{Raise, call};
use super::world::World;

async fn metrics_need_a_token_and_name_nobody(world: World) {
    let reply = world.send(Method::GET, "/metrics", None, &[], None).await;
    assert_eq!(reply.error(401), "unauthenticated");
    let operator = world.token("Ana", TokenKind::Operator).await;
    assert_eq!(world.get("/metrics", &operator).await.error(403), "forbidden");
    let admin = world.token("root", TokenKind::Admin).await;
    world.get("/v1/agents/planted/versions/planted?planted=1", &admin).await.error(400);
    world.send(Method::GET, "/planted", None, &[], None).await.error(404);
    let brew = Method::from_bytes(b"PLANTED").unwrap();
    world.send(brew, "/healthz", None, &[], None).await.error(405);
    let reply = world.get("/metrics", &admin).await;
    assert!(reply.headers["content-type"].to_str().unwrap().contains("openmetrics-text"));
    let text = reply.text;
    for line in [
        "approver_pending_approvals 0",
        "approver_oldest_pending_approval_seconds 0",
        "approver_judge_breaker_open 0",
        r#"approver_http_requests_total{method="GET",route="/v1/agents/{agent}/versions/{version}",status="400"} 1"#,
        r#"approver_http_requests_total{method="GET",route="unknown",status="404"} 1"#,
        r#"approver_http_requests_total{method="other",route="/healthz",status="405"} 1"#,
        r#"approver_http_requests_total{method="GET",route="/metrics",status="403"} 1"#,
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
    for planted in ["planted", "PLANTED", "maple", "Ana"] {
        assert!(!text.contains(planted), "{planted}\n{text}");
    }
}

async fn a_judgement_is_counted_once(world: World) {
    let gateway = world.gateway().await;
    let admin = world.token("root", TokenKind::Admin).await;
    // A repeat is nothing new.
    for _ in 0..2 {
        world.judge_calls(&gateway, "k1", &request(&[note("c1")])).await.expect(200);
    }
    world.judge(|_| Move::say(ESCALATES));
    let mut second = request(&[note("c2")]);
    second["turn"]["id"] = json!("resp_2");
    world.judge_calls(&gateway, "k2", &second).await.expect(200);
    let text = world.get("/metrics", &admin).await.text;
    for line in [
        r#"approver_judgements_total{outcome="approved",reason=""} 1"#,
        r#"approver_judgements_total{outcome="pending",reason="judge_escalated"} 1"#,
        "approver_judge_seconds_count 2",
        "approver_pending_approvals 1",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
}

/// The oldest of every organisation, until somebody decides it.
async fn the_longest_wait_is_shown(world: World) {
    let admin = world.token("root", TokenKind::Admin).await;
    let (ana, _) = world.staffed().await;
    let first = world.waiting().await;
    world.pass(Duration::from_secs(40));
    world.raise(Raise { organisation: "oak".to_owned(), ..call("call_2", "note_add") }).await;
    world.pass(Duration::from_secs(5));
    let check = async |count: u64, seconds: u64| {
        let text = world.get("/metrics", &admin).await.text;
        for line in [
            format!("approver_pending_approvals {count}"),
            format!("approver_oldest_pending_approval_seconds {seconds}"),
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
    };
    check(2, 45).await;
    world.decide(&first, &ana, &first.reject()).await.expect(200);
    check(1, 5).await;
}

async fn a_stopping_service_takes_nothing_new(world: World) {
    let admin = world.token("root", TokenKind::Admin).await;
    world.service.running.stop();
    let reply = world.put("/v1/automatic-approval", &admin, &json!({"enabled": false})).await;
    assert_eq!(reply.headers["retry-after"], "1");
    assert_eq!(reply.error(503), "stopping");
    world.send(Method::GET, "/healthz", None, &[], None).await.expect(200);
    let ready = world.client.get(format!("{}/readyz", world.url)).send().await.unwrap();
    assert_eq!(ready.status(), 503);
    let ready: serde_json::Value = ready.json().await.unwrap();
    assert_eq!((&ready["status"], &ready["store"]), (&json!("stopping"), &json!("ok")));
    assert_eq!(world.get("/metrics", &admin).await.status, 200);
    tokio::time::timeout(Duration::from_secs(5), world.service.running.idle()).await.unwrap();
}

async fn a_body_over_the_limit_is_refused(world: World) {
    let owner = world.token("owner", TokenKind::PolicyOwner).await;
    let path = "/v1/agents/erp/versions/7";
    let body = json!({"instructions": "a".repeat(8 * 1024 * 1024)});
    let reply = world.put(path, &owner, &body).await;
    assert_eq!(reply.error(413), "body_too_large");
    let reply = world
        .client
        .put(format!("{}{path}", world.url))
        .bearer_auth(&owner)
        .body("{}")
        .send()
        .await
        .unwrap();
    assert_eq!(reply.status(), 415);
}

on_both_stores!(
    metrics_need_a_token_and_name_nobody,
    a_judgement_is_counted_once,
    the_longest_wait_is_shown,
    a_stopping_service_takes_nothing_new,
    a_body_over_the_limit_is_refused,
);
