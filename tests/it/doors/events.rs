//! What is told of approvals, and what happens to them without anybody asking.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use approver::service::Limits;
use approver::service::events::{Event, EventCounts, Events, WebhookSettings};
use approver::service::housekeeping::{Housekeeping, HousekeepingSettings};
use approver::store::Postgres;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::on_both_stores;
use super::raised::{Raise, call};
use super::world::{ORGANISATION, World};
use crate::store::place::PostgresPlace;
use crate::store::proxy::Proxy;

pub(super) const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

pub(super) type Taken = Arc<Mutex<Vec<(HeaderMap, String)>>>;

/// A receiver that refuses the first `refused` attempts.
pub(super) async fn receiver(refused: usize) -> (String, Taken, Arc<Mutex<usize>>) {
    let taken = Taken::default();
    let attempts = Arc::new(Mutex::new(0));
    let state = (Arc::clone(&taken), Arc::clone(&attempts));
    let app = Router::new()
        .route(
            "/hook",
            post(
                async move |State((taken, attempts)): State<(Taken, Arc<Mutex<usize>>)>,
                            headers: HeaderMap,
                            body: String| {
                    let mut attempts = attempts.lock().unwrap();
                    *attempts += 1;
                    if *attempts <= refused {
                        return StatusCode::SERVICE_UNAVAILABLE;
                    }
                    taken.lock().unwrap().push((headers, body));
                    StatusCode::NO_CONTENT
                },
            ),
        )
        .with_state(state);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, taken, attempts)
}

fn settings(url: &str) -> WebhookSettings {
    let mut settings = WebhookSettings::new(url, SECRET.into());
    settings.pause = Duration::from_millis(10);
    settings
}

pub(super) async fn drained(events: &Events) {
    tokio::time::timeout(Duration::from_secs(20), events.drained()).await.expect("it drains");
}

/// HMAC-SHA-256 by another way than the program's: with the hash alone (RFC 2104).
fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    use sha2::{Digest, Sha256};
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let padded = |pad: u8| block.map(|byte| byte ^ pad);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().to_vec()
}

async fn events_are_signed_and_hold_no_content(world: World) {
    let (ana, gateway) = world.staffed().await;
    let (url, taken, _) = receiver(0).await;
    let events = Events::to_webhook(settings(&url)).unwrap();
    let world = world.beside(Limits::default(), events.clone()).await;
    let planted = Raise {
        arguments: r#"{"iban":"planted-argument"}"#.to_owned(),
        facts: |facts| {
            facts.pause_reason = Some("judge_escalated".to_owned());
            facts.pause_sentence = Some("planted-sentence".to_owned());
            facts.tool_version = Some("3".to_owned());
        },
        ..call("call_1", "note_add")
    };
    let decided = world.raise(planted.clone()).await;
    let cancelled = world.raise(Raise { call_id: "call_2".to_owned(), ..planted.clone() }).await;
    let turned = world.raise(Raise { call_id: "call_3".to_owned(), ..planted }).await;
    let mut reason = decided.reject();
    reason["reason"] = json!("planted-reason");
    world.decide(&decided, &ana, &reason).await.expect(200);
    assert_eq!(world.decide(&decided, &ana, &reason).await.error(409), "approval_already_decided");
    for _ in 0..2 {
        world.post(&cancelled.path("/cancel"), &gateway, &json!({})).await.expect(200);
    }
    let turn = json!({"turn_id": "resp_1", "continuation_id": "resp_2", "decided_by": "planted-person",
        "input": [turned.answer("approve")]});
    world.post("/v1/decisions", &gateway, &turn).await.expect(200);
    drained(&events).await;
    let taken = taken.lock().unwrap();
    let told: Vec<Value> =
        taken.iter().map(|(_, body)| serde_json::from_str(body).unwrap()).collect();
    let kinds: Vec<_> = told
        .iter()
        .map(|event| {
            (event["type"].as_str().unwrap(), event["data"]["approval_id"].as_str().unwrap())
        })
        .collect();
    let expected = [
        ("approval-decided", decided.id.as_str()),
        ("approval-cancelled", &cancelled.id),
        ("approval-decided", &turned.id),
    ];
    assert_eq!(kinds, expected);
    let first = json!({"organisation": ORGANISATION, "approval_id": decided.id,
        "agent": "erp-assistant", "version": "7", "conversation": "conv_1", "turn": "resp_1",
        "call_id": "call_1", "tool": "note_add", "tool_version": "3", "decision": "reject",
        "decided_by": "person", "reason_code": "judge_escalated", "duration_ms": 0});
    assert_eq!(told[0]["data"], first);
    assert_eq!(told[2]["data"]["decision"], "approve");
    for (headers, body) in taken.iter() {
        assert!(!body.contains("planted"), "{body}");
        let header = |name: &str| headers[name].to_str().unwrap();
        let (id, time) = (header("webhook-id"), header("webhook-timestamp"));
        let event: Value = serde_json::from_str(body).unwrap();
        assert_eq!(event["id"], id);
        let key = STANDARD.decode(&SECRET[6..]).unwrap();
        let tag = hmac_sha256(&key, format!("{id}.{time}.{body}").as_bytes());
        assert_eq!(header("webhook-signature"), format!("v1,{}", STANDARD.encode(tag)));
    }
}

