//! What is sealed under which key, and signing secrets that are sealed anew.

use std::collections::BTreeMap;

use super::{End, Operation, Row, Sql, statement};
use crate::store::{KeyUse, Reseal, Sealed, SealedOtherwise, SigningSecret, StoreError};

pub(in crate::store) struct KeysInUse;

impl Operation for KeysInUse {
    type Output = Vec<KeyUse>;
    const DOING: &'static str = "looking which keys are needed";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let mut answers = sql
            .batch(vec![
                statement!(
                    "SELECT sealed.key_id, COUNT(*) FROM approvals JOIN sealed \
                     ON sealed.created_at = approvals.created_at \
                     AND sealed.approval = approvals.id AND sealed.part = 'input' \
                     WHERE approvals.status = 'pending' GROUP BY sealed.key_id"
                ),
                statement!(
                    "SELECT secret_key, COUNT(*) FROM instances \
                     WHERE secret_key IS NOT NULL GROUP BY secret_key"
                ),
            ])
            .await?
            .into_iter();
        let mut next = || counts(answers.next().unwrap_or_default());
        let (pending, mut signing_secrets) = (next()?, next()?);
        let mut keys: Vec<KeyUse> = pending
            .into_iter()
            .map(|(key_id, pending)| {
                let signing_secrets = signing_secrets.remove(&key_id).unwrap_or_default();
                KeyUse { key_id, pending, signing_secrets }
            })
            .collect();
        keys.extend(signing_secrets.into_iter().map(|(key_id, signing_secrets)| KeyUse {
            key_id,
            pending: 0,
            signing_secrets,
        }));
        keys.sort_by(|one, other| one.key_id.cmp(&other.key_id));
        Ok(End::Keep(keys))
    }
}

fn counts(rows: Vec<Row>) -> Result<BTreeMap<String, u64>, StoreError> {
    let count = |mut row: Row| {
        let key_id = row.text("key's id")?;
        let count = u64::try_from(row.integer("count")?);
        Ok((key_id, count.map_err(|_| StoreError::Unreadable { what: "count" })?))
    };
    rows.into_iter().map(count).collect()
}

impl Operation for SealedOtherwise {
    type Output = Vec<SigningSecret>;
    const DOING: &'static str = "reading signing secrets";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let rows = sql
            .rows(statement!(
                "SELECT organisation, id, secret_key, secret FROM instances \
                 WHERE secret_key <> $1 AND id > $2 ORDER BY id LIMIT $3",
                &self.key_id,
                self.after.as_deref().unwrap_or_default(),
                self.limit,
            ))
            .await?;
        let secret = |mut row: Row| {
            Ok(SigningSecret {
                organisation: row.text("organisation")?,
                instance: row.text("instance's id")?,
                sealed: Sealed {
                    key_id: row.text("secret's key")?,
                    ciphertext: row.bytes("signing secret")?,
                },
            })
        };
        Ok(End::Keep(rows.into_iter().map(secret).collect::<Result<_, _>>()?))
    }
}

impl Operation for Reseal {
    type Output = bool;
    const DOING: &'static str = "sealing a signing secret anew";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<bool>, StoreError> {
        let SigningSecret { organisation, instance, sealed: before } = &self.before;
        // Whoever sealed it anew first, gave it another receiver or deleted it keeps that.
        let row = sql
            .row(statement!(
                "UPDATE instances SET secret_key = $5, secret = $6 \
                 WHERE organisation = $1 AND id = $2 AND secret_key = $3 AND secret = $4 \
                 RETURNING id",
                organisation,
                instance,
                &before.key_id,
                before.ciphertext.as_slice(),
                &self.sealed.key_id,
                self.sealed.ciphertext.as_slice(),
            ))
            .await?;
        Ok(End::Keep(row.is_some()))
    }
}
