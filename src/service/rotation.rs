//! Rotating keys: which of them the store needs, and whether the ring has them.

use super::Service;
use crate::store::{KeyUse, StoreError};

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
}
