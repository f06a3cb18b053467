//! Removes what has been kept long enough, a bounded number of rows at once.

use super::{End, Operation, Row, Sql, Statement, statement};
use crate::store::{StoreError, Sweep, Swept};

/// What the approval protocol has us keep of an ended approval: $3 when it must have ended, $4 when
/// the delivery of its notification must have.
macro_rules! kept {
    () => {
        "(approvals.door = 'aap' AND (approvals.decided_at >= $3 OR EXISTS \
         (SELECT 1 FROM notifications WHERE notifications.request = approvals.id \
         AND (notifications.ended_at IS NULL OR notifications.ended_at >= $4))))"
    };
}

impl Operation for Sweep {
    type Output = Swept;
    const DOING: &'static str = "removing what was kept long enough";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Swept>, StoreError> {
        let inputs = self.inputs(sql).await?;
        let keys = self.keys(sql).await?;
        let records = self.records(sql).await? + self.instances(sql).await?;
        Ok(End::Keep(Swept { inputs, records, keys }))
    }
}

impl Sweep {
    /// A person who is still to decide needs the input, however old, and so does whoever asked
    /// through the approval protocol.
    async fn inputs(&self, sql: &mut dyn Sql) -> Result<u64, StoreError> {
        let rows = sql
            .rows(statement!(
                concat!(
                    "DELETE FROM sealed WHERE (created_at, approval, part) IN (SELECT \
                     created_at, approval, part FROM sealed WHERE created_at < $1 \
                     AND NOT EXISTS (SELECT 1 FROM approvals \
                     WHERE approvals.id = sealed.approval AND (approvals.status = 'pending' OR ",
                    kept!(),
                    ")) ORDER BY created_at LIMIT $2) RETURNING approval"
                ),
                self.inputs_before,
                self.limit,
                self.protocol_before,
                self.deliveries_before,
            ))
            .await?;
        Ok(rows.len() as u64)
    }

    // Conditions that another transaction may change meanwhile stand outside the selection too, where
    // PostgreSQL checks them again once it has the row.

    /// A begun request that nobody took over goes with its calls, which were never answered, and
    /// with its reservation.
    async fn keys(&self, sql: &mut dyn Sql) -> Result<u64, StoreError> {
        let gone = sql
            .rows(statement!(
                "DELETE FROM requests WHERE id IN (SELECT id FROM requests \
                 WHERE created_at < $1 AND (recorded_at IS NOT NULL OR lease_until < $1) \
                 AND NOT EXISTS (SELECT 1 FROM calls JOIN approvals \
                 ON approvals.id = calls.detail AND approvals.door = 'aap' \
                 WHERE calls.organisation = requests.organisation \
                 AND calls.surface = requests.surface \
                 AND calls.conversation = requests.conversation AND calls.turn = requests.turn \
                 AND calls.request = requests.id AND calls.outcome = 'approval') \
                 ORDER BY created_at LIMIT $2) \
                 AND (recorded_at IS NOT NULL OR lease_until < $1) \
                 RETURNING recorded_at, id, organisation, surface, conversation, turn, judged, \
                 sandbox_calls, sandbox_seconds",
                self.keys_before,
                self.limit,
            ))
            .await?;
        let count = gone.len() as u64;
        let mut statements = Vec::new();
        for mut row in gone {
            if row.optional_time("time of recording")?.is_none() {
                statements.extend(forget(row)?);
            }
        }
        if !statements.is_empty() {
            sql.batch(statements).await?;
        }
        Ok(count)
    }

    async fn records(&self, sql: &mut dyn Sql) -> Result<u64, StoreError> {
        let mut answers = sql
            .batch(vec![
                statement!(
                    concat!(
                        "DELETE FROM approvals WHERE id IN (SELECT id FROM approvals \
                         WHERE created_at < $1 AND status <> 'pending' AND NOT ",
                        kept!(),
                        " ORDER BY created_at, id LIMIT $2) RETURNING created_at, id"
                    ),
                    self.records_before,
                    self.limit,
                    self.protocol_before,
                    self.deliveries_before,
                ),
                statement!(
                    "DELETE FROM calls \
                     WHERE (organisation, surface, conversation, turn, call_id) IN (SELECT \
                     organisation, surface, conversation, turn, call_id FROM calls \
                     WHERE created_at < $1 AND outcome IS NOT NULL AND NOT EXISTS \
                     (SELECT 1 FROM approvals WHERE approvals.id = calls.detail \
                     AND calls.outcome = 'approval') \
                     ORDER BY created_at LIMIT $2) RETURNING call_id",
                    self.records_before,
                    self.limit,
                ),
                statement!(
                    "DELETE FROM turns \
                     WHERE (organisation, surface, conversation, id) IN (SELECT \
                     organisation, surface, conversation, id FROM turns \
                     WHERE created_at < $1 AND NOT EXISTS (SELECT 1 FROM calls \
                     WHERE calls.organisation = turns.organisation \
                     AND calls.surface = turns.surface \
                     AND calls.conversation = turns.conversation AND calls.turn = turns.id) \
                     LIMIT $2) RETURNING id",
                    self.records_before,
                    self.limit,
                ),
                statement!(
                    "DELETE FROM conversations \
                     WHERE (organisation, surface, id) IN (SELECT organisation, surface, id \
                     FROM conversations WHERE updated_at < $1 AND NOT EXISTS (SELECT 1 FROM turns \
                     WHERE turns.organisation = conversations.organisation \
                     AND turns.surface = conversations.surface \
                     AND turns.conversation = conversations.id) LIMIT $2) \
                     AND updated_at < $1 RETURNING organisation, surface, id",
                    self.records_before,
                    self.limit,
                ),
            ])
            .await?
            .into_iter();
        let mut next = || answers.next().unwrap_or_default();
        let (approvals, calls, turns, conversations) = (next(), next(), next(), next());
        let count = approvals.len() + calls.len() + turns.len() + conversations.len();
        let mut statements = Vec::new();
        for mut row in approvals {
            let (created_at, id) = (row.time("time of recording")?, row.text("approval's id")?);
            statements.push(statement!(
                "DELETE FROM sealed WHERE created_at = $1 AND approval = $2",
                created_at,
                &id,
            ));
            statements.push(statement!("DELETE FROM notifications WHERE request = $1", id));
        }
        for row in conversations {
            statements.extend(forget_conversation(row)?);
        }
        if !statements.is_empty() {
            sql.batch(statements).await?;
        }
        Ok(count as u64)
    }
}

