//! What only reads: each is one batch without a transaction of its own.

use super::rows::{self, approval_columns};
use super::{End, Operation, Sql, statement};
use crate::store::{Approval, Listing, Pending, Sealed, SealedParts, Status, StoreError};

/// The database answers, and this is the version of its tables.
pub(in crate::store) struct Ping;

impl Operation for Ping {
    type Output = ();
    const DOING: &'static str = "looking whether it answers";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<()>, StoreError> {
        sql.rows(statement!("SELECT 1")).await?;
        Ok(End::Keep(()))
    }
}

pub(in crate::store) struct SchemaVersion;

impl Operation for SchemaVersion {
    type Output = i64;
    const DOING: &'static str = "reading its schema's version";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<i64>, StoreError> {
        let row = sql.row(statement!("SELECT MAX(version) FROM schema_versions")).await?;
        let version = row.map(|mut row| row.optional_integer("schema's version")).transpose()?;
        Ok(End::Keep(version.flatten().unwrap_or_default()))
    }
}

pub(in crate::store) struct CountPending;

impl Operation for CountPending {
    type Output = Pending;
    const DOING: &'static str = "counting what waits";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Pending>, StoreError> {
        let counted = "SELECT COUNT(*), MIN(created_at) FROM approvals WHERE status = 'pending'";
        let row = sql.row(statement!(counted)).await?;
        let mut row = row.ok_or(StoreError::Unreadable { what: "count" })?;
        let count = row.integer("count")?;
        let oldest = row.optional_time("time of recording")?;
        let count = u64::try_from(count).map_err(|_| StoreError::Unreadable { what: "count" })?;
        Ok(End::Keep(Pending { count, oldest }))
    }
}

pub(in crate::store) struct GetApproval {
    pub(in crate::store) organisation: String,
    pub(in crate::store) id: String,
}

impl Operation for GetApproval {
    type Output = Option<Approval>;
    const DOING: &'static str = "reading an approval";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let row = sql.row(statement!(rows::APPROVAL, &self.organisation, &self.id)).await?;
        Ok(End::Keep(row.map(rows::approval).transpose()?))
    }
}

pub(in crate::store) struct GetSealed {
    pub(in crate::store) organisation: String,
    pub(in crate::store) id: String,
}

impl Operation for GetSealed {
    type Output = SealedParts;
    const DOING: &'static str = "reading sealed parts";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let rows = sql
            .rows(statement!(
                "SELECT sealed.part, sealed.key_id, sealed.ciphertext \
                 FROM approvals JOIN sealed ON sealed.created_at = approvals.created_at \
                 AND sealed.approval = approvals.id \
                 WHERE approvals.organisation = $1 AND approvals.id = $2",
                &self.organisation,
                &self.id,
            ))
            .await?;
        let mut parts = SealedParts::default();
        for mut row in rows {
            let part = row.text("sealed part")?;
            let (key_id, ciphertext) = (row.text("key's id")?, row.bytes("sealed part")?);
            let sealed = Some(Sealed { key_id, ciphertext });
            match part.as_str() {
                "input" => parts.input = sealed,
                "output" => parts.output = sealed,
                _ => return Err(StoreError::Unreadable { what: "sealed part" }),
            }
        }
        Ok(End::Keep(parts))
    }
}

/// Newest first. The words are whole in each variant so that each has a plan of its own.
macro_rules! listing {
    ($($condition:literal)?) => {
        concat!(
            "SELECT ", approval_columns!(), " FROM approvals WHERE organisation = $1 \
             AND (created_at, id) < ($2, $3) ", $($condition,)?
            " ORDER BY created_at DESC, id DESC LIMIT $4"
        )
    };
}

pub(in crate::store) struct List {
    pub(in crate::store) organisation: String,
    pub(in crate::store) listing: Listing,
}

impl Operation for List {
    type Output = Vec<Approval>;
    const DOING: &'static str = "listing approvals";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let Listing { agent, status, after, limit } = &self.listing;
        let (created_at, id) = match after {
            Some(position) => (position.created_at.unix_millis(), position.id.as_str()),
            None => (i64::MAX, ""),
        };
        let mut query = match (agent, status) {
            (None, None) => statement!(listing!()),
            (None, Some(Status::Pending)) => statement!(listing!("AND status = 'pending'")),
            (None, Some(_)) => statement!(listing!("AND status = $5")),
            (Some(_), None) => statement!(listing!("AND agent = $5")),
            (Some(_), Some(Status::Pending)) => {
                statement!(listing!("AND agent = $5 AND status = 'pending'"))
            }
            (Some(_), Some(_)) => statement!(listing!("AND agent = $5 AND status = $6")),
        };
        query.parameters =
            vec![self.organisation.as_str().into(), created_at.into(), id.into(), (*limit).into()];
        query.parameters.extend(agent.as_ref().map(Into::into));
        let spelled = status.filter(|status| *status != Status::Pending);
        query.parameters.extend(spelled.map(|status| status.as_str().into()));
        let rows = sql.rows(query).await?;
        Ok(End::Keep(rows.into_iter().map(rows::approval).collect::<Result<_, _>>()?))
    }
}

/// All approvals of a turn: $1 organisation, $2 surface, $3 conversation, $4 turn.
pub(super) const OF_TURN: &str = concat!(
    "SELECT ",
    approval_columns!(),
    " FROM approvals WHERE id IN (SELECT detail FROM calls WHERE organisation = $1 \
     AND surface = $2 AND conversation = $3 AND turn = $4 AND outcome = 'approval') ORDER BY id"
);

pub(in crate::store) struct ListTurn {
    pub(in crate::store) organisation: String,
    pub(in crate::store) surface: String,
    pub(in crate::store) conversation: String,
    pub(in crate::store) turn: String,
}

impl Operation for ListTurn {
    type Output = Vec<Approval>;
    const DOING: &'static str = "listing a turn's approvals";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let Self { organisation, surface, conversation, turn } = self;
        let rows = sql.rows(statement!(OF_TURN, organisation, surface, conversation, turn)).await?;
        Ok(End::Keep(rows.into_iter().map(rows::approval).collect::<Result<_, _>>()?))
    }
}
