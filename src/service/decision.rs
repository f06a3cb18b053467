//! One person's decision about one approval. It releases nothing: whoever runs the call claims it.

use serde_json::json;

use super::input::{Missing, bound};
use super::person;
use super::stale::{Standing, stale};
use super::{Code, Refusal, Service};
use crate::decide::policy::{Class, Mode};
use crate::store::{Approval, Decide, Decided, PersonVerdict, Status, Timestamp, Token, TokenKind};

/// How often a decision is checked again because the conversation's mode changed meanwhile.
pub(super) const MODE_CHANGES: usize = 8;

/// A person's decision, as it came in.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The decision.
    pub verdict: Verdict,
    /// The approval's `hmac`.
    pub hmac: String,
    /// The person's reason.
    pub reason: Option<String>,
    /// The person, where a gateway hands the decision in.
    pub decided_by: Option<String>,
}

/// What a person says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may run.
    Approve {
        /// Whether later calls of the tool in this conversation may run with it.
        remember: bool,
    },
    /// It may not.
    Reject,
}

impl Verdict {
    pub(super) fn of_person(self, start_by: Timestamp) -> PersonVerdict {
        match self {
            Self::Approve { remember } => PersonVerdict::Approve { start_by, remember },
            Self::Reject => PersonVerdict::Reject,
        }
    }
}

impl Service {
    /// Records a person's decision, and answers the approval as it then stands.
    ///
    /// # Errors
    /// `not_found`, for a gateway also about an instance's request; `forbidden` and `invalid_request` about the decider; `approval_already_decided`;
    /// `invalid_approval_decision` for what a grant decided and for what cannot be remembered;
    /// `approval_hmac_mismatch`; `key_missing`, `approval_stale` and `conversation_in_plan_mode`, after which the
    /// approval still waits; or the store fails.
    pub async fn decide(
        &self,
        token: &Token,
        id: &str,
        decision: Decision,
    ) -> Result<Approval, Refusal> {
        let by = person::decider(token, decision.decided_by.as_deref())?;
        person::check_reason(decision.reason.as_deref(), "$.reason")?;
        let approval = match token.kind {
            TokenKind::Gateway { .. } => self.gateways_own(&token.organisation, id).await?,
            TokenKind::Instance { .. }
            | TokenKind::Provisioner { .. }
            | TokenKind::Operator
            | TokenKind::PolicyOwner
            | TokenKind::Admin => self.current(&token.organisation, id).await?,
        };
        check_open(&approval)?;
        self.check_hmac(&approval, decision.verdict, &decision.hmac).await?;
        let mut stored_mode = self.stored_mode(&approval).await?;
        for _ in 0..MODE_CHANGES {
            let mode = stored_mode.unwrap_or(approval.facts.mode);
            self.check_verdict(&approval, decision.verdict, mode).await?;
            let now = self.now();
            let decided = self
                .store
                .decide(Decide {
                    organisation: token.organisation.clone(),
                    approval: id.to_owned(),
                    verdict: decision.verdict.of_person(now.plus(self.limits.start_within)),
                    by: by.clone(),
                    reason: decision.reason.clone(),
                    stored_mode,
                    now,
                })
                .await?;
            match decided {
                Decided::Done(approval) => {
                    self.tell_ended([approval.as_ref()]);
                    return Ok(*approval);
                }
                Decided::TooLate(approval) => return Err(already_decided(&approval)),
                Decided::ModeChanged { stored } => stored_mode = stored,
                Decided::NotFound => return Err(Refusal::not_found("approval")),
            }
        }
        Err(mode_keeps_changing())
    }

    /// The mode that is stored on the approval's conversation.
    pub(super) async fn stored_mode(&self, approval: &Approval) -> Result<Option<Mode>, Refusal> {
        let facts = &approval.facts;
        let (organisation, surface) = (&facts.organisation, &facts.surface);
        let found = self.store.conversation(organisation, surface, &facts.conversation).await?;
        Ok(found.and_then(|conversation| conversation.mode))
    }

    /// Compares an `hmac` with that of the sealed arguments. Where these cannot be read nobody can
    /// tell, and then whatever is given is enough to reject: the way to a no is always open.
    ///
    /// # Errors
    /// 400 where they differ; where the arguments of what is to be approved cannot be read, 409 for a
    /// key that is missing and 500 for the rest.
    pub(super) async fn check_hmac(
        &self,
        approval: &Approval,
        verdict: Verdict,
        given: &str,
    ) -> Result<(), Refusal> {
        let facts = &approval.facts;
        let sealed = self.store.sealed(&facts.organisation, &facts.id).await?.input;
        let arguments = match (self.read_input(facts, sealed.as_ref()), verdict) {
            (Ok(input), _) => input.arguments,
            (Err(_), Verdict::Reject) => return Ok(()),
            (Err(missing), Verdict::Approve { .. }) => return Err(unread(approval, &missing)),
        };
        if self.keys.verify(&bound(facts, &arguments), given) {
            return Ok(());
        }
        let text = "The `hmac` is not that of this approval.";
        Err(Refusal::new(Code::ApprovalHmacMismatch, text).with(json!({"approval_id": facts.id})))
    }

