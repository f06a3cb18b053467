//! Judges: whoever answers a prompt. STUB: the trait alone.

use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::decide::prompt::Prompt;
use crate::decide::verdict::{JudgeFailure, Reply};

/// Answers prompts. Every way to fail is a [`JudgeFailure`]; there is no other error.
pub trait Judge: Send + Sync {
    /// The model's name as configured, for records of calls that got no answer.
    fn model(&self) -> &str;

    /// Asks once, and answers or fails by `deadline`.
    fn ask<'a>(
        &'a self,
        prompt: &'a Prompt,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Reply, JudgeFailure>>;
}
