//! What happens to approvals and to the trust in instances, told to whoever watches: to the log
//! (target `approver::event`) and to a webhook where one is configured.
//!
//! An event holds ids, a tool's name and version, codes and numbers, and the name of an administrator
//! who gave or took trust. It has no room for arguments, transcripts, credentials, sentences that
//! somebody wrote or an exception's text. Telling never waits and never fails a request: what the
//! webhook does not take is counted.

mod webhook;

use serde::Serialize;
use serde_json::json;

pub use webhook::{EventCounts, WebhookError, WebhookSettings, webhook_key};

use super::{Service, ids};
use crate::decide::policy::Mode;
use crate::decide::text::{head, shown};
use crate::store::{
    Approval, Facts, Instance, InstanceSettings, NewApproval, Resolution, SettingsChange, Standing,
    Status, Timestamp,
};
use webhook::Webhook;

/// Bytes of an id or a name in an event.
const MAX_TEXT: usize = 256;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A call needed approval and its record is durable; also where a machine decided it at once.
    Requested,
    /// Somebody decided.
    Decided,
    /// Nobody decided in time.
    Expired,
    /// Nobody needs the decision any more.
    Cancelled,
}

impl EventKind {
    /// The kind's name in logs and on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "approval-requested",
            Self::Decided => "approval-decided",
            Self::Expired => "approval-expired",
            Self::Cancelled => "approval-cancelled",
        }
    }
}

/// One event, as the webhook's body has it under `data`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// What happened.
    #[serde(skip)]
    pub kind: EventKind,
    /// When.
    #[serde(skip)]
    pub at: Timestamp,
    /// Who owns the approval.
    pub organisation: String,
    /// The approval.
    pub approval_id: String,
    /// The agent.
    pub agent: String,
    /// Its version.
    pub version: String,
    /// The conversation.
    pub conversation: String,
    /// The turn.
    pub turn: String,
    /// The caller's name for the call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// The connector's label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_label: Option<String>,
    /// The version of the tool's definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_version: Option<String>,
    /// `approve` or `reject`, on what somebody decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<&'static str>,
    /// Who decided: `person`, `auto`, `grant` or `policy`; never a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<&'static str>,
    /// Why the call waited, as its stable code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason_code: Option<String>,
    /// Milliseconds: of judging on what was requested, from the record to its end on all else.
    pub duration_ms: u64,
}

impl Event {
    /// The events of an approval that was just recorded: that it was requested and, where a machine
    /// decided it at once, that it was decided.
    #[must_use]
    pub fn of_recorded(approval: &NewApproval) -> Vec<Self> {
        let facts = &approval.facts;
        let mut events = vec![Self::requested(facts)];
        let (by, decision) = match &approval.standing {
            Standing::Pending => return events,
            Standing::Approved { by, .. } => (by, "approve"),
            Standing::Rejected { by, .. } => (by, "reject"),
        };
        events.push(Self {
            kind: EventKind::Decided,
            decision: Some(decision),
            decided_by: Some(decider(by)),
            ..Self::requested(facts)
        });
        events
    }

    /// The event of an approval that just ended; `None` for one that waits.
    #[must_use]
    pub fn of_ended(approval: &Approval) -> Option<Self> {
        let Resolution { by, at, .. } = approval.decision.as_ref()?;
        let (kind, decision) = match approval.status {
            Status::Pending => return None,
            Status::Approved => (EventKind::Decided, Some("approve")),
            Status::Rejected => (EventKind::Decided, Some("reject")),
            Status::Cancelled => (EventKind::Cancelled, None),
            Status::Expired => (EventKind::Expired, None),
        };
        let requested = Self::requested(&approval.facts);
        let passed = at.unix_millis().saturating_sub(approval.facts.created_at.unix_millis());
        Some(Self {
            kind,
            at: *at,
            decision,
            decided_by: by.as_deref().filter(|_| decision.is_some()).map(decider),
            duration_ms: u64::try_from(passed).unwrap_or_default(),
            ..requested
        })
    }

    fn requested(facts: &Facts) -> Self {
        let text = |text: &String| bounded(text);
        Self {
            kind: EventKind::Requested,
            at: facts.created_at,
            organisation: bounded(&facts.organisation),
            approval_id: bounded(&facts.id),
            agent: bounded(&facts.agent),
            version: bounded(&facts.version),
            conversation: bounded(&facts.conversation),
            turn: bounded(&facts.turn),
            call_id: bounded(&facts.call_id),
            tool: bounded(&facts.tool.name),
            server_label: facts.tool.server_label.as_ref().map(text),
            tool_version: facts.tool_version.as_ref().map(text),
            decision: None,
            decided_by: None,
            reason_code: facts.pause_reason.as_ref().map(text),
            duration_ms: facts.latency_ms,
        }
    }
}

