//! Notifications, to a receiver on this machine.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use approver::service::aap::deliveries::Deliveries;
use approver::store::TokenKind;
use reqwest::Method;
use serde_json::{Value, json};

use super::receiver::{Move, REGISTRATION, Receiver, Verifies};
use super::{Asking, INSTANCES, approve, call, code, decide, id, members, note, provisioner};
use crate::doors::on_both_stores;
use crate::doors::world::World;

async fn told<'w>(world: &'w World, provisioner: &str, receiver: &Receiver) -> Asking<'w> {
    let body = json!({"delivery": receiver.delivery()});
    let made = world.post_once(INSTANCES, provisioner, &receiver.url, &body).await.expect(201);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (id, token) = (text(&made["instance"]["id"]), text(&made["credential"]["token"]));
    Asking { world, id, token }
}

async fn patch(
    world: &World,
    token: &str,
    id: &str,
    key: &str,
    body: &Value,
) -> crate::doors::world::Reply {
    let path = format!("{INSTANCES}/{id}");
    let headers = [("Idempotency-Key", key)];
    world.send(Method::PATCH, &path, Some(token), &headers, Some(body.to_string())).await
}

async fn a_receiver_is_asked_before_it_counts(world: World) {
    let provisioner = provisioner(&world).await;
    let receiver = Receiver::start().await;
    let body = json!({"instance_name": "laptop", "delivery": receiver.delivery()});
    for verifies in [Verifies::Bare, Verifies::Other, Verifies::Created, Verifies::More] {
        *receiver.verifies.lock().unwrap() = verifies;
        let reply = world.post_once(INSTANCES, &provisioner, "k1", &body).await;
        assert_eq!(reply.json["error"]["param"], "delivery");
        assert_eq!(code(reply, 422, "invalid_request"), "webhook_verification_failed");
    }
    assert!(world.store.instances(super::ORGANISATION).await.unwrap().is_empty());
    *receiver.verifies.lock().unwrap() = Verifies::Yes;
    let made = world.post_once(INSTANCES, &provisioner, "k1", &body).await.expect(201);
    let shown = json!({"type": "webhook", "url": receiver.url, "registration_id": REGISTRATION});
    assert_eq!(made["instance"]["delivery"], shown);
    assert!(!made.to_string().contains("whsec_"));
    let asked = receiver.messages("webhook.verification");
    assert_eq!(asked.len(), 5);
    let (_, last) = asked.last().unwrap();
    let names = ["challenge", "created_at", "id", "instance_id", "registration_id", "type"];
    assert_eq!(members(last), names);
    assert_eq!(last["instance_id"], made["instance"]["id"]);
    assert_eq!(last["registration_id"], REGISTRATION);
    let challenges: std::collections::BTreeSet<_> =
        asked.iter().map(|(_, message)| message["challenge"].to_string()).collect();
    assert_eq!(challenges.len(), 5);
    // A repeat asks nobody.
    let again = world.post_once(INSTANCES, &provisioner, "k1", &body).await.expect(200);
    assert_eq!(again, made);
    assert_eq!(receiver.messages("webhook.verification").len(), 5);
    // A change that is not verified changes nothing.
    *receiver.verifies.lock().unwrap() = Verifies::Bare;
    let id = made["instance"]["id"].as_str().unwrap();
    let mut other = receiver.delivery();
    other["registration_id"] = json!("11111111-1111-4111-8111-111111111111");
    let change = json!({"instance_name": "desk", "delivery": other});
    let reply = patch(&world, &provisioner, id, "u1", &change).await;
    assert_eq!(code(reply, 422, "invalid_request"), "webhook_verification_failed");
    let path = format!("{INSTANCES}/{id}");
    assert_eq!(world.get(&path, &provisioner).await.expect(200), made["instance"]);
    *receiver.verifies.lock().unwrap() = Verifies::Yes;
    let changed = patch(&world, &provisioner, id, "u1", &change).await.expect(200);
    assert_eq!(changed["name"], "desk");
    assert_eq!(changed["delivery"]["registration_id"], other["registration_id"]);
    let bare = patch(&world, &provisioner, id, "u2", &json!({"delivery": null})).await.expect(200);
    assert_eq!(members(&bare), ["id", "name"]);
}

