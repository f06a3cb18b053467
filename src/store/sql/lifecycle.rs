//! What happens to one approval besides a decision: claims, executions, cancelling, expiry.

use std::collections::BTreeSet;

use super::decide::{expire, reread};
use super::rows::{self, approval_columns};
use super::{End, Operation, Sql, instances, notifications, statement};
use crate::decide::request::Door;
use crate::store::{
    Approval, Cancel, Cancelled, ClaimApproval, Claimed, Facts, ReportExecution, Reported, Status,
    StoreError, Timestamp,
};

impl Operation for ClaimApproval {
    type Output = Claimed;
    const DOING: &'static str = "claiming an approval";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Claimed>, StoreError> {
        let mut answers = sql
            .batch(vec![
                statement!(
                    concat!(
                        "UPDATE approvals SET claim_caller = $3, claim_key = $4, \
                         claimed_at = $5, revision = revision + 1 \
                         WHERE organisation = $1 AND id = $2 AND status = 'approved' \
                         AND claim_key IS NULL AND start_by > $5 \
                         AND NOT EXISTS (SELECT 1 FROM conversations AS gone \
                         WHERE gone.organisation = approvals.organisation \
                         AND gone.surface = approvals.surface \
                         AND gone.id = approvals.conversation \
                         AND gone.deleted_at IS NOT NULL) RETURNING ",
                        approval_columns!()
                    ),
                    &self.organisation,
                    &self.approval,
                    &self.claimant.caller,
                    &self.claimant.key,
                    self.now,
                ),
                statement!(rows::APPROVAL, &self.organisation, &self.approval),
            ])
            .await?
            .into_iter();
        let mut next = || answers.next().unwrap_or_default().pop();
        if let Some(row) = next() {
            let approval = rows::approval(row)?;
            for key in rows::changes(&approval.facts) {
                sql.wake(key);
            }
            return Ok(End::Keep(Claimed::Released(Box::new(approval))));
        }
        let Some(row) = next() else { return Ok(End::Undo(Claimed::NotFound)) };
        let approval = Box::new(rows::approval(row)?);
        let Facts { organisation, surface, conversation, .. } = &approval.facts;
        let gone = sql
            .row(statement!(
                "SELECT id FROM conversations WHERE organisation = $1 AND surface = $2 \
                 AND id = $3 AND deleted_at IS NOT NULL",
                organisation,
                surface,
                conversation,
            ))
            .await?
            .is_some();
        Ok(End::Undo(match &approval.claim {
            Some(claim) if claim.claimant == self.claimant => Claimed::Released(approval),
            Some(_) => Claimed::AlreadyClaimed(approval),
            None if approval.status == Status::Approved && gone => {
                Claimed::ConversationDeleted(approval)
            }
            None if approval.status == Status::Approved => Claimed::Expired(approval),
            None => Claimed::NotApproved(approval),
        }))
    }
}

impl Operation for ReportExecution {
    type Output = Reported;
    const DOING: &'static str = "recording an execution";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Reported>, StoreError> {
        let row = sql.row(statement!(rows::APPROVAL, &self.organisation, &self.approval)).await?;
        let Some(row) = row else { return Ok(End::Undo(Reported::NotFound)) };
        let before = Box::new(rows::approval(row)?);
        if before.execution.is_some() {
            return Ok(End::Undo(Reported::AlreadyReported(before)));
        }
        if before.status != Status::Approved {
            return Ok(End::Undo(Reported::NotApproved(before)));
        }
        let by = before.decision.as_ref().and_then(|decision| decision.by.as_deref());
        // What another door approved is claimed in any case.
        let machine = by.is_some_and(|by| by.contains(':')) && before.facts.door != Door::Aap;
        if !machine && before.claim.is_none() {
            return Ok(End::Undo(Reported::NotClaimed(before)));
        }
        let row = sql
            .row(statement!(
                concat!(
                    "UPDATE approvals SET execution = $2, executed_at = $3, \
                     revision = revision + 1 WHERE id = $1 AND execution IS NULL RETURNING ",
                    approval_columns!()
                ),
                &self.approval,
                self.status.as_str(),
                self.now,
            ))
            .await?;
        let Some(row) = row else {
            let now = Box::new(reread(sql, &before.facts).await?);
            return Ok(End::Undo(Reported::AlreadyReported(now)));
        };
        if let Some(output) = &self.output {
            sql.rows(statement!(
                "INSERT INTO sealed (created_at, approval, part, key_id, ciphertext) \
                 VALUES ($1, $2, 'output', $3, $4)",
                before.facts.created_at,
                &self.approval,
                &output.key_id,
                output.ciphertext.as_slice(),
            ))
            .await?;
        }
        let approval = rows::approval(row)?;
        for key in rows::changes(&approval.facts) {
            sql.wake(key);
        }
        Ok(End::Keep(Reported::Done(Box::new(approval))))
    }
}

