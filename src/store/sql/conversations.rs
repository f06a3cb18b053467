//! Conversations, their turns and the definitions that they met.

use super::rows::{self, approval_columns, origin_word};
use super::{End, Operation, Row, Sql, notifications, statement};
use crate::decide::policy::Mode;
use crate::decide::state::ToolIdentity;
use crate::store::wake::Key;
use crate::store::{
    Approval, Continuation, Conversation, StoreError, Timestamp, ToolDefinition, Turn,
};

pub(in crate::store) struct GetConversation {
    pub(in crate::store) organisation: String,
    pub(in crate::store) surface: String,
    pub(in crate::store) id: String,
}

impl Operation for GetConversation {
    type Output = Option<Conversation>;
    const DOING: &'static str = "reading a conversation";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let row = sql
            .row(statement!(
                "SELECT surface, id, mode, escalations, deleted_at FROM conversations \
                 WHERE organisation = $1 AND surface = $2 AND id = $3",
                &self.organisation,
                &self.surface,
                &self.id,
            ))
            .await?;
        Ok(End::Keep(row.map(conversation).transpose()?))
    }
}

pub(in crate::store) struct ListConversations {
    pub(in crate::store) organisation: String,
    pub(in crate::store) id: String,
}

impl Operation for ListConversations {
    type Output = Vec<Conversation>;
    const DOING: &'static str = "reading conversations";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let rows = sql
            .rows(statement!(
                "SELECT surface, id, mode, escalations, deleted_at FROM conversations \
                 WHERE organisation = $1 AND id = $2 AND deleted_at IS NULL ORDER BY surface",
                &self.organisation,
                &self.id,
            ))
            .await?;
        Ok(End::Keep(rows.into_iter().map(conversation).collect::<Result<_, _>>()?))
    }
}

fn conversation(mut row: Row) -> Result<Conversation, StoreError> {
    Ok(Conversation {
        surface: row.text("surface")?,
        id: row.text("conversation")?,
        mode: row.optional_word("mode", Mode::from_word)?,
        escalations: row.count("escalations")?,
        deleted_at: row.optional_time("time of deletion")?,
    })
}

pub(in crate::store) struct DeleteConversation {
    pub(in crate::store) organisation: String,
    pub(in crate::store) id: String,
    pub(in crate::store) now: Timestamp,
}

impl Operation for DeleteConversation {
    type Output = Option<Vec<Approval>>;
    const DOING: &'static str = "deleting a conversation";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let Self { organisation, id, now } = self;
        let found = sql
            .rows(statement!(
                "SELECT surface, deleted_at FROM conversations \
                 WHERE organisation = $1 AND id = $2 ORDER BY surface",
                organisation,
                id,
            ))
            .await?;
        if found.is_empty() {
            return Ok(End::Undo(None));
        }
        let mut deleted = false;
        let mut cancelled = Vec::new();
        for mut row in found {
            let surface = row.text("surface")?;
            if row.optional_time("time of deletion")?.is_some() {
                continue;
            }
            // A request that is being recorded is waited for: the statements after that one see
            // what it recorded.
            let mut answers = sql
                .batch(vec![
                    statement!(
                        "UPDATE conversations SET deleted_at = $4, updated_at = $4, mode = NULL \
                         WHERE organisation = $1 AND surface = $2 AND id = $3 \
                         AND deleted_at IS NULL RETURNING id",
                        organisation,
                        &surface,
                        id,
                        *now,
                    ),
                    statement!(
                        "UPDATE requests SET attempt = attempt + 1, lease_until = 0 \
                         WHERE recorded_at IS NULL AND id IN (SELECT request FROM calls \
                         WHERE organisation = $1 AND surface = $2 AND conversation = $3 \
                         AND outcome IS NULL) RETURNING id",
                        organisation,
                        &surface,
                        id,
                    ),
                    statement!(
                        concat!(
                            "UPDATE approvals SET status = 'cancelled', decided_at = $4, \
                             revision = revision + 1 \
                             WHERE status = 'pending' AND id IN (SELECT detail FROM calls \
                             WHERE organisation = $1 AND surface = $2 AND conversation = $3 \
                             AND outcome = 'approval') RETURNING ",
                            approval_columns!()
                        ),
                        organisation,
                        &surface,
                        id,
                        *now,
                    ),
                    statement!(
                        "DELETE FROM grants \
                         WHERE organisation = $1 AND surface = $2 AND conversation = $3",
                        organisation,
                        &surface,
                        id,
                    ),
                    statement!(
                        "DELETE FROM definitions \
                         WHERE organisation = $1 AND surface = $2 AND conversation = $3",
                        organisation,
                        &surface,
                        id,
                    ),
                ])
                .await?
                .into_iter();
            let mut next = || answers.next().unwrap_or_default();
            let (taken, ended, approvals) = (next(), next(), next());
            let approvals =
                approvals.into_iter().map(rows::approval).collect::<Result<Vec<_>, _>>()?;
            notifications::notify_all(sql, &approvals).await?;
            deleted |= !taken.is_empty();
            sql.wake(Key::conversation(organisation, &surface, id));
            for mut row in ended {
                sql.wake(Key::Request(row.text("request's id")?));
            }
            for approval in approvals {
                for key in rows::changes(&approval.facts) {
                    sql.wake(key);
                }
                cancelled.push(approval);
            }
        }
        Ok(if deleted { End::Keep(Some(cancelled)) } else { End::Undo(Some(cancelled)) })
    }
}

pub(in crate::store) struct ListTurns {
    pub(in crate::store) organisation: String,
    pub(in crate::store) id: String,
}

impl Operation for ListTurns {
    type Output = Vec<Turn>;
    const DOING: &'static str = "reading turns";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let rows = sql
            .rows(statement!(
                "SELECT surface, conversation, id, mode, continuation, continuation_failed \
                 FROM turns WHERE organisation = $1 AND id = $2 ORDER BY surface, conversation",
                &self.organisation,
                &self.id,
            ))
            .await?;
        let turn = |mut row: Row| {
            let surface = row.text("surface")?;
            let conversation = row.text("conversation")?;
            let id = row.text("turn")?;
            let mode = row.word("mode", Mode::from_word)?;
            let continuation = row.optional_text("continuation")?;
            let failed = row.truth("continuation's failure")?;
            let continuation = continuation.map(|id| Continuation { id, failed });
            Ok(Turn { surface, conversation, id, mode, continuation })
        };
        Ok(End::Keep(rows.into_iter().map(turn).collect::<Result<_, StoreError>>()?))
    }
}

pub(in crate::store) struct CurrentDefinition {
    pub(in crate::store) organisation: String,
    pub(in crate::store) surface: String,
    pub(in crate::store) conversation: String,
    pub(in crate::store) tool: ToolIdentity,
}

impl Operation for CurrentDefinition {
    type Output = Option<ToolDefinition>;
    const DOING: &'static str = "reading a tool's definition";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let row = sql
            .row(statement!(
                "SELECT origin, label, name, definition, content FROM definitions \
                 WHERE organisation = $1 AND surface = $2 AND conversation = $3 AND origin = $4 \
                 AND label = $5 AND name = $6 AND latest = 1",
                &self.organisation,
                &self.surface,
                &self.conversation,
                origin_word(self.tool.origin),
                self.tool.server_label.as_deref().unwrap_or_default(),
                &self.tool.name,
            ))
            .await?;
        let Some(mut row) = row else { return Ok(End::Keep(None)) };
        let tool = rows::tool(&mut row)?;
        Ok(End::Keep(Some(ToolDefinition { tool, content: row.text("definition")? })))
    }
}
