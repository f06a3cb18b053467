//! An agent of the approval protocol, the people who decide on its requests, and the receiver that is
//! told when they end: it asks, cancels, consumes and reports without a pause, repeats under the same
//! key whatever got no answer, and writes down all it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::client::Client;
use super::requests::{Request, Requests};
use super::site::{Ask, Site};

const REQUESTS: &str = "/aap/v1/requests";

#[derive(Clone)]
pub(super) struct Instance {
    pub(super) client: Client,
    pub(super) requests: Arc<Requests>,
    pub(super) token: String,
}

/// A receiver on this machine that refuses one of four notifications when it hears it first; its
/// address.
pub(super) async fn receiver(host: &str, requests: &Arc<Requests>) -> String {
    let listener = tokio::net::TcpListener::bind((host, 0)).await.unwrap();
    let url = format!("http://{}/events", listener.local_addr().unwrap());
    let routes = axum::Router::new()
        .route("/events", axum::routing::post(take))
        .with_state(Arc::clone(requests));
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    url
}

async fn take(State(requests): State<Arc<Requests>>, Json(message): Json<Value>) -> Response {
    if message["type"] == "webhook.verification" {
        return Json(json!({"challenge": message["challenge"]})).into_response();
    }
    let acknowledged = requests.told(&message, fastrand::u8(..4) == 0);
    let status = if acknowledged { StatusCode::NO_CONTENT } else { StatusCode::BAD_GATEWAY };
    status.into_response()
}

/// A new instance with a receiver; its token.
pub(super) async fn provisioned(site: &Site, number: usize, url: &str) -> String {
    let body = json!({"delivery": {
        "type": "webhook",
        "url": url,
        "registration_id": "8246931c-4ce0-4c15-a94a-e9c078ad06e2",
        "signing_secret": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    }});
    let ask = Ask::post("/aap/v1/instances", &site.tokens.provisioner, body);
    let made = site.insist(0, &ask.under(&format!("instance-{number}"))).await.expect(201);
    made["credential"]["token"].as_str().unwrap().to_owned()
}

