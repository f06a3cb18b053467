//! What the doors share: judging a request and recording it, decisions, claims, versions, keys.
//!
//! A door reads its own wire format, calls this, and writes its own answer; nothing here knows HTTP.
//! What is refused is a [`Refusal`], which every door shows in the same envelope. Times come from
//! [`Service::now`], so that a test can move them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::decide::verdict::JudgeFailure;
use crate::store::{Store, Timestamp};

pub mod aap;
mod agents;
pub mod approvals;
mod approver;
mod automatic_approval;
pub mod claim;
mod conversations;
pub mod decision;
pub mod definitions;
pub mod events;
pub mod housekeeping;
pub mod ids;
pub mod input;
pub mod judgement;
pub mod keys;
mod metrics;
pub mod names;
mod person;
mod polls;
mod refusal;
mod rotation;
mod running;
mod stale;
pub mod tokens;
pub mod turn_decision;
pub mod versions;

pub use agents::Put;
pub use approver::{Approver, Judged, Timing};
pub use metrics::{Counted, Metrics};
pub use polls::{MAX_WAIT, Poller};
pub use refusal::{Code, Refusal, Type};
pub use rotation::Resealed;
pub use running::{Running, Work};

use events::Events;
use keys::KeyRing;
use polls::Polls;
use versions::Versions;

/// Times and limits of approvals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How long an approval waits for a person when the request does not say; 24 h unless configured.
    pub pending_for: Duration,
    /// How long a request may ask it to wait; 168 h unless configured, and never longer.
    pub max_pending_for: Duration,
    /// How long after its approval a call may start; 5 minutes unless configured.
    pub start_within: Duration,
    /// Requests of one token that may wait for a change at once, in this process; 1,000 unless
    /// configured.
    pub polls_per_token: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pending_for: Duration::from_secs(24 * 3600),
            max_pending_for: Duration::from_secs(168 * 3600),
            start_within: Duration::from_secs(300),
            polls_per_token: 1_000,
        }
    }
}

/// What a service is made of.
pub struct Parts {
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// Who judges.
    pub approver: Approver,
    /// Whether automatic approval is available at all, or why not.
    pub automatic_approval: Result<(), JudgeFailure>,
    /// Whether the built-in `Bash` may run in its offline sandbox.
    pub sandbox_enabled: bool,
    /// Every key.
    pub keys: KeyRing,
    /// Times and limits.
    pub limits: Limits,
    /// For tests alone: whether a receiver of notifications may be on this machine, without TLS.
    pub allow_loopback_webhooks: bool,
    /// Tells the time.
    pub clock: Clock,
}

/// Tells the time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// The machine's own.
    #[must_use]
    pub fn system() -> Self {
        Self(Arc::new(SystemTime::now))
    }

    /// One that somebody else moves.
    #[must_use]
    pub fn of(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from((self.0)())
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Clock")
    }
}

/// The service behind every door. It is shared by reference: one per process.
pub struct Service {
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// Who judges.
    pub approver: Approver,
    /// Whether automatic approval is available at all, or why not.
    pub automatic_approval: Result<(), JudgeFailure>,
    /// Whether the built-in `Bash` may run in its offline sandbox.
    pub sandbox_enabled: bool,
    /// Every key.
    pub keys: KeyRing,
    /// Times and limits.
    pub limits: Limits,
    pub(in crate::service) allow_loopback_webhooks: bool,
    rates: aap::Rates,
    /// What is counted.
    pub metrics: Metrics,
    /// What runs right now.
    pub running: Running,
    /// Where events go.
    pub events: Events,
    versions: Versions,
    polls: Polls,
    clock: Clock,
}

impl Service {
    /// Puts the parts together. Nothing runs yet.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { store, approver, automatic_approval, sandbox_enabled, keys, limits, .. } =
            parts;
        let Parts { allow_loopback_webhooks, clock, .. } = parts;
        if allow_loopback_webhooks {
            tracing::warn!(
                "FOR TESTS ONLY: notifications may go to this machine, and without TLS; whoever may \
                 provision an instance reaches every service on it"
            );
        }
        Self {
            store,
            approver,
            automatic_approval,
            sandbox_enabled,
            keys,
            limits,
            allow_loopback_webhooks,
            rates: aap::Rates::default(),
            metrics: Metrics::default(),
            running: Running::default(),
            events: Events::to_log(),
            versions: Versions::default(),
            polls: Polls::default(),
            clock,
        }
    }

    /// The same with another receiver of events.
    #[must_use]
    pub fn with_events(self, events: Events) -> Self {
        Self { events, ..self }
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
