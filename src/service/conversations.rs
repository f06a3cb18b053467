//! Conversations: what is known of one, and its end.

use super::{Refusal, Service, aap};
use crate::store::{Approval, Conversation};

impl Service {
    /// The conversation of that id on each surface that has brought calls.
    ///
    /// # Errors
    /// There is none, or it was deleted, or the store fails.
    pub async fn conversations(
        &self,
        organisation: &str,
        id: &str,
    ) -> Result<Vec<Conversation>, Refusal> {
        let found = self.store.conversations(organisation, id).await?;
        if found.is_empty() { Err(Refusal::not_found("conversation")) } else { Ok(found) }
    }

    /// Deletes the conversation of that id on all surfaces, with its grants, and cancels what is
    /// pending in it; returns what was cancelled. What was approved in it and not claimed can no
    /// longer be. One that was deleted before is deleted.
    ///
    /// # Errors
    /// There never was one, or it is an instance's own, or the store fails.
    pub async fn delete_conversation(
        &self,
        organisation: &str,
        id: &str,
    ) -> Result<Vec<Approval>, Refusal> {
        let found = self.store.conversations(organisation, id).await?;
        if found.iter().any(|conversation| conversation.surface == aap::SURFACE) {
            return Err(Refusal::not_found("conversation"));
        }
        let cancelled = self.store.delete_conversation(organisation, id, self.now()).await?;
        let cancelled = cancelled.ok_or_else(|| Refusal::not_found("conversation"))?;
        self.tell_ended(&cancelled);
        Ok(cancelled)
    }
}
