//! From the judge's reply to a verdict. A reply approves only when it has the strict form, says
//! approve, names no `soft_deny` entry, and quotes evidence that code finds where it is said to be.
//!
//! Nothing a provider or a model wrote leaves this module but a cleaned reason and checked quotes.

mod answer;
mod evidence;
mod pasted;

pub use answer::Source;
pub use evidence::{Evidence, Sources, Supported};
pub(in crate::decide) use pasted::own_words;

use super::eligibility::EligibleClass;
use super::reason::Reason;

/// What a judge wrote, unread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The answer's text, verbatim.
    pub text: String,
    /// The model that answered, by its own name.
    pub model: String,
    /// What the answer cost.
    pub tokens: Tokens,
}

/// Tokens as the server counted them; `None` where it did not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Tokens of the prompt, cached ones included.
    pub input: Option<u64>,
    /// Tokens of the answer.
    pub output: Option<u64>,
    /// Tokens of the prompt that the server took from its prefix cache.
    pub cached: Option<u64>,
}

/// Why there is no reply. Nothing of a provider's text is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum JudgeFailure {
    /// No judge is configured.
    #[error("no judge is configured")]
    NotConfigured,
    /// Somebody switched automatic approval off.
    #[error("automatic approval is switched off")]
    SwitchedOff,
    /// The circuit breaker is open after repeated failures.
    #[error("the circuit breaker is open")]
    BreakerOpen,
    /// No whole answer before the deadline, or the server's own time-out (408).
    #[error("no answer in time")]
    Timeout,
    /// The connection could not be made, or broke before the answer was whole.
    #[error("connection failed")]
    Connection,
    /// The server answered 5xx.
    #[error("server error")]
    ServerError,
    /// The server refused the request (another 4xx): wrong address, model, key or parameters.
    #[error("request rejected")]
    Rejected,
    /// The server answered 429.
    #[error("rate limited")]
    RateLimited,
    /// The model or a content filter declined to answer.
    #[error("the model refused")]
    Refused,
    /// The prompt does not fit the model's context.
    #[error("the prompt is too long for the model")]
    PromptTooLong,
    /// The answer was cut at its length limit.
    #[error("answer cut by length")]
    Truncated,
    /// What came is not a chat completion with text: no choices, no content, a tool call, not JSON,
    /// or larger than an answer may be.
    #[error("malformed answer")]
    Malformed,
}

/// What a reply comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The judge approves, and its evidence holds.
    Approve {
        /// The judge's sentence, cleaned.
        reason: String,
        /// The evidence.
        supported: Supported,
    },
    /// A person decides.
    Escalate(Reason),
}

/// Reads a reply about a call of `class` whose leaves are at `pointers`.
///
/// An unreadable answer comes before everything that it says; `soft_deny` before the decision; a
/// decision to escalate before the evidence, which only an approval needs.
#[must_use]
pub fn read(text: &str, class: EligibleClass, sources: &Sources, pointers: &[String]) -> Verdict {
    let Some(answer) = answer::read(text, sources.counts(pointers.len())) else {
        return Verdict::Escalate(Reason::JudgeUnreadable);
    };
    if !answer.soft_deny.is_empty() {
        return Verdict::Escalate(Reason::SoftDeny(sources.soft_deny(&answer.soft_deny)));
    }
    if !answer.approve {
        return Verdict::Escalate(Reason::JudgeEscalated(answer.reason));
    }
    match evidence::check(&answer, class, sources, pointers) {
        Ok(supported) => Verdict::Approve { reason: answer.reason, supported },
        Err(why) => Verdict::Escalate(Reason::UnsupportedApproval(why)),
    }
}
