//! Whether a receiver is one: a challenge that it must give back, before it counts.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use secrecy::ExposeSecret;
use serde_json::json;

use super::instances::NewDelivery;
use super::receiver::{ATTEMPT, Message, is_receiver, send};
use super::rfc3339;
use crate::service::keys::Part;
use crate::service::{Code, Refusal, Service, ids};
use crate::store::{ChangeTicket, Delivery, Timestamp, Token};

/// Receivers that one provisioner may have asked within a minute, in one process.
const VERIFICATIONS: u32 = 30;

/// How many receivers each provisioner had asked in the minute at hand.
#[derive(Debug, Default)]
pub(in crate::service) struct Verifications(Mutex<(Timestamp, BTreeMap<String, u32>)>);

impl Verifications {
    fn enter(&self, token: &str, now: Timestamp) -> Result<(), Refusal> {
        // Nothing here panics while it holds the lock, so a poisoned one is whole.
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let minute = Duration::from_secs(60);
        if counted.0.plus(minute) <= now || now < counted.0 {
            *counted = (now, BTreeMap::new());
        }
        let count = counted.1.entry(token.to_owned()).or_default();
        if *count >= VERIFICATIONS {
            let text = format!("At most {VERIFICATIONS} receivers a minute are asked.");
            return Err(Refusal::new(Code::RateLimited, text));
        }
        *count += 1;
        Ok(())
    }
}

impl Service {
    /// Asks a new receiver, and seals its secret. Where it does not answer as it should, the change is
    /// given up, and its key is free again.
    pub(super) async fn check(
        &self,
        provisioner: &Token,
        ticket: &ChangeTicket,
        delivery: Option<&NewDelivery>,
    ) -> Result<Option<Delivery>, Refusal> {
        let Some(delivery) = delivery else { return Ok(None) };
        let checked = async {
            self.verifications.enter(&provisioner.id, self.now())?;
            self.verify(&ticket.instance, delivery).await?;
            let NewDelivery { url, registration_id, signing_secret } = delivery.clone();
            let secret = signing_secret.expose_secret().as_bytes();
            let (organisation, id) = (&provisioner.organisation, &ticket.instance);
            let secret = self.keys.seal(organisation, id, Part::SigningSecret, secret);
            let secret = secret.map_err(|error| {
                tracing::error!(%error, "a signing secret could not be sealed");
                Refusal::new(Code::InternalError, "Something is wrong here, and it is recorded.")
            })?;
            Ok(Delivery { url, registration_id, secret })
        };
        match checked.await {
            Ok(delivery) => Ok(Some(delivery)),
            Err(refusal) => {
                self.store.abandon_change(ticket.clone()).await?;
                Err(refusal)
            }
        }
    }

    /// One attempt: only a 200 with the same challenge counts.
    async fn verify(&self, instance: &str, delivery: &NewDelivery) -> Result<(), Refusal> {
        let now = self.now();
        let (id, challenge) = (ids::uuid(), ids::uuid());
        let body = json!({
            "id": id,
            "type": "webhook.verification",
            "registration_id": delivery.registration_id,
            "instance_id": instance,
            "created_at": rfc3339(now),
            "challenge": challenge,
        });
        let message = Message {
            url: &delivery.url,
            secret: &delivery.signing_secret,
            id: &id,
            timestamp: now.unix_millis() / 1_000,
            body: body.to_string(),
        };
        let failed = |why: String| {
            let text = format!("The receiver was not verified: {why}.");
            Refusal::new(Code::WebhookVerificationFailed, text).at("delivery")
        };
        let answer = send(message, self.allow_loopback_webhooks, ATTEMPT)
            .await
            .map_err(|error| failed(error.to_string()))?;
        if answer.status != 200 {
            return Err(failed(format!("it answered {}", answer.status)));
        }
        let same = serde_json::from_slice::<serde_json::Value>(&answer.body)
            .is_ok_and(|answer| answer == json!({"challenge": challenge}));
        if same { Ok(()) } else { Err(failed("it answered another challenge".to_owned())) }
    }
}

/// Whether a receiver's address has the right form.
///
/// # Errors
/// 400 `invalid_webhook_url`.
pub fn check_url(service: &Service, url: &str) -> Result<(), Refusal> {
    if is_receiver(url, service.allow_loopback_webhooks) {
        return Ok(());
    }
    let text = "Expected an `https` address without user and fragment.";
    Err(Refusal::new(Code::InvalidWebhookUrl, text).at("$.delivery.url"))
}
