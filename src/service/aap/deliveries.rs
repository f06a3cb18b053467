//! Tells receivers that a request ended: from the outbox, until one acknowledges it or a week is
//! over. Every replica does this; the store hands each notification to one of them at a time.
//!
//! The body never changes and holds no outcome: whoever gets it reads the request. An attempt takes
//! 10 s at most; the next comes after 5 s, then twice as long each time up to an hour, with jitter,
//! and not before a `Retry-After` of 429 and 503.
//!
//! A process has 16 attempts under way at most, and all replicas together have two at a host, so that
//! one that is slow or down leaves room for the others; each takes its place for 100 ms at least, so
//! that a host gets 20 a second at most.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use secrecy::SecretString;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::{Builder, Uuid};

use super::receiver::{ATTEMPT, Message, send};
use super::rfc3339;
use crate::decide::digest;
use crate::service::Service;
use crate::service::keys::Part;
use crate::store::{
    ClaimNotifications, DueNotification, FinishNotification, StoreError, Timestamp,
};

/// How long after its request ended a notification is attempted.
const WINDOW: Duration = Duration::from_secs(168 * 3_600);
/// How long nobody else attempts what was handed out, and its place at the host is taken where the
/// process dies: an attempt, and time to record it.
const LEASE: Duration = Duration::from_secs(20);
/// Attempts under way at once.
const AT_ONCE: u32 = 16;
/// The same at one host, of all replicas.
const AT_A_HOST: u32 = 2;
/// How long an attempt takes its place at a host, at least.
const PACE: Duration = Duration::from_millis(100);
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);
/// Between two looks for what is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same while the store is away.
const STORE_AWAY: Duration = Duration::from_secs(5);

/// The running task. Dropping it ends it, with its attempts; they are made again.
#[derive(Debug)]
pub struct Deliveries {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Deliveries {
    /// Starts it on the current runtime.
    #[must_use]
    pub fn start(service: Arc<Service>) -> Self {
        let (stop, stopping) = watch::channel(false);
        Self { stop, task: tokio::spawn(run(service, stopping)) }
    }

    /// Stops it after the attempts that are under way.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        // A panic in it was reported when it happened.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(service: Arc<Service>, mut stopping: watch::Receiver<bool>) {
    while !*stopping.borrow() {
        let pause = match service.deliver_until(|| *stopping.borrow()).await {
            Ok(0) => LOOK_EVERY,
            // More may have waited for a place at its host.
            Ok(_) => PACE,
            Err(error) => {
                tracing::warn!(%error, "notifications cannot be read");
                STORE_AWAY
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stopping.changed() => {}
        }
    }
}

impl Service {
    /// Attempts what is due and becomes due meanwhile, until there is no more, and says how many
    /// attempts that were.
    ///
    /// # Errors
    /// The store fails.
    pub async fn deliver_due(&self) -> Result<usize, StoreError> {
        self.deliver_until(|| false).await
    }

    /// The same until it is to stop; what is under way then is brought to its end, also where the
    /// store fails.
    async fn deliver_until(&self, stop: impl Fn() -> bool) -> Result<usize, StoreError> {
        let mut running = FuturesUnordered::new();
        let mut count = 0;
        let mut failed = None;
        let mut look_after = LOOK_EVERY;
        loop {
            let free = AT_ONCE.saturating_sub(u32::try_from(running.len()).unwrap_or(u32::MAX));
            if free > 0 && failed.is_none() && !stop() {
                match self.claim_due(free).await {
                    Ok(due) => {
                        count += due.len();
                        running.extend(due.into_iter().map(|due| self.deliver(due)));
                    }
                    Err(error) => failed = Some(error),
                }
            }
            if running.is_empty() {
                return failed.map_or(Ok(count), Err);
            }
            // A slow one does not keep the others from being looked for.
            look_after = tokio::select! {
                Some(finished) = running.next() => {
                    failed = failed.or(finished.err());
                    PACE
                }
                () = tokio::time::sleep(look_after) => LOOK_EVERY,
            };
        }
    }

