//! What the gateway does with an approval: claiming it right before the call runs, reporting how it
//! ran, and cancelling what nobody waits for any more.

use serde_json::json;

use super::decision::already_decided;
use super::keys::Part;
use super::stale::{Standing, stale};
use super::{Code, Refusal, Service};
use crate::decide::request::Door;
use crate::store::{
    Approval, Cancel, Cancelled, ClaimApproval, Claimant, Claimed, ExecutionStatus, Facts,
    ReportExecution, Reported, Status, Token,
};

impl Service {
    /// Gives the one permission to run an approved call, to one key of one token; its repeats get
    /// it again.
    ///
    /// # Errors
    /// `not_found`, `already_claimed`, `approval_expired` after `start_by`, `conversation_deleted`,
    /// `not_approved`, `approval_stale`; or the store fails.
    pub async fn claim(&self, token: &Token, id: &str, key: &str) -> Result<Approval, Refusal> {
        let organisation = &token.organisation;
        let approval = self.gateways_own(organisation, id).await?;
        // Whoever has the permission keeps it; nobody else is given one.
        if approval.status == Status::Approved
            && approval.claim.is_none()
            && let Standing::Stale = self.standing(&approval).await?
        {
            // With a conversation its tools' definitions go too: that is no change of a tool.
            let gone = self.is_conversation_deleted(&approval).await?;
            return Err(if gone { conversation_deleted() } else { stale(&approval) });
        }
        let claimed = self
            .store
            .claim(ClaimApproval {
                organisation: organisation.clone(),
                approval: id.to_owned(),
                claimant: Claimant { caller: token.id.clone(), key: key.to_owned() },
                now: self.now(),
            })
            .await?;
        match claimed {
            Claimed::Released(approval) => Ok(*approval),
            Claimed::AlreadyClaimed(_) => {
                let text = "Another key has the permission to run the call.";
                Err(Refusal::new(Code::AlreadyClaimed, text))
            }
            Claimed::Expired(_) => {
                let text = "The call had to start before the approval's `start_by`.";
                Err(Refusal::new(Code::ApprovalExpired, text))
            }
            Claimed::ConversationDeleted(_) => Err(conversation_deleted()),
            Claimed::NotApproved(approval) => Err(not_approved(&approval)),
            Claimed::NotFound => Err(Refusal::not_found("approval")),
        }
    }

    /// Records how a call ran, once, and what it answered.
    ///
    /// # Errors
    /// `not_found`, `execution_already_reported`, `not_approved`, `not_claimed`; or the store fails.
    pub async fn report_execution(
        &self,
        token: &Token,
        id: &str,
        status: ExecutionStatus,
        output: Option<&str>,
    ) -> Result<Approval, Refusal> {
        let organisation = &token.organisation;
        self.gateways_own(organisation, id).await?;
        let seal = |output: &str| {
            self.keys.seal(organisation, id, Part::Output, output.as_bytes()).map_err(|error| {
                tracing::error!(%error, "an output cannot be sealed");
                Refusal::new(Code::InternalError, "The output cannot be sealed.")
            })
        };
        let reported = self
            .store
            .report_execution(ReportExecution {
                organisation: organisation.clone(),
                approval: id.to_owned(),
                status,
                output: output.map(seal).transpose()?,
                now: self.now(),
            })
            .await?;
        match reported {
            Reported::Done(approval) => Ok(*approval),
            Reported::AlreadyReported(approval) => {
                let status = approval.execution.map(|execution| execution.status.as_str());
                let text = "How the call ran was reported before.";
                Err(Refusal::new(Code::ExecutionAlreadyReported, text)
                    .with(json!({"status": status})))
            }
            Reported::NotApproved(approval) => Err(not_approved(&approval)),
            Reported::NotClaimed(_) => {
                let text = "Nobody claimed the call, so it cannot have run.";
                Err(Refusal::new(Code::NotClaimed, text))
            }
            Reported::NotFound => Err(Refusal::not_found("approval")),
        }
    }

    /// Cancels an approval that nobody waits for any more; a repeat gets the same answer.
    ///
    /// # Errors
    /// `not_found`, `approval_already_decided` for what was decided or expired; or the store fails.
    pub async fn cancel(&self, token: &Token, id: &str) -> Result<Approval, Refusal> {
        let approval = self.gateways_own(&token.organisation, id).await?;
        if approval.status == Status::Cancelled {
            return Ok(approval);
        }
        let cancelled = self
            .store
            .cancel(Cancel {
                organisation: token.organisation.clone(),
                approval: id.to_owned(),
                by: None,
                now: self.now(),
            })
            .await?;
        match cancelled {
            Cancelled::Done(approval) => {
                self.tell_ended([approval.as_ref()]);
                Ok(*approval)
            }
            Cancelled::TooLate(approval) if approval.status == Status::Cancelled => Ok(*approval),
            Cancelled::TooLate(approval) => Err(already_decided(&approval)),
            Cancelled::NotFound => Err(Refusal::not_found("approval")),
        }
    }

    async fn is_conversation_deleted(&self, approval: &Approval) -> Result<bool, Refusal> {
        let Facts { organisation, surface, conversation, .. } = &approval.facts;
        let found = self.store.conversation(organisation, surface, conversation).await?;
        Ok(found.is_some_and(|conversation| conversation.deleted_at.is_some()))
    }

    /// An approval that a gateway may decide, run, report or cancel. An instance of the approval
    /// protocol does all that with its own requests, and nobody else does.
    ///
    /// # Errors
    /// 404, or the store fails.
    pub(super) async fn gateways_own(
        &self,
        organisation: &str,
        id: &str,
    ) -> Result<Approval, Refusal> {
        let approval = self.current(organisation, id).await?;
        match approval.facts.door {
            Door::Aap => Err(Refusal::not_found("approval")),
            Door::Gateway | Door::Proxy | Door::Hook => Ok(approval),
        }
    }
}

fn conversation_deleted() -> Refusal {
    let text = "The conversation was deleted; nothing of it runs any more.";
    Refusal::new(Code::ConversationDeleted, text)
}

fn not_approved(approval: &Approval) -> Refusal {
    let status = approval.status.as_str();
    Refusal::new(Code::NotApproved, format!("The call is not approved: the approval is {status}."))
        .with(json!({"status": status}))
}
