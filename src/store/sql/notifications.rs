//! The outbox: a notification is written by the transaction that ends its request, and handed to one
//! worker at a time until it is acknowledged or given up.

use super::instances::delivery;
use super::{End, Operation, Row, Sql, Statement, statement};
use crate::decide::request::Door;
use crate::store::{
    Approval, ClaimNotifications, DueNotification, FinishNotification, StoreError, Timestamp,
};

/// Written with what ends a request: once, and only where its instance has a receiver.
pub(super) fn notify(approval: &Approval) -> Option<Statement> {
    let (facts, decision) = (&approval.facts, approval.decision.as_ref()?);
    if facts.door != Door::Aap {
        return None;
    }
    notify_of(&facts.organisation, facts.instance.as_ref()?, &facts.id, decision.at)
}

/// The same for a request that ends as it is recorded.
pub(super) fn notify_of(
    organisation: &str,
    instance: &str,
    request: &str,
    at: Timestamp,
) -> Option<Statement> {
    Some(statement!(
        "INSERT INTO notifications (request, organisation, instance, decided_at, attempts, \
         next_at, host) SELECT $3, organisation, id, $4, 0, $4, host FROM instances \
         WHERE organisation = $1 AND id = $2 AND deleted_at IS NULL AND url IS NOT NULL \
         ON CONFLICT (request) DO NOTHING",
        organisation,
        instance,
        request,
        at,
    ))
}

/// Writes the notifications of what ended.
pub(super) async fn notify_all<'a>(
    sql: &mut dyn Sql,
    ended: impl IntoIterator<Item = &'a Approval>,
) -> Result<(), StoreError> {
    let statements: Vec<Statement> = ended.into_iter().filter_map(notify).collect();
    if !statements.is_empty() {
        sql.batch(statements).await?;
    }
    Ok(())
}

/// What is queued goes to the instance's new receiver.
pub(super) fn go_to(instance: &str, host: &str) -> Statement {
    statement!(
        "UPDATE notifications SET host = $2 WHERE instance = $1 AND ended_at IS NULL",
        instance,
        host,
    )
}

/// Nothing more is delivered for the instance.
pub(super) fn drop_all(instance: &str, now: Timestamp) -> Statement {
    statement!(
        "UPDATE notifications SET ended_at = $2 WHERE instance = $1 AND ended_at IS NULL",
        instance,
        now,
    )
}

impl Operation for ClaimNotifications {
    type Output = Vec<DueNotification>;
    const DOING: &'static str = "looking for notifications to deliver";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        // Whoever delivers one right now may still end it.
        let mut answers = sql
            .batch(vec![
                statement!(
                    "UPDATE notifications SET ended_at = $1 \
                     WHERE ended_at IS NULL AND next_at <= $1 AND decided_at <= $2",
                    self.now,
                    self.give_up_before,
                ),
                statement!(
                    // A host's oldest, as many as it has places: whoever else looks meanwhile finds the
                    // same ones, locked, or the places taken.
                    "UPDATE notifications SET attempts = attempts + 1, next_at = $2, \
                     busy_until = $2 \
                     WHERE ended_at IS NULL AND request IN (SELECT request FROM notifications \
                     WHERE ended_at IS NULL AND next_at <= $1 AND request IN \
                     (SELECT waiting.request FROM (SELECT request, host, ROW_NUMBER() OVER \
                     (PARTITION BY host ORDER BY next_at, request) AS place \
                     FROM notifications WHERE ended_at IS NULL AND next_at <= $1) AS waiting \
                     LEFT JOIN (SELECT host, COUNT(*) AS taken FROM notifications \
                     WHERE busy_until > $1 GROUP BY host) AS busy ON busy.host = waiting.host \
                     WHERE waiting.place + COALESCE(busy.taken, 0) <= $4) \
                     ORDER BY next_at LIMIT $3 /*postgres*/ FOR UPDATE SKIP LOCKED /*end*/) \
                     RETURNING request, organisation, instance, decided_at, attempts, \
                     (SELECT url FROM instances WHERE id = instance), \
                     (SELECT host FROM instances WHERE id = instance), \
                     (SELECT registration FROM instances WHERE id = instance), \
                     (SELECT secret_key FROM instances WHERE id = instance), \
                     (SELECT secret FROM instances WHERE id = instance)",
                    self.now,
                    self.now.plus(self.lease),
                    self.limit,
                    self.per_host,
                ),
            ])
            .await?;
        let claimed = answers.pop().unwrap_or_default();
        let due = claimed.into_iter().map(due).collect::<Result<Vec<_>, _>>()?;
        // One without a receiver was dropped, or is being dropped.
        Ok(End::Keep(due.into_iter().flatten().collect()))
    }
}

fn due(mut row: Row) -> Result<Option<DueNotification>, StoreError> {
    let row = &mut row;
    let request = row.text("notification's request")?;
    let organisation = row.text("organisation")?;
    let instance = row.text("instance")?;
    let decided_at = row.time("decision's time")?;
    let attempt = row.count("attempts")?;
    let Some(delivery) = delivery(row)? else { return Ok(None) };
    Ok(Some(DueNotification { request, organisation, instance, decided_at, attempt, delivery }))
}

impl Operation for FinishNotification {
    type Output = bool;
    const DOING: &'static str = "recording a delivery";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<bool>, StoreError> {
        let row = sql
            .row(statement!(
                "UPDATE notifications SET next_at = COALESCE($3, next_at), ended_at = $4, \
                 busy_until = $5 \
                 WHERE request = $1 AND attempts = $2 AND ended_at IS NULL RETURNING request",
                &self.request,
                self.attempt,
                self.retry_at,
                self.retry_at.is_none().then_some(self.now),
                self.busy_until,
            ))
            .await?;
        Ok(End::Keep(row.is_some()))
    }
}