    async fn claim_due(&self, limit: u32) -> Result<Vec<DueNotification>, StoreError> {
        let now = self.now();
        let give_up_before = now.minus(WINDOW);
        let claim =
            ClaimNotifications { now, lease: LEASE, give_up_before, limit, per_host: AT_A_HOST };
        self.store.claim_notifications(claim).await
    }

    async fn deliver(&self, due: DueNotification) -> Result<(), StoreError> {
        let begun = self.now();
        let pause = self.attempt_delivery(&due).await;
        let now = self.now();
        let DueNotification { request, attempt, .. } = due;
        let retry_at = pause.map(|pause| now.plus(pause));
        let busy_until = begun.plus(PACE);
        self.store
            .finish_notification(FinishNotification { request, attempt, retry_at, busy_until, now })
            .await?;
        Ok(())
    }

    /// How long until the next attempt; `None` when it was acknowledged.
    async fn attempt_delivery(&self, due: &DueNotification) -> Option<Duration> {
        let DueNotification { request, organisation, instance, attempt, delivery, .. } = due;
        let pause = back_off(*attempt);
        let secret = self.keys.open(organisation, instance, Part::SigningSecret, &delivery.secret);
        let secret = secret.ok().and_then(|secret| String::from_utf8(secret).ok());
        let Some(secret) = secret.map(SecretString::from) else {
            tracing::error!(instance, "a signing secret cannot be opened");
            return Some(pause);
        };
        let now = self.now();
        let id = event_id(request);
        let body = Resolved {
            id: &id,
            kind: "request.resolved",
            instance_id: instance,
            request_id: request,
            created_at: rfc3339(due.decided_at),
        };
        let message = Message {
            url: &delivery.url,
            secret: &secret,
            id: &id,
            timestamp: now.unix_millis() / 1_000,
            // Strings alone: there is always a JSON of them.
            body: serde_json::to_string(&body).unwrap_or_default(),
        };
        let left = until(due.decided_at.plus(WINDOW), now);
        match send(message, self.allow_loopback_webhooks, left.min(ATTEMPT)).await {
            Ok(answer) if (200..300).contains(&answer.status) => None,
            Ok(answer) => {
                tracing::debug!(request, attempt, status = answer.status, "not acknowledged");
                let asked = answer.retry_after.filter(|_| matches!(answer.status, 429 | 503));
                Some(pause.max(asked.unwrap_or_default()).min(WINDOW))
            }
            Err(error) => {
                tracing::debug!(request, attempt, %error, "not delivered");
                Some(pause)
            }
        }
    }
}

/// A notification: nothing of the outcome, and nothing of the call.
#[derive(Serialize)]
struct Resolved<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    instance_id: &'a str,
    request_id: &'a str,
    created_at: String,
}

/// A request has one notification, so that its id follows from the request's.
fn event_id(request: &str) -> String {
    let digest = digest(&["request.resolved", request]);
    let bits = u128::from_str_radix(digest.get(..32).unwrap_or_default(), 16).unwrap_or_default();
    let id: Uuid = Builder::from_random_bytes(bits.to_be_bytes()).into_uuid();
    id.hyphenated().to_string()
}

/// Between three quarters and all of the pause, so that receivers are not all called at once.
fn back_off(attempt: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(attempt.saturating_sub(1).min(16));
    let pause = FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE);
    pause.mul_f64(0.75 + fastrand::f64() / 4.0)
}

fn until(end: Timestamp, now: Timestamp) -> Duration {
    let millis = end.unix_millis().saturating_sub(now.unix_millis());
    Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_an_hour() {
        for (attempt, most) in [(1, 5), (2, 10), (3, 20), (10, 2_560), (11, 3_600), (99, 3_600)] {
            let (pause, most) = (back_off(attempt), Duration::from_secs(most));
            assert!(pause <= most && pause >= most.mul_f64(0.74), "{attempt}: {pause:?}");
        }
    }

    #[test]
    fn an_events_id_is_a_uuid_of_its_request() {
        let id = event_id("7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71");
        assert_eq!(Uuid::parse_str(&id).unwrap().get_version_num(), 4);
        assert_eq!(event_id("7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71"), id);
        assert_ne!(event_id("another"), id);
    }
}
