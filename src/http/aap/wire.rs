//! A request as the protocol shows it. What was sent is echoed by its own text; absent members are
//! absent, never `null`.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::http::time::rfc3339;
use crate::service::aap::requests::AapRequest;
use crate::service::{Code, Refusal};
use crate::store::{ExecutionStatus, Resolution, Status, Timestamp};

#[derive(Serialize)]
pub(super) struct ApprovalRequest {
    id: String,
    tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    arguments: Box<RawValue>,
    timeout: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_reasoning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Box<RawValue>>,
    status: &'static str,
    created_at: String,
    deadline_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<Decision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumption: Option<Consumption>,
}

#[derive(Serialize)]
struct Decision {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    decided_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

#[derive(Serialize)]
struct Consumption {
    consumed_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
}

#[derive(Serialize)]
struct Outcome {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    reported_at: String,
}

impl ApprovalRequest {
    /// The resource.
    ///
    /// # Errors
    /// What is kept is no JSON: a bug.
    pub(super) fn new(request: AapRequest) -> Result<Self, Refusal> {
        let AapRequest { approval, arguments, echo, outcome_note } = request;
        let facts = approval.facts;
        let status = word(approval.status);
        // Replicas' clocks may differ by a little, and nothing here happens before what it follows.
        let decided = approval
            .decision
            .map(|decision| Resolution { at: decision.at.max(facts.created_at), ..decision });
        let decided_at = decided.as_ref().map_or(facts.created_at, |decision| decision.at);
        let consumption = approval.claim.map(|claim| {
            let consumed_at = claim.at.max(decided_at);
            let outcome = approval.execution.map(|execution| Outcome {
                status: match execution.status {
                    ExecutionStatus::Ok => "succeeded",
                    ExecutionStatus::Failed | ExecutionStatus::Timeout => "failed",
                },
                note: outcome_note.filter(|note| !note.is_empty()),
                reported_at: rfc3339(execution.at.max(consumed_at)),
            });
            Consumption { consumed_at: rfc3339(consumed_at), outcome }
        });
        Ok(Self {
            id: facts.id,
            tool: echo.tool,
            server: echo.server,
            arguments: raw(arguments)?,
            timeout: echo.timeout,
            agent_reasoning: echo.agent_reasoning,
            context: echo.context.map(raw).transpose()?,
            status,
            created_at: rfc3339(facts.created_at),
            deadline_at: rfc3339(facts.deadline_at.max(facts.created_at.plus(TICK))),
            decision: decided.map(|decision| Decision {
                status,
                note: decision.reason.filter(|note| !note.is_empty()),
                decided_at: rfc3339(decision.at),
                expires_at: expires(approval.status, decision.start_by, decision.at),
            }),
            consumption,
        })
    }
}

const TICK: Duration = Duration::from_millis(1);

fn expires(status: Status, start_by: Option<Timestamp>, decided_at: Timestamp) -> Option<String> {
    (status == Status::Approved)
        .then(|| rfc3339(start_by.unwrap_or(decided_at).max(decided_at.plus(TICK))))
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Pending => "pending",
        Status::Approved => "approved",
        Status::Rejected => "denied",
        Status::Cancelled => "cancelled",
        Status::Expired => "expired",
    }
}

fn raw(text: String) -> Result<Box<RawValue>, Refusal> {
    RawValue::from_string(text).map_err(|_| {
        tracing::error!("what a request is to echo is no JSON");
        Refusal::new(Code::InternalError, "Something is wrong here, and it is recorded.")
    })
}
