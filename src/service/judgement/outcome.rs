//! What becomes of a decision in the record: an approval with all that is known, or a digest alone.

use std::time::Duration;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::Work;
use crate::decide::policy::{self, Class, Mode};
use crate::decide::reason::Reason;
use crate::decide::request::{Call, Door, Tool};
use crate::decide::state::ToolIdentity;
use crate::decide::verdict::Evidence;
use crate::decide::{Asked, Decision, Outcome, novelty};
use crate::host::report::{AUTOMATIC_APPROVER, wire_reason};
use crate::service::events::Event;
use crate::service::input::{SealedInput, Shown};
use crate::service::keys::Part;
use crate::service::{Code, Judged, Refusal, Service, ids};
use crate::store::{
    Approval, CallOutcome, Facts, JudgeRecord, NewApproval, NewCallOutcome, NewOutcome, Resolution,
    Standing, Status, Ticket, Timestamp,
};

/// The decider where policy alone let a call run, at a door that records those too.
const POLICY_ALLOW: &str = "policy:allow";
/// The decider where policy forbids a call, at a door that knows no blocks.
const POLICY_BLOCK: &str = "policy:block";
/// What is said of a blocked call at such a door.
const BLOCKED: &str = "The policy forbids this call; nobody was asked.";

/// An outcome that is ready to be recorded.
pub(super) struct Ready {
    pub(super) outcome: NewOutcome,
    pub(super) hmac: Option<String>,
}

/// What is known of every call of an attempt.
pub(super) struct Known<'a> {
    pub(super) service: &'a Service,
    pub(super) work: &'a Work,
    pub(super) ticket: &'a Ticket,
    pub(super) mode: Mode,
    pub(super) now: Timestamp,
}