/// An id or a name of somebody else's: on one line and of bounded length.
fn bounded(text: &str) -> String {
    head(&shown(head(text, MAX_TEXT)), MAX_TEXT).to_owned()
}

/// A decider with a colon is a machine, named by what stands before it.
fn decider(by: &str) -> &'static str {
    match by.split_once(':') {
        None => "person",
        Some(("auto", _)) => "auto",
        Some(("grant", _)) => "grant",
        Some(_) => "policy",
    }
}

/// Where events go.
#[derive(Debug, Clone, Default)]
pub struct Events {
    webhook: Option<Webhook>,
}

impl Events {
    /// Events go to the log alone.
    #[must_use]
    pub fn to_log() -> Self {
        Self::default()
    }

    /// Events go to the log and to a webhook, which a task of the current runtime feeds.
    ///
    /// # Errors
    /// An address or a secret that cannot be used.
    pub fn to_webhook(settings: WebhookSettings) -> Result<Self, WebhookError> {
        Ok(Self { webhook: Some(Webhook::start(settings)?) })
    }

    /// Tells of an event. It returns at once.
    pub fn emit(&self, event: Event) {
        let Event { kind, organisation, approval_id, agent, version, turn, call_id, tool, .. } =
            &event;
        tracing::info!(
            target: "approver::event",
            event = kind.as_str(),
            organisation,
            approval_id,
            agent,
            version,
            conversation = event.conversation,
            turn,
            call_id,
            tool,
            server_label = event.server_label,
            tool_version = event.tool_version,
            decision = event.decision,
            decided_by = event.decided_by,
            reason_code = event.reason_code,
            duration_ms = event.duration_ms,
        );
        if let Some(webhook) = &self.webhook {
            webhook.send(ids::event(), kind.as_str(), event.at, &json!(event));
        }
    }

    /// Tells of a change of what an administrator sets on an instance. It returns at once.
    pub fn emit_set(&self, instance: &Instance, change: &SettingsChange) {
        const KIND: &str = "instance-set";
        let SettingsChange { by, at, before, after } = change;
        let (organisation, id) = (bounded(&instance.organisation), bounded(&instance.id));
        let (agent, version) = (bounded(&instance.agent), bounded(&instance.version));
        let changed_by = bounded(by);
        let mode = |settings: &InstanceSettings| settings.mode.map_or("default", Mode::as_str);
        tracing::info!(
            target: "approver::event",
            event = KIND,
            organisation,
            instance_id = id,
            agent,
            version,
            changed_by,
            mode_before = mode(before),
            mode = mode(after),
            trusted_context_before = before.trusted_context,
            trusted_context = after.trusted_context,
        );
        if let Some(webhook) = &self.webhook {
            let settings = |settings: &InstanceSettings| {
                json!({
                    "mode": settings.mode.map(Mode::as_str),
                    "trusted_context": settings.trusted_context,
                })
            };
            let data = json!({
                "organisation": organisation,
                "instance_id": id,
                "agent": agent,
                "version": version,
                "changed_by": changed_by,
                "before": settings(before),
                "after": settings(after),
            });
            webhook.send(ids::event(), KIND, *at, &data);
        }
    }

    /// What became of the events for the webhook; all zero without one.
    #[must_use]
    pub fn counts(&self) -> EventCounts {
        self.webhook.as_ref().map(Webhook::counts).unwrap_or_default()
    }

    /// Waits until the webhook has taken, or given up, everything that was told so far. Put a time
    /// limit around it: the webhook may be down.
    pub async fn drained(&self) {
        if let Some(webhook) = &self.webhook {
            webhook.drained().await;
        }
    }
}

impl Service {
    /// Tells of approvals that waited and just ended: once for each, by whoever ended it.
    pub(super) fn tell_ended<'a>(&self, approvals: impl IntoIterator<Item = &'a Approval>) {
        for approval in approvals {
            if let Some(event) = Event::of_ended(approval) {
                self.metrics.decided(approval.status);
                self.events.emit(event);
            }
        }
    }
}
