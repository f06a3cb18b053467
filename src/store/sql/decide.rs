//! One person's decision about one approval.

use super::rows::{self, approval_columns, door_word, origin_word};
use super::{End, Operation, Sql, Statement, instances, notifications, statement};
use crate::decide::policy::Mode;
use crate::store::{
    Approval, Claimant, Decide, Decided, Facts, PersonVerdict, Status, StoreError, Timestamp,
};

impl Operation for Decide {
    type Output = Decided;
    const DOING: &'static str = "recording a decision";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Decided>, StoreError> {
        let row = sql.row(statement!(rows::APPROVAL, &self.organisation, &self.approval)).await?;
        let Some(row) = row else { return Ok(End::Undo(Decided::NotFound)) };
        let before = rows::approval(row)?;
        // What ended is for good: nobody needs a lock to be told so.
        if before.status != Status::Pending {
            return Ok(End::Undo(Decided::TooLate(Box::new(before))));
        }
        if let Some(hold) = instances::hold(&before.facts) {
            sql.rows(hold).await?;
        }
        let stored = lock_conversation(sql, &before.facts).await?;
        if stored != self.stored_mode {
            // Whoever came first may have changed the mode too; then its decision is the answer.
            let now = reread(sql, &before.facts).await?;
            return Ok(End::Undo(match now.status {
                Status::Pending => Decided::ModeChanged { stored },
                Status::Approved | Status::Rejected | Status::Cancelled | Status::Expired => {
                    Decided::TooLate(Box::new(now))
                }
            }));
        }
        let reason = self.reason.as_deref();
        let answer = Answer { verdict: self.verdict, by: &self.by, reason, claimant: None };
        let row = sql.row(answer.statement(&before.facts.id, self.now)).await?;
        let Some(row) = row else {
            let (end, approval) = too_late(sql, &before.facts, self.now).await?;
            let decided = Decided::TooLate(Box::new(approval));
            return Ok(if end { End::Keep(decided) } else { End::Undo(decided) });
        };
        let decided = rows::approval(row)?;
        let mut statements = consequences(&decided.facts, self.verdict, self.now);
        let Facts { organisation, surface, conversation, .. } = &decided.facts;
        statements.push(forget_escalations(organisation, surface, conversation));
        statements.extend(notifications::notify(&decided));
        sql.batch(statements).await?;
        for key in rows::changes(&decided.facts) {
            sql.wake(key);
        }
        Ok(End::Keep(Decided::Done(Box::new(decided))))
    }
}

/// Holds the conversation for the rest of the transaction, and says which mode is stored on it.
pub(super) async fn lock_conversation(
    sql: &mut dyn Sql,
    facts: &Facts,
) -> Result<Option<Mode>, StoreError> {
    let row = sql
        .row(statement!(
            "UPDATE conversations SET escalations = escalations \
             WHERE organisation = $1 AND surface = $2 AND id = $3 RETURNING mode",
            &facts.organisation,
            &facts.surface,
            &facts.conversation,
        ))
        .await?;
    Ok(row.map(|mut row| row.optional_word("mode", Mode::from_word)).transpose()?.flatten())
}

/// A person has looked: detector and judge may escalate anew.
pub(super) fn forget_escalations(organisation: &str, surface: &str, id: &str) -> Statement {
    statement!(
        "UPDATE conversations SET escalations = 0 \
         WHERE organisation = $1 AND surface = $2 AND id = $3",
        organisation,
        surface,
        id,
    )
}

/// An approval as it stands by now.
pub(super) async fn reread(sql: &mut dyn Sql, facts: &Facts) -> Result<Approval, StoreError> {
    let row = sql.row(statement!(rows::APPROVAL, &facts.organisation, &facts.id)).await?;
    rows::approval(row.ok_or(StoreError::Unreadable { what: "approval" })?)
}

/// Why a pending approval could not be decided: something else ended it, or its time is over. In
/// the second case it expires here, and the first value says so.
pub(super) async fn too_late(
    sql: &mut dyn Sql,
    facts: &Facts,
    now: Timestamp,
) -> Result<(bool, Approval), StoreError> {
    let row = sql.row(expire(&facts.id, now)).await?;
    let Some(row) = row else { return Ok((false, reread(sql, facts).await?)) };
    let approval = rows::approval(row)?;
    notifications::notify_all(sql, [&approval]).await?;
    for key in rows::changes(&approval.facts) {
        sql.wake(key);
    }
    Ok((true, approval))
}

/// Ends an approval whose time is over, if nothing else did.
pub(super) fn expire(id: &str, now: Timestamp) -> Statement {
    statement!(
        concat!(
            "UPDATE approvals SET status = 'expired', decided_at = $2, revision = revision + 1 \
             WHERE id = $1 AND status = 'pending' AND deadline_at <= $2 RETURNING ",
            approval_columns!()
        ),
        id,
        now,
    )
}

/// A person's answer.
pub(super) struct Answer<'a> {
    pub(super) verdict: PersonVerdict,
    pub(super) by: &'a str,
    pub(super) reason: Option<&'a str>,
    /// Who claims it at once, if it approves.
    pub(super) claimant: Option<&'a Claimant>,
}

impl Answer<'_> {
    /// The conditional update that exactly one of decide, cancel and expire gets through.
    pub(super) fn statement(&self, id: &str, now: Timestamp) -> Statement {
        let (status, start_by) = match self.verdict {
            PersonVerdict::Approve { start_by, .. } => (Status::Approved, Some(start_by)),
            PersonVerdict::Reject => (Status::Rejected, None),
        };
        let claimant = self.claimant.filter(|_| status == Status::Approved);
        statement!(
            concat!(
                "UPDATE approvals SET status = $3, decided_by = $4, decided_at = $2, \
                 decision_reason = $5, start_by = $6, claim_caller = $7, claim_key = $8, \
                 claimed_at = $9, revision = revision + 1 \
                 WHERE id = $1 AND status = 'pending' AND deadline_at > $2 RETURNING ",
                approval_columns!()
            ),
            id,
            now,
            status.as_str(),
            self.by,
            self.reason,
            start_by,
            claimant.map(|claimant| &claimant.caller),
            claimant.map(|claimant| &claimant.key),
            claimant.map(|_| now),
        )
    }
}

/// What an approval brings about: the tool's definition is known from now on, and perhaps a grant.
pub(super) fn consequences(
    facts: &Facts,
    verdict: PersonVerdict,
    now: Timestamp,
) -> Vec<Statement> {
    let PersonVerdict::Approve { remember, .. } = verdict else { return Vec::new() };
    let label = facts.tool.server_label.as_deref().unwrap_or_default();
    let mut statements = vec![statement!(
        "UPDATE definitions SET pinned = 1 \
         WHERE organisation = $1 AND surface = $2 AND conversation = $3 AND origin = $4 \
         AND label = $5 AND name = $6 AND definition = $7",
        &facts.organisation,
        &facts.surface,
        &facts.conversation,
        origin_word(facts.tool.origin),
        label,
        &facts.tool.name,
        &facts.tool.definition,
    )];
    if remember {
        statements.push(statement!(
            "INSERT INTO grants (approval, organisation, surface, conversation, door, instance, \
             agent, origin, label, name, definition, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            &facts.id,
            &facts.organisation,
            &facts.surface,
            &facts.conversation,
            door_word(facts.door),
            facts.instance.as_deref().unwrap_or_default(),
            &facts.agent,
            origin_word(facts.tool.origin),
            label,
            &facts.tool.name,
            &facts.tool.definition,
            now,
        ));
    }
    statements
}