    /// Whether a person may say this about the call, in a conversation in `mode`. A reject always
    /// may be said.
    ///
    /// # Errors
    /// 400 and 409 as [`Service::decide`] says.
    pub(super) async fn check_verdict(
        &self,
        approval: &Approval,
        verdict: Verdict,
        mode: Mode,
    ) -> Result<(), Refusal> {
        let Verdict::Approve { remember } = verdict else { return Ok(()) };
        let Standing::Holds { is_read, needs_person } = self.standing(approval).await? else {
            return Err(stale(approval));
        };
        let class = approval.facts.class;
        if remember && (needs_person || class == Some(Class::Destructive)) {
            let text = "What may destroy something, and what only a person may approve, is decided \
                        call by call: `remember` is not for it.";
            return Err(invalid(approval, text).at("$.remember"));
        }
        if mode == Mode::Plan && !(is_read && class == Some(Class::Read)) {
            let text = "The conversation is in plan mode, in which only reads run. The call can be \
                        rejected, or approved once the conversation is in another mode.";
            return Err(Refusal::new(Code::ConversationInPlanMode, text)
                .with(json!({"approval_id": approval.facts.id})));
        }
        Ok(())
    }
}

/// Whether somebody may still decide.
///
/// # Errors
/// 400 for what a grant decided, 409 for what ended otherwise.
pub(super) fn check_open(approval: &Approval) -> Result<(), Refusal> {
    let by = approval.decision.as_ref().and_then(|decision| decision.by.as_deref());
    if by.is_some_and(|by| by.starts_with("grant:")) {
        let text = "A remembered approval decided this call; it cannot be decided again.";
        return Err(invalid(approval, text));
    }
    if approval.status == Status::Pending { Ok(()) } else { Err(already_decided(approval)) }
}

/// Why nobody can approve what nobody can read.
fn unread(approval: &Approval, missing: &Missing) -> Refusal {
    let (code, text, key_id) = match missing {
        Missing::KeyMissing { key_id } => {
            let text = format!(
                "The call cannot be approved: its arguments are sealed under the key `{key_id}`, \
                 which is not in the service's key ring. Put the key back and restart the service, \
                 or reject the call."
            );
            (Code::KeyMissing, text, Some(key_id))
        }
        Missing::NotKept => {
            let text = "The call cannot be approved: its arguments are not kept. Reject it.";
            (Code::InternalError, text.to_owned(), None)
        }
        Missing::Unreadable => {
            let text = "The call cannot be approved: its arguments are not what was sealed, or the \
                        secret of their key is another one now. Reject it, or put the secret back.";
            (Code::InternalError, text.to_owned(), None)
        }
    };
    let mut detail = json!({"approval_id": approval.facts.id});
    if let Some(key_id) = key_id {
        detail["key_id"] = json!(key_id);
    }
    Refusal::new(code, text).with(detail)
}

/// 400 for a decision that cannot be made in this way.
pub(super) fn invalid(approval: &Approval, text: &str) -> Refusal {
    Refusal::new(Code::InvalidApprovalDecision, text)
        .with(json!({"approval_id": approval.facts.id}))
}

/// 409 that names what came first.
pub(super) fn already_decided(approval: &Approval) -> Refusal {
    let by = approval.decision.as_ref().and_then(|decision| decision.by.as_deref());
    let text = match (approval.status, by) {
        (Status::Approved, Some(by)) => format!("`{by}` approved it first."),
        (Status::Rejected, Some(by)) => format!("`{by}` rejected it first."),
        (Status::Expired, _) => "Nobody decided in time: the approval expired.".to_owned(),
        (Status::Cancelled, _) => "The approval was cancelled.".to_owned(),
        (Status::Approved | Status::Rejected | Status::Pending, _) => {
            "The approval was decided first by somebody else.".to_owned()
        }
    };
    Refusal::new(Code::ApprovalAlreadyDecided, text).with(json!({
        "approval_id": approval.facts.id,
        "status": approval.status.as_str(),
        "decided_by": by,
    }))
}

pub(super) fn mode_keeps_changing() -> Refusal {
    let text = "The conversation's mode keeps changing. Try again.";
    Refusal::new(Code::StoreUnavailable, text)
}
