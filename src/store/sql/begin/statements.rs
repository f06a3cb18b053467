//! The statements that begin a judgement, each a function of the request alone.

use crate::decide::state::ToolIdentity;
use crate::store::sql::rows::{door_word, origin_word};
use crate::store::sql::{Statement, Value, statement};
use crate::store::{Begin, BeginCall, ModeChoice, Reserved, ToolDefinition};

macro_rules! facts_of_conversation {
    () => {
        "SELECT 'grant', approval, origin, label, name, definition, 0, 0 FROM grants \
         WHERE organisation = $1 AND surface = $2 AND conversation = $3 AND door = $4 \
         AND instance = $5 AND agent = $6 \
         UNION ALL \
         SELECT 'definition', '', origin, label, name, definition, pinned, latest \
         FROM definitions WHERE organisation = $1 AND surface = $2 AND conversation = $3 \
         UNION ALL \
         SELECT 'write', calls.identity, '', '', '', '', 0, 0 \
         FROM calls LEFT JOIN approvals ON approvals.id = calls.detail \
         WHERE calls.organisation = $1 AND calls.surface = $2 AND calls.conversation = $3 \
         AND calls.turn = $7 AND calls.identity IS NOT NULL AND calls.request <> $8 \
         AND (calls.outcome IS NULL OR approvals.status IN ('pending', 'approved')) \
         UNION ALL \
         SELECT 'switch', '', '', '', '', '', enabled, 0 FROM switches \
         WHERE organisation = $1 AND agent IN ('', $6)"
    };
}

/// What counts of an instance since a time, whatever its turns.
macro_rules! facts_of_instance {
    () => {
        " UNION ALL \
         SELECT 'escalation', request, '', '', '', '', 0, 0 FROM escalations \
         WHERE instance = $5 AND at > $9 \
         UNION ALL \
         SELECT 'judged', '', '', '', '', '', 0, 0 FROM calls \
         WHERE instance = $5 AND created_at > $9 AND judged = 1 AND request <> $8 \
         UNION ALL \
         SELECT 'write', calls.identity, '', '', '', '', 0, 0 \
         FROM calls LEFT JOIN approvals ON approvals.id = calls.detail \
         WHERE calls.instance = $5 AND calls.created_at > $9 \
         AND calls.identity IS NOT NULL AND calls.request <> $8 \
         AND (calls.outcome IS NULL OR approvals.status IN ('pending', 'approved'))"
    };
}

impl Begin {
    pub(super) fn forget_latest(&self, tool: &ToolIdentity) -> Statement {
        statement!(
            "UPDATE definitions SET latest = 0 \
             WHERE organisation = $1 AND surface = $2 AND conversation = $3 AND origin = $4 \
             AND label = $5 AND name = $6",
            &self.organisation,
            &self.surface,
            &self.conversation,
            origin_word(tool.origin),
            tool.server_label.as_deref().unwrap_or_default(),
            &tool.name,
        )
    }

    pub(super) fn meet_definition(&self, met: &ToolDefinition, pinned: bool) -> Statement {
        statement!(
            "INSERT INTO definitions (organisation, surface, conversation, origin, label, \
             name, definition, pinned, latest, content) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, $9) \
             ON CONFLICT (organisation, surface, conversation, origin, label, name, definition) \
             DO UPDATE SET latest = 1",
            &self.organisation,
            &self.surface,
            &self.conversation,
            origin_word(met.tool.origin),
            met.tool.server_label.as_deref().unwrap_or_default(),
            &met.tool.name,
            &met.tool.definition,
            pinned,
            &met.content,
        )
    }

    /// Holds the conversation; no row where it was deleted.
    pub(super) fn take_conversation(&self) -> Statement {
        let named = match self.mode {
            ModeChoice::Named(mode) => Some(mode.as_str()),
            ModeChoice::Unsaid | ModeChoice::Default => None,
        };
        statement!(
            "INSERT INTO conversations (organisation, surface, id, mode, escalations, updated_at) \
             VALUES ($1, $2, $3, $4, 0, $5) \
             ON CONFLICT (organisation, surface, id) DO UPDATE \
             SET mode = COALESCE(excluded.mode, conversations.mode), \
             updated_at = excluded.updated_at \
             WHERE conversations.deleted_at IS NULL \
             RETURNING escalations",
            &self.organisation,
            &self.surface,
            &self.conversation,
            named,
            self.now,
        )
    }

