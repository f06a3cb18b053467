//! A person's decisions about all that a paused turn waits for, as its continuation carries them:
//! decided and claimed in one transaction, or not at all.

use std::collections::BTreeMap;

use serde_json::json;

use super::approvals::ApprovalView;
use super::decision::{
    MODE_CHANGES, Verdict, already_decided, check_open, invalid, mode_keeps_changing,
};
use super::person;
use super::{Code, Refusal, Service, aap};
use crate::decide::policy::Mode;
use crate::store::{
    Approval, Claimant, ContinuationFailed, DecideTurn, ModeChoice, Status, Token, Turn,
    TurnAnswer, TurnDecided,
};

/// Names a paused turn.
#[derive(Debug, Clone)]
pub struct TurnName {
    /// Its id.
    pub turn: String,
    /// Its conversation, where several have a turn of that id.
    pub conversation: Option<String>,
    /// The surface of its conversation, likewise.
    pub surface: Option<String>,
}

/// Decisions about a paused turn, as they came in.
#[derive(Debug, Clone)]
pub struct TurnDecision {
    /// The paused turn.
    pub turn: TurnName,
    /// The turn that carries the decisions.
    pub continuation: String,
    /// An answer to every approval that waits.
    pub answers: Vec<Answer>,
    /// What the same continuation says of the mode.
    pub mode: ModeChoice,
    /// The person.
    pub decided_by: Option<String>,
}

/// An answer to one approval.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The JSON path of the answer.
    pub path: String,
    /// The approval.
    pub approval: String,
    /// The decision.
    pub verdict: Verdict,
    /// The `hmac`; `None` on an answer to a connector's call, whose item carries none.
    pub hmac: Option<String>,
    /// The person's reason.
    pub reason: Option<String>,
}

/// What became of an answer.
#[derive(Debug, Clone)]
pub struct TurnResult {
    /// The approval as it stands. Its output is opened where the call ran before.
    pub view: ApprovalView,
    /// Whether the call is the continuation's to run, now.
    pub release: bool,
}

impl Service {
    /// Records decisions about a paused turn, and claims for the continuation what they approve.
    ///
    /// # Errors
    /// As [`Service::decide`], about any of the answers, and then nothing happened; and
    /// `invalid_approval_decision` for answers that are not all of the turn's,
    /// `approval_already_decided` naming the continuation that carried the decisions before, and
    /// `conversation_mode_not_offered`.
    pub async fn decide_turn(
        &self,
        token: &Token,
        decision: TurnDecision,
    ) -> Result<Vec<TurnResult>, Refusal> {
        let by = person::decider(token, decision.decided_by.as_deref())?;
        for answer in &decision.answers {
            let reason = answer.reason.as_deref();
            person::check_reason(reason, &format!("{}.reason", answer.path))?;
        }
        let turn = self.turn(&token.organisation, &decision.turn).await?;
        let again = match &turn.continuation {
            Some(continuation) if !continuation.failed => {
                return Err(already_continued(&continuation.id));
            }
            Some(_) => true,
            None => false,
        };
        let approvals = self.approvals_of(&token.organisation, &turn).await?;
        check_answers(&approvals, &decision.answers, again)?;
        for answer in &decision.answers {
            self.check_answer_hmac(&approvals, answer)
                .await
                .map_err(|refusal| refusal.at(&answer.path))?;
        }
        let (organisation, surface) = (&token.organisation, &turn.surface);
        let conversation =
            self.store.conversation(organisation, surface, &turn.conversation).await?;
        let mut stored_mode = conversation.and_then(|conversation| conversation.mode);
        for _ in 0..MODE_CHANGES {
            let (mode, named_mode) = self.mode(&decision, &turn, &approvals, stored_mode).await?;
            if !again {
                self.check_verdicts(&approvals, &decision.answers, mode).await?;
            }
            let now = self.now();
            let start_by = now.plus(self.limits.start_within);
            let answers = decision.answers.iter().map(|answer| TurnAnswer {
                approval: answer.approval.clone(),
                verdict: answer.verdict.of_person(start_by),
                reason: answer.reason.clone(),
            });
            let decided = self
                .store
                .decide_turn(DecideTurn {
                    organisation: token.organisation.clone(),
                    surface: turn.surface.clone(),
                    conversation: turn.conversation.clone(),
                    turn: turn.id.clone(),
                    continuation: Claimant {
                        caller: token.id.clone(),
                        key: decision.continuation.clone(),
                    },
                    answers: answers.collect(),
                    by: by.clone(),
                    named_mode,
                    stored_mode,
                    now,
                })
                .await?;
            match decided {
                TurnDecided::Done(approvals) => {
                    self.tell_ended(&approvals);
                    let released = |approval: Approval| TurnResult {
                        release: approval.status == Status::Approved,
                        view: ApprovalView { approval, input: None, missing: None, output: None },
                    };
                    return Ok(approvals.into_iter().map(released).collect());
                }
                TurnDecided::Again(approvals) => {
                    let mut results = Vec::with_capacity(approvals.len());
                    for approval in approvals {
                        let view = self.view(approval).await?;
                        results.push(TurnResult { view, release: false });
                    }
                    return Ok(results);
                }
                TurnDecided::AlreadyContinued { continuation } => {
                    return Err(already_continued(&continuation));
                }
                TurnDecided::TooLate(approval) => return Err(already_decided(&approval)),
                TurnDecided::Unanswered(ids) => return Err(unanswered(&ids)),
                TurnDecided::NotOfThisTurn(ids) => return Err(strangers(&ids)),
                TurnDecided::ModeChanged { stored } => stored_mode = stored,
                TurnDecided::NotFound => return Err(no_turn()),
            }
        }
        Err(mode_keeps_changing())
    }

