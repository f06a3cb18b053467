//! What ends an approval, and what follows: decisions, claims, executions, cancelling.
//!
//! Each is one conditional update in the database. Exactly one of decide, cancel and expire ends an
//! approval; who comes second is told the first.

use super::{Approval, Claimant, ExecutionStatus, Sealed, Timestamp};
use crate::decide::policy::Mode;

/// A person's decision about one approval.
#[derive(Debug, Clone)]
pub struct Decide {
    /// Who owns it.
    pub organisation: String,
    /// The approval.
    pub approval: String,
    /// The decision.
    pub verdict: PersonVerdict,
    /// The person.
    pub by: String,
    /// The person's reason.
    pub reason: Option<String>,
    /// The mode that is stored on the conversation as the caller checked it: a decision that was
    /// checked against another mode does not count.
    pub stored_mode: Option<Mode>,
    /// Now.
    pub now: Timestamp,
}

/// What a person says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PersonVerdict {
    /// It may run.
    Approve {
        /// When it must have started.
        start_by: Timestamp,
        /// Whether later calls of the tool in the conversation are approved with it. The caller
        /// refuses this for a destructive tool.
        remember: bool,
    },
    /// It may not.
    Reject,
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// It counts: the approval as it now stands.
    Done(Box<Approval>),
    /// Something came first: the approval as it ended.
    TooLate(Box<Approval>),
    /// The conversation's mode is not the one that was checked; nothing changed.
    ModeChanged {
        /// The mode that is stored now.
        stored: Option<Mode>,
    },
    /// The organisation has no such approval.
    NotFound,
}

/// Decisions for a paused turn, as its continuation carries them: all of its pending approvals, or
/// nothing happens. What is approved is claimed in the same transaction.
#[derive(Debug, Clone)]
pub struct DecideTurn {
    /// Who owns it.
    pub organisation: String,
    /// The surface of the conversation.
    pub surface: String,
    /// The conversation.
    pub conversation: String,
    /// The paused turn.
    pub turn: String,
    /// The continuation, and the token that runs it: what is approved is claimed for both.
    pub continuation: Claimant,
    /// The answers; no two name the same approval.
    pub answers: Vec<TurnAnswer>,
    /// The person.
    pub by: String,
    /// A mode that the same continuation names; it is stored on the conversation.
    pub named_mode: Option<Mode>,
    /// The mode that was stored as the caller checked it.
    pub stored_mode: Option<Mode>,
    /// Now.
    pub now: Timestamp,
}

/// A person's answer to one approval of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnAnswer {
    /// The approval.
    pub approval: String,
    /// The decision.
    pub verdict: PersonVerdict,
    /// The person's reason.
    pub reason: Option<String>,
}

/// What became of decisions for a paused turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnDecided {
    /// All count. Those that are approved are claimed and run now.
    Done(Vec<Approval>),
    /// The same answers under a continuation that failed: nothing runs again, each approval stands
    /// as it was left, with its recorded execution.
    Again(Vec<Approval>),
    /// A continuation carried them before, and has not failed.
    AlreadyContinued {
        /// Its id.
        continuation: String,
    },
    /// An approval was not pending any more; nothing changed.
    TooLate(Box<Approval>),
    /// Pending approvals of the turn that no answer names; nothing changed.
    Unanswered(Vec<String>),
    /// Answers that name no approval of the turn; nothing changed.
    NotOfThisTurn(Vec<String>),
    /// The conversation's mode is not the one that was checked; nothing changed.
    ModeChanged {
        /// The mode that is stored now.
        stored: Option<Mode>,
    },
    /// The organisation has no such turn.
    NotFound,
}

/// A request for the one permission to run an approved call.
#[derive(Debug, Clone)]
pub struct ClaimApproval {
    /// Who owns it.
    pub organisation: String,
    /// The approval.
    pub approval: String,
    /// Who asks.
    pub claimant: Claimant,
    /// Now.
    pub now: Timestamp,
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// The call may run; repeats of the same key get this too.
    Released(Box<Approval>),
    /// Another key has it.
    AlreadyClaimed(Box<Approval>),
    /// It had to start earlier.
    Expired(Box<Approval>),
    /// Its conversation was deleted before anybody claimed it.
    ConversationDeleted(Box<Approval>),
    /// It is not approved.
    NotApproved(Box<Approval>),
    /// The organisation has no such approval.
    NotFound,
}

/// How a call ran.
#[derive(Debug, Clone)]
pub struct ReportExecution {
    /// Who owns it.
    pub organisation: String,
    /// The approval.
    pub approval: String,
    /// How it ended.
    pub status: ExecutionStatus,
    /// What it answered, sealed.
    pub output: Option<Sealed>,
    /// Now.
    pub now: Timestamp,
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reported {
    /// It is recorded.
    Done(Box<Approval>),
    /// There is a report already, which stays.
    AlreadyReported(Box<Approval>),
    /// The call was never approved, so it cannot have run.
    NotApproved(Box<Approval>),
    /// A person approved it and nobody claimed it, so it cannot have run.
    NotClaimed(Box<Approval>),
    /// The organisation has no such approval.
    NotFound,
}

/// Somebody who no longer needs a decision.
#[derive(Debug, Clone)]
pub struct Cancel {
    /// Who owns it.
    pub organisation: String,
    /// The approval.
    pub approval: String,
    /// Who cancels, where somebody is to be named.
    pub by: Option<String>,
    /// Now.
    pub now: Timestamp,
}

/// What became of cancelling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancelled {
    /// It is cancelled.
    Done(Box<Approval>),
    /// Something came first: the approval as it ended.
    TooLate(Box<Approval>),
    /// The organisation has no such approval.
    NotFound,
}
