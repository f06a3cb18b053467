//! A person's decisions about all that a paused turn waits for.

use std::collections::BTreeMap;

use super::decide::{Answer, consequences, expire, forget_escalations};
use super::rows;
use super::{End, Operation, Sql, notifications, read, statement};
use crate::decide::policy::Mode;
use crate::store::{
    Approval, ContinuationFailed, DecideTurn, PersonVerdict, Status, StoreError, TurnAnswer,
    TurnDecided,
};

impl Operation for DecideTurn {
    type Output = TurnDecided;
    const DOING: &'static str = "recording a turn's decisions";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<TurnDecided>, StoreError> {
        match self.decide(sql).await? {
            done @ (TurnDecided::Done(_) | TurnDecided::Again(_)) => Ok(End::Keep(done)),
            refusal @ (TurnDecided::AlreadyContinued { .. }
            | TurnDecided::TooLate(_)
            | TurnDecided::Unanswered(_)
            | TurnDecided::NotOfThisTurn(_)
            | TurnDecided::ModeChanged { .. }
            | TurnDecided::NotFound) => Ok(End::Undo(refusal)),
        }
    }
}

impl DecideTurn {
    async fn decide(&self, sql: &mut dyn Sql) -> Result<TurnDecided, StoreError> {
        let Self { organisation, surface, conversation, turn, .. } = self;
        let mut answers = sql
            .batch(vec![
                statement!(
                    "UPDATE conversations SET escalations = escalations \
                     WHERE organisation = $1 AND surface = $2 AND id = $3 RETURNING mode",
                    organisation,
                    surface,
                    conversation,
                ),
                statement!(
                    "UPDATE turns SET requests = requests \
                     WHERE organisation = $1 AND surface = $2 AND conversation = $3 AND id = $4 \
                     RETURNING continuation, continuation_failed",
                    organisation,
                    surface,
                    conversation,
                    turn,
                ),
                statement!(read::OF_TURN, organisation, surface, conversation, turn),
            ])
            .await?
            .into_iter();
        let mut next = || answers.next().unwrap_or_default();
        let (mode, held, approvals) = (next().pop(), next().pop(), next());
        let stored =
            mode.map(|mut row| row.optional_word("mode", Mode::from_word)).transpose()?.flatten();
        let Some(mut held) = held else { return Ok(TurnDecided::NotFound) };
        let continuation = held.optional_text("continuation")?;
        let failed = held.truth("continuation's failure")?;
        if let Some(continuation) = &continuation
            && !failed
        {
            let continuation = continuation.clone();
            return Ok(TurnDecided::AlreadyContinued { continuation });
        }
        let approvals: BTreeMap<String, Approval> = approvals
            .into_iter()
            .map(|row| rows::approval(row).map(|approval| (approval.facts.id.clone(), approval)))
            .collect::<Result<_, _>>()?;
        let strangers: Vec<String> = self
            .answers
            .iter()
            .filter(|answer| !approvals.contains_key(&answer.approval))
            .map(|answer| answer.approval.clone())
            .collect();
        if !strangers.is_empty() {
            return Ok(TurnDecided::NotOfThisTurn(strangers));
        }
        let waits = |approval: &Approval| {
            approval.status == Status::Pending && approval.facts.deadline_at > self.now
        };
        let unanswered: Vec<String> = approvals
            .values()
            .filter(|approval| waits(approval) && self.answer(approval).is_none())
            .map(|approval| approval.facts.id.clone())
            .collect();
        if !unanswered.is_empty() {
            return Ok(TurnDecided::Unanswered(unanswered));
        }
        if continuation.is_some() {
            return self.again(sql, approvals).await;
        }
        for answer in &self.answers {
            let Some(approval) = approvals.get(&answer.approval) else { continue };
            if !waits(approval) {
                return Ok(TurnDecided::TooLate(Box::new(self.ended(sql, approval).await?)));
            }
        }
        if stored != self.stored_mode {
            return Ok(TurnDecided::ModeChanged { stored });
        }
        self.apply(sql, &approvals).await
    }

    fn answer(&self, approval: &Approval) -> Option<&TurnAnswer> {
        self.answers.iter().find(|answer| answer.approval == approval.facts.id)
    }

    /// How an approval ended that does not wait any more. Its expiry, when that is the reason, is
    /// undone with the rest and comes again by itself.
    async fn ended(&self, sql: &mut dyn Sql, approval: &Approval) -> Result<Approval, StoreError> {
        let expired = sql.row(expire(&approval.facts.id, self.now)).await?;
        match expired {
            Some(row) => rows::approval(row),
            None => super::decide::reread(sql, &approval.facts).await,
        }
    }