impl Sweep {
    /// The key that made an instance stays as long as the instance or the record of its deletion: a
    /// repeat must not make another. Who set it stays as long as records do, and as long as itself.
    async fn instances(&self, sql: &mut dyn Sql) -> Result<u64, StoreError> {
        let answers = sql
            .batch(vec![
                statement!(
                    "DELETE FROM instances WHERE id IN (SELECT id FROM instances \
                     WHERE deleted_at < $1 LIMIT $2) RETURNING id",
                    self.protocol_before,
                    self.limit,
                ),
                statement!(
                    "DELETE FROM changes WHERE id IN (SELECT id FROM changes \
                     WHERE created_at < $1 AND lease_until < $1 AND (committed_at IS NULL OR \
                     (committed_at < $1 AND (operation = 'update' OR NOT EXISTS \
                     (SELECT 1 FROM instances WHERE instances.id = changes.instance)))) \
                     ORDER BY created_at LIMIT $2) AND lease_until < $1 RETURNING id",
                    self.protocol_before,
                    self.limit,
                ),
                statement!(
                    "DELETE FROM escalations WHERE (instance, at, request) IN \
                     (SELECT instance, at, request FROM escalations WHERE at < $1 LIMIT $2) \
                     RETURNING request",
                    self.keys_before,
                    self.limit,
                ),
                statement!(
                    "DELETE FROM instance_settings WHERE (instance, number) IN \
                     (SELECT instance, number FROM instance_settings WHERE changed_at < $1 \
                     AND NOT EXISTS (SELECT 1 FROM instances \
                     WHERE instances.id = instance_settings.instance) LIMIT $2) \
                     RETURNING instance",
                    self.records_before,
                    self.limit,
                ),
            ])
            .await?;
        Ok(answers.iter().map(Vec::len).sum::<usize>() as u64)
    }
}

fn forget(mut row: Row) -> Result<[Statement; 2], StoreError> {
    let request = row.text("request's id")?;
    let organisation = row.text("organisation")?;
    let surface = row.text("surface")?;
    let conversation = row.text("conversation")?;
    let turn = row.text("turn")?;
    let judged = row.integer("judged calls")?;
    let sandbox_calls = row.integer("sandbox calls")?;
    let sandbox_seconds = row.integer("sandbox seconds")?;
    Ok([
        statement!(
            "UPDATE turns SET judged = judged - $5, sandbox_calls = sandbox_calls - $6, \
             sandbox_seconds = sandbox_seconds - $7 \
             WHERE organisation = $1 AND surface = $2 AND conversation = $3 AND id = $4",
            &organisation,
            &surface,
            &conversation,
            &turn,
            judged,
            sandbox_calls,
            sandbox_seconds,
        ),
        statement!(
            "DELETE FROM calls WHERE organisation = $1 AND surface = $2 AND conversation = $3 \
             AND turn = $4 AND request = $5 AND outcome IS NULL",
            organisation,
            surface,
            conversation,
            turn,
            request,
        ),
    ])
}

fn forget_conversation(mut row: Row) -> Result<[Statement; 2], StoreError> {
    let organisation = row.text("organisation")?;
    let surface = row.text("surface")?;
    let id = row.text("conversation")?;
    Ok([
        statement!(
            "DELETE FROM grants WHERE organisation = $1 AND surface = $2 AND conversation = $3",
            &organisation,
            &surface,
            &id,
        ),
        statement!(
            "DELETE FROM definitions \
             WHERE organisation = $1 AND surface = $2 AND conversation = $3",
            organisation,
            surface,
            id,
        ),
    ])
}
