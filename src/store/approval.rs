//! The record of a call that needed approval: what was known when it was raised, and what became of
//! it since.

use super::Timestamp;
use crate::decide::novelty::Finding;
use crate::decide::policy::{Class, Mode};
use crate::decide::prompt::Cuts;
use crate::decide::request::Door;
use crate::decide::state::ToolIdentity;
use crate::decide::verdict::Tokens;

/// An approval as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// What never changes.
    pub facts: Facts,
    /// What has become of it.
    pub status: Status,
    /// The decision, the cancelling or the expiry; `None` while pending.
    pub decision: Option<Resolution>,
    /// Who may run the call, once somebody claimed it.
    pub claim: Option<Claim>,
    /// How the call ran, once reported.
    pub execution: Option<Execution>,
    /// Raised by every change, from 1.
    pub revision: i64,
}

/// What is known of a call when its approval is recorded. None of it changes later.
///
/// The arguments, where each was first seen, the judge's evidence and what the judge was shown are
/// not here: they are the [`Sealed`] input of the approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The approval's id.
    pub id: String,
    /// Who owns it.
    pub organisation: String,
    /// The door that the call came through.
    pub door: Door,
    /// The instance of the approval protocol; `None` at the gateway's door.
    pub instance: Option<String>,
    /// The agent.
    pub agent: String,
    /// Its version, never a channel.
    pub version: String,
    /// The surface of the conversation.
    pub surface: String,
    /// The conversation.
    pub conversation: String,
    /// The turn that raised the call.
    pub turn: String,
    /// The caller's name for the call.
    pub call_id: String,
    /// The member that the turn ran for.
    pub user: Option<String>,
    /// The tool, its definition included.
    pub tool: ToolIdentity,
    /// The definition's version, as its owner counts.
    pub tool_version: Option<String>,
    /// The most restrictive class that applied.
    pub class: Option<Class>,
    /// The mode that the request ran in.
    pub mode: Mode,
    /// The call's own time limit, in seconds.
    pub timeout_seconds: Option<u32>,
    /// Why it waited, as a stable code; `None` outside auto and for what did not wait.
    pub pause_reason: Option<String>,
    /// The sentence that goes with the pause; kept when a person decides later.
    pub pause_sentence: Option<String>,
    /// What the judge was asked and said, when it was.
    pub judged: Option<JudgeRecord>,
    /// What the detectors found.
    pub findings: Vec<Finding>,
    /// The version of the detectors.
    pub detectors: String,
    /// SHA-256 of the arguments' exact text, 64 lower-case hex digits.
    pub arguments_digest: String,
    /// Digest of the organisation's lists; `None` without a policy.
    pub lists_digest: Option<String>,
    /// Digest of the policy; `None` without one.
    pub policy_digest: Option<String>,
    /// Milliseconds from the request's arrival to the decision about this call.
    pub latency_ms: u64,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// When a person's time to decide ends.
    pub deadline_at: Timestamp,
}

/// What the judge was asked and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgeRecord {
    /// The model that answered (`judgedBy`); the configured one when nothing came back.
    pub model: String,
    /// The judge's sentence (`judgeReason`), for an approval and an escalation alike.
    pub reason: Option<String>,
    /// Digest of the prompt.
    pub prompt_digest: String,
    /// What the answer cost.
    pub tokens: Tokens,
    /// What was left out of the prompt.
    pub cuts: Cuts,
}

/// What has become of an approval. All but the first are for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// A person is to decide.
    Pending,
    /// The call may run, until the decision's `start_by`.
    Approved,
    /// A person said no, or a policy did where the door has no other word for it.
    Rejected,
    /// Nobody needs the decision any more.
    Cancelled,
    /// Nobody decided in time.
    Expired,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Approved, Self::Rejected, Self::Cancelled, Self::Expired];

    /// The status's name in listings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// The status of that name.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

/// How an approval ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// A person's name, or a machine's with a colon in it (`auto:approver`, `grant:<approval id>`,
    /// `policy:block`); `None` where it expired or nobody is named.
    pub by: Option<String>,
    /// When.
    pub at: Timestamp,
    /// The decision's own reason.
    pub reason: Option<String>,
    /// When an approved call must have started; `None` for everything else.
    pub start_by: Option<Timestamp>,
}

/// The one permission to run an approved call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Whose it is.
    pub claimant: Claimant,
    /// When it was given.
    pub at: Timestamp,
}

/// Who claims: a key means something only together with the token that used it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    /// The token's id; for a paused turn's decisions too.
    pub caller: String,
    /// The idempotency key, or the continuation's id.
    pub key: String,
}

/// How a call ran, as reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Execution {
    /// How it ended.
    pub status: ExecutionStatus,
    /// When it was reported.
    pub at: Timestamp,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionStatus {
    /// It succeeded.
    Ok,
    /// It failed.
    Failed,
    /// It was ended at its time limit.
    Timeout,
}

impl ExecutionStatus {
    /// Every status.
    pub const ALL: [Self; 3] = [Self::Ok, Self::Failed, Self::Timeout];

    /// The status's name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Failed => "FAILED",
            Self::Timeout => "TIMEOUT",
        }
    }

    /// The status of that name.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

/// What the store keeps without being able to read it.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Names the key that opens it.
    pub key_id: String,
    /// Nonce and ciphertext, as whoever sealed it laid them out.
    pub ciphertext: Vec<u8>,
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.ciphertext.len();
        formatter
            .debug_struct("Sealed")
            .field("key_id", &self.key_id)
            .field("bytes", &bytes)
            .finish()
    }
}

/// The sealed parts of an approval, each until its retention ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SealedParts {
    /// The call's arguments and what the judge saw.
    pub input: Option<Sealed>,
    /// What the call answered when it ran.
    pub output: Option<Sealed>,
}

/// An approval to be recorded.
#[derive(Debug, Clone)]
pub struct NewApproval {
    /// What is known.
    pub facts: Facts,
    /// Whether it waits, or is decided as it is recorded.
    pub standing: Standing,
    /// Arguments and what the judge saw, sealed.
    pub input: Sealed,
}

/// How an approval begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// A person is to decide until the deadline.
    Pending,
    /// A machine approved it (`auto:approver`, `grant:…`, `policy:allow`).
    Approved {
        /// The decider.
        by: String,
        /// Its reason.
        reason: Option<String>,
        /// When the call must have started.
        start_by: Timestamp,
    },
    /// Policy forbids it, at a door that knows no blocks (`policy:block`).
    Rejected {
        /// The decider.
        by: String,
        /// Its reason.
        reason: Option<String>,
    },
}