impl Known<'_> {
    /// The outcome of a decision, sealed and bound.
    pub(super) fn outcome(
        &self,
        call: &Call,
        judged: Judged,
        shown: Option<Shown>,
    ) -> Result<Ready, Refusal> {
        let Judged { decision, latency } = judged;
        let whole = |outcome| {
            let outcome = NewOutcome { call_id: call.call_id.clone(), outcome };
            Ok(Ready { outcome, hmac: None })
        };
        let start_by = self.now.plus(self.service.limits.start_within);
        let approved =
            |by: &str, reason| Standing::Approved { by: by.to_owned(), reason, start_by };
        let (standing, evidence): (Standing, Vec<Evidence>) =
            match (&decision.outcome, self.work.begin.door) {
                (Outcome::Execute, Door::Gateway) => return whole(NewCallOutcome::Execute),
                (Outcome::ExecuteSandboxed { timeout_seconds }, Door::Gateway) => {
                    let timeout_seconds = *timeout_seconds;
                    return whole(NewCallOutcome::ExecuteSandboxed { timeout_seconds });
                }
                (Outcome::Blocked(by), Door::Gateway) => {
                    return whole(NewCallOutcome::Blocked(*by));
                }
                // The other doors know approvals alone.
                (
                    Outcome::Execute | Outcome::ExecuteSandboxed { .. },
                    Door::Aap | Door::Proxy | Door::Hook,
                ) => (approved(POLICY_ALLOW, None), Vec::new()),
                (Outcome::Blocked(_), Door::Aap | Door::Proxy | Door::Hook) => {
                    let (by, reason) = (POLICY_BLOCK.to_owned(), Some(BLOCKED.to_owned()));
                    (Standing::Rejected { by, reason }, Vec::new())
                }
                (Outcome::Granted { approval_id }, _) => {
                    (approved(&format!("grant:{approval_id}"), None), Vec::new())
                }
                (Outcome::Approved(approval), _) => {
                    let reason = Some(approval.reason().to_owned());
                    (approved(AUTOMATIC_APPROVER, reason), approval.evidence().to_vec())
                }
                (Outcome::Pending(_), _) => (Standing::Pending, Vec::new()),
            };
        self.approval(call, decision, latency, standing, &evidence, shown)
    }

    /// What could not be stored, to be stored once more: what was approved waits for a person. Nobody
    /// knows what became of the first try, so every approval has a new id.
    pub(super) fn once_more(&self, call: &Call, ready: Ready) -> Result<Ready, Refusal> {
        let NewOutcome { call_id, outcome } = ready.outcome;
        let NewCallOutcome::Approval(approval) = outcome else {
            return Ok(Ready { outcome: NewOutcome { call_id, outcome }, hmac: ready.hmac });
        };
        let NewApproval { mut facts, mut standing, input } = *approval;
        let keys = &self.service.keys;
        let plain = keys.open(&facts.organisation, &facts.id, Part::Input, &input);
        let plain = plain.map_err(|error| unsealed(&error))?;
        if let Standing::Approved { .. } = standing {
            standing = Standing::Pending;
            let reason = Reason::NotRecorded;
            facts.pause_reason = (facts.mode == Mode::Auto).then(|| reason.code().to_owned());
            facts.pause_sentence = wire_reason(&reason);
        }
        facts.id = self.new_id();
        let input = keys.seal(&facts.organisation, &facts.id, Part::Input, &plain);
        let input = input.map_err(|error| unsealed(&error))?;
        let hmac = self.service.hmac(&facts, &call.arguments_text, &input.key_id);
        let approval = Box::new(NewApproval { facts, standing, input });
        let outcome = NewOutcome { call_id, outcome: NewCallOutcome::Approval(approval) };
        Ok(Ready { outcome, hmac: Some(hmac) })
    }

    /// Tells of the approvals that are durable now.
    pub(super) fn tell(&self, ready: &[Ready]) {
        for one in ready {
            match &one.outcome.outcome {
                NewCallOutcome::Approval(approval) => {
                    for event in Event::of_recorded(approval) {
                        self.service.events.emit(event);
                    }
                }
                NewCallOutcome::Execute
                | NewCallOutcome::ExecuteSandboxed { .. }
                | NewCallOutcome::Blocked(_) => {}
            }
        }
    }

    fn new_id(&self) -> String {
        match self.work.begin.door {
            Door::Gateway => ids::approval(),
            Door::Aap | Door::Proxy | Door::Hook => ids::uuid(),
        }
    }

    fn approval(
        &self,
        call: &Call,
        decision: Decision,
        latency: Duration,
        standing: Standing,
        evidence: &[Evidence],
        shown: Option<Shown>,
    ) -> Result<Ready, Refusal> {
        let facts = self.facts(call, &decision, latency);
        let mut input =
            SealedInput::new(&call.arguments_text, decision.provenance, evidence, shown);
        input.aap.clone_from(&self.work.echo);
        let keys = &self.service.keys;
        let input = input.seal(keys, &facts.organisation, &facts.id);
        let input = input.map_err(|error| unsealed(&error))?;
        let hmac = self.service.hmac(&facts, &call.arguments_text, &input.key_id);
        let approval = Box::new(NewApproval { facts, standing, input });
        let outcome = NewCallOutcome::Approval(approval);
        let outcome = NewOutcome { call_id: call.call_id.clone(), outcome };
        Ok(Ready { outcome, hmac: Some(hmac) })
    }

    fn facts(&self, call: &Call, decision: &Decision, latency: Duration) -> Facts {
        let Work { begin, version, user, pending_for, tools, .. } = self.work;
        let content = &version.content;
        let undefined;
        let tool = match call.definition(&content.agent, tools) {
            Some(tool) => tool,
            None => {
                undefined = call.undefined_tool();
                &undefined
            }
        };
        let waits = match &decision.outcome {
            Outcome::Pending(reason) => reason.as_ref(),
            Outcome::Execute
            | Outcome::ExecuteSandboxed { .. }
            | Outcome::Granted { .. }
            | Outcome::Approved(_)
            | Outcome::Blocked(_) => None,
        };
        let Ticket { organisation, surface, conversation, turn, .. } = self.ticket.clone();
        Facts {
            id: self.new_id(),
            organisation,
            door: begin.door,
            instance: begin.instance.clone(),
            agent: version.agent.clone(),
            version: version.version.clone(),
            surface,
            conversation,
            turn,
            call_id: call.call_id.clone(),
            user: user.clone(),
            tool: ToolIdentity::of(tool),
            tool_version: tool.version.clone(),
            class: self.class(decision, tool),
            mode: self.mode,
            timeout_seconds: call.timeout_seconds,
            pause_reason: waits
                .filter(|_| self.mode == Mode::Auto)
                .map(|reason| reason.code().to_owned()),
            pause_sentence: waits.and_then(wire_reason),
            judged: decision.asked.as_ref().map(|asked| self.judge_record(asked, decision)),
            findings: decision.findings.clone(),
            detectors: novelty::VERSION.to_owned(),
            arguments_digest: sha256(&call.arguments_text),
            lists_digest: version.lists_digest.clone(),
            policy_digest: version.policy_digest.clone(),
            latency_ms: u64::try_from(latency.as_millis()).unwrap_or(u64::MAX),
            created_at: self.now,
            deadline_at: self.now.plus(*pending_for),
        }
    }

    /// A bug in a call's plan leaves no class; its tool has one all the same.
    fn class(&self, decision: &Decision, tool: &Tool) -> Option<Class> {
        if decision.outcome != Outcome::Pending(Some(Reason::InternalError)) {
            return decision.class;
        }
        let content = &self.work.version.content;
        let operator = &self.service.approver.settings().operator;
        let door = self.work.begin.door;
        let effective = policy::effective(content.policy.as_ref(), tool, door, operator);
        decision.class.max(effective.class)
    }

    fn judge_record(&self, asked: &Asked, decision: &Decision) -> JudgeRecord {
        let configured = || self.service.approver.model().to_owned();
        JudgeRecord {
            model: asked.model.clone().unwrap_or_else(configured),
            reason: judge_reason(&decision.outcome),
            prompt_digest: asked.prompt_digest.clone(),
            tokens: asked.tokens,
            cuts: asked.cuts,
        }
    }
}