    pub(super) fn take_turn(&self) -> Statement {
        let said = match self.mode {
            ModeChoice::Named(mode) => Some(mode.as_str()),
            ModeChoice::Default => Some(self.modes.default.as_str()),
            ModeChoice::Unsaid => None,
        };
        statement!(
            "INSERT INTO turns (organisation, surface, conversation, id, mode, requests, judged, \
             sandbox_calls, sandbox_seconds, continuation_failed, created_at) \
             VALUES ($1, $2, $3, $4, COALESCE($5, \
             (SELECT mode FROM turns WHERE organisation = $1 AND surface = $2 \
             AND conversation = $3 AND id = $6), \
             (SELECT mode FROM conversations WHERE organisation = $1 AND surface = $2 \
             AND id = $3), $7), 1, $8, $9, $10, 0, $11) \
             ON CONFLICT (organisation, surface, conversation, id) DO UPDATE \
             SET requests = turns.requests + 1, judged = turns.judged + excluded.judged, \
             sandbox_calls = turns.sandbox_calls + excluded.sandbox_calls, \
             sandbox_seconds = turns.sandbox_seconds + excluded.sandbox_seconds \
             RETURNING mode, requests, judged, sandbox_calls, sandbox_seconds",
            &self.organisation,
            &self.surface,
            &self.conversation,
            &self.turn,
            said,
            self.continues.as_ref(),
            self.modes.default.as_str(),
            self.reserve.judged,
            self.reserve.sandbox_calls,
            self.reserve.sandbox_seconds,
            self.now,
        )
    }

    /// The paused turn that this one says it continues.
    pub(super) fn select_continued(&self) -> Statement {
        statement!(
            "SELECT id FROM turns \
             WHERE organisation = $1 AND surface = $2 AND conversation = $3 AND id = $4",
            &self.organisation,
            &self.surface,
            &self.conversation,
            self.continues.as_ref(),
        )
    }

    pub(super) fn give_back(&self, reserved: Reserved) -> Statement {
        statement!(
            "UPDATE turns SET judged = judged - $5, sandbox_calls = sandbox_calls - $6, \
             sandbox_seconds = sandbox_seconds - $7 \
             WHERE organisation = $1 AND surface = $2 AND conversation = $3 AND id = $4",
            &self.organisation,
            &self.surface,
            &self.conversation,
            &self.turn,
            reserved.judged,
            reserved.sandbox_calls,
            reserved.sandbox_seconds,
        )
    }

    pub(super) fn insert_request(&self, request: &str) -> Statement {
        statement!(
            "INSERT INTO requests (id, organisation, digest, surface, conversation, turn, calls, \
             attempt, lease_until, judged, sandbox_calls, sandbox_seconds, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) \
             ON CONFLICT (id) DO NOTHING RETURNING attempt",
            request,
            &self.organisation,
            &self.idempotency.digest,
            &self.surface,
            &self.conversation,
            &self.turn,
            i64::try_from(self.calls.len()).unwrap_or(i64::MAX),
            self.first_attempt(),
            self.now.plus(self.lease),
            self.reserve.judged,
            self.reserve.sandbox_calls,
            self.reserve.sandbox_seconds,
            self.now,
        )
    }

    pub(super) fn insert_call(&self, call: &BeginCall, request: &str) -> Statement {
        statement!(
            "INSERT INTO calls (organisation, surface, conversation, turn, call_id, digest, \
             request, identity, created_at, instance, judged) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
             ON CONFLICT (organisation, surface, conversation, turn, call_id) DO NOTHING \
             RETURNING call_id",
            &self.organisation,
            &self.surface,
            &self.conversation,
            &self.turn,
            &call.call_id,
            &call.digest,
            request,
            call.identity.as_ref(),
            self.now,
            self.instance.as_ref(),
            self.instance.is_some() && self.reserve.judged > 0,
        )
    }

    /// All that the plan must know, in one statement: `request` is the one whose own calls do not
    /// count as the turn's writes.
    pub(super) fn select_facts(&self, request: &str) -> Statement {
        let mut facts = statement!(
            if self.instance_after.is_some() {
                concat!(facts_of_conversation!(), facts_of_instance!())
            } else {
                facts_of_conversation!()
            },
            &self.organisation,
            &self.surface,
            &self.conversation,
            door_word(self.door),
            self.instance.as_deref().unwrap_or_default(),
            &self.agent,
            &self.turn,
            request,
        );
        // No parameter without a place in the text.
        facts.parameters.extend(self.instance_after.map(Value::from));
        facts
    }
}