impl Operation for Cancel {
    type Output = Cancelled;
    const DOING: &'static str = "cancelling an approval";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Cancelled>, StoreError> {
        let row = sql.row(statement!(rows::APPROVAL, &self.organisation, &self.approval)).await?;
        let Some(row) = row else { return Ok(End::Undo(Cancelled::NotFound)) };
        let before = rows::approval(row)?;
        if let Some(hold) = instances::hold(&before.facts) {
            sql.rows(hold).await?;
        }
        let row = sql
            .row(statement!(
                concat!(
                    "UPDATE approvals SET status = 'cancelled', decided_by = $2, \
                     decided_at = $3, revision = revision + 1 \
                     WHERE id = $1 AND status = 'pending' AND deadline_at > $3 RETURNING ",
                    approval_columns!()
                ),
                &self.approval,
                self.by.as_ref(),
                self.now,
            ))
            .await?;
        let Some(row) = row else {
            let (expired, approval) = super::decide::too_late(sql, &before.facts, self.now).await?;
            let late = Cancelled::TooLate(Box::new(approval));
            return Ok(if expired { End::Keep(late) } else { End::Undo(late) });
        };
        let approval = rows::approval(row)?;
        notifications::notify_all(sql, [&approval]).await?;
        for key in rows::changes(&approval.facts) {
            sql.wake(key);
        }
        Ok(End::Keep(Cancelled::Done(Box::new(approval))))
    }
}

pub(in crate::store) struct ExpireDue {
    pub(in crate::store) now: Timestamp,
    pub(in crate::store) limit: u32,
}

impl Operation for ExpireDue {
    type Output = Vec<Approval>;
    const DOING: &'static str = "expiring approvals";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let due = sql
            .rows(statement!(
                "SELECT id, organisation, instance FROM approvals \
                 WHERE status = 'pending' AND deadline_at <= $1 \
                 ORDER BY deadline_at, id LIMIT $2",
                self.now,
                self.limit,
            ))
            .await?;
        let mut ids = Vec::with_capacity(due.len());
        let mut holders = BTreeSet::new();
        for mut row in due {
            ids.push(row.text("approval's id")?);
            let organisation = row.text("organisation")?;
            holders.extend(row.optional_text("instance")?.map(|id| (id, organisation)));
        }
        ids.sort();
        let held = holders.len();
        let mut statements: Vec<_> = holders
            .iter()
            .map(|(id, organisation)| instances::hold_instance(organisation, id))
            .collect();
        statements.extend(ids.iter().map(|id| expire(id, self.now)));
        let rows = sql.batch(statements).await?.into_iter().skip(held).flatten();
        let expired = rows.map(rows::approval).collect::<Result<Vec<_>, _>>()?;
        notifications::notify_all(sql, &expired).await?;
        for approval in &expired {
            for key in rows::changes(&approval.facts) {
                sql.wake(key);
            }
        }
        Ok(End::Keep(expired))
    }
}
