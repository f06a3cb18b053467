//! Events to a webhook, signed as Standard Webhooks says (symmetric, `v1`).
//!
//! Body: `{"id", "type", "timestamp", "data"}`. Headers: `webhook-id` (the same on every attempt),
//! `webhook-timestamp` (seconds, of the attempt) and `webhook-signature`, `v1,` and the base64 of
//! HMAC-SHA-256 over `id.timestamp.body`. Any 2xx is an acknowledgement. Events come in order, one
//! at a time; a receiver that is down for long loses some, which is counted. Nothing here reads an
//! answer's body or logs an address.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::store::Timestamp;

/// Events that wait for a slow receiver; more are dropped.
const QUEUE: usize = 1024;
/// Bytes of a secret, as Standard Webhooks bounds them.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A receiver of events.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// `https` (or `http`) address that every event is sent to with `POST`.
    pub url: String,
    /// `whsec_` and 24 to 64 bytes in base64.
    pub secret: SecretString,
    /// For one attempt; 10 s unless configured.
    pub timeout: Duration,
    /// Attempts at one event; 6 unless configured.
    pub attempts: u32,
    /// Pause after the first attempt, doubled after each; 500 ms unless configured, never more than
    /// 30 s.
    pub pause: Duration,
}

impl WebhookSettings {
    /// A receiver with the usual times.
    #[must_use]
    pub fn new(url: &str, secret: SecretString) -> Self {
        Self {
            url: url.to_owned(),
            secret,
            timeout: Duration::from_secs(10),
            attempts: 6,
            pause: Duration::from_millis(500),
        }
    }
}

/// The signing key of a Standard Webhooks secret; `None` for what is none.
#[must_use]
pub fn webhook_key(secret: &str) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(secret.strip_prefix("whsec_")?).ok()?;
    SECRET_BYTES.contains(&bytes.len()).then_some(bytes)
}

/// Why a receiver cannot be used; never with its secret.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// Not an address.
    #[error("the webhook's address is not an http or https address without user and fragment")]
    Url,
    /// Not a secret.
    #[error("the webhook's secret is not `whsec_` and 24 to 64 bytes in base64")]
    Secret,
    /// There is no TLS here.
    #[error("the webhook's client cannot be made")]
    Client(#[source] reqwest::Error),
}

/// What became of the events for a webhook, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventCounts {
    /// Acknowledged.
    pub delivered: u64,
    /// Given up after the last attempt.
    pub failed: u64,
    /// Never tried, because too many waited.
    pub dropped: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Webhook {
    queue: mpsc::Sender<Message>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    delivered: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    /// Events that were taken and are neither delivered nor given up.
    open: watch::Sender<u64>,
}

#[derive(Debug)]
struct Message {
    id: String,
    body: String,
}

impl Webhook {
    pub(super) fn start(settings: WebhookSettings) -> Result<Self, WebhookError> {
        let sender = Sender::new(settings)?;
        let (queue, mut messages) = mpsc::channel::<Message>(QUEUE);
        let counters = Arc::new(Counters::default());
        let counted = Arc::clone(&counters);
        tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                let counter = if sender.deliver(&message).await {
                    &counted.delivered
                } else {
                    tracing::warn!(event = message.id, "the webhook did not take an event");
                    &counted.failed
                };
                counter.fetch_add(1, Ordering::Relaxed);
                counted.open.send_modify(|open| *open = open.saturating_sub(1));
            }
        });
        Ok(Self { queue, counters })
    }

    pub(super) fn send(&self, id: String, kind: &str, at: Timestamp, data: &Value) {
        let body = json!({"id": id, "type": kind, "timestamp": at.rfc3339(), "data": data});
        let message = Message { id, body: body.to_string() };
        self.counters.open.send_modify(|open| *open += 1);
        if self.queue.try_send(message).is_err() {
            self.counters.open.send_modify(|open| *open = open.saturating_sub(1));
            // The log has the event itself; this line would come for each of thousands.
            if self.counters.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::warn!("the webhook is too slow: events are dropped from here on");
            }
        }
    }

    pub(super) fn counts(&self) -> EventCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EventCounts {
            delivered: read(&self.counters.delivered),
            failed: read(&self.counters.failed),
            dropped: read(&self.counters.dropped),
        }
    }

    pub(super) async fn drained(&self) {
        // The sender lives as long as `self`.
        let _ = self.counters.open.subscribe().wait_for(|open| *open == 0).await;
    }
}

struct Sender {
    client: reqwest::Client,
    url: reqwest::Url,
    key: hmac::Key,
    attempts: u32,
    pause: Duration,
}

impl Sender {
    fn new(settings: WebhookSettings) -> Result<Self, WebhookError> {
        let WebhookSettings { url, secret, timeout, attempts, pause } = settings;
        let url = reqwest::Url::parse(&url).map_err(|_| WebhookError::Url)?;
        let plain = url.username().is_empty() && url.password().is_none();
        let usable = matches!(url.scheme(), "http" | "https") && url.has_host();
        if !plain || !usable || url.fragment().is_some() {
            return Err(WebhookError::Url);
        }
        let bytes = webhook_key(secret.expose_secret()).ok_or(WebhookError::Secret)?;
        // An error means that the process has a provider already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(timeout)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(WebhookError::Client)?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
        Ok(Self { client, url, key, attempts, pause })
    }

    /// Whether the receiver took it at last.
    async fn deliver(&self, message: &Message) -> bool {
        let mut pause = self.pause;
        for attempt in 1..=self.attempts.max(1) {
            if self.attempt(message).await {
                return true;
            }
            if attempt < self.attempts {
                // Up to a quarter longer, so that replicas do not come back together.
                let jitter = fastrand::u64(..=(pause.as_millis() as u64) / 4);
                tokio::time::sleep(pause + Duration::from_millis(jitter)).await;
                pause = (pause * 2).min(Duration::from_secs(30));
            }
        }
        false
    }

    async fn attempt(&self, message: &Message) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let answer = self
            .client
            .post(self.url.clone())
            .header("content-type", "application/json")
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", now)
            .header("webhook-signature", sign(&self.key, &message.id, now, &message.body))
            .body(message.body.clone())
            .send()
            .await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }
}

fn sign(key: &hmac::Key, id: &str, timestamp: u64, body: &str) -> String {
    let tag = hmac::sign(key, format!("{id}.{timestamp}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(tag))
}
