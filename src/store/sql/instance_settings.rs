//! What an administrator sets on an instance, and the record of every change of it.

use super::instances::{self, instance, instance_columns};
use super::{End, Operation, Row, Sql, statement};
use crate::decide::policy::Mode;
use crate::store::{
    Instance, InstanceSet, InstanceSettings, SetInstance, SettingsChange, StoreError,
};

impl InstanceSettings {
    fn of(instance: &Instance) -> Self {
        Self { mode: instance.mode, trusted_context: instance.trusted_context }
    }
}

impl Operation for SetInstance {
    type Output = Option<InstanceSet>;
    const DOING: &'static str = "setting an instance's mode or trust";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        // From here on the row is this transaction's: what it was and what it is are one change.
        let held = instances::hold_instance(&self.organisation, &self.instance);
        if sql.row(held).await?.is_none() {
            return Ok(End::Undo(None));
        }
        let row = sql
            .row(statement!(
                concat!("SELECT ", instance_columns!(), " FROM instances WHERE id = $1"),
                &self.instance,
            ))
            .await?;
        let mut instance = instance(row.ok_or(StoreError::Unreadable { what: "instance" })?)?;
        let before = InstanceSettings::of(&instance);
        let after = InstanceSettings {
            mode: self.mode.unwrap_or(before.mode),
            trusted_context: self.trusted_context.unwrap_or(before.trusted_context),
        };
        if after == before {
            return Ok(End::Undo(Some(InstanceSet { instance, change: None })));
        }
        sql.batch(vec![
            statement!(
                "UPDATE instances SET mode = $2, trusted_context = $3, updated_at = $4 \
                 WHERE id = $1",
                &self.instance,
                after.mode.map(Mode::as_str),
                after.trusted_context,
                self.now,
            ),
            statement!(
                "INSERT INTO instance_settings (instance, number, organisation, changed_by, \
                 changed_at, mode_before, mode, trusted_before, trusted) \
                 SELECT $1, COALESCE(MAX(number), 0) + 1, $2, $3, $4, $5, $6, $7, $8 \
                 FROM instance_settings WHERE instance = $1",
                &self.instance,
                &self.organisation,
                &self.by,
                self.now,
                before.mode.map(Mode::as_str),
                after.mode.map(Mode::as_str),
                before.trusted_context,
                after.trusted_context,
            ),
        ])
        .await?;
        instance.mode = after.mode;
        instance.trusted_context = after.trusted_context;
        instance.updated_at = self.now;
        let change = SettingsChange { by: self.by.clone(), at: self.now, before, after };
        Ok(End::Keep(Some(InstanceSet { instance, change: Some(change) })))
    }
}

pub(in crate::store) struct ListSettings {
    pub(in crate::store) organisation: String,
    pub(in crate::store) instance: String,
}

impl Operation for ListSettings {
    type Output = Vec<SettingsChange>;
    const DOING: &'static str = "reading who set an instance";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let rows = sql
            .rows(statement!(
                "SELECT changed_by, changed_at, mode_before, trusted_before, mode, trusted \
                 FROM instance_settings WHERE organisation = $1 AND instance = $2 ORDER BY number",
                &self.organisation,
                &self.instance,
            ))
            .await?;
        Ok(End::Keep(rows.into_iter().map(change).collect::<Result<_, _>>()?))
    }
}

fn change(mut row: Row) -> Result<SettingsChange, StoreError> {
    let by = row.text("who set an instance")?;
    let at = row.time("time of a change")?;
    let mut settings = || -> Result<InstanceSettings, StoreError> {
        Ok(InstanceSettings {
            mode: row.optional_word("instance's mode", Mode::from_word)?,
            trusted_context: row.truth("instance's trust")?,
        })
    };
    let (before, after) = (settings()?, settings()?);
    Ok(SettingsChange { by, at, before, after })
}
