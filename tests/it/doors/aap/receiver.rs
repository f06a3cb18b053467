//! A receiver of notifications on this machine, which answers as it is told and keeps what it heard.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
pub(super) const REGISTRATION: &str = "8246931c-4ce0-4c15-a94a-e9c078ad06e2";

/// How a receiver answers a notification; without any it acknowledges.
pub(super) enum Move {
    Status(u16),
    RetryAfter(u16, &'static str),
    Redirect(String),
    Never,
}

/// How it answers a challenge.
#[derive(Clone, Copy)]
pub(super) enum Verifies {
    Yes,
    Bare,
    Other,
    Created,
    More,
}

#[derive(Clone)]
pub(super) struct Receiver {
    pub(super) url: String,
    pub(super) got: Arc<Mutex<Vec<(HeaderMap, String)>>>,
    moves: Arc<Mutex<VecDeque<Move>>>,
    pub(super) verifies: Arc<Mutex<Verifies>>,
    pub(super) held: Arc<Held>,
}

/// Notifications that a receiver leaves unanswered: right now, and the most at once.
#[derive(Default)]
pub(super) struct Held {
    pub(super) now: AtomicUsize,
    pub(super) most: AtomicUsize,
}

/// One of them, until whoever sent it gives up.
struct Holding(Arc<Held>);

impl Holding {
    fn new(held: &Arc<Held>) -> Self {
        let now = held.now.fetch_add(1, Ordering::SeqCst) + 1;
        held.most.fetch_max(now, Ordering::SeqCst);
        Self(Arc::clone(held))
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Receiver {
    pub(super) async fn start() -> Self {
        Self::start_at("127.0.0.1").await
    }

    /// At another address of this machine, which is another host.
    pub(super) async fn start_at(host: &str) -> Self {
        let listener = tokio::net::TcpListener::bind((host, 0)).await.unwrap();
        let receiver = Self {
            url: format!("http://{}/events", listener.local_addr().unwrap()),
            got: Arc::default(),
            moves: Arc::default(),
            verifies: Arc::new(Mutex::new(Verifies::Yes)),
            held: Arc::default(),
        };
        let routes = axum::Router::new()
            .route("/events", axum::routing::post(take))
            .with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        receiver
    }

    pub(super) fn delivery(&self) -> Value {
        json!({"type": "webhook", "url": self.url, "registration_id": REGISTRATION,
            "signing_secret": SECRET})
    }

    /// The messages of a type, each with its signature checked.
    pub(super) fn messages(&self, kind: &str) -> Vec<(HeaderMap, Value)> {
        let got = self.got.lock().unwrap();
        got.iter()
            .map(|(headers, text)| {
                let header = |name: &str| headers[name].to_str().unwrap().to_owned();
                let message: Value = serde_json::from_str(text).unwrap();
                assert_eq!(header("content-type"), "application/json");
                assert_eq!(header("webhook-id"), message["id"].as_str().unwrap());
                assert!(uuid::Uuid::parse_str(&header("webhook-id")).is_ok());
                let timestamp = header("webhook-timestamp").parse().unwrap();
                let id = header("webhook-id");
                let signature = approver::service::aap::sign(&SECRET.into(), &id, timestamp, text);
                assert_eq!(Some(header("webhook-signature")), signature);
                assert!(!headers.contains_key("authorization"));
                (headers.clone(), message)
            })
            .filter(|(_, message)| message["type"] == kind)
            .collect()
    }

    pub(super) fn resolved(&self) -> Vec<(HeaderMap, Value)> {
        self.messages("request.resolved")
    }

    pub(super) fn next(&self, next: Move) {
        self.moves.lock().unwrap().push_back(next);
    }
}

async fn take(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> Response {
    let text = String::from_utf8(body.to_vec()).unwrap();
    let message: Value = serde_json::from_str(&text).unwrap();
    receiver.got.lock().unwrap().push((headers, text));
    if message["type"] == "webhook.verification" {
        let challenge = json!({"challenge": message["challenge"]});
        let verifies = *receiver.verifies.lock().unwrap();
        return match verifies {
            Verifies::Yes => axum::Json(challenge).into_response(),
            Verifies::Bare => StatusCode::OK.into_response(),
            Verifies::Other => axum::Json(json!({"challenge": "x"})).into_response(),
            Verifies::Created => (StatusCode::CREATED, axum::Json(challenge)).into_response(),
            Verifies::More => {
                let more = json!({"challenge": message["challenge"], "more": 1});
                axum::Json(more).into_response()
            }
        };
    }
    let next = receiver.moves.lock().unwrap().pop_front();
    match next {
        None => StatusCode::NO_CONTENT.into_response(),
        Some(Move::Status(status)) => StatusCode::from_u16(status).unwrap().into_response(),
        Some(Move::RetryAfter(status, after)) => {
            (StatusCode::from_u16(status).unwrap(), [("retry-after", after)]).into_response()
        }
        Some(Move::Redirect(to)) => {
            (StatusCode::TEMPORARY_REDIRECT, [("location", to)]).into_response()
        }
        Some(Move::Never) => {
            let _held = Holding::new(&receiver.held);
            std::future::pending().await
        }
    }
}
