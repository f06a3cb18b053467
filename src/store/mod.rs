//! The durable part of the service: one interface, kept by [`sqlite`] (embedded) and [`postgres`]
//! (several replicas), and one conformance suite that both pass.
//!
//! Times and ids are arguments: nothing here reads a clock or makes an id. Nothing here decides
//! anything, opens what is sealed, or writes a value of a row into an error, a log or a
//! notification. Every row belongs to an organisation; another organisation's is not found.

use futures::future::BoxFuture;

mod approval;
mod decision;
mod directory;
mod error;
mod instance;
mod judgement;
mod migrations;
pub mod postgres;
mod sealing;
mod sql;
pub mod sqlite;
mod time;
mod wake;

pub use approval::{
    Approval, Claim, Claimant, Execution, ExecutionStatus, Facts, JudgeRecord, NewApproval,
    Resolution, Sealed, SealedParts, Standing, Status,
};
pub use decision::{
    Cancel, Cancelled, ClaimApproval, Claimed, Decide, DecideTurn, Decided, PersonVerdict,
    ReportExecution, Reported, TurnAnswer, TurnDecided,
};
pub use directory::{
    Channel, ChannelMoved, Continuation, ContinuationFailed, Conversation, Created, MoveChannel,
    NewToken, PutVersion, StoredVersion, Switch, Token, TokenKind, Turn, VersionPut,
};
pub use error::StoreError;
pub use instance::{
    BeginChange, ChangeBegun, ChangeOperation, ChangeTicket, ClaimNotifications, CreateInstance,
    Delivery, DueNotification, FinishNotification, Instance, InstanceCreated, InstanceDeleted,
    InstanceSet, InstanceSettings, InstanceToken, InstanceUpdated, SetInstance, SettingsChange,
    UpdateInstance,
};
pub use judgement::{
    Begin, BeginCall, Begun, CallOutcome, Idempotency, ModeChoice, NewCallOutcome, NewOutcome,
    Record, Recorded, RecordedCall, Reserved, Ticket, ToJudge, ToolDefinition,
};

pub use postgres::{Postgres, PostgresSettings};
pub use sealing::{KeyUse, Reseal, SealedOtherwise, SigningSecret};
pub use sqlite::{Sqlite, SqliteSettings};
pub use time::Timestamp;
pub use wake::{Watch, Watched};

use crate::decide::state::ToolIdentity;

/// An answer of the store, which may take its time.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// A page of a listing, newest first.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Of this agent alone.
    pub agent: Option<String>,
    /// Of this status alone.
    pub status: Option<Status>,
    /// Those after this one in the listing: the last of the page before.
    pub after: Option<Position>,
    /// At most this many.
    pub limit: u32,
}

/// A place in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// When the approval at this place was recorded.
    pub created_at: Timestamp,
    /// Its id.
    pub id: String,
}

/// What waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pending {
    /// How many approvals.
    pub count: u64,
    /// When the oldest of them was recorded; `None` when there is none.
    pub oldest: Option<Timestamp>,
}

/// What has been kept long enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// Sealed inputs and outputs of approvals from before this time go (`retention.inputs`).
    pub inputs_before: Timestamp,
    /// Records from before this time go (`retention.records`): approvals that are not pending,
    /// other calls, turns, conversations without a newer record.
    pub records_before: Timestamp,
    /// Idempotency keys from before this time go, and begun requests that nobody took over. The
    /// keys of the approval protocol's requests stay as long as these.
    pub keys_before: Timestamp,
    /// Whatever the times above, requests of the approval protocol stay with their inputs while they
    /// are pending, and those that ended after this time; so do records of changed and deleted
    /// instances (168 h).
    pub protocol_before: Timestamp,
    /// So do those whose notification is being delivered, or ended after this time (24 h).
    pub deliveries_before: Timestamp,
    /// At most this many rows of each kind at once.
    pub limit: u32,
}

/// Rows that a sweep removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Sealed inputs and outputs.
    pub inputs: u64,
    /// Records of all kinds.
    pub records: u64,
    /// Idempotency keys.
    pub keys: u64,
}

/// What the service must remember. Every method that changes something answers after the change is
/// durable, and an error means that the change may or may not have happened.
pub trait Store: Send + Sync {
    // --- health

    /// Whether the database answers.
    fn ping(&self) -> Answer<'_, ()>;