async fn an_expiry_is_told_once(world: World) {
    let (ana, _) = world.staffed().await;
    let (url, taken, _) = receiver(0).await;
    let events = Events::to_webhook(settings(&url)).unwrap();
    for number in 0..5 {
        world.raise(call(&format!("call_{number}"), "note_add")).await;
    }
    world.pass(Duration::from_secs(3600));
    // Two that sweep, and readers who come across.
    let first = Arc::new(world.beside(Limits::default(), events.clone()).await);
    let second = Arc::new(world.beside(Limits::default(), events.clone()).await);
    let every = HousekeepingSettings {
        expire_every: Duration::from_millis(10),
        batch: 2,
        ..Default::default()
    };
    let sweeps = [&first, &second]
        .map(|world| Housekeeping::start(Arc::clone(&world.service), every.clone()));
    loop {
        let page = first.get("/v1/approvals?status=expired", &ana).await.expect(200);
        if page["approvals"].as_array().unwrap().len() == 5 {
            break;
        }
    }
    for sweep in sweeps {
        sweep.stop().await;
    }
    drained(&events).await;
    let taken = taken.lock().unwrap();
    let mut told: Vec<String> = taken
        .iter()
        .map(|(_, body)| {
            let event: Value = serde_json::from_str(body).unwrap();
            assert_eq!(event["type"], "approval-expired");
            event["data"]["approval_id"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(told.len(), 5);
    told.sort();
    told.dedup();
    assert_eq!(told.len(), 5);
}

async fn what_was_kept_long_enough_goes(world: World) {
    let (ana, _) = world.staffed().await;
    let decided = world.waiting().await;
    world.decide(&decided, &ana, &decided.reject()).await.expect(200);
    let every =
        HousekeepingSettings { sweep_every: Duration::from_millis(20), ..Default::default() };
    let housekeeping = Housekeeping::start(Arc::clone(&world.service), every);
    let day = Duration::from_secs(24 * 3600);
    world.pass(day * 29);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(world.store.sealed(ORGANISATION, &decided.id).await.unwrap().input.is_some());
    world.pass(day * 2);
    let limit = Duration::from_secs(20);
    let pause = || tokio::time::sleep(Duration::from_millis(20));
    let input_gone = async {
        while world.store.sealed(ORGANISATION, &decided.id).await.unwrap().input.is_some() {
            pause().await;
        }
    };
    tokio::time::timeout(limit, input_gone).await.unwrap();
    assert_eq!(world.status(&decided).await, "rejected");
    world.pass(day * 335);
    let record_gone = async {
        while world.store.approval(ORGANISATION, &decided.id).await.unwrap().is_some() {
            pause().await;
        }
    };
    tokio::time::timeout(limit, record_gone).await.unwrap();
    housekeeping.stop().await;
}

on_both_stores!(
    events_are_signed_and_hold_no_content,
    an_expiry_is_told_once,
    what_was_kept_long_enough_goes,
);

async fn approval() -> approver::store::Approval {
    let place = crate::store::place::SqlitePlace::new();
    let world = World::start(place.open().await).await;
    let (ana, _) = world.staffed().await;
    let raised = world.waiting().await;
    world.decide(&raised, &ana, &raised.reject()).await.expect(200);
    world.store.approval(ORGANISATION, &raised.id).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_comes_back_gets_it_and_one_that_does_not_costs_nothing() {
    let event = Event::of_ended(&approval().await).unwrap();
    let (url, taken, attempts) = receiver(3).await;
    let events = Events::to_webhook(settings(&url)).unwrap();
    events.emit(event.clone());
    drained(&events).await;
    assert_eq!((taken.lock().unwrap().len(), *attempts.lock().unwrap()), (1, 4));
    assert_eq!(events.counts(), EventCounts { delivered: 1, ..Default::default() });

    let (url, taken, attempts) = receiver(usize::MAX).await;
    let mut settings = settings(&url);
    settings.attempts = 2;
    let events = Events::to_webhook(settings).unwrap();
    events.emit(event.clone());
    drained(&events).await;
    assert_eq!((taken.lock().unwrap().len(), *attempts.lock().unwrap()), (0, 2));
    assert_eq!(events.counts(), EventCounts { failed: 1, ..Default::default() });

    // More than the queue holds, at a receiver that takes its time: told at once, dropped, counted.
    let mut slow = WebhookSettings::new("http://127.0.0.1:9/hook", SECRET.into());
    slow.pause = Duration::from_secs(3600);
    let events = Events::to_webhook(slow).unwrap();
    for _ in 0..1_100 {
        events.emit(event.clone());
    }
    let dropped = events.counts().dropped;
    assert!((75..=76).contains(&dropped), "{dropped}");
}

#[tokio::test]
async fn what_cannot_receive_is_refused() {
    for url in ["", "hook", "ftp://host/hook", "https://user:pass@host/hook", "https://host/#x"] {
        let refused = Events::to_webhook(WebhookSettings::new(url, SECRET.into()));
        assert!(refused.is_err(), "{url}");
    }
    for secret in ["", "whsec_", "whsec_AAEC", "whsec_!", &SECRET[6..]] {
        let settings = WebhookSettings::new("https://host/hook", secret.into());
        let error = Events::to_webhook(settings).unwrap_err();
        assert!(secret.is_empty() || !error.to_string().contains(&format!("{secret} ")));
    }
}

/// A database that goes away and comes back costs time and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn housekeeping_outlives_an_outage() {
    let place = PostgresPlace::new().await;
    let proxy = Proxy::start(place.address()).await;
    let mut through = place.settings();
    through.url = place.url_at("127.0.0.1", proxy.port());
    through.timeout = Duration::from_secs(1);
    let behind = World::start(Arc::new(Postgres::open(through).await.unwrap())).await;
    let world = World::start(place.open().await).await;
    let raised = world.waiting().await;
    let every =
        HousekeepingSettings { expire_every: Duration::from_millis(20), ..Default::default() };
    let housekeeping = Housekeeping::start(Arc::clone(&behind.service), every);
    proxy.refuse(true);
    proxy.cut();
    behind.pass(Duration::from_secs(3600));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(world.status(&raised).await, "pending");
    proxy.refuse(false);
    let expired = async {
        while world.status(&raised).await != "expired" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), expired).await.unwrap();
    housekeeping.stop().await;
    drop((behind, world));
    place.remove().await;
}