    async fn apply(
        &self,
        sql: &mut dyn Sql,
        approvals: &BTreeMap<String, Approval>,
    ) -> Result<TurnDecided, StoreError> {
        let mut statements = Vec::new();
        let mut answered = Vec::new();
        // In the order of the ids.
        for approval in approvals.values() {
            let Some(TurnAnswer { verdict, reason, .. }) = self.answer(approval) else { continue };
            let claimant = Some(&self.continuation);
            let (verdict, reason) = (*verdict, reason.as_deref());
            let answer = Answer { verdict, by: &self.by, reason, claimant };
            statements.push(answer.statement(&approval.facts.id, self.now));
            answered.push((approval, verdict));
        }
        let rows = sql.batch(statements).await?;
        let mut statements = Vec::new();
        let mut decided = Vec::with_capacity(answered.len());
        for ((approval, verdict), mut rows) in answered.into_iter().zip(rows) {
            let Some(row) = rows.pop() else {
                return Ok(TurnDecided::TooLate(Box::new(self.ended(sql, approval).await?)));
            };
            decided.push(rows::approval(row)?);
            statements.extend(consequences(&approval.facts, verdict, self.now));
        }
        let Self { organisation, surface, conversation, .. } = self;
        if !decided.is_empty() {
            statements.push(forget_escalations(organisation, surface, conversation));
        }
        if let Some(mode) = self.named_mode {
            statements.push(statement!(
                "UPDATE conversations SET mode = $4 \
                 WHERE organisation = $1 AND surface = $2 AND id = $3",
                organisation,
                surface,
                conversation,
                mode.as_str(),
            ));
        }
        statements.push(self.continue_turn());
        statements.extend(decided.iter().filter_map(notifications::notify));
        sql.batch(statements).await?;
        for approval in &decided {
            for key in rows::changes(&approval.facts) {
                sql.wake(key);
            }
        }
        Ok(TurnDecided::Done(decided))
    }

    /// The turn's decisions come again after their continuation failed: the same answers get what
    /// was recorded, and the new continuation takes the place of the old.
    async fn again(
        &self,
        sql: &mut dyn Sql,
        approvals: BTreeMap<String, Approval>,
    ) -> Result<TurnDecided, StoreError> {
        let mut answered = Vec::new();
        for approval in approvals.into_values() {
            let Some(answer) = self.answer(&approval) else { continue };
            let expected = match answer.verdict {
                PersonVerdict::Approve { .. } => Status::Approved,
                PersonVerdict::Reject => Status::Rejected,
            };
            if approval.status != expected {
                return Ok(TurnDecided::TooLate(Box::new(approval)));
            }
            answered.push(approval);
        }
        sql.rows(self.continue_turn()).await?;
        Ok(TurnDecided::Again(answered))
    }

    fn continue_turn(&self) -> super::Statement {
        statement!(
            "UPDATE turns SET continuation = $5, continuation_failed = 0 \
             WHERE organisation = $1 AND surface = $2 AND conversation = $3 AND id = $4",
            &self.organisation,
            &self.surface,
            &self.conversation,
            &self.turn,
            &self.continuation.key,
        )
    }
}

pub(in crate::store) struct FailContinuation {
    pub(in crate::store) organisation: String,
    pub(in crate::store) surface: String,
    pub(in crate::store) conversation: String,
    pub(in crate::store) turn: String,
    pub(in crate::store) continuation: String,
}

impl Operation for FailContinuation {
    type Output = ContinuationFailed;
    const DOING: &'static str = "recording a continuation's failure";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<ContinuationFailed>, StoreError> {
        let Self { organisation, surface, conversation, turn, continuation } = self;
        let answers = sql
            .batch(vec![
                statement!(
                    "UPDATE turns SET continuation_failed = 1 \
                     WHERE organisation = $1 AND surface = $2 AND conversation = $3 AND id = $4 \
                     AND continuation = $5 RETURNING id",
                    organisation,
                    surface,
                    conversation,
                    turn,
                    continuation,
                ),
                statement!(
                    "SELECT id FROM turns \
                     WHERE organisation = $1 AND surface = $2 AND conversation = $3 AND id = $4",
                    organisation,
                    surface,
                    conversation,
                    turn,
                ),
            ])
            .await?;
        let found: Vec<bool> = answers.iter().map(|rows| !rows.is_empty()).collect();
        Ok(End::Keep(match found.as_slice() {
            [true, ..] => ContinuationFailed::Done,
            [false, true, ..] => ContinuationFailed::NotThisContinuation,
            [] | [false, ..] => ContinuationFailed::NotFound,
        }))
    }
}