    /// Whether the database answers and its tables are those of this program.
    fn ready(&self) -> Answer<'_, ()>;

    // --- judgements

    /// Takes a request to be judged, or says why not. See [`judgement`](self::Begin).
    fn begin(&self, begin: Begin) -> Answer<'_, Begun>;

    /// Records all outcomes of a request, or nothing.
    fn record(&self, record: Record) -> Answer<'_, Recorded>;

    // --- approvals

    /// An approval of the organisation.
    fn approval<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, Option<Approval>>;

    /// The sealed parts of an approval of the organisation, as far as they are still kept.
    fn sealed<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, SealedParts>;

    /// Approvals of the organisation, newest first.
    fn approvals<'a>(
        &'a self,
        organisation: &'a str,
        listing: Listing,
    ) -> Answer<'a, Vec<Approval>>;

    /// How many approvals of all organisations wait for a person, and since when.
    fn pending(&self) -> Answer<'_, Pending>;

    /// All approvals that a turn raised, in the order of their ids.
    fn approvals_of_turn<'a>(
        &'a self,
        organisation: &'a str,
        surface: &'a str,
        conversation: &'a str,
        turn: &'a str,
    ) -> Answer<'a, Vec<Approval>>;

    /// A person decides. A grant is written and the conversation's escalations are forgotten in the
    /// same transaction.
    fn decide(&self, decide: Decide) -> Answer<'_, Decided>;

    /// A person decides all that a paused turn waits for.
    fn decide_turn(&self, decide: DecideTurn) -> Answer<'_, TurnDecided>;

    /// The gateway says that a continuation failed: the same decisions may come again under another.
    fn continuation_failed<'a>(
        &'a self,
        organisation: &'a str,
        surface: &'a str,
        conversation: &'a str,
        turn: &'a str,
        continuation: &'a str,
    ) -> Answer<'a, ContinuationFailed>;

    /// Gives the one permission to run an approved call.
    fn claim(&self, claim: ClaimApproval) -> Answer<'_, Claimed>;

    /// Records how a call ran, once.
    fn report_execution(&self, report: ReportExecution) -> Answer<'_, Reported>;

    /// Cancels a pending approval.
    fn cancel(&self, cancel: Cancel) -> Answer<'_, Cancelled>;

    /// Ends at most `limit` pending approvals of every organisation whose deadline is not after
    /// `now`, and returns them.
    fn expire_due(&self, now: Timestamp, limit: u32) -> Answer<'_, Vec<Approval>>;

    // --- conversations

    /// A conversation of the organisation, deleted ones included.
    fn conversation<'a>(
        &'a self,
        organisation: &'a str,
        surface: &'a str,
        id: &'a str,
    ) -> Answer<'a, Option<Conversation>>;

    /// All conversations of that id that were not deleted: one a surface.
    fn conversations<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
    ) -> Answer<'a, Vec<Conversation>>;

    /// Deletes the conversations of that id on all surfaces, with their grants and pinned
    /// definitions, and cancels what is pending; begun requests can no longer be recorded, and what
    /// was approved and not claimed can no longer be. Returns the cancelled approvals, none of them
    /// for what was deleted before; `None` when there never was a conversation of that id.
    fn delete_conversation<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
        now: Timestamp,
    ) -> Answer<'a, Option<Vec<Approval>>>;

    /// The turns of that id; a gateway that reuses ids has one a conversation.
    fn turns<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, Vec<Turn>>;

    /// The definition under which the conversation last met the tool of that origin, label and name,
    /// whatever `tool.definition` says; `None` for tools that the gateway never listed.
    fn current_definition<'a>(
        &'a self,
        organisation: &'a str,
        surface: &'a str,
        conversation: &'a str,
        tool: &'a ToolIdentity,
    ) -> Answer<'a, Option<ToolDefinition>>;

    // --- tokens, agents, switches

    /// Stores a token. Names are unique among an organisation's working tokens of a kind.
    fn create_token(&self, token: NewToken) -> Answer<'_, Created>;

    /// A token of the organisation, also a revoked one.
    fn token<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, Option<Token>>;

    /// The working token with that SHA-256.
    fn token_by_hash(&self, hash: [u8; 32]) -> Answer<'_, Option<Token>>;

    /// All tokens of an organisation, revoked ones too, oldest first.
    fn tokens<'a>(&'a self, organisation: &'a str) -> Answer<'a, Vec<Token>>;

    /// Ends a token; `false` when the organisation has no such working token.
    fn revoke_token<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
        now: Timestamp,
    ) -> Answer<'a, bool>;

    /// Stores an agent version, for good.
    fn put_version(&self, version: PutVersion) -> Answer<'_, VersionPut>;

    /// The agent version of that name, or that the channel of that name stands for.
    fn version<'a>(
        &'a self,
        organisation: &'a str,
        agent: &'a str,
        name: &'a str,
    ) -> Answer<'a, Option<StoredVersion>>;

    /// All versions of an agent, oldest first.
    fn versions<'a>(
        &'a self,
        organisation: &'a str,
        agent: &'a str,
    ) -> Answer<'a, Vec<StoredVersion>>;

    /// Makes or moves a channel.
    fn move_channel(&self, channel: MoveChannel) -> Answer<'_, ChannelMoved>;

    /// All channels of an agent, by name.
    fn channels<'a>(&'a self, organisation: &'a str, agent: &'a str) -> Answer<'a, Vec<Channel>>;

    /// Switches automatic approval; it holds from the next [`Store::begin`] on, on every replica.
    fn set_automatic_approval(&self, switch: Switch) -> Answer<'_, ()>;

    /// Every switch that somebody set in the organisation.
    fn switches<'a>(&'a self, organisation: &'a str) -> Answer<'a, Vec<Switch>>;

    // --- instances of the approval protocol

    /// Takes the key of a request to make or change an instance, or says why not.
    fn begin_change(&self, change: BeginChange) -> Answer<'_, ChangeBegun>;

    /// Gives a change up: its key is free again.
    fn abandon_change(&self, ticket: ChangeTicket) -> Answer<'_, ()>;

    /// Stores a new instance with its token.
    fn create_instance(&self, instance: CreateInstance) -> Answer<'_, InstanceCreated>;

    /// Changes an instance's name or receiver. Without a receiver nothing more is delivered.
    fn update_instance(&self, update: UpdateInstance) -> Answer<'_, InstanceUpdated>;

    /// Sets an instance's mode or trust, and records the change; `None` when the organisation has no
    /// such instance.
    fn set_instance(&self, set: SetInstance) -> Answer<'_, Option<InstanceSet>>;

    /// Every recorded change of an instance's mode or trust, oldest first.
    fn instance_settings<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
    ) -> Answer<'a, Vec<SettingsChange>>;

    /// An instance of the organisation, deleted ones included as long as their records are kept.
    fn instance<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, Option<Instance>>;

    /// All instances of the organisation that were not deleted, oldest first.
    fn instances<'a>(&'a self, organisation: &'a str) -> Answer<'a, Vec<Instance>>;

    /// Deletes an instance: its token ends, what is pending is cancelled without a notification,
    /// and nothing more is delivered. What ended before stays as it is.
    fn delete_instance<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
        now: Timestamp,
    ) -> Answer<'a, InstanceDeleted>;

    /// Hands out notifications that are due, of every organisation, each to one worker at a time.
    fn claim_notifications(&self, claim: ClaimNotifications) -> Answer<'_, Vec<DueNotification>>;

    /// Records how an attempt went; `false` when the notification ended meanwhile, or another
    /// attempt began.
    fn finish_notification(&self, finish: FinishNotification) -> Answer<'_, bool>;

    // --- keys

    /// How much is sealed under each key, by its id.
    fn keys_in_use(&self) -> Answer<'_, Vec<KeyUse>>;

    /// Signing secrets of every organisation that are sealed under another key, by their instances'
    /// ids.
    fn sealed_otherwise(&self, otherwise: SealedOtherwise) -> Answer<'_, Vec<SigningSecret>>;

    /// Stores a secret that was sealed anew; `false` when it is not the one that was read any more.
    fn reseal(&self, reseal: Reseal) -> Answer<'_, bool>;

    // --- housekeeping

    /// Removes what has been kept long enough. Call it again while a count reaches the limit.
    fn sweep(&self, sweep: Sweep) -> Answer<'_, Swept>;

    /// Watches for changes. Subscribe first, then read: a change after the subscription is not
    /// missed.
    fn subscribe(&self, watched: Vec<Watched>) -> Watch;
}
