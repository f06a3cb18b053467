//! The second transaction of a judgement: all outcomes of a request, or nothing.

use super::rows::{self, OutcomeColumns};
use super::{End, Operation, Sql, Statement, instances, notifications, statement};
use crate::decide::request::Door;
use crate::store::wake::Key;
use crate::store::{
    Facts, NewApproval, NewCallOutcome, NewOutcome, Record, Recorded, Standing, StoreError, Ticket,
};

impl Operation for Record {
    type Output = Recorded;
    const DOING: &'static str = "recording a judgement";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Recorded>, StoreError> {
        if !approvals(&self.calls).all(|approval| self.owns(&approval.facts)) {
            let source = "an approval does not belong to the request".into();
            return Err(StoreError::Failed { doing: Self::DOING, source });
        }
        let mut statements = Vec::with_capacity(self.calls.len() * 3 + 5);
        let instance = approvals(&self.calls)
            .filter(|approval| approval.facts.door == Door::Aap)
            .find_map(|approval| approval.facts.instance.clone());
        if let Some(instance) = &instance {
            statements.push(instances::hold_instance(&self.ticket.organisation, instance));
        }
        if self.escalations > 0 {
            statements.push(self.count_escalations());
            statements.extend(instance.as_ref().map(|instance| self.count_for(instance)));
        }
        if self.used != self.ticket.reserved {
            statements.push(self.settle_counts());
        }
        let request_at = statements.len();
        statements.push(self.finish_request());
        let mut calls: Vec<&NewOutcome> = self.calls.iter().collect();
        calls.sort_by(|left, right| left.call_id.cmp(&right.call_id));
        for call in &calls {
            statements.push(self.finish_call(call).along());
        }
        let calls_at = request_at + 1..statements.len();
        for approval in approvals(&self.calls) {
            let insert = rows::insert_approval(&approval.facts, &approval.standing);
            statements.push(insert.along());
            let sealed = statement!(
                "INSERT INTO sealed (created_at, approval, part, key_id, ciphertext) \
                 VALUES ($1, $2, 'input', $3, $4)",
                approval.facts.created_at,
                &approval.facts.id,
                &approval.input.key_id,
                approval.input.ciphertext.as_slice(),
            );
            statements.push(sealed.along());
            statements.extend(notification(approval));
        }
        sql.wake(Key::Request(self.ticket.request.clone()));
        // Nobody can wait for an approval whose id nobody knows: what a listing shows as waiting is
        // news, what was decided as it was recorded is not.
        for approval in approvals(&self.calls) {
            if approval.standing == Standing::Pending {
                let [_, conversation, organisation] = rows::changes(&approval.facts);
                sql.wake(conversation);
                sql.wake(organisation);
            }
        }
        let answers = sql.whole(statements).await?;
        let missing = |index: usize| answers.get(index).is_none_or(Vec::is_empty);
        if instance.is_some() && missing(0) {
            return Ok(End::Undo(Recorded::Superseded));
        }
        let others = || StoreError::Failed {
            doing: Self::DOING,
            source: "the calls are not those that were begun".into(),
        };
        if missing(request_at) {
            return match sql.row(self.select_request()).await? {
                None => Ok(End::Undo(Recorded::Superseded)),
                Some(_) => Err(others()),
            };
        }
        if calls_at.into_iter().any(missing) {
            return Err(others());
        }
        Ok(End::Keep(Recorded::Done))
    }
}

impl Record {
    /// Whether an approval stands where the request does: what the ticket may record is one
    /// organisation's, one conversation's and one turn's.
    fn owns(&self, facts: &Facts) -> bool {
        let Ticket { organisation, surface, conversation, turn, .. } = &self.ticket;
        facts.organisation == *organisation
            && facts.surface == *surface
            && facts.conversation == *conversation
            && facts.turn == *turn
    }

