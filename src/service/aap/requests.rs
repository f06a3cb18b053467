//! Requests of an instance, each of them one approval: judged as every call is, decided at once or
//! by a person, consumed once.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::SURFACE;
use crate::decide::digest;
use crate::decide::policy::{Action, effective};
use crate::decide::request::{Call, Conversation, Door};
use crate::decide::state::ToolIdentity;
use crate::host::aap::{Claims, Submission};
use crate::service::input::Echo;
use crate::service::judgement::{InstanceLimit, JudgementRequest, Stricter};
use crate::service::keys::Part;
use crate::service::{Code, MAX_WAIT, Poller, Refusal, Service};
use crate::store::{
    Approval, CallOutcome, Cancel, Cancelled, ClaimApproval, Claimant, Claimed, ExecutionStatus,
    Idempotency, Instance, ModeChoice, ReportExecution, Reported, Status, Token, TokenKind,
    Watched,
};

/// The endpoint's name in what makes a repeat a repeat.
const ENDPOINT: &str = "aap.requests";
/// An instance without trust names turns and conversations as it likes: its last hour is its turn.
const WITHOUT_TRUST: InstanceLimit =
    InstanceLimit { within: Duration::from_secs(3_600), escalations: 10 };

/// A request as it stands.
#[derive(Debug, Clone)]
pub struct AapRequest {
    /// The approval.
    pub approval: Approval,
    /// The exact text of the arguments.
    pub arguments: String,
    /// The rest of what was sent.
    pub echo: Echo,
    /// What was said of the call when it had run.
    pub outcome_note: Option<String>,
}

/// How a call ended, as its instance says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallReport {
    /// Whether it succeeded.
    pub succeeded: bool,
    /// What is to be said of it.
    pub note: Option<String>,
}

impl Service {
    /// The instance that a token is for.
    ///
    /// # Errors
    /// 403 for tokens of other kinds, 401 when the instance is gone; or the store fails.
    pub async fn instance_of_token(&self, token: &Token) -> Result<Instance, Refusal> {
        let TokenKind::Instance { instance } = &token.kind else {
            let text = format!("A token of kind `{}` may not do this.", token.kind.as_str());
            return Err(Refusal::new(Code::Forbidden, text));
        };
        let instance = self.store.instance(&token.organisation, instance).await?;
        instance.filter(|instance| instance.deleted_at.is_none()).ok_or_else(gone)
    }

    /// Judges a request, or says how one of the same key stands; the second value says which.
    ///
    /// # Errors
    /// 409 when the key was used with something else; as [`Service::judge`].
    pub async fn submit(
        self: &std::sync::Arc<Self>,
        instance: &Instance,
        key: String,
        submission: Submission,
        bytes: usize,
    ) -> Result<(AapRequest, bool), Refusal> {
        let request = self.judgement_request(instance, key, submission, bytes);
        let mut judgement = match self.judge(request).await {
            Ok(judgement) => judgement,
            Err(refusal) => return Err(self.explain(instance, refusal).await),
        };
        let approval = match judgement.calls.pop().map(|call| call.outcome) {
            Some(CallOutcome::Approval(approval)) => *approval,
            Some(
                CallOutcome::Execute
                | CallOutcome::ExecuteSandboxed { .. }
                | CallOutcome::Blocked(_),
            )
            | None => {
                tracing::error!("a request of the approval protocol has no approval");
                return Err(wrong());
            }
        };
        // One whose time is over has expired, whether or not somebody came by to say so.
        let approval = self.approval_of(instance, &approval.facts.id).await?;
        Ok((self.aap_request(approval).await?, judgement.replayed))
    }

    fn judgement_request(
        &self,
        instance: &Instance,
        key: String,
        submission: Submission,
        bytes: usize,
    ) -> JudgementRequest {
        let Submission { tool, server, arguments, timeout, agent_reasoning, context, .. } =
            submission;
        let Claims { mode, turn, conversation, items, annotations } = submission.claims;
        let id = &instance.id;
        let keyed = digest(&["aap-call-1", id, &key]);
        let call_id = format!("aap_{}", keyed.get(..32).unwrap_or(&keyed));
        let call = Call::new(&call_id, &tool, server.as_deref(), &arguments);
        // Whoever is not trusted says nothing that a judge or a detector could rely on.
        let trusted = instance.trusted_context;
        let items = if trusted { items } else { Vec::new() };
        let window = Duration::from_secs(submission.timeout_seconds);
        JudgementRequest {
            organisation: instance.organisation.clone(),
            idempotency: Idempotency {
                caller: id.clone(),
                endpoint: ENDPOINT.to_owned(),
                key,
                digest: submission.digest,
            },
            door: Door::Aap,
            instance: Some(id.clone()),
            agent: instance.agent.clone(),
            version: instance.version.clone(),
            user: None,
            surface: SURFACE.to_owned(),
            conversation_id: conversation.map_or_else(|| id.clone(), |name| format!("{id}:{name}")),
            turn: format!("{id}:{}", turn.as_ref().unwrap_or(&call_id)),
            continues: None,
            mode: ModeChoice::Default,
            pending_for: Some(window.min(self.limits.max_pending_for)),
            conversation: Conversation { items },
            tools: Vec::new(),
            calls: vec![call],
            stricter: Some(Stricter {
                chosen: instance.mode,
                claimed: mode,
                annotations,
                limit: (!trusted).then_some(WITHOUT_TRUST),
            }),
            echo: Some(Echo { tool, server, timeout, agent_reasoning, context }),
            bytes,
        }
    }

