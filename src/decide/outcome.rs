//! What becomes of a call, and what is known about it.

use std::sync::Arc;

use super::approval::{AutomaticApproval, NothingNovel};
use super::eligibility::Eligible;
use super::novelty::Finding;
use super::policy::{Class, Mode};
use super::prompt::{Cuts, Prompt};
use super::provenance::FirstSeen;
use super::reason::Reason;
use super::verdict::{Sources, Tokens};

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The policy lets it run.
    Execute,
    /// It runs in the offline sandbox, on the turn's allowance.
    ExecuteSandboxed {
        /// Seconds after which the runner ends it.
        timeout_seconds: u32,
    },
    /// A person approved later calls of this tool before.
    Granted {
        /// The approval that carries the grant.
        approval_id: String,
    },
    /// The judge approved it on evidence that held.
    Approved(AutomaticApproval),
    /// A person decides. Outside auto mode the policy's own pause has no reason.
    Pending(Option<Reason>),
    /// It never runs.
    Blocked(BlockedBy),
}

/// Who blocks a call: it tells a client whether another mode would help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockedBy {
    /// The policy or the operator, in every mode.
    Policy,
    /// The conversation's mode alone.
    Mode(Mode),
}

/// A call with its outcome and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The caller's name for the call.
    pub call_id: String,
    /// What becomes of it.
    pub outcome: Outcome,
    /// The most restrictive class that applies, if any.
    pub class: Option<Class>,
    /// What the detectors found; they look at every call that does not simply run or is blocked.
    pub findings: Vec<Finding>,
    /// Where each argument was first seen, for the calls that the detectors look at.
    pub provenance: Vec<Traced>,
    /// What the judge was asked, when it was.
    pub asked: Option<Asked>,
}

impl Decision {
    /// The decision about a call in whose judgement a bug showed itself.
    #[must_use]
    pub fn internal_error(call_id: &str, class: Option<Class>) -> Self {
        Self {
            call_id: call_id.to_owned(),
            outcome: Outcome::Pending(Some(Reason::InternalError)),
            class,
            findings: Vec::new(),
            provenance: Vec::new(),
            asked: None,
        }
    }
}

/// An argument and where its value was first seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traced {
    /// JSON pointer (RFC 6901) of the argument.
    pub pointer: String,
    /// Where its value was first seen.
    pub first_seen: FirstSeen,
}

/// The record of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// SHA-256 of the prompt, 64 lower-case hex digits.
    pub prompt_digest: String,
    /// The model that answered, by its own name; `None` when nothing came back.
    pub model: Option<String>,
    /// What the answer cost.
    pub tokens: Tokens,
    /// What was left out of the prompt.
    pub cuts: Cuts,
}

/// The next step with a call.
#[derive(Debug, Clone)]
pub enum Step {
    /// Code alone decided.
    Settled(Box<Decision>),
    /// A judge is to be asked.
    Ask(Box<Question>),
}

/// A question about a call that passed every gate and every detector.
///
/// INVARIANT: only [`super::plan`] makes one, from the proofs that it holds.
#[derive(Debug, Clone)]
pub struct Question {
    pub(super) call_id: String,
    pub(super) class: Option<Class>,
    pub(super) eligible: Eligible,
    pub(super) nothing_novel: NothingNovel,
    pub(super) prompt: Prompt,
    pub(super) cuts: Cuts,
    pub(super) sources: Arc<Sources>,
    pub(super) provenance: Vec<Traced>,
}

impl Question {
    /// What the judge is sent.
    #[must_use]
    pub fn prompt(&self) -> &Prompt {
        &self.prompt
    }

    /// The caller's name for the call.
    #[must_use]
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// The most restrictive class that applies.
    #[must_use]
    pub fn class(&self) -> Option<Class> {
        self.class
    }
}
