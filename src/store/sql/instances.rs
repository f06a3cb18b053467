//! Instances of the approval protocol, and the requests that make and change them.
//!
//! INVARIANT: whoever takes an instance's row takes it before every other row of the transaction.

use super::rows::{self, approval_columns};
use super::{End, Operation, Row, Sql, Statement, notifications, statement};
use crate::decide::digest;
use crate::decide::policy::Mode;
use crate::store::{
    BeginChange, ChangeBegun, ChangeOperation, ChangeTicket, CreateInstance, Delivery, Facts,
    Instance, InstanceCreated, InstanceDeleted, InstanceToken, InstanceUpdated, Sealed, StoreError,
    Timestamp, UpdateInstance,
};

/// The columns of an instance that [`instance`] reads, in its order.
macro_rules! instance_columns {
    () => {
        "id, organisation, name, agent, version, mode, trusted_context, provisioner, token, \
         token_key, token_nonce, url, host, registration, secret_key, secret, created_at, updated_at, \
         deleted_at"
    };
}
pub(super) use instance_columns;

/// Reads a row of [`instance_columns`].
pub(super) fn instance(mut row: Row) -> Result<Instance, StoreError> {
    let row = &mut row;
    let id = row.text("instance's id")?;
    let organisation = row.text("organisation")?;
    let name = row.text("instance's name")?;
    let agent = row.text("agent")?;
    let version = row.text("version")?;
    let mode = row.optional_word("instance's mode", Mode::from_word)?;
    let trusted_context = row.truth("instance's trust")?;
    let provisioner = row.text("provisioner")?;
    let token = InstanceToken {
        id: row.text("instance's token")?,
        key_id: row.text("token's key")?,
        nonce: row.text("token's nonce")?,
    };
    let delivery = delivery(row)?;
    let created_at = row.time("time of creation")?;
    let updated_at = row.time("time of the last change")?;
    let deleted_at = row.optional_time("time of deletion")?;
    Ok(Instance {
        id,
        organisation,
        name,
        agent,
        version,
        mode,
        trusted_context,
        delivery,
        token,
        provisioner,
        created_at,
        updated_at,
        deleted_at,
    })
}

/// Reads url, host, registration, key and secret.
pub(super) fn delivery(row: &mut Row) -> Result<Option<Delivery>, StoreError> {
    let url = row.optional_text("receiver's address")?;
    let host = row.optional_text("receiver's host")?;
    let registration = row.optional_text("receiver's registration")?;
    let key_id = row.optional_text("secret's key")?;
    let ciphertext = row.optional_bytes("signing secret")?;
    match (url, host, registration, key_id, ciphertext) {
        (Some(url), Some(host), Some(registration_id), Some(key_id), Some(ciphertext)) => {
            let secret = Sealed { key_id, ciphertext };
            Ok(Some(Delivery { url, host, registration_id, secret }))
        }
        (None, None, None, None, None) => Ok(None),
        (Some(_) | None, _, _, _, _) => Err(StoreError::Unreadable { what: "receiver" }),
    }
}

/// Keeps an instance from being deleted or given another receiver until the transaction ends; no row
/// when it was deleted. Requests of the gateway's have none.
pub(super) fn hold(facts: &Facts) -> Option<Statement> {
    facts.instance.as_ref().map(|id| hold_instance(&facts.organisation, id))
}

pub(super) fn hold_instance(organisation: &str, id: &str) -> Statement {
    statement!(
        "UPDATE instances SET updated_at = updated_at \
         WHERE organisation = $1 AND id = $2 AND deleted_at IS NULL RETURNING id",
        organisation,
        id,
    )
}

pub(in crate::store) struct GetInstance {
    pub(in crate::store) organisation: String,
    pub(in crate::store) id: String,
}

impl Operation for GetInstance {
    type Output = Option<Instance>;
    const DOING: &'static str = "reading an instance";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let row = sql
            .row(statement!(
                concat!(
                    "SELECT ",
                    instance_columns!(),
                    " FROM instances WHERE organisation = $1 AND id = $2"
                ),
                &self.organisation,
                &self.id,
            ))
            .await?;
        Ok(End::Keep(row.map(instance).transpose()?))
    }
}

pub(in crate::store) struct ListInstances(pub(in crate::store) String);

impl Operation for ListInstances {
    type Output = Vec<Instance>;
    const DOING: &'static str = "listing instances";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let rows = sql
            .rows(statement!(
                concat!(
                    "SELECT ",
                    instance_columns!(),
                    " FROM instances WHERE organisation = $1 AND deleted_at IS NULL \
                     ORDER BY created_at, id"
                ),
                &self.0,
            ))
            .await?;
        Ok(End::Keep(rows.into_iter().map(instance).collect::<Result<_, _>>()?))
    }
}

