//! What changes rarely: tokens, agent versions and channels, switches, conversations and turns.

use super::Timestamp;
use crate::decide::policy::Mode;

/// A bearer token, without the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its id, which may stand in logs.
    pub id: String,
    /// Whose rows it may see.
    pub organisation: String,
    /// Its name; an operator's is the decider on what that person decides.
    pub name: String,
    /// What it may do.
    pub kind: TokenKind,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stopped working.
    pub revoked_at: Option<Timestamp>,
}

/// What a token may do. Each is of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenKind {
    /// Judgements and executions.
    Gateway {
        /// Whether it may also hand in decisions, naming the person.
        decide: bool,
    },
    /// Requests of one instance of the approval protocol.
    Instance {
        /// The instance.
        instance: String,
    },
    /// Instances of the approval protocol.
    Provisioner {
        /// The agents and versions (or channels) that it may bind.
        versions: Vec<(String, String)>,
    },
    /// A person: reads and decides.
    Operator,
    /// Agent versions and channels.
    PolicyOwner,
    /// Switches, instances' settings, tokens.
    Admin,
}

impl TokenKind {
    /// The kind's name.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Gateway { .. } => "gateway",
            Self::Instance { .. } => "instance",
            Self::Provisioner { .. } => "provisioner",
            Self::Operator => "operator",
            Self::PolicyOwner => "policy_owner",
            Self::Admin => "admin",
        }
    }
}

/// A token to be stored: its SHA-256 and never itself.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// The token.
    pub token: Token,
    /// SHA-256 of the token's bytes.
    pub hash: [u8; 32],
}

/// Whether something new was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// It was.
    Done,
    /// Something with this id, this hash or this name is there; nothing changed.
    Exists,
}

/// An agent version to be stored, for good.
#[derive(Debug, Clone)]
pub struct PutVersion {
    /// Who owns it.
    pub organisation: String,
    /// The agent.
    pub agent: String,
    /// The version.
    pub version: String,
    /// Instructions, tools and policy, in a form that only its writer reads.
    pub content: String,
    /// Digest of the content: versions with equal digests are the same.
    pub digest: String,
    /// The token's name.
    pub by: String,
    /// Now.
    pub now: Timestamp,
}

/// What became of an agent version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionPut {
    /// It is stored.
    Done,
    /// It was stored before, with this content.
    Same,
    /// It was stored before, with other content, which stays.
    Exists,
    /// A channel of the agent has this name, and would hide behind it.
    NameIsChannel,
}

/// A stored agent version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVersion {
    /// The agent.
    pub agent: String,
    /// The version, never a channel.
    pub version: String,
    /// The content, as stored.
    pub content: String,
    /// Its digest.
    pub digest: String,
    /// Who stored it.
    pub by: String,
    /// When.
    pub created_at: Timestamp,
}

/// A channel to be moved, or made.
#[derive(Debug, Clone)]
pub struct MoveChannel {
    /// Who owns it.
    pub organisation: String,
    /// The agent.
    pub agent: String,
    /// The channel.
    pub name: String,
    /// The version that it names from now on.
    pub version: String,
    /// The token's name.
    pub by: String,
    /// Now.
    pub now: Timestamp,
}

/// What became of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelMoved {
    /// It names the version now.
    Done,
    /// There is no such version; nothing changed.
    VersionNotFound,
    /// A version of the agent has this name; nothing changed.
    NameIsVersion,
}

/// A channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// The version that it names.
    pub version: String,
    /// Who moved it last.
    pub by: String,
    /// When.
    pub moved_at: Timestamp,
}

/// Automatic approval switched on or off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// Who owns it.
    pub organisation: String,
    /// The agent; `None` for all of the organisation's. A call needs both to be on.
    pub agent: Option<String>,
    /// On or off; on where nobody ever switched.
    pub enabled: bool,
    /// The token's name.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// A conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Its surface.
    pub surface: String,
    /// Its id.
    pub id: String,
    /// The mode that a person last picked.
    pub mode: Option<Mode>,
    /// Escalations by detector or judge since a person last decided.
    pub escalations: u32,
    /// When it was deleted.
    pub deleted_at: Option<Timestamp>,
}

/// A turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The surface of its conversation.
    pub surface: String,
    /// Its conversation.
    pub conversation: String,
    /// Its id.
    pub id: String,
    /// The mode that its first request fixed.
    pub mode: Mode,
    /// The continuation that carried its decisions.
    pub continuation: Option<Continuation>,
}

/// A continuation of a paused turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    /// Its id.
    pub id: String,
    /// Whether the gateway reported that it failed.
    pub failed: bool,
}

/// What a continuation's failure comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContinuationFailed {
    /// It is recorded; the same decisions may come again.
    Done,
    /// Another continuation carried the turn's decisions, or none did.
    NotThisContinuation,
    /// The organisation has no such turn.
    NotFound,
}