/// The judge's own sentence, where one is left: what it said beside a `soft_deny` or an approval
/// that did not hold is not kept by the core.
fn judge_reason(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Approved(approval) => Some(approval.reason().to_owned()),
        Outcome::Pending(Some(Reason::JudgeEscalated(reason))) => Some(reason.clone()),
        Outcome::Pending(_)
        | Outcome::Execute
        | Outcome::ExecuteSandboxed { .. }
        | Outcome::Granted { .. }
        | Outcome::Blocked(_) => None,
    }
}

/// Whether a detector or the judge escalated a call in auto: what `turn_limit` counts. An answer that
/// the model refused or garbled counts, because the call's wording may have brought it about; an
/// outage does not.
pub(super) fn escalates(decision: &Decision) -> bool {
    let Outcome::Pending(Some(reason)) = &decision.outcome else { return false };
    match reason {
        Reason::NovelArgument(_)
        | Reason::SoftDeny(_)
        | Reason::UnsupportedApproval(_)
        | Reason::JudgeEscalated(_)
        | Reason::JudgeRefused
        | Reason::JudgeUnreadable => true,
        Reason::ArgumentsUnreadable(_)
        | Reason::ToolUnknown
        | Reason::ToolChanged
        | Reason::Destructive
        | Reason::HumanOnly
        | Reason::BuiltinWrite
        | Reason::Unclassified
        | Reason::NotDeclaredHarmless
        | Reason::TurnLimit(_)
        | Reason::SandboxAllowance
        | Reason::RepeatedCall
        | Reason::TooLarge(_)
        | Reason::JudgeUnavailable
        | Reason::JudgeTimeout
        | Reason::JudgeError
        | Reason::JudgeRateLimited
        | Reason::NotRecorded
        | Reason::InternalError => false,
    }
}

/// An outcome as it stands right after it was recorded.
pub(super) fn standing(outcome: NewCallOutcome) -> CallOutcome {
    let NewApproval { facts, standing, .. } = match outcome {
        NewCallOutcome::Execute => return CallOutcome::Execute,
        NewCallOutcome::ExecuteSandboxed { timeout_seconds } => {
            return CallOutcome::ExecuteSandboxed { timeout_seconds };
        }
        NewCallOutcome::Blocked(by) => return CallOutcome::Blocked(by),
        NewCallOutcome::Approval(approval) => *approval,
    };
    let at = facts.created_at;
    let (status, decision) = match standing {
        Standing::Pending => (Status::Pending, None),
        Standing::Approved { by, reason, start_by } => {
            let decision = Resolution { by: Some(by), at, reason, start_by: Some(start_by) };
            (Status::Approved, Some(decision))
        }
        Standing::Rejected { by, reason } => {
            let decision = Resolution { by: Some(by), at, reason, start_by: None };
            (Status::Rejected, Some(decision))
        }
    };
    let approval = Approval { facts, status, decision, claim: None, execution: None, revision: 1 };
    CallOutcome::Approval(Box::new(approval))
}

fn unsealed(error: &dyn std::error::Error) -> Refusal {
    tracing::error!(%error, "an approval's input could not be sealed");
    Refusal::new(Code::InternalError, "Something is wrong here, and it is recorded.")
}

fn sha256(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}