    /// Records that a continuation failed: the same decisions may come again, under another, and
    /// get what was recorded. It may be reported more than once.
    ///
    /// # Errors
    /// `forbidden` for a token that may not decide; `not_found` for a turn, or for a continuation
    /// that does not carry the turn's decisions.
    pub async fn continuation_failed(
        &self,
        token: &Token,
        turn: &TurnName,
        continuation: &str,
    ) -> Result<(), Refusal> {
        let turn = self.turn(&token.organisation, turn).await?;
        let Turn { surface, conversation, id, .. } = &turn;
        let failed = self
            .store
            .continuation_failed(&token.organisation, surface, conversation, id, continuation)
            .await?;
        match failed {
            ContinuationFailed::Done => Ok(()),
            ContinuationFailed::NotThisContinuation => Err(Refusal::not_found("continuation")),
            ContinuationFailed::NotFound => Err(no_turn()),
        }
    }

    async fn turn(&self, organisation: &str, name: &TurnName) -> Result<Turn, Refusal> {
        let selects = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        let mut turns = self.store.turns(organisation, &name.turn).await?;
        turns.retain(|turn| {
            // An instance's own requests are decided one by one, and released to it alone.
            turn.surface != aap::SURFACE
                && selects(&name.conversation, &turn.conversation)
                && selects(&name.surface, &turn.surface)
        });
        match turns.len() {
            0 => Err(no_turn()),
            1 => Ok(turns.remove(0)),
            _ => {
                let text = "Several conversations have a turn of this id: name its \
                            `conversation_id` and its `surface`.";
                Err(Refusal::invalid("$.conversation_id", text))
            }
        }
    }

    async fn approvals_of(
        &self,
        organisation: &str,
        turn: &Turn,
    ) -> Result<BTreeMap<String, Approval>, Refusal> {
        let (surface, conversation) = (&turn.surface, &turn.conversation);
        let mut found =
            self.store.approvals_of_turn(organisation, surface, conversation, &turn.id).await?;
        // What is over is told of before it is refused, because the refusal undoes its own traces.
        let now = self.now();
        let overdue = |approval: &Approval| {
            approval.status == Status::Pending && approval.facts.deadline_at <= now
        };
        for approval in found.iter_mut().filter(|approval| overdue(approval)) {
            *approval = self.current(organisation, &approval.facts.id).await?;
        }
        Ok(found.into_iter().map(|approval| (approval.facts.id.clone(), approval)).collect())
    }

    async fn check_answer_hmac(
        &self,
        approvals: &BTreeMap<String, Approval>,
        answer: &Answer,
    ) -> Result<(), Refusal> {
        let Some(approval) = approvals.get(&answer.approval) else { return Ok(()) };
        match &answer.hmac {
            None if approval.facts.tool.server_label.is_some() => Ok(()),
            None => {
                let text = "Only a connector's call is answered with an `mcp_approval_response`.";
                Err(invalid(approval, text))
            }
            Some(hmac) if approval.status == Status::Pending => {
                self.check_hmac(approval, answer.verdict, hmac).await
            }
            // It is over: nothing is released, whatever the answer says.
            Some(_) => Ok(()),
        }
    }