impl Operation for BeginChange {
    type Output = ChangeBegun;
    const DOING: &'static str = "beginning a change of an instance";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<ChangeBegun>, StoreError> {
        let (operation, scope, instance) = match &self.operation {
            ChangeOperation::Create { proposed } => ("create", "", proposed),
            ChangeOperation::Update { instance } => ("update", instance.as_str(), instance),
        };
        let change =
            digest(&["change", &self.organisation, &self.caller, operation, scope, &self.key]);
        let lease_until = self.now.plus(self.lease);
        // Whoever waits for the same row here sees what the first one committed.
        let mut answers = sql
            .batch(vec![
                statement!(
                    "INSERT INTO changes (id, organisation, operation, digest, instance, attempt, \
                     lease_until, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) \
                     ON CONFLICT (id) DO NOTHING RETURNING attempt, instance",
                    &change,
                    &self.organisation,
                    operation,
                    &self.digest,
                    instance,
                    self.now.unix_millis(),
                    lease_until,
                    self.now,
                ),
                statement!(
                    "UPDATE changes SET attempt = attempt + 1, lease_until = $3 \
                     WHERE id = $1 AND digest = $2 AND committed_at IS NULL \
                     AND lease_until <= $4 RETURNING attempt, instance",
                    &change,
                    &self.digest,
                    lease_until,
                    self.now,
                ),
                statement!(
                    "SELECT digest, instance, response FROM changes WHERE id = $1",
                    &change,
                ),
            ])
            .await?
            .into_iter();
        let mut next = || answers.next().unwrap_or_default().pop();
        let (inserted, taken_over, stored) = (next(), next(), next());
        if let Some(mut row) = inserted.or(taken_over) {
            let attempt = row.integer("attempt")?;
            let instance = row.text("instance's id")?;
            return Ok(End::Keep(ChangeBegun::Go(ChangeTicket { change, attempt, instance })));
        }
        let mut row = stored.ok_or(StoreError::Unreadable { what: "change" })?;
        if row.text("change's digest")? != self.digest {
            return Ok(End::Undo(ChangeBegun::Conflict));
        }
        let instance = row.text("instance's id")?;
        Ok(End::Undo(match row.optional_text("change's answer")? {
            Some(response) => ChangeBegun::Replayed { instance, response },
            None => ChangeBegun::InProgress,
        }))
    }
}

pub(in crate::store) struct AbandonChange(pub(in crate::store) ChangeTicket);

impl Operation for AbandonChange {
    type Output = ();
    const DOING: &'static str = "giving up a change of an instance";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<()>, StoreError> {
        sql.rows(statement!(
            "DELETE FROM changes WHERE id = $1 AND attempt = $2 AND committed_at IS NULL",
            &self.0.change,
            self.0.attempt,
        ))
        .await?;
        Ok(End::Keep(()))
    }
}

/// Commits a change, if the attempt still may.
fn commit_change(ticket: &ChangeTicket, response: &str, now: Timestamp) -> Statement {
    statement!(
        "UPDATE changes SET response = $3, committed_at = $4 \
         WHERE id = $1 AND attempt = $2 AND committed_at IS NULL RETURNING id",
        &ticket.change,
        ticket.attempt,
        response,
        now,
    )
}

impl Operation for CreateInstance {
    type Output = InstanceCreated;
    const DOING: &'static str = "storing an instance";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<InstanceCreated>, StoreError> {
        let committed = commit_change(&self.ticket, &self.response, self.instance.created_at);
        if sql.row(committed).await?.is_none() {
            return Ok(End::Undo(InstanceCreated::Superseded));
        }
        let Instance { token, delivery, .. } = &self.instance;
        let delivery = delivery.as_ref();
        sql.rows(statement!(
            concat!(
                "INSERT INTO instances (",
                instance_columns!(),
                ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, \
                 $17, $17, NULL)"
            ),
            &self.instance.id,
            &self.instance.organisation,
            &self.instance.name,
            &self.instance.agent,
            &self.instance.version,
            self.instance.mode.map(Mode::as_str),
            self.instance.trusted_context,
            &self.instance.provisioner,
            &token.id,
            &token.key_id,
            &token.nonce,
            delivery.map(|delivery| &delivery.url),
            delivery.map(|delivery| &delivery.host),
            delivery.map(|delivery| &delivery.registration_id),
            delivery.map(|delivery| &delivery.secret.key_id),
            delivery.map(|delivery| delivery.secret.ciphertext.as_slice()),
            self.instance.created_at,
        ))
        .await?;
        match self.token.run(sql).await? {
            End::Keep(crate::store::Created::Done) => Ok(End::Keep(InstanceCreated::Done)),
            End::Keep(crate::store::Created::Exists) | End::Undo(_) => {
                let source = "an instance's token is there already".into();
                Err(StoreError::Failed { doing: Self::DOING, source })
            }
        }
    }
}

