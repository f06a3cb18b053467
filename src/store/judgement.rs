//! One request's judgement in two transactions: [`Begin`] before anybody is asked, [`Record`] before
//! anybody is answered.
//!
//! Between the two a request is *begun*: its calls and its share of the turn's counts are taken, and
//! nothing may run, because the caller was told nothing. When its owner dies, the next request for
//! the same key or the same calls takes it over once the lease has ended: the calls are judged
//! again, under a higher attempt, and only that attempt can be recorded. When nobody asks again,
//! [`super::Store::sweep`] drops it with its reservations.

use std::time::Duration;

use super::{Approval, NewApproval, Timestamp};
use crate::decide::BlockedBy;
use crate::decide::policy::{Mode, Modes};
use crate::decide::request::Door;
use crate::decide::state::{State, ToolIdentity};

/// A request that wants to be judged.
#[derive(Debug, Clone)]
pub struct Begin {
    /// Who owns everything in it.
    pub organisation: String,
    /// What makes a repeat of the request a repeat.
    pub idempotency: Idempotency,
    /// The door it came through.
    pub door: Door,
    /// The instance of the approval protocol; `None` at the gateway's door.
    pub instance: Option<String>,
    /// The agent, whose grants hold.
    pub agent: String,
    /// The surface of the conversation.
    pub surface: String,
    /// The conversation.
    pub conversation: String,
    /// The turn.
    pub turn: String,
    /// The paused turn whose decisions this turn carries.
    pub continues: Option<String>,
    /// What the request says of the mode.
    pub mode: ModeChoice,
    /// The modes that the agent version offers.
    pub modes: Modes,
    /// The calls, in call order; no two share an id.
    pub calls: Vec<BeginCall>,
    /// Definitions of the gateway's list that the calls name and the agent version does not define.
    /// The first one of a tool in a conversation is pinned.
    pub tools: Vec<ToolDefinition>,
    /// The most that the request may use of the turn's counts; what it does not use is given back
    /// when it is recorded.
    pub reserve: Reserved,
    /// Where the instance counts rather than the conversation and the turn that it names: its
    /// escalations, judged calls and writes after this time.
    pub instance_after: Option<Timestamp>,
    /// Now.
    pub now: Timestamp,
    /// How long nobody else may take the request over: longer than the request's deadline.
    pub lease: Duration,
}

/// What makes a repeat of a request a repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The token's id, or the instance's.
    pub caller: String,
    /// The endpoint.
    pub endpoint: String,
    /// The key that the caller chose.
    pub key: String,
    /// Digest of what must be equal in a repeat.
    pub digest: String,
}

/// What a request says of the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ModeChoice {
    /// Nothing: the paused turn's mode, else the stored one, else the version's default.
    #[default]
    Unsaid,
    /// The version's default, for this request.
    Default,
    /// A mode by name, which is stored on the conversation.
    Named(Mode),
}

/// One call of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeginCall {
    /// The caller's name for it: unique in the turn as long as its record lives.
    pub call_id: String,
    /// Digest of the call's exact bytes (tool, server label, arguments, time limit).
    pub digest: String,
    /// [`crate::decide::call_digest`] of the call; `None` when its arguments cannot be read. Until
    /// the request is recorded it counts as one of the turn's writes for everybody else.
    pub identity: Option<String>,
}

/// A tool's definition as a gateway sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDefinition {
    /// The tool, its definition's digest included.
    pub tool: ToolIdentity,
    /// The definition itself, in a form that only its writer reads.
    pub content: String,
}

/// A share of a turn's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reserved {
    /// Calls that the judge is asked about.
    pub judged: u32,
    /// Calls that run in the offline sandbox.
    pub sandbox_calls: u32,
    /// Seconds that they reserve.
    pub sandbox_seconds: u32,
}

/// What to do with a request.
#[derive(Debug, Clone)]
pub enum Begun {
    /// Judge it, then record it.
    Judge(Box<ToJudge>),
    /// All of it was judged before: this is its current state.
    Replayed {
        /// The mode of the turn.
        mode: Mode,
        /// What became of each call, in call order.
        calls: Vec<RecordedCall>,
    },
    /// Somebody judges it, or one of its calls, right now: begin again when that request changes
    /// ([`super::Watched::Request`]) or the lease has ended.
    InProgress {
        /// The request that is being judged.
        request: String,
        /// When it may be taken over.
        lease_until: Timestamp,
    },
    /// The key was used with something else.
    IdempotencyConflict,
    /// A call of that id has other bytes.
    CallConflict {
        /// The call.
        call_id: String,
    },
    /// The agent version does not offer the mode. Nothing was stored.
    ModeNotOffered {
        /// The mode that would have applied.
        mode: Mode,
    },
    /// The conversation was deleted, or the instance that asks.
    ConversationDeleted,
}

/// A request that is now the caller's to judge.
#[derive(Debug, Clone)]
pub struct ToJudge {
    /// What [`Record`] must show.
    pub ticket: Ticket,
    /// The mode of the turn.
    pub mode: Mode,
    /// For each call, in call order: what became of it, when another request brought it before.
    /// Such calls are answered, never judged again.
    pub known: Vec<Option<RecordedCall>>,
    /// What the plan must know. Whether the sandbox is enabled is the operator's to say: it is
    /// `false` here.
    pub state: State,
    /// Whether an earlier attempt was begun and given up.
    pub taken_over: bool,
}

/// The right to record one attempt at a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Who owns the request.
    pub organisation: String,
    /// The request.
    pub request: String,
    /// The surface of its conversation.
    pub surface: String,
    /// Its conversation.
    pub conversation: String,
    /// Its turn.
    pub turn: String,
    /// The attempt: a later one has a higher number.
    pub attempt: i64,
    /// What the attempt reserved.
    pub reserved: Reserved,
}

/// What became of a request's calls.
#[derive(Debug, Clone)]
pub struct Record {
    /// From [`ToJudge`].
    pub ticket: Ticket,
    /// Every call that was not known before, in call order.
    pub calls: Vec<NewOutcome>,
    /// What the request used of its reservation.
    pub used: Reserved,
    /// How many of its calls a detector or the judge escalated.
    pub escalations: u32,
    /// Now.
    pub now: Timestamp,
}

/// What became of one call, to be recorded.
#[derive(Debug, Clone)]
pub struct NewOutcome {
    /// The call.
    pub call_id: String,
    /// Its outcome.
    pub outcome: NewCallOutcome,
}

/// An outcome, to be recorded.
#[derive(Debug, Clone)]
pub enum NewCallOutcome {
    /// The policy lets it run: recorded as digest only.
    Execute,
    /// It runs in the offline sandbox: recorded as digest only.
    ExecuteSandboxed {
        /// Seconds after which the runner ends it.
        timeout_seconds: u32,
    },
    /// It never runs: recorded as digest only.
    Blocked(BlockedBy),
    /// It needed approval.
    Approval(Box<NewApproval>),
}

/// Whether a request was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// All of it is durable.
    Done,
    /// Nothing was stored: this attempt was recorded before, was taken over, or its conversation was
    /// deleted. Begin again to learn which.
    Superseded,
}

/// What became of a call, as recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCall {
    /// The call.
    pub call_id: String,
    /// Its outcome.
    pub outcome: CallOutcome,
}

/// An outcome, as recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    /// The policy let it run.
    Execute,
    /// It ran in the offline sandbox.
    ExecuteSandboxed {
        /// Seconds after which the runner ends it.
        timeout_seconds: u32,
    },
    /// It never runs.
    Blocked(BlockedBy),
    /// It needed approval: the approval as it stands now.
    Approval(Box<Approval>),
}
