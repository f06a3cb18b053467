//! Waiting for a change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use approver::service::Limits;
use approver::service::events::Events;
use approver::service::housekeeping::{Housekeeping, HousekeepingSettings};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::on_both_stores;
use super::raised::{Raised, call};
use super::world::{ORGANISATION, Reply, World};
use crate::store::place::PostgresPlace;

/// A poll that is on its way, with time to get there.
async fn poll(world: &Arc<World>, path: &str, token: &str) -> JoinHandle<(Reply, Duration)> {
    let (world, path, token) = (Arc::clone(world), path.to_owned(), token.to_owned());
    let poll = tokio::spawn(async move {
        let start = Instant::now();
        let reply = world.get(&path, &token).await;
        (reply, start.elapsed())
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!poll.is_finished(), "it waits");
    poll
}

/// The answer of a poll that ended before its time.
#[track_caller]
fn woken(poll: JoinHandle<(Reply, Duration)>) -> impl Future<Output = Value> {
    let caller = std::panic::Location::caller();
    async move {
        let (reply, elapsed) = poll.await.unwrap();
        assert!(elapsed < Duration::from_secs(20), "{caller}: {elapsed:?}");
        reply.expect(200)
    }
}

async fn a_poll_ends_with_the_approval(world: World) {
    let (ana, gateway) = world.staffed().await;
    let world = Arc::new(world);
    let decided = world.waiting().await;
    let waiting = poll(&world, &decided.path("?wait=30s"), &gateway).await;
    world.decide(&decided, &ana, &decided.approve()).await.expect(200);
    assert_eq!(woken(waiting).await["status"], "approved");

    let cancelled = world.raise(call("call_2", "note_add")).await;
    let waiting = poll(&world, &cancelled.path("?wait=24h"), &ana).await;
    world.post(&cancelled.path("/cancel"), &gateway, &json!({})).await.expect(200);
    assert_eq!(woken(waiting).await["status"], "cancelled");

    let expired = world.raise(call("call_3", "note_add")).await;
    let settings =
        HousekeepingSettings { expire_every: Duration::from_millis(50), ..Default::default() };
    let housekeeping = Housekeeping::start(Arc::clone(&world.service), settings);
    let waiting = poll(&world, &expired.path("?wait=30s"), &ana).await;
    world.pass(Duration::from_secs(3600));
    assert_eq!(woken(waiting).await["status"], "expired");
    housekeeping.stop().await;

    // What is over is not waited for.
    for raised in [&decided, &cancelled, &expired] {
        let start = Instant::now();
        world.get(&raised.path("?wait=30s"), &ana).await.expect(200);
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    // And what is not over is answered as it is.
    let pending = world.raise(call("call_4", "note_add")).await;
    let start = Instant::now();
    let body = world.get(&pending.path("?wait=1s"), &ana).await.expect(200);
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(body["status"], "pending");
}

async fn a_revoked_token_waits_no_longer(world: World) {
    let (ana, gateway) = world.staffed().await;
    let bob = world.token("bob", approver::store::TokenKind::Operator).await;
    let world = Arc::new(world);
    let raised = world.waiting().await;
    let one = poll(&world, &raised.path("?wait=30s"), &bob).await;
    let listed = world.get("/v1/approvals", &bob).await.expect(200);
    let path = format!("/v1/approvals?wait=30s&state={}", listed["state"].as_str().unwrap());
    let all = poll(&world, &path, &bob).await;
    world.revoke(&bob).await;
    world.decide(&raised, &ana, &raised.approve()).await.expect(200);
    for waiting in [one, all] {
        let (reply, _) = waiting.await.unwrap();
        assert_eq!(reply.error(401), "unauthenticated");
    }
    // At the end of its time too.
    let raised = world.raise(call("call_2", "note_add")).await;
    let waiting = poll(&world, &raised.path("?wait=1s"), &gateway).await;
    world.revoke(&gateway).await;
    assert_eq!(waiting.await.unwrap().0.error(401), "unauthenticated");
}

async fn a_listing_waits_for_another_page(world: World) {
    let (ana, gateway) = world.staffed().await;
    let world = Arc::new(world);
    let base = "/v1/approvals?status=pending";
    let listed = world.get(base, &ana).await.expect(200);
    let next = |page: &Value| format!("{base}&wait=30s&state={}", page["state"].as_str().unwrap());
    let waiting = poll(&world, &next(&listed), &ana).await;
    let raised = world.waiting().await;
    let page = woken(waiting).await;
    assert_eq!(page["approvals"][0]["id"], json!(raised.id));
    let waiting = poll(&world, &next(&page), &ana).await;
    world.post(&raised.path("/cancel"), &gateway, &json!({})).await.expect(200);
    let page = woken(waiting).await;
    assert_eq!(page["approvals"], json!([]));
    assert_eq!(page["state"], listed["state"]);
    // A state that is not this one is answered at once; one that stays, at the end of the time.
    let start = Instant::now();
    world.get(&format!("{base}&wait=30s&state=old"), &ana).await.expect(200);
    assert!(start.elapsed() < Duration::from_secs(10));
    let page = world.get(&next(&page).replace("30s", "1s"), &ana).await.expect(200);
    assert_eq!(page["state"], listed["state"]);
}

async fn polls_of_a_token_are_capped(world: World) {
    let (ana, _) = world.staffed().await;
    let bob = world.token("bob", approver::store::TokenKind::Operator).await;
    let raised = world.waiting().await;
    let limits = Limits { polls_per_token: 2, ..Limits::default() };
    let world = Arc::new(world.beside(limits, Events::to_log()).await);
    let path = raised.path("?wait=30s");
    let first = poll(&world, &path, &ana).await;
    let second = poll(&world, &path, &ana).await;
    let reply = world.get(&path, &ana).await;
    assert!(reply.headers.contains_key("retry-after"));
    assert_eq!(reply.error(429), "rate_limited");
    // Reading without waiting, and another token, are not in the way.
    world.get(&raised.path(""), &ana).await.expect(200);
    let other = poll(&world, &path, &bob).await;
    // Whoever hangs up gives the place back.
    first.abort();
    let third = async {
        loop {
            let reply = world.get(&raised.path("?wait=1s"), &ana).await;
            if reply.status != 429 {
                return reply;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let third = tokio::time::timeout(Duration::from_secs(20), third).await.unwrap();
    assert_eq!(third.expect(200)["status"], "pending");
    // A stop ends them all, with what stands.
    world.service.end_polls();
    for waiting in [second, other] {
        assert_eq!(woken(waiting).await["status"], "pending");
    }
}

on_both_stores!(
    a_poll_ends_with_the_approval,
    a_revoked_token_waits_no_longer,
    a_listing_waits_for_another_page,
    polls_of_a_token_are_capped,
);

/// A poll at one replica, the decision at another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_replica_wakes_a_poll() {
    let place = PostgresPlace::new().await;
    let here = Arc::new(World::start(place.open().await).await);
    let there = World::start(place.open().await).await;
    let (ana, gateway) = here.staffed().await;
    let one: Raised = here.waiting().await;
    let waiting = poll(&here, &one.path("?wait=30s"), &gateway).await;
    there.decide(&one, &ana, &one.reject()).await.expect(200);
    assert_eq!(woken(waiting).await["status"], "rejected");
    // Who decided there is who decided, here too.
    let reply = here.decide(&one, &ana, &one.approve()).await;
    assert_eq!(reply.error(409), "approval_already_decided");
    // A call is released by one of them.
    let two = there.raise(call("call_2", "note_add")).await;
    here.decide(&two, &ana, &two.approve()).await.expect(200);
    there.claim(&two, &gateway, "k1").await.expect(200);
    assert_eq!(here.claim(&two, &gateway, "k2").await.error(409), "already_claimed");
    here.claim(&two, &gateway, "k1").await.expect(200);
    assert!(here.store.approval(ORGANISATION, &two.id).await.unwrap().is_some());
    drop((here, there));
    place.remove().await;
}