impl Operation for UpdateInstance {
    type Output = InstanceUpdated;
    const DOING: &'static str = "changing an instance";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<InstanceUpdated>, StoreError> {
        let id = &self.ticket.instance;
        if sql.row(hold_instance(&self.organisation, id)).await?.is_none() {
            return Ok(End::Undo(InstanceUpdated::NotFound));
        }
        if let Some(name) = &self.name {
            sql.rows(statement!("UPDATE instances SET name = $2 WHERE id = $1", id, name)).await?;
        }
        if let Some(delivery) = &self.delivery {
            let delivery = delivery.as_ref();
            sql.rows(statement!(
                "UPDATE instances SET url = $2, registration = $3, secret_key = $4, secret = $5, \
                 host = $6 WHERE id = $1",
                id,
                delivery.map(|delivery| &delivery.url),
                delivery.map(|delivery| &delivery.registration_id),
                delivery.map(|delivery| &delivery.secret.key_id),
                delivery.map(|delivery| delivery.secret.ciphertext.as_slice()),
                delivery.map(|delivery| &delivery.host),
            ))
            .await?;
            let follow = match delivery {
                Some(delivery) => notifications::go_to(id, &delivery.host),
                None => notifications::drop_all(id, self.now),
            };
            sql.rows(follow).await?;
        }
        let row = sql
            .row(statement!(
                concat!(
                    "UPDATE instances SET updated_at = $2 WHERE id = $1 RETURNING ",
                    instance_columns!()
                ),
                id,
                self.now,
            ))
            .await?;
        let updated = instance(row.ok_or(StoreError::Unreadable { what: "instance" })?)?;
        let response = (self.response)(&updated);
        if sql.row(commit_change(&self.ticket, &response, self.now)).await?.is_none() {
            return Ok(End::Undo(InstanceUpdated::Superseded));
        }
        Ok(End::Keep(InstanceUpdated::Done(Box::new(updated))))
    }
}

pub(in crate::store) struct DeleteInstance {
    pub(in crate::store) organisation: String,
    pub(in crate::store) id: String,
    pub(in crate::store) now: Timestamp,
}

impl Operation for DeleteInstance {
    type Output = InstanceDeleted;
    const DOING: &'static str = "deleting an instance";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<InstanceDeleted>, StoreError> {
        let Self { organisation, id, now } = self;
        let taken = sql
            .row(statement!(
                "UPDATE instances SET deleted_at = $3, updated_at = $3, url = NULL, \
                 host = NULL, registration = NULL, secret_key = NULL, secret = NULL \
                 WHERE organisation = $1 AND id = $2 AND deleted_at IS NULL RETURNING token",
                organisation,
                id,
                *now,
            ))
            .await?;
        let Some(mut taken) = taken else {
            let known = sql
                .row(statement!(
                    "SELECT id FROM instances WHERE organisation = $1 AND id = $2",
                    organisation,
                    id,
                ))
                .await?;
            let answer =
                if known.is_some() { InstanceDeleted::Before } else { InstanceDeleted::NotFound };
            return Ok(End::Undo(answer));
        };
        let token = taken.text("instance's token")?;
        let mut answers = sql
            .batch(vec![
                statement!(
                    "UPDATE tokens SET revoked_at = $3 \
                     WHERE organisation = $1 AND id = $2 AND revoked_at IS NULL",
                    organisation,
                    token,
                    *now,
                ),
                statement!(
                    "SELECT id FROM approvals \
                     WHERE instance = $1 AND status = 'pending' ORDER BY id",
                    id,
                ),
            ])
            .await?;
        let pending = answers.pop().unwrap_or_default();
        let mut statements = Vec::with_capacity(pending.len() + 1);
        // One by one in the order of their ids, as whoever else takes several of them does.
        for mut row in pending {
            statements.push(statement!(
                concat!(
                    "UPDATE approvals SET status = 'cancelled', decided_at = $2, \
                     revision = revision + 1 WHERE id = $1 AND status = 'pending' RETURNING ",
                    approval_columns!()
                ),
                row.text("approval's id")?,
                *now,
            ));
        }
        statements.push(notifications::drop_all(id, *now));
        let rows = sql.batch(statements).await?.into_iter().flatten();
        let cancelled = rows.map(rows::approval).collect::<Result<Vec<_>, _>>()?;
        for approval in &cancelled {
            for key in rows::changes(&approval.facts) {
                sql.wake(key);
            }
        }
        Ok(End::Keep(InstanceDeleted::Done(cancelled)))
    }
}