    /// What a refusal of the judgement is at this door.
    async fn explain(&self, instance: &Instance, refusal: Refusal) -> Refusal {
        match refusal.code {
            Code::CallConflict => {
                let text = "This key was used with another request.";
                Refusal::new(Code::IdempotencyConflict, text).at("Idempotency-Key")
            }
            Code::ConversationDeleted => {
                let now = self.store.instance(&instance.organisation, &instance.id).await;
                match now {
                    Ok(Some(now)) if now.deleted_at.is_none() => refusal,
                    Ok(_) => gone(),
                    Err(error) => error.into(),
                }
            }
            // The instance's own version: nothing that its agent could mend.
            Code::NotFound | Code::InvalidHitlPolicy => {
                tracing::error!(instance = instance.id, "an instance's version cannot be used");
                wrong()
            }
            _ => refusal,
        }
    }

    /// A request of the instance.
    ///
    /// # Errors
    /// 404, also once its retention is over; or the store fails.
    pub async fn request_of(&self, instance: &Instance, id: &str) -> Result<AapRequest, Refusal> {
        let approval = self.approval_of(instance, id).await?;
        self.aap_request(approval).await
    }

    async fn approval_of(&self, instance: &Instance, id: &str) -> Result<Approval, Refusal> {
        if Uuid::parse_str(id).is_err() {
            return Err(no_request());
        }
        let found = self.current(&instance.organisation, id).await;
        let found = found.map_err(|refusal| match refusal.code {
            Code::NotFound => no_request(),
            _ => refusal,
        })?;
        let facts = &found.facts;
        let own = facts.door == Door::Aap && facts.instance.as_ref() == Some(&instance.id);
        if own { Ok(found) } else { Err(no_request()) }
    }

    /// The request with what is sealed; 404 once that is not kept any more.
    async fn aap_request(&self, approval: Approval) -> Result<AapRequest, Refusal> {
        let input = self.open_input(&approval).await?.ok_or_else(no_request)?;
        let echo = input.aap.ok_or_else(wrong)?;
        let outcome_note = match approval.execution {
            Some(_) => self.outcome_note(&approval).await?,
            None => None,
        };
        Ok(AapRequest { approval, arguments: input.arguments, echo, outcome_note })
    }

    async fn outcome_note(&self, approval: &Approval) -> Result<Option<String>, Refusal> {
        let (organisation, id) = (&approval.facts.organisation, &approval.facts.id);
        let Some(sealed) = self.store.sealed(organisation, id).await?.output else {
            return Ok(None);
        };
        let opened = self.keys.open(organisation, id, Part::Output, &sealed);
        let note = opened.ok().and_then(|note| String::from_utf8(note).ok());
        note.map(Some).ok_or_else(|| {
            tracing::error!(approval = id, "a sealed note cannot be opened");
            wrong()
        })
    }

    /// A request of the instance, once it ended or `wait` is over.
    ///
    /// # Errors
    /// As [`Service::request_of`]; 401 when the token or its instance ended meanwhile, 429 when too
    /// many of its requests wait.
    pub async fn await_request(
        &self,
        poller: Poller<'_>,
        instance: &Instance,
        id: &str,
        wait: Duration,
    ) -> Result<AapRequest, Refusal> {
        let end = Instant::now() + wait.min(MAX_WAIT);
        let mut watch = self.store.subscribe(vec![Watched::Approval(id.to_owned())]);
        let mut place = None;
        loop {
            let approval = self.approval_of(instance, id).await?;
            let over = Instant::now() >= end || self.polls.have_ended();
            if approval.status != Status::Pending || over {
                return self.aap_request(approval).await;
            }
            if place.is_none() {
                place = Some(self.polls.enter(&poller.token.id, self.limits.polls_per_token)?);
            }
            tokio::select! {
                () = watch.changed() => {}
                () = sleep_until(end) => {}
                () = self.polls.ended() => {}
            }
            self.check_again(poller).await?;
        }
    }

    /// Cancels a request that nobody waits for any more; a repeat is answered alike.
    ///
    /// # Errors
    /// 404, 409 when it ended otherwise; or the store fails.
    pub async fn cancel_request(
        &self,
        instance: &Instance,
        id: &str,
    ) -> Result<AapRequest, Refusal> {
        let approval = self.approval_of(instance, id).await?;
        let cancel = Cancel {
            organisation: instance.organisation.clone(),
            approval: approval.facts.id,
            by: None,
            now: self.now(),
        };
        let approval = match self.store.cancel(cancel).await? {
            Cancelled::Done(approval) => {
                self.tell_ended([approval.as_ref()]);
                *approval
            }
            Cancelled::TooLate(approval) if approval.status == Status::Cancelled => *approval,
            Cancelled::TooLate(_) => {
                let text = "The request ended before it could be cancelled.";
                return Err(Refusal::new(Code::AlreadyTerminal, text));
            }
            Cancelled::NotFound => return Err(no_request()),
        };
        self.aap_request(approval).await
    }

