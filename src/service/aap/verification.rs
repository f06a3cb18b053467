//! Whether a receiver is one: a challenge that it must give back, before it counts.

use secrecy::ExposeSecret;
use serde_json::json;

use super::instances::NewDelivery;
use super::receiver::{ATTEMPT, Message, host, is_receiver, send};
use super::rfc3339;
use crate::service::keys::Part;
use crate::service::{Code, Refusal, Service, ids};
use crate::store::{ChangeTicket, Delivery, Token};

/// Receivers that one provisioner may have asked within a minute, in one process.
const OF_A_PROVISIONER: u32 = 30;
/// Challenges that one host gets within a minute, whoever wants it asked.
const OF_A_HOST: u32 = 10;

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
            let host = host(&delivery.url);
            self.may_verify(provisioner, &host)?;
            self.verify(&ticket.instance, delivery).await?;
            let NewDelivery { url, registration_id, signing_secret } = delivery.clone();
            let secret = signing_secret.expose_secret().as_bytes();
            let (organisation, id) = (&provisioner.organisation, &ticket.instance);
            let secret = self.keys.seal(organisation, id, Part::SigningSecret, secret);
            let secret = secret.map_err(|error| {
                tracing::error!(%error, "a signing secret could not be sealed");
                Refusal::new(Code::InternalError, "Something is wrong here, and it is recorded.")
            })?;
            Ok(Delivery { url, host, registration_id, secret })
        };
        match checked.await {
            Ok(delivery) => Ok(Some(delivery)),
            Err(refusal) => {
                self.store.abandon_change(ticket.clone()).await?;
                Err(refusal)
            }
        }
    }

    fn may_verify(&self, provisioner: &Token, host: &str) -> Result<(), Refusal> {
        let refused = |most: u32, of: &str| {
            let text = format!("At most {most} receivers {of} are asked within a minute.");
            Err(Refusal::new(Code::RateLimited, text))
        };
        let now = self.now();
        if !self.rates.enter(format!("provisioner {}", provisioner.id), OF_A_PROVISIONER, now) {
            return refused(OF_A_PROVISIONER, "of a provisioner");
        }
        if !self.rates.enter(format!("host {host}"), OF_A_HOST, now) {
            return refused(OF_A_HOST, "at a host");
        }
        Ok(())
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
