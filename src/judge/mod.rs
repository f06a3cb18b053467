//! Judges: whoever answers a prompt.
//!
//! A judge turns a [`Prompt`] into a [`Reply`] or a [`JudgeFailure`] by a deadline. It never reads
//! the reply (that is `decide::settle`'s work), never decides, and never keeps or logs a word that
//! a provider sent along with a failure. [`build`] puts the layers together:
//!
//! ```text
//! Guarded (circuit breaker)  →  Retrying (one retry)  →  OpenAi (one HTTP exchange)
//! ```
//!
//! [`scripted`] is for tests and evaluation; [`build`] never makes one.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::decide::prompt::Prompt;
use crate::decide::verdict::{JudgeFailure, Reply, Tokens};

pub mod breaker;
pub mod openai;
pub mod retry;
pub mod scripted;

use breaker::{Breakers, Guarded};
use openai::{OpenAi, Settings, SettingsError};
use retry::Retrying;

/// Answers prompts. Every way to fail is a [`JudgeFailure`]; there is no other error.
///
/// What every implementation keeps (the conformance tests hold it): it answers or fails by the
/// deadline, it may be asked many times at once, and dropping the future leaves it usable.
pub trait Judge: Send + Sync {
    /// The model's name as configured, for records of calls that got no answer.
    fn model(&self) -> &str;

    /// Asks once, and answers or fails by `deadline`.
    fn ask<'a>(
        &'a self,
        prompt: &'a Prompt,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Reply, JudgeFailure>>;

    /// Lets the server read the prompt's fixed prefix ahead of the first judgement, so that its
    /// prefix cache is warm. The answer is one token that nobody reads. A judge without a server
    /// has nothing to warm.
    fn warm_up<'a>(
        &'a self,
        _prompt: &'a Prompt,
        _deadline: Instant,
    ) -> BoxFuture<'a, Result<Tokens, JudgeFailure>> {
        Box::pin(std::future::ready(Ok(Tokens::default())))
    }
}

/// Builds the judge that the settings describe: circuit breaker around one retry around the
/// endpoint. Without settings, the judge that always answers [`JudgeFailure::NotConfigured`].
///
/// Judges built with the same `breakers` for the same endpoint, model and credential share one
/// circuit breaker.
///
/// # Errors
/// When no HTTP client can be made of the settings.
pub fn build(
    settings: Option<Settings>,
    breakers: &Breakers,
) -> Result<Arc<dyn Judge>, SettingsError> {
    let Some(settings) = settings else {
        return Ok(Arc::new(Unavailable::not_configured()));
    };
    let breaker = breakers.of(&settings.identity());
    let endpoint = OpenAi::new(settings)?;
    Ok(Arc::new(Guarded::new(Retrying::new(endpoint), breaker)))
}

/// The judge where there is none: it gives the same failure to everybody, at once.
#[derive(Debug, Clone)]
pub struct Unavailable {
    failure: JudgeFailure,
}

impl Unavailable {
    /// Nobody configured a judge.
    #[must_use]
    pub fn not_configured() -> Self {
        Self { failure: JudgeFailure::NotConfigured }
    }

    /// Somebody switched automatic approval off.
    #[must_use]
    pub fn switched_off() -> Self {
        Self { failure: JudgeFailure::SwitchedOff }
    }
}

impl Judge for Unavailable {
    fn model(&self) -> &str {
        ""
    }

    fn ask<'a>(
        &'a self,
        _prompt: &'a Prompt,
        _deadline: Instant,
    ) -> BoxFuture<'a, Result<Reply, JudgeFailure>> {
        Box::pin(std::future::ready(Err(self.failure)))
    }

    fn warm_up<'a>(
        &'a self,
        _prompt: &'a Prompt,
        _deadline: Instant,
    ) -> BoxFuture<'a, Result<Tokens, JudgeFailure>> {
        Box::pin(std::future::ready(Err(self.failure)))
    }
}