async fn a_malformed_receiver_is_refused(world: World) {
    let provisioner = provisioner(&world).await;
    let receiver = Receiver::start().await;
    let with = |name: &str, value: Value| {
        let mut delivery = receiver.delivery();
        delivery[name] = value;
        json!({"delivery": delivery})
    };
    for (body, expected, param) in [
        (with("type", json!("socket")), "unsupported_delivery_type", "delivery.type"),
        (with("url", json!("http://a.example/")), "invalid_webhook_url", "delivery.url"),
        (with("url", json!("https://u@a.example/")), "invalid_webhook_url", "delivery.url"),
        (with("url", json!("https://a.example/#f")), "invalid_webhook_url", "delivery.url"),
        (with("url", json!(1)), "invalid_request", "delivery.url"),
        (with("registration_id", json!("r1")), "invalid_request", "delivery.registration_id"),
        (with("signing_secret", json!("secret")), "invalid_request", "delivery.signing_secret"),
        (
            with("signing_secret", json!("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=")),
            "invalid_request",
            "delivery.signing_secret",
        ),
        (with("events", json!([])), "invalid_request", "delivery.events"),
    ] {
        let reply = world.post_once(INSTANCES, &provisioner, "k1", &body).await;
        assert_eq!(reply.json["error"]["param"], param, "{}", reply.text);
        assert!(!reply.text.contains("whsec_AAE"), "{}", reply.text);
        assert_eq!(code(reply, 400, "invalid_request"), expected);
    }
    // Nobody answers there.
    let body = with("url", json!("http://127.0.0.1:1/"));
    let reply = world.post_once(INSTANCES, &provisioner, "k1", &body).await;
    assert_eq!(code(reply, 422, "invalid_request"), "webhook_verification_failed");
    assert!(receiver.got.lock().unwrap().is_empty());
}

async fn every_end_is_told_once(world: World) {
    let provisioner = provisioner(&world).await;
    let receiver = Receiver::start().await;
    let asking = told(&world, &provisioner, &receiver).await;
    let at_once = asking.raise("k1", &call("find", json!({}))).await;
    let approved = asking.raise("k2", &note()).await;
    let denied = asking.raise("k3", &note()).await;
    let cancelled = asking.raise("k4", &note()).await;
    let expired = asking.raise("k5", &note()).await;
    world.service.deliver_due().await.unwrap();
    assert_eq!(receiver.resolved().len(), 1);
    world.pass(Duration::from_millis(1_500));
    approve(&world, id(&approved)).await;
    decide(&world, id(&denied), false, Some("no")).await;
    asking.cancel(id(&cancelled)).await.expect(200);
    asking.cancel(id(&cancelled)).await.expect(200);
    world.pass(Duration::from_secs(1_800));
    asking.get(id(&expired)).await.expect(200);
    for _ in 0..4 {
        world.service.deliver_due().await.unwrap();
        world.pass(Duration::from_secs(1));
    }
    let told = receiver.resolved();
    assert_eq!(told.len(), 5);
    for made in [at_once, approved, denied, cancelled, expired] {
        let mut found = told.iter().filter(|(_, message)| message["request_id"] == made["id"]);
        let (_, message) = found.next().unwrap();
        assert!(found.next().is_none());
        assert_eq!(members(message), ["created_at", "id", "instance_id", "request_id", "type"]);
        assert_eq!(message["instance_id"], asking.id.as_str());
        let now = asking.get(id(&made)).await.expect(200);
        assert_eq!(message["created_at"], now["decision"]["decided_at"]);
    }
    // A replay tells nobody.
    asking.submit("k2", &note()).await.expect(200);
    world.pass(Duration::from_secs(90_000));
    world.service.deliver_due().await.unwrap();
    assert_eq!(receiver.resolved().len(), 5);
}