    /// Gives the one permission to run an approved call, to one key; its repeats get it again.
    ///
    /// # Errors
    /// 404; 409 for another key, for what is not approved, and for what is not approved any more:
    /// its time is over, or policy or tool changed; or the store fails.
    pub async fn consume(
        &self,
        instance: &Instance,
        id: &str,
        key: String,
    ) -> Result<AapRequest, Refusal> {
        let approval = self.approval_of(instance, id).await?;
        // Whoever has the permission keeps it; nobody else is given one.
        if approval.status == Status::Approved
            && approval.claim.is_none()
            && !self.still_allowed(instance, &approval).await?
        {
            let text = "Policy or tool changed since: the call may not run on this approval.";
            return Err(Refusal::new(Code::ApprovalExpired, text));
        }
        let claim = ClaimApproval {
            organisation: instance.organisation.clone(),
            approval: approval.facts.id,
            claimant: Claimant { caller: instance.id.clone(), key },
            now: self.now(),
        };
        match self.store.claim(claim).await? {
            Claimed::Released(approval) => self.aap_request(*approval).await,
            Claimed::AlreadyClaimed(_) => {
                let text = "Another key has the permission to run the call.";
                Err(Refusal::new(Code::AlreadyConsumed, text))
            }
            Claimed::Expired(_) | Claimed::ConversationDeleted(_) => {
                let text = "The call had to start before the decision's `expires_at`.";
                Err(Refusal::new(Code::ApprovalExpired, text))
            }
            Claimed::NotApproved(_) => {
                Err(Refusal::new(Code::NotApproved, "The request is not approved."))
            }
            Claimed::NotFound => Err(no_request()),
        }
    }

    /// Policy and tool definition once more, in the version that judged the call and in the one that
    /// the instance stands at now.
    async fn still_allowed(
        &self,
        instance: &Instance,
        approval: &Approval,
    ) -> Result<bool, Refusal> {
        let facts = &approval.facts;
        let operator = &self.approver.settings().operator;
        let (name, label) = (&facts.tool.name, facts.tool.server_label.as_deref());
        let call = Call::new(&facts.call_id, name, label, "{}");
        for version in [&facts.version, &instance.version] {
            let version = self.version(&facts.organisation, &facts.agent, version).await?;
            let content = &version.content;
            let undefined = call.undefined_tool();
            let tool = call.definition(&content.agent, &[]).unwrap_or(&undefined);
            let met = effective(content.policy.as_ref(), tool, Door::Aap, operator);
            if ToolIdentity::of(tool) != facts.tool || met.action == Action::Block {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Records how a call ran; the same again is no error.
    ///
    /// # Errors
    /// 404; 409 when nobody consumed it, and for another outcome than the recorded one; or the store
    /// fails.
    pub async fn report_outcome(
        &self,
        instance: &Instance,
        id: &str,
        report: CallReport,
    ) -> Result<AapRequest, Refusal> {
        let approval = self.approval_of(instance, id).await?;
        let organisation = &instance.organisation;
        let id = &approval.facts.id;
        let status = if report.succeeded { ExecutionStatus::Ok } else { ExecutionStatus::Failed };
        let seal = |note: &String| {
            self.keys.seal(organisation, id, Part::Output, note.as_bytes()).map_err(|error| {
                tracing::error!(%error, "a note could not be sealed");
                wrong()
            })
        };
        let reported = self
            .store
            .report_execution(ReportExecution {
                organisation: organisation.clone(),
                approval: id.clone(),
                status,
                output: report.note.as_ref().map(seal).transpose()?,
                now: self.now(),
            })
            .await?;
        match reported {
            Reported::Done(approval) => self.aap_request(*approval).await,
            Reported::AlreadyReported(approval) => {
                let request = self.aap_request(*approval).await?;
                let same = request.approval.execution.is_some_and(|one| one.status == status);
                if same && request.outcome_note == report.note {
                    return Ok(request);
                }
                let text = "Another outcome was reported before.";
                Err(Refusal::new(Code::OutcomeConflict, text))
            }
            Reported::NotApproved(_) | Reported::NotClaimed(_) => {
                let text = "Nobody consumed the request, so its call cannot have run.";
                Err(Refusal::new(Code::NotConsumed, text))
            }
            Reported::NotFound => Err(no_request()),
        }
    }
}

fn no_request() -> Refusal {
    Refusal::not_found("request")
}

fn gone() -> Refusal {
    Refusal::new(Code::Unauthenticated, "The token's instance was deleted.")
}

fn wrong() -> Refusal {
    Refusal::new(Code::InternalError, "Something is wrong here, and it is recorded.")
}