    fn count_escalations(&self) -> Statement {
        statement!(
            "UPDATE conversations SET escalations = escalations + $4 \
             WHERE organisation = $1 AND surface = $2 AND id = $3",
            &self.ticket.organisation,
            &self.ticket.surface,
            &self.ticket.conversation,
            self.escalations,
        )
    }

    /// Once a request, as the instance's conversations may be its own invention.
    fn count_for(&self, instance: &str) -> Statement {
        statement!(
            "INSERT INTO escalations (instance, at, request) VALUES ($1, $2, $3)",
            instance,
            self.now,
            &self.ticket.request,
        )
    }

    /// What was reserved and not used is the turn's again.
    fn settle_counts(&self) -> Statement {
        let (used, reserved) = (self.used, self.ticket.reserved);
        statement!(
            "UPDATE turns SET judged = judged + $5, sandbox_calls = sandbox_calls + $6, \
             sandbox_seconds = sandbox_seconds + $7 \
             WHERE organisation = $1 AND surface = $2 AND conversation = $3 AND id = $4",
            &self.ticket.organisation,
            &self.ticket.surface,
            &self.ticket.conversation,
            &self.ticket.turn,
            i64::from(used.judged) - i64::from(reserved.judged),
            i64::from(used.sandbox_calls) - i64::from(reserved.sandbox_calls),
            i64::from(used.sandbox_seconds) - i64::from(reserved.sandbox_seconds),
        )
    }

    fn finish_request(&self) -> Statement {
        statement!(
            "UPDATE requests SET recorded_at = $5, judged = 0, sandbox_calls = 0, \
             sandbox_seconds = 0 \
             WHERE id = $1 AND organisation = $2 AND attempt = $3 AND recorded_at IS NULL \
             AND calls = $4 RETURNING id",
            &self.ticket.request,
            &self.ticket.organisation,
            self.ticket.attempt,
            i64::try_from(self.calls.len()).unwrap_or(i64::MAX),
            self.now,
        )
    }

    /// The request, where it is this attempt's to record.
    fn select_request(&self) -> Statement {
        statement!(
            "SELECT id FROM requests \
             WHERE id = $1 AND organisation = $2 AND attempt = $3 AND recorded_at IS NULL",
            &self.ticket.request,
            &self.ticket.organisation,
            self.ticket.attempt,
        )
    }

    /// Only what is approved or waits can be repeated; the rest forgets what identified it. A request
    /// of an instance has one call.
    fn finish_call(&self, call: &NewOutcome) -> Statement {
        let OutcomeColumns { word, detail, seconds } = OutcomeColumns::of(&call.outcome);
        statement!(
            "UPDATE calls SET outcome = $6, detail = $7, timeout_seconds = $8, \
             identity = CASE WHEN $6 = 'approval' THEN identity ELSE NULL END, \
             judged = CASE WHEN instance IS NULL THEN 0 ELSE $10 END \
             WHERE organisation = $1 AND surface = $2 AND conversation = $3 AND turn = $4 \
             AND call_id = $5 AND request = $9 AND outcome IS NULL RETURNING call_id",
            &self.ticket.organisation,
            &self.ticket.surface,
            &self.ticket.conversation,
            &self.ticket.turn,
            &call.call_id,
            word,
            detail,
            seconds,
            &self.ticket.request,
            self.used.judged > 0,
        )
    }
}

/// Of a request that ends as it is recorded.
fn notification(approval: &NewApproval) -> Option<Statement> {
    let facts = &approval.facts;
    if approval.standing == Standing::Pending || facts.door != Door::Aap {
        return None;
    }
    let instance = facts.instance.as_ref()?;
    notifications::notify_of(&facts.organisation, instance, &facts.id, facts.created_at)
}

fn approvals(calls: &[NewOutcome]) -> impl Iterator<Item = &NewApproval> {
    calls.iter().filter_map(|call| match &call.outcome {
        NewCallOutcome::Approval(approval) => Some(&**approval),
        NewCallOutcome::Execute
        | NewCallOutcome::ExecuteSandboxed { .. }
        | NewCallOutcome::Blocked(_) => None,
    })
}
