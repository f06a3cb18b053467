//! Rotating keys: which of them the store needs, whether the ring has them, and signing secrets sealed
//! anew under its first one.

use super::Service;
use super::keys::Part;
use crate::store::{KeyUse, Reseal, SealedOtherwise, SigningSecret, StoreError};

/// What became of a batch of signing secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resealed {
    /// How many are under the ring's first key now.
    pub count: u64,
    /// Where the next batch begins; `None` after the last.
    pub next: Option<String>,
}

impl Service {
    /// Tells the log which keys besides the first one are needed, and which of these the ring lacks;
    /// and answers those that it lacks.
    ///
    /// # Errors
    /// The store fails.
    pub async fn check_keys(&self) -> Result<Vec<KeyUse>, StoreError> {
        let mut missing = Vec::new();
        for used in self.store.keys_in_use().await? {
            let KeyUse { key_id, pending, signing_secrets } = &used;
            if !self.keys.has(key_id) {
                tracing::warn!(
                    key = key_id,
                    pending,
                    signing_secrets,
                    "a key is missing from the key ring: calls that wait under it can be rejected \
                     and not approved, and webhooks whose signing secret is sealed under it hear of \
                     nothing; put it back and restart"
                );
                missing.push(used);
            } else if key_id != self.keys.active() {
                tracing::info!(key = key_id, pending, signing_secrets, "an older key is needed");
            }
        }
        Ok(missing)
    }

    /// Seals a batch of signing secrets under the ring's first key: of the instances after `after`, at
    /// most `limit`. One that changes meanwhile stays as it then is, and so does one that cannot be
    /// opened.
    ///
    /// # Errors
    /// The store fails.
    pub async fn reseal_secrets(
        &self,
        after: Option<String>,
        limit: u32,
    ) -> Result<Resealed, StoreError> {
        let key_id = self.keys.active().to_owned();
        let secrets = self.store.sealed_otherwise(SealedOtherwise { key_id, after, limit }).await?;
        let full = secrets.len() >= limit as usize;
        let next = secrets.last().filter(|_| full).map(|last| last.instance.clone());
        let mut count = 0;
        for before in secrets {
            let Some(reseal) = self.resealed(before) else { continue };
            count += u64::from(self.store.reseal(reseal).await?);
        }
        Ok(Resealed { count, next })
    }

    fn resealed(&self, before: SigningSecret) -> Option<Reseal> {
        let SigningSecret { organisation, instance, sealed } = &before;
        // The start told of keys that are missing, and every delivery tells of what it cannot open.
        let plain = self.keys.open(organisation, instance, Part::SigningSecret, sealed).ok()?;
        let sealed = self.keys.seal(organisation, instance, Part::SigningSecret, &plain);
        let sealed = sealed.inspect_err(|error| {
            tracing::error!(instance, %error, "a signing secret cannot be sealed anew");
        });
        Some(Reseal { sealed: sealed.ok()?, before })
    }
}