impl Instance {
    pub(super) async fn live(mut self, stop: Arc<AtomicBool>) {
        for number in 0.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let key = format!("request-{}-{number}", self.client.name);
            let random = &mut self.client.random;
            let tool =
                random.choice(["find", "note_add", "note_add", "note_add", "purge"]).unwrap();
            let arguments = json!({"text": format!("note {} of {key}", random.u64(..))});
            self.requests.asked(&key, Request::new(tool, arguments));
            if self.submit(&key).await {
                self.go_on(&key).await;
            }
            // Its receiver gets 20 a second at most.
            let pause = self.client.random.u64(50..150);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Has a request judged, or asks again what became of it; false while another attempt at it,
    /// which was killed, holds it.
    pub(super) async fn submit(&mut self, key: &str) -> bool {
        let known = self.requests.of(key);
        let body = json!({"tool": known.tool, "arguments": known.arguments, "timeout": "24h"});
        let ask = Ask::post(REQUESTS, &self.token, body).under(key);
        let answer = self.client.ask(&ask).await;
        match (answer.status, answer.code()) {
            (200 | 201, _) => {
                self.requests.shown(key, &answer.json, &known);
                true
            }
            (503, "judgement_in_progress") if known.id.is_none() => false,
            _ => {
                self.client.unexpected(&ask, &answer);
                true
            }
        }
    }

    fn path(&self, key: &str, rest: &str) -> String {
        format!("{REQUESTS}/{}{rest}", self.requests.of(key).id.expect("a request that was shown"))
    }

    async fn go_on(&mut self, key: &str) {
        if self.requests.of(key).ended.is_none() {
            match self.client.random.u8(..8) {
                // Nobody decides.
                0 => {}
                1 => self.cancel(key).await,
                2 | 3 => {
                    let mut rival = self.another();
                    tokio::join!(self.cancel(key), rival.decide(key));
                }
                _ => self.decide(key).await,
            }
        }
        let approved = self.requests.of(key).ended.as_deref() == Some("approved");
        if !approved || self.client.random.u8(..5) == 0 {
            return;
        }
        let mut rival = self.another();
        let (one, two) = (format!("consume-{key}-1"), format!("consume-{key}-2"));
        let (mine, other) = tokio::join!(self.consume(key, &one), rival.consume(key, &two));
        if mine == other {
            let text = format!("request {key}: of two keys, both or none may run it: {mine}");
            self.client.ledger.contradiction(text);
        }
        if self.client.random.u8(..5) > 0 {
            self.report(key).await;
        }
    }

    fn another(&mut self) -> Self {
        let mut other = self.clone();
        other.client.random = self.client.random.fork();
        other
    }

    async fn decide(&mut self, key: &str) {
        let token = self.client.site.tokens.ana.clone();
        let id = self.requests.of(key).id.expect("a request that was shown");
        let shown = Ask::get(format!("/v1/approvals/{id}"), &token);
        let hmac = self.client.ask(&shown).await.expect(200)["hmac"].clone();
        let approves = self.client.random.u8(..4) > 0;
        let (word, status) = if approves { ("approve", "approved") } else { ("reject", "denied") };
        let body = json!({"decision": word, "hmac": hmac});
        let ask = Ask::post(format!("/v1/approvals/{id}/decision"), &token, body);
        self.requests.tries(key, status);
        let answer = self.client.ask(&ask).await;
        match (answer.status, answer.code()) {
            (200, _) => self.requests.ended(key, status),
            (409, "approval_already_decided") => {
                let status = answer.json["error"]["detail"]["status"].as_str().unwrap_or_default();
                self.requests.ended(key, if status == "rejected" { "denied" } else { status });
            }
            _ => self.client.unexpected(&ask, &answer),
        }
    }

    async fn cancel(&mut self, key: &str) {
        self.requests.tries(key, "cancelled");
        let before = self.requests.of(key);
        let ask = Ask::delete(self.path(key, ""), &self.token);
        let answer = self.client.ask(&ask).await;
        match (answer.status, answer.code()) {
            (200, _) if answer.json["status"] == "cancelled" => {
                self.requests.shown(key, &answer.json, &before);
            }
            (409, "already_terminal") => self.read(key).await,
            _ => self.client.unexpected(&ask, &answer),
        }
    }

    pub(super) async fn read(&mut self, key: &str) {
        let before = self.requests.of(key);
        let ask = Ask::get(self.path(key, ""), &self.token);
        let answer = self.client.ask(&ask).await;
        match answer.status {
            200 => self.requests.shown(key, &answer.json, &before),
            _ => self.client.unexpected(&ask, &answer),
        }
    }

    /// Whether the key may run it.
    pub(super) async fn consume(&mut self, key: &str, by: &str) -> bool {
        let mut ask = Ask::post(self.path(key, "/consume"), &self.token, Value::Null).under(by);
        ask.body = None;
        self.requests.tries_consume(key, by);
        let before = self.requests.of(key);
        let answer = self.client.ask(&ask).await;
        match (answer.status, answer.code()) {
            (200, _) if !answer.json["consumption"].is_null() => {
                self.requests.consumed(key, by);
                self.requests.shown(key, &answer.json, &before);
                return true;
            }
            (409, "already_consumed") => self.requests.taken(key, by),
            _ => self.client.unexpected(&ask, &answer),
        }
        false
    }

    async fn report(&mut self, key: &str) {
        let status = self.client.random.choice(["succeeded", "failed"]).unwrap();
        let body = json!({"status": status, "note": format!("how {key} ran")});
        let ask = Ask::post(self.path(key, "/outcome"), &self.token, body);
        self.requests.tries_outcome(key, status);
        let before = self.requests.of(key);
        let answer = self.client.ask(&ask).await;
        match answer.status {
            200 => {
                self.client.ledger.count("outcome");
                self.requests.shown(key, &answer.json, &before);
            }
            _ => self.client.unexpected(&ask, &answer),
        }
    }

    /// Asks again for what was answered, and consumes again what was consumed: it is answered as
    /// before, and no other key gets it.
    pub(super) async fn repeat(&mut self, most: usize) {
        let mut known: Vec<(String, Option<String>)> = {
            let own = format!("request-{}-", self.client.name);
            let book = self.requests.book();
            let seen =
                book.requests.iter().filter(|(key, one)| key.starts_with(&own) && one.id.is_some());
            seen.map(|(key, request)| (key.clone(), request.consumed.clone())).collect()
        };
        self.client.random.shuffle(&mut known);
        for (key, consumed) in known.into_iter().take(most) {
            self.submit(&key).await;
            let Some(by) = consumed else { continue };
            if !self.consume(&key, &by).await {
                let text = format!("request {key}: {by} may run it no more");
                self.client.ledger.contradiction(text);
            }
            if self.consume(&key, &format!("late-{by}")).await {
                self.client.ledger.contradiction(format!("request {key} is consumed once more"));
            }
        }
    }

    /// Repeats what was never answered until it is.
    pub(super) async fn settle(&mut self) {
        let own = format!("request-{}-", self.client.name);
        let keys: Vec<_> = self.requests.book().requests.keys().cloned().collect();
        for key in keys.into_iter().filter(|key| key.starts_with(&own)) {
            let begun = std::time::Instant::now();
            while !self.submit(&key).await {
                assert!(begun.elapsed() < super::site::PATIENCE, "{key} is never judged");
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        }
    }
}
