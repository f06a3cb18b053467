//! Whole error answers of statuses that need something to go wrong: 429, 431 and 500.

use std::sync::Arc;
use std::time::Duration;

use approver::http::server::{Connections, serve};
use approver::http::{Doors, router};
use approver::service::events::Events;
use approver::service::{Clock, Limits};
use approver::store::{PutVersion, TokenKind};
use reqwest::Method;
use serde_json::{Value, json};

use super::on_both_stores;
use super::world::{ORGANISATION, Reply, World};

/// The whole envelope of an error, whose request id the world compares with the header.
#[track_caller]
fn check(reply: &Reply, status: u16, expected: [&str; 3]) {
    assert_eq!(reply.status, status, "{}", reply.text);
    assert_eq!(reply.headers["content-type"], "application/json");
    let mut error = reply.json["error"].clone();
    error.as_object_mut().unwrap().remove("request_id");
    let [kind, code, message] = expected;
    assert_eq!(error, json!({"type": kind, "code": code, "message": message}));
    assert_eq!(reply.json.as_object().unwrap().len(), 1);
}

const BUG: [&str; 3] =
    ["internal", "internal_error", "Something is wrong here, and it is recorded."];

async fn too_many_polls_are_told_when_to_come_again(world: World) {
    let (ana, _) = world.staffed().await;
    let raised = world.waiting().await;
    let limits = Limits { polls_per_token: 0, ..Limits::default() };
    let world = world.beside(limits, Events::to_log()).await;
    let message = "At most 0 requests of a token may wait at once.";
    let listing = world.get("/v1/approvals", &ana).await.expect(200);
    let state = listing["state"].as_str().unwrap();
    for path in [raised.path("?wait=30s"), format!("/v1/approvals?wait=30s&state={state}")] {
        let reply = world.get(&path, &ana).await;
        assert_eq!(reply.headers["retry-after"], "1");
        check(&reply, 429, ["rate_limit", "rate_limited", message]);
    }
}

/// What is stored and cannot be read is nobody's request's fault.
async fn what_cannot_be_read_is_an_internal_error(world: World) {
    let operator = world.token("ana", TokenKind::Operator).await;
    let put = PutVersion {
        organisation: ORGANISATION.to_owned(),
        agent: "erp".to_owned(),
        version: "7".to_owned(),
        digest: "d".to_owned(),
        content: "planted".to_owned(),
        by: "owner".to_owned(),
        now: world.now(),
    };
    world.store.put_version(put).await.unwrap();
    let reply = world.get("/v1/agents/erp/versions/7", &operator).await;
    assert!(!reply.headers.contains_key("retry-after"));
    check(&reply, 500, ["internal", "internal_error", "The stored agent version cannot be read."]);
}

/// A bug costs its own request, whatever the method; the next is answered.
async fn a_panic_is_an_internal_error(world: World) {
    let (ana, gateway) = world.staffed().await;
    let raised = world.waiting().await;
    let broken = world.with_parts(|parts| parts.clock = Clock::of(|| panic!("planted"))).await;
    check(&broken.get(&raised.path(""), &ana).await, 500, BUG);
    check(&broken.post(&raised.path("/cancel"), &gateway, &Value::Null).await, 500, BUG);
    broken.get("/v1/agents/erp-assistant/versions", &ana).await.expect(200);
}

/// On HTTP/2 as on HTTP/1: a header over the limit gets an answer of ours, and the connection lives.
async fn a_header_over_the_limit_is_answered_on_either_http(world: World) {
    let doors = router(Doors { service: Arc::clone(&world.service), settings: Arc::default() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(serve(
        listener,
        doors,
        Connections::default(),
        async move { stopped.await.unwrap_or_default() },
        Duration::from_secs(10),
    ));
    let second = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    for client in [world.client.clone(), second] {
        let mut world = world.with_parts(|_| {}).await;
        (world.url, world.client) = (url.clone(), client);
        let large = "a".repeat(64 * 1024);
        let reply = world.send(Method::GET, "/healthz", None, &[("x-a", &large)], None).await;
        let message = "A request's header fields have at most 65536 bytes.";
        check(&reply, 431, ["invalid_request", "header_too_large", message]);
        world.send(Method::GET, "/healthz", None, &[], None).await.expect(200);
    }
    stop.send(()).unwrap();
    serving.await.unwrap();
}

on_both_stores!(
    a_header_over_the_limit_is_answered_on_either_http,
    too_many_polls_are_told_when_to_come_again,
    what_cannot_be_read_is_an_internal_error,
    a_panic_is_an_internal_error,
);