async fn what_is_not_acknowledged_comes_again(world: World) {
    let provisioner = provisioner(&world).await;
    let receiver = Receiver::start().await;
    let asking = told(&world, &provisioner, &receiver).await;
    let other = Receiver::start().await;
    for next in [
        Move::Status(500),
        Move::Redirect(other.url.clone()),
        Move::RetryAfter(503, "600"),
        Move::RetryAfter(429, "900"),
        Move::RetryAfter(500, "900"),
        Move::Status(404),
    ] {
        receiver.next(next);
    }
    let made = asking.raise("k1", &note()).await;
    approve(&world, id(&made)).await;
    let attempt = async |after: u64| {
        world.pass(Duration::from_secs(after));
        world.service.deliver_due().await.unwrap()
    };
    assert_eq!(attempt(0).await, 1);
    assert_eq!(attempt(0).await, 0);
    assert_eq!(attempt(3).await, 0);
    assert_eq!(attempt(3).await, 1);
    assert_eq!(attempt(11).await, 1);
    // As long as it asks for, where it may.
    assert_eq!(attempt(599).await, 0);
    assert_eq!(attempt(2).await, 1);
    assert_eq!(attempt(899).await, 0);
    assert_eq!(attempt(2).await, 1);
    assert_eq!(attempt(81).await, 1);
    assert_eq!(attempt(161).await, 1);
    assert_eq!(attempt(999_999).await, 0);
    let told = receiver.resolved();
    assert_eq!(told.len(), 7);
    assert!(other.got.lock().unwrap().is_empty());
    let first = &told[0];
    for (headers, message) in &told {
        assert_eq!(message, &first.1);
        assert_eq!(headers["webhook-id"], first.0["webhook-id"]);
    }
    // Every attempt is signed at its own time.
    let times: std::collections::BTreeSet<_> =
        told.iter().map(|(headers, _)| headers["webhook-timestamp"].to_str().unwrap()).collect();
    assert_eq!(times.len(), 7);
}

async fn delivery_is_given_up_after_a_week(world: World) {
    let provisioner = provisioner(&world).await;
    let receiver = Receiver::start().await;
    let asking = told(&world, &provisioner, &receiver).await;
    for _ in 0..200 {
        receiver.next(Move::Status(500));
    }
    let made = asking.raise("k1", &note()).await;
    approve(&world, id(&made)).await;
    for _ in 0..84 {
        world.service.deliver_due().await.unwrap();
        world.pass(Duration::from_secs(2 * 3_600));
    }
    let count = receiver.resolved().len();
    assert!((80..=84).contains(&count), "{count}");
    assert_eq!(world.service.deliver_due().await.unwrap(), 0);
    world.pass(Duration::from_secs(2 * 3_600));
    assert_eq!(world.service.deliver_due().await.unwrap(), 0);
    assert_eq!(receiver.resolved().len(), count);
}

async fn a_receiver_that_hangs_costs_its_own_attempt(world: World) {
    let provisioner = provisioner(&world).await;
    let receiver = Receiver::start().await;
    let asking = told(&world, &provisioner, &receiver).await;
    receiver.next(Move::Never);
    let made = asking.raise("k1", &note()).await;
    approve(&world, id(&made)).await;
    let begun = std::time::Instant::now();
    let replica = world.replica().await;
    let (one, two) = tokio::join!(world.service.deliver_due(), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        // Another replica leaves it alone meanwhile.
        replica.service.deliver_due().await
    });
    assert_eq!((one.unwrap(), two.unwrap()), (1, 0));
    let took = begun.elapsed();
    assert!((9..20).contains(&took.as_secs()), "{took:?}");
    world.pass(Duration::from_secs(6));
    assert_eq!(replica.service.deliver_due().await.unwrap(), 1);
    assert_eq!(receiver.resolved().len(), 2);
}

