//! Instances of the approval protocol: who asks at that door, and who is told when a request ends.
//!
//! Making or changing one may first have to ask its receiver, so that both are two transactions:
//! [`BeginChange`] takes the idempotency key, and [`CreateInstance`] or [`UpdateInstance`] commits
//! under it, once.

use std::time::Duration;

use super::{Approval, NewToken, Sealed, Timestamp};
use crate::decide::policy::Mode;

/// An instance as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its id, a UUID.
    pub id: String,
    /// Who owns it.
    pub organisation: String,
    /// Its name, for people.
    pub name: String,
    /// The agent that it is bound to.
    pub agent: String,
    /// The agent's version, or a channel, which it follows.
    pub version: String,
    /// The mode that an operator chose; the version's default where there is none.
    pub mode: Option<Mode>,
    /// Whether an operator vouches for what its requests say of the conversation.
    pub trusted_context: bool,
    /// Who is told when a request ends.
    pub delivery: Option<Delivery>,
    /// Its token.
    pub token: InstanceToken,
    /// The id of the token that provisioned it.
    pub provisioner: String,
    /// When it was provisioned.
    pub created_at: Timestamp,
    /// When its name, receiver or settings last changed.
    pub updated_at: Timestamp,
    /// When it was deleted; its record outlives it for a while.
    pub deleted_at: Option<Timestamp>,
}

/// What an instance's token is derived from; the token itself is nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceToken {
    /// The id of its row among the tokens.
    pub id: String,
    /// Names the root key.
    pub key_id: String,
    /// Makes it another than every other instance's.
    pub nonce: String,
}

/// A receiver of notifications.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Where notifications go: `https://…`.
    pub url: String,
    /// The host in it, in lower case: what may be busy, or down, for many instances.
    pub host: String,
    /// The provisioner's id for this registration, a UUID.
    pub registration_id: String,
    /// The secret that signs them, sealed.
    pub secret: Sealed,
}

/// A request to make or change an instance takes its key.
#[derive(Debug, Clone)]
pub struct BeginChange {
    /// Who owns the instance.
    pub organisation: String,
    /// The provisioner's token.
    pub caller: String,
    /// What it asks for.
    pub operation: ChangeOperation,
    /// The key that it chose.
    pub key: String,
    /// Digest of what must be equal in a repeat.
    pub digest: String,
    /// Now.
    pub now: Timestamp,
    /// How long nobody else may take the change over.
    pub lease: Duration,
}

/// What a change is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeOperation {
    /// A new instance, which gets this id unless an earlier attempt chose one.
    Create {
        /// The id, a UUID.
        proposed: String,
    },
    /// Another name or receiver of this instance.
    Update {
        /// The instance.
        instance: String,
    },
}

/// What to do with a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeBegun {
    /// Carry it out, then commit it or give it up.
    Go(ChangeTicket),
    /// It was committed before.
    Replayed {
        /// The instance.
        instance: String,
        /// What was answered then.
        response: String,
    },
    /// Somebody carries it out right now.
    InProgress,
    /// The key was used with something else.
    Conflict,
}

/// The right to commit one attempt at a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeTicket {
    /// The change.
    pub change: String,
    /// The attempt: a later one has a higher number.
    pub attempt: i64,
    /// The instance that it makes or changes.
    pub instance: String,
}

/// A new instance with its token.
#[derive(Debug, Clone)]
pub struct CreateInstance {
    /// From [`ChangeBegun::Go`].
    pub ticket: ChangeTicket,
    /// The instance.
    pub instance: Instance,
    /// Its token.
    pub token: NewToken,
    /// What a repeat is answered, without the token.
    pub response: String,
}

/// Another name or receiver.
#[derive(Debug, Clone)]
pub struct UpdateInstance {
    /// From [`ChangeBegun::Go`].
    pub ticket: ChangeTicket,
    /// Who owns the instance.
    pub organisation: String,
    /// Its new name.
    pub name: Option<String>,
    /// Its new receiver, or none from now on, which ends what is being delivered.
    pub delivery: Option<Option<Delivery>>,
    /// What a repeat is answered, made of the instance as it then stands.
    pub response: fn(&Instance) -> String,
    /// Now.
    pub now: Timestamp,
}

/// What became of a new instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceCreated {
    /// It is stored.
    Done,
    /// Another attempt was committed, or is being carried out; nothing changed.
    Superseded,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceUpdated {
    /// It is stored: the instance as it now stands.
    Done(Box<Instance>),
    /// Another attempt was committed, or is being carried out; nothing changed.
    Superseded,
    /// The organisation has no such instance, or it was deleted.
    NotFound,
}

/// What an operator sets on an instance; what is `None` stays.
#[derive(Debug, Clone)]
pub struct SetInstance {
    /// Who owns it.
    pub organisation: String,
    /// The instance.
    pub instance: String,
    /// Its mode, or the version's default from now on.
    pub mode: Option<Option<Mode>>,
    /// Whether its context counts.
    pub trusted_context: Option<bool>,
    /// Who sets it.
    pub by: String,
    /// Now.
    pub now: Timestamp,
}

/// An instance that was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceSet {
    /// The instance as it now stands.
    pub instance: Instance,
    /// What changed, as it was recorded; `None` when it stood like this before.
    pub change: Option<SettingsChange>,
}

/// A recorded change of what an operator sets on an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsChange {
    /// Who changed it.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// What stood before.
    pub before: InstanceSettings,
    /// What stood from then on.
    pub after: InstanceSettings,
}

/// What an operator sets on an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceSettings {
    /// Its mode; the version's default where there is none.
    pub mode: Option<Mode>,
    /// Whether its context counts.
    pub trusted_context: bool,
}

/// What became of a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceDeleted {
    /// It is deleted, its token does not work any more, and these requests were cancelled.
    Done(Vec<Approval>),
    /// It was deleted before.
    Before,
    /// The organisation has no record of such an instance.
    NotFound,
}

/// A worker asks for what is to be delivered.
#[derive(Debug, Clone, Copy)]
pub struct ClaimNotifications {
    /// Now.
    pub now: Timestamp,
    /// How long nobody else attempts what is handed out: longer than an attempt.
    pub lease: Duration,
    /// What was decided before this time is given up.
    pub give_up_before: Timestamp,
    /// At most this many.
    pub limit: u32,
    /// At most this many of a host at once, those included that any worker attempts right now.
    pub per_host: u32,
}

/// A notification that is this worker's to attempt, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueNotification {
    /// The request that ended.
    pub request: String,
    /// Who owns it.
    pub organisation: String,
    /// The instance.
    pub instance: String,
    /// When the request ended.
    pub decided_at: Timestamp,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The instance's receiver as it now stands.
    pub delivery: Delivery,
}

/// How an attempt went.
#[derive(Debug, Clone)]
pub struct FinishNotification {
    /// The request.
    pub request: String,
    /// The attempt.
    pub attempt: u32,
    /// When another attempt may begin; `None` when it was acknowledged or is given up.
    pub retry_at: Option<Timestamp>,
    /// When the attempt's place at its host is free again.
    pub busy_until: Timestamp,
    /// Now.
    pub now: Timestamp,
}
