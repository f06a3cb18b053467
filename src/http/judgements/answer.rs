//! The answer's shape: one result a call, each with its outcome and, where the call needed approval,
//! the item that stands for it in the conversation.
//!
//! A repeat may find an approval that ended since; then the outcome is the approval's own status:
//! `rejected`, `cancelled` or `expired`. None of them may run.

use serde::Serialize;

use crate::decide::BlockedBy;
use crate::decide::policy::Mode;
use crate::host::report::blocked_output;
use crate::http::time::rfc3339;
use crate::service::judgement::{JudgedCall, Judgement};
use crate::store::{Approval, CallOutcome, Resolution, Status};

/// The body of an answer.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    conversation_mode: &'static str,
    replayed: bool,
    results: Vec<CallResult>,
}

#[derive(Debug, Default, Serialize)]
struct CallResult {
    call_id: String,
    outcome: &'static str,
    /// `sandbox_offline` for a call of the offline sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_route: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_at: Option<String>,
    /// Of a connector's call, whose item has no room for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_by: Option<Option<String>>,
    /// Of a pending call, and of a connector's.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Option<String>>,
    /// Of a pending call in auto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pause_reason: Option<String>,
    /// What the model gets in place of a blocked call's result.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<Item>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type")]
enum Item {
    #[serde(rename = "backbone:approval_request")]
    ApprovalRequest {
        id: String,
        call_id: String,
        tool: String,
        arguments: String,
        policy_class: Option<&'static str>,
        hmac: String,
        status: &'static str,
        decided_by: Option<String>,
        reason: Option<String>,
        decision: Option<&'static str>,
        mode: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        pause_reason: Option<String>,
    },
    #[serde(rename = "mcp_approval_request")]
    McpApprovalRequest {
        id: String,
        server_label: String,
        name: String,
        arguments: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        policy_class: Option<&'static str>,
    },
}

impl Results {
    pub(super) fn new(judgement: Judgement) -> Self {
        let Judgement { mode, replayed, calls } = judgement;
        let results = calls.into_iter().map(CallResult::new).collect();
        Self { conversation_mode: Mode::as_str(mode), replayed, results }
    }
}

impl CallResult {
    fn new(call: JudgedCall) -> Self {
        let JudgedCall { call_id, arguments, outcome, hmac } = call;
        let result = Self { call_id, outcome: "execute", ..Self::default() };
        match outcome {
            CallOutcome::Execute => result,
            CallOutcome::ExecuteSandboxed { timeout_seconds } => Self {
                approval_route: Some("sandbox_offline"),
                timeout_seconds: Some(timeout_seconds),
                ..result
            },
            CallOutcome::Blocked(by) => result.blocked(by),
            CallOutcome::Approval(approval) => {
                result.needing_approval(*approval, arguments, hmac.unwrap_or_default())
            }
        }
    }

    fn blocked(self, by: BlockedBy) -> Self {
        Self { outcome: "blocked", output: Some(blocked_output(by)), ..self }
    }

    fn needing_approval(self, approval: Approval, arguments: String, hmac: String) -> Self {
        let Approval { facts, status, decision, .. } = approval;
        let pending = status == Status::Pending;
        let (decided_by, decision_reason, start_by) = match decision {
            Some(Resolution { by, reason, start_by, .. }) => (by, reason, start_by),
            None => (None, None, None),
        };
        let reason = if pending { facts.pause_sentence } else { decision_reason };
        let pause_reason = facts.pause_reason.filter(|_| pending);
        let connector = facts.tool.server_label.is_some();
        let policy_class = facts.class.map(|class| class.as_str());
        let item = match facts.tool.server_label {
            Some(server_label) => Item::McpApprovalRequest {
                id: facts.id,
                server_label,
                name: facts.tool.name,
                arguments,
                policy_class,
            },
            None => Item::ApprovalRequest {
                id: facts.id,
                call_id: facts.call_id,
                tool: facts.tool.name,
                arguments,
                policy_class,
                hmac,
                status: item_status(status),
                decided_by: decided_by.clone(),
                reason: reason.clone(),
                decision: verb(status),
                mode: facts.mode.as_str(),
                pause_reason: pause_reason.clone(),
            },
        };
        Self {
            outcome: status.as_str(),
            start_by: start_by.map(rfc3339),
            deadline_at: pending.then(|| rfc3339(facts.deadline_at)),
            decided_by: connector.then_some(decided_by),
            reason: (pending || connector).then_some(reason),
            pause_reason,
            item: Some(item),
            ..self
        }
    }
}

/// What ended without anybody's decision is incomplete.
const fn item_status(status: Status) -> &'static str {
    match status {
        Status::Pending => "in_progress",
        Status::Approved | Status::Rejected => "completed",
        Status::Cancelled | Status::Expired => "incomplete",
    }
}

const fn verb(status: Status) -> Option<&'static str> {
    match status {
        Status::Approved => Some("approve"),
        Status::Rejected => Some("reject"),
        Status::Pending | Status::Cancelled | Status::Expired => None,
    }
}