async fn a_host_that_hangs_leaves_room_for_others(world: World) {
    let provisioner = provisioner(&world).await;
    let stalled = Receiver::start_at("127.0.0.2").await;
    let healthy = Receiver::start().await;
    let hanging = told(&world, &provisioner, &stalled).await;
    let served = told(&world, &provisioner, &healthy).await;
    // More than there are attempts at once, and all of them older.
    for number in 0..40 {
        stalled.next(Move::Never);
        hanging.raise(&format!("s{number}"), &call("find", json!({}))).await;
    }
    world.pass(Duration::from_millis(1));
    for number in 0..6 {
        served.raise(&format!("h{number}"), &call("find", json!({}))).await;
    }
    let replica = world.replica().await;
    let workers = [&world, &replica].map(|world| Deliveries::start(Arc::clone(&world.service)));
    let end = std::time::Instant::now() + Duration::from_secs(60);
    let mut seen = false;
    while healthy.resolved().len() < 6 || !seen {
        assert!(std::time::Instant::now() < end, "{} of 6", healthy.resolved().len());
        seen |= stalled.held.now.load(Ordering::SeqCst) == 2;
        world.pass(Duration::from_millis(100));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(workers);
    assert_eq!(stalled.held.most.load(Ordering::SeqCst), 2);
    assert!(stalled.resolved().len() < 16, "the others were not waited for");
    assert_eq!(healthy.resolved().len(), 6);
}

async fn a_host_gets_ten_challenges_a_minute(world: World) {
    let provisioner = provisioner(&world).await;
    let versions = vec![("erp".to_owned(), "production".to_owned())];
    let another = world.token("another", TokenKind::Provisioner { versions }).await;
    let receiver = Receiver::start().await;
    let elsewhere = Receiver::start_at("127.0.0.2").await;
    let make = async |token: &str, key: u32, receiver: &Receiver| {
        let body = json!({"delivery": receiver.delivery()});
        world.post_once(INSTANCES, token, &format!("k{key}"), &body).await
    };
    for key in 0..10 {
        let token = if key < 5 { &provisioner } else { &another };
        make(token, key, &receiver).await.expect(201);
    }
    let reply = make(&another, 10, &receiver).await;
    assert!(reply.headers.contains_key("retry-after"));
    assert_eq!(code(reply, 429, "rate_limit"), "rate_limited");
    make(&another, 11, &elsewhere).await.expect(201);
    assert_eq!(receiver.messages("webhook.verification").len(), 10);
    // The key is free again, and so is the next minute.
    world.pass(Duration::from_secs(60));
    make(&another, 10, &receiver).await.expect(201);
    // A provisioner has thirty, wherever they go.
    let receivers = futures::future::join_all(
        (10..14).map(|last| async move { Receiver::start_at(&format!("127.0.0.{last}")).await }),
    );
    let receivers = receivers.await;
    for key in 0..30 {
        make(&provisioner, 100 + key, &receivers[key as usize % 4]).await.expect(201);
    }
    let reply = make(&provisioner, 130, &receivers[0]).await;
    assert_eq!(code(reply, 429, "rate_limit"), "rate_limited");
}

async fn a_deleted_instances_receiver_hears_nothing(world: World) {
    let provisioner = provisioner(&world).await;
    let receiver = Receiver::start().await;
    let asking = told(&world, &provisioner, &receiver).await;
    let made = asking.raise("k1", &note()).await;
    asking.raise("k2", &note()).await;
    approve(&world, id(&made)).await;
    world.delete(&format!("{INSTANCES}/{}", asking.id), &provisioner).await.expect(204);
    assert_eq!(world.service.deliver_due().await.unwrap(), 0);
    assert!(receiver.resolved().is_empty());
}

async fn the_worker_delivers_and_stops(world: World) {
    let provisioner = provisioner(&world).await;
    let receiver = Receiver::start().await;
    let asking = told(&world, &provisioner, &receiver).await;
    let worker = Deliveries::start(Arc::clone(&world.service));
    let made = asking.raise("k1", &note()).await;
    approve(&world, id(&made)).await;
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while receiver.resolved().is_empty() {
        assert!(std::time::Instant::now() < end, "nothing was delivered");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    worker.stop().await;
    asking.raise("k2", &call("find", json!({}))).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(receiver.resolved().len(), 1);
    // What one process did not deliver, the next one does.
    let replica = world.replica().await;
    let worker = Deliveries::start(Arc::clone(&replica.service));
    while receiver.resolved().len() < 2 {
        assert!(std::time::Instant::now() < end + Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    worker.stop().await;
}

on_both_stores!(
    a_receiver_is_asked_before_it_counts,
    a_malformed_receiver_is_refused,
    every_end_is_told_once,
    what_is_not_acknowledged_comes_again,
    delivery_is_given_up_after_a_week,
    a_receiver_that_hangs_costs_its_own_attempt,
    a_host_that_hangs_leaves_room_for_others,
    a_host_gets_ten_challenges_a_minute,
    a_deleted_instances_receiver_hears_nothing,
    the_worker_delivers_and_stops,
);