    async fn check_verdicts(
        &self,
        approvals: &BTreeMap<String, Approval>,
        answers: &[Answer],
        mode: Mode,
    ) -> Result<(), Refusal> {
        for answer in answers {
            let Some(approval) = approvals.get(&answer.approval) else { continue };
            self.check_verdict(approval, answer.verdict, mode).await.map_err(|refusal| {
                match refusal.code {
                    Code::InvalidApprovalDecision => {
                        refusal.at(&format!("{}.remember", answer.path))
                    }
                    _ => refusal.at(&answer.path),
                }
            })?;
        }
        Ok(())
    }

    /// The mode in which the decisions are made, and the one that is to be stored.
    async fn mode(
        &self,
        decision: &TurnDecision,
        turn: &Turn,
        approvals: &BTreeMap<String, Approval>,
        stored: Option<Mode>,
    ) -> Result<(Mode, Option<Mode>), Refusal> {
        const PARAM: &str = "$.input";
        let choice = decision.mode;
        if choice == ModeChoice::Unsaid {
            return Ok((stored.unwrap_or(turn.mode), None));
        }
        let Some(approval) = approvals.values().next() else {
            let text = "The turn needed no approval, so no agent is known that offers a mode.";
            return Err(Refusal::invalid(PARAM, text));
        };
        let versions = self.versions_now(&approval.facts).await?;
        let own = versions.first().map(|version| version.modes()).unwrap_or_default();
        let (mode, named) = match choice {
            ModeChoice::Named(mode) => (mode, Some(mode)),
            ModeChoice::Default | ModeChoice::Unsaid => (own.default, None),
        };
        for version in &versions {
            let modes = version.modes();
            if !modes.offers(mode) {
                let offered: Vec<_> = modes.offered.iter().map(|mode| mode.as_str()).collect();
                let text = format!("The agent does not offer the mode `{}`.", mode.as_str());
                return Err(Refusal::new(Code::ConversationModeNotOffered, text)
                    .at(PARAM)
                    .with(json!({"mode": mode.as_str(), "offered": offered})));
            }
        }
        Ok((mode, named))
    }
}

/// Whether the answers are all of the turn's, and none is about something else. After a failed
/// continuation the answers are those that were decided then.
fn check_answers(
    approvals: &BTreeMap<String, Approval>,
    answers: &[Answer],
    again: bool,
) -> Result<(), Refusal> {
    let unknown: Vec<String> = answers
        .iter()
        .filter(|answer| !approvals.contains_key(&answer.approval))
        .map(|answer| answer.approval.clone())
        .collect();
    if !unknown.is_empty() {
        return Err(strangers(&unknown));
    }
    for answer in answers.iter().filter(|_| !again) {
        if let Some(approval) = approvals.get(&answer.approval) {
            check_open(approval).map_err(|refusal| refusal.at(&answer.path))?;
        }
    }
    let waiting: Vec<String> = approvals
        .values()
        .filter(|approval| approval.status == Status::Pending)
        .map(|approval| approval.facts.id.clone())
        .filter(|id| !answers.iter().any(|answer| answer.approval == *id))
        .collect();
    if waiting.is_empty() { Ok(()) } else { Err(unanswered(&waiting)) }
}

fn no_turn() -> Refusal {
    Refusal::not_found("turn").at("$.turn_id")
}

fn already_continued(continuation: &str) -> Refusal {
    let text = format!("The continuation `{continuation}` carried this turn's decisions.");
    Refusal::new(Code::ApprovalAlreadyDecided, text).with(json!({"continuation_id": continuation}))
}

fn unanswered(ids: &[String]) -> Refusal {
    let text = "Every approval that the turn waits for must be answered at once.";
    Refusal::new(Code::InvalidApprovalDecision, text).at("$.input").with(json!({"unanswered": ids}))
}

fn strangers(ids: &[String]) -> Refusal {
    let text = "An answer names no approval of this turn.";
    Refusal::new(Code::InvalidApprovalDecision, text)
        .at("$.input")
        .with(json!({"not_of_this_turn": ids}))
}
