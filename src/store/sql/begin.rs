//! The first transaction of a judgement.
//!
//! INVARIANT: transactions take rows in the order conversation, turn, request, calls, approvals, and
//! several rows of a kind in the order of their ids. So two requests of one conversation wait for
//! each other here, for the length of this transaction, and never in a circle.

mod statements;

use super::rows::{self, StoredOutcome};
use super::{End, Operation, Row, Sql, instances, statement};
use crate::decide::digest;
use crate::decide::policy::Mode;
use crate::decide::request::Door;
use crate::decide::state::{Grant, Sandbox, State, ToolIdentity};
use crate::decide::verdict::JudgeFailure;
use crate::store::{
    Begin, BeginCall, Begun, CallOutcome, Idempotency, ModeChoice, RecordedCall, Reserved,
    StoreError, Ticket, Timestamp, ToJudge,
};

impl Operation for Begin {
    type Output = Begun;
    const DOING: &'static str = "beginning a judgement";
    /// Nobody is answered before the request is recorded, and that transaction is durable together
    /// with all that came before it.
    const DURABLE: bool = false;

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Begun>, StoreError> {
        if let ModeChoice::Named(mode) = self.mode
            && !self.modes.offers(mode)
        {
            return Ok(End::Undo(Begun::ModeNotOffered { mode }));
        }
        match self.attempt(sql).await? {
            Ok(begun) => Ok(End::Keep(begun)),
            Err(refusal) => Ok(End::Undo(refusal)),
        }
    }
}

/// A refusal undoes all that the transaction did.
type OrRefusal<T> = Result<T, Begun>;

/// What the first batch says, when nothing stands in the way.
struct Taken {
    mode: Mode,
    escalations: u32,
    /// The turn's counts, this request's reservation not among them.
    others: Reserved,
    facts: Facts,
    request: String,
    attempt: i64,
}

/// What is known of a call that was there before.
struct Earlier {
    digest: String,
    outcome: Option<StoredOutcome>,
    request: String,
    lease_until: Option<Timestamp>,
}

/// What the conversation knows.
#[derive(Default)]
struct Facts {
    grants: Vec<Grant>,
    definitions: Vec<Known>,
    writes: Vec<String>,
    switched_off: bool,
    /// The instance's, where these count.
    escalations: u32,
    judged: u32,
}

struct Known {
    tool: ToolIdentity,
    pinned: bool,
    latest: bool,
}

impl Begin {
    /// Requests with equal keys are one request.
    fn request_id(&self) -> String {
        let Idempotency { caller, endpoint, key, .. } = &self.idempotency;
        digest(&["request", &self.organisation, caller, endpoint, key])
    }

    /// Higher than every attempt at a request of this key that was swept since.
    fn first_attempt(&self) -> i64 {
        self.now.unix_millis()
    }

    /// Whether nothing stands in the way, and nothing is left to do, where the conversation is not
    /// deleted and the request and its calls are new.
    fn fresh_is_enough(&self) -> bool {
        let offered = match self.mode {
            ModeChoice::Named(mode) => self.modes.offers(mode),
            ModeChoice::Default => self.modes.offers(self.modes.default),
            // What is stored may not be on offer any more.
            ModeChoice::Unsaid => false,
        };
        offered && self.tools.is_empty()
    }

    async fn attempt(&self, sql: &mut dyn Sql) -> Result<OrRefusal<Begun>, StoreError> {
        let id = self.request_id();
        if let Some(instance) = &self.instance
            && self.door == Door::Aap
            && sql.row(instances::hold_instance(&self.organisation, instance)).await?.is_none()
        {
            return Ok(Err(Begun::ConversationDeleted));
        }
        let mut statements =
            vec![self.take_conversation(), self.take_turn(), self.insert_request(&id).along()];
        // In the order of their ids, whatever the call order.
        let mut order: Vec<usize> = (0..self.calls.len()).collect();
        order.sort_by(|left, right| self.calls[*left].call_id.cmp(&self.calls[*right].call_id));
        for index in &order {
            statements.push(self.insert_call(&self.calls[*index], &id).along());
        }
        // The conversation is held by then, so that nobody adds to them.
        statements.push(self.select_facts(&id).along());
        let answers = match self.fresh_is_enough() {
            true => sql.whole(statements).await?,
            false => sql.batch(statements).await?,
        };
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or_default();
        let (conversation, turn, request) = (next(), next(), next());
        let mut fresh = vec![false; self.calls.len()];
        for index in &order {
            fresh[*index] = !next().is_empty();
        }
        let facts = read_facts(next())?;

        let deleted = conversation.is_empty();
        let escalations = match conversation.into_iter().next() {
            Some(mut conversation) => conversation.count("escalations")?,
            None => 0,
        };
        let mut turn = first(turn, "turn")?;
        let mode = turn.word("turn's mode", Mode::from_word)?;
        let new_turn = turn.integer("turn's requests")? == 1;
        let others = minus(counts(&mut turn)?, self.reserve);
        let attempt = self.first_attempt();
        let mut taken = Taken { mode, escalations, others, facts, request: id, attempt };

        if request.is_empty()
            && let Some(answer) = self.same_key(sql, &mut taken).await?
        {
            return Ok(answer);
        }
        if deleted {
            return self.replay_deleted(sql, taken, &fresh).await.map(Err);
        }
        if new_turn && !self.modes.offers(mode) && !self.inherits(sql).await? {
            return Ok(Err(Begun::ModeNotOffered { mode }));
        }
        let taken_over = request.is_empty();
        let mut known = vec![None; self.calls.len()];
        if taken_over || fresh.contains(&false) {
            match self.earlier_calls(sql, &mut taken, &order).await? {
                Ok(earlier) => known = earlier,
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        let own = known.iter().filter(|call| call.is_none()).count();
        if own == 0 {
            return self.nothing_to_judge(sql, taken, known).await.map(Ok);
        }
        if own < self.calls.len() || taken_over {
            sql.rows(statement!(
                "UPDATE requests SET calls = $2 WHERE id = $1",
                &taken.request,
                i64::try_from(own).unwrap_or(i64::MAX),
            ))
            .await?;
        }
        self.meet_definitions(sql, &mut taken.facts.definitions).await?;
        Ok(Ok(Begun::Judge(Box::new(self.to_judge(taken, known, taken_over)))))
    }

    /// Whether the mode is a paused turn's, which stays, whatever is on offer since.
    async fn inherits(&self, sql: &mut dyn Sql) -> Result<bool, StoreError> {
        if self.mode != ModeChoice::Unsaid || self.continues.is_none() {
            return Ok(false);
        }
        Ok(sql.row(self.select_continued()).await?.is_some())
    }

    fn to_judge(
        &self,
        taken: Taken,
        known: Vec<Option<RecordedCall>>,
        taken_over: bool,
    ) -> ToJudge {
        let Taken { mode, escalations, others, facts, request, attempt } = taken;
        let pinned = facts.definitions.into_iter().filter(|known| known.pinned);
        let automatic_approval =
            if facts.switched_off { Err(JudgeFailure::SwitchedOff) } else { Ok(()) };
        let state = State {
            grants: facts.grants,
            pinned: pinned.map(|known| known.tool).collect(),
            turn_writes: facts.writes,
            judged_in_turn: others.judged.max(facts.judged),
            escalations: match self.instance_after {
                Some(_) => facts.escalations,
                None => escalations,
            },
            sandbox: Sandbox {
                enabled: false,
                calls: others.sandbox_calls,
                seconds: others.sandbox_seconds,
            },
            automatic_approval,
        };
        let ticket = Ticket {
            organisation: self.organisation.clone(),
            request,
            surface: self.surface.clone(),
            conversation: self.conversation.clone(),
            turn: self.turn.clone(),
            attempt,
            reserved: self.reserve,
        };
        ToJudge { ticket, mode, known, state, taken_over }
    }

    /// In a deleted conversation nothing begins, and what was recorded is still told. The new key is
    /// not kept: nothing of a refusal is.
    async fn replay_deleted(
        &self,
        sql: &mut dyn Sql,
        taken: Taken,
        fresh: &[bool],
    ) -> Result<Begun, StoreError> {
        if fresh.contains(&true) {
            return Ok(Begun::ConversationDeleted);
        }
        let mut calls = Vec::with_capacity(self.calls.len());
        for call in &self.calls {
            let earlier = self.earlier(sql, call).await?;
            let earlier = earlier.ok_or(StoreError::Unreadable { what: "call" })?;
            if earlier.digest != call.digest {
                return Ok(Begun::CallConflict { call_id: call.call_id.clone() });
            }
            let Some(outcome) = earlier.outcome else { return Ok(Begun::ConversationDeleted) };
            calls.push(self.recorded_call(sql, call, outcome).await?);
        }
        Ok(Begun::Replayed { mode: taken.mode, calls })
    }

    /// The key is there: a conflict, a replay, somebody at work, or nobody any more.
    async fn same_key(
        &self,
        sql: &mut dyn Sql,
        taken: &mut Taken,
    ) -> Result<Option<OrRefusal<Begun>>, StoreError> {
        let row = sql
            .row(statement!(
                "SELECT digest, attempt, lease_until, recorded_at, judged, sandbox_calls, \
                 sandbox_seconds FROM requests WHERE id = $1",
                &taken.request,
            ))
            .await?;
        let mut row = row.ok_or(StoreError::Unreadable { what: "request" })?;
        if row.text("request's digest")? != self.idempotency.digest {
            return Ok(Some(Err(Begun::IdempotencyConflict)));
        }
        let attempt = row.integer("attempt")?;
        let lease_until = row.time("lease")?;
        let recorded = row.optional_time("time of recording")?.is_some();
        if recorded {
            let mut calls = Vec::with_capacity(self.calls.len());
            for call in &self.calls {
                let earlier = self.earlier(sql, call).await?;
                let outcome = earlier.and_then(|earlier| earlier.outcome);
                let outcome = outcome.ok_or(StoreError::Unreadable { what: "recorded call" })?;
                calls.push(self.recorded_call(sql, call, outcome).await?);
            }
            return Ok(Some(Err(Begun::Replayed { mode: taken.mode, calls })));
        }
        if lease_until > self.now {
            let request = taken.request.clone();
            return Ok(Some(Err(Begun::InProgress { request, lease_until })));
        }
        let given_up = counts(&mut row)?;
        taken.attempt = attempt + 1;
        taken.others = minus(taken.others, given_up);
        sql.batch(vec![
            self.give_back(given_up),
            statement!(
                "UPDATE requests SET attempt = $2, lease_until = $3, judged = $4, \
                 sandbox_calls = $5, sandbox_seconds = $6 WHERE id = $1",
                &taken.request,
                taken.attempt,
                self.now.plus(self.lease),
                self.reserve.judged,
                self.reserve.sandbox_calls,
                self.reserve.sandbox_seconds,
            ),
        ])
        .await?;
        Ok(None)
    }

    /// Calls that other requests brought, and those of an earlier attempt: what became of them, or
    /// nothing for those that are this attempt's to judge.
    async fn earlier_calls(
        &self,
        sql: &mut dyn Sql,
        taken: &mut Taken,
        order: &[usize],
    ) -> Result<OrRefusal<Vec<Option<RecordedCall>>>, StoreError> {
        let mut known = vec![None; self.calls.len()];
        for index in order {
            let call = &self.calls[*index];
            let earlier = self.earlier(sql, call).await?;
            let earlier = earlier.ok_or(StoreError::Unreadable { what: "call" })?;
            if earlier.digest != call.digest {
                return Ok(Err(Begun::CallConflict { call_id: call.call_id.clone() }));
            }
            if let Some(outcome) = earlier.outcome {
                known[*index] = Some(self.recorded_call(sql, call, outcome).await?);
                continue;
            }
            if earlier.request != taken.request {
                if let Some(lease_until) = earlier.lease_until.filter(|until| *until > self.now) {
                    let request = earlier.request;
                    return Ok(Err(Begun::InProgress { request, lease_until }));
                }
                let given_up = self.end_attempt(sql, &earlier.request).await?;
                taken.others = minus(taken.others, given_up);
            }
            sql.rows(statement!(
                "UPDATE calls SET request = $6, identity = $7 \
                 WHERE organisation = $1 AND surface = $2 AND conversation = $3 AND turn = $4 \
                 AND call_id = $5",
                &self.organisation,
                &self.surface,
                &self.conversation,
                &self.turn,
                &call.call_id,
                &taken.request,
                call.identity.as_ref(),
            ))
            .await?;
        }
        // The writes of the turn were read while some of these calls were still somebody else's.
        taken.facts = read_facts(sql.rows(self.select_facts(&taken.request)).await?)?;
        Ok(Ok(known))
    }

    /// Takes an abandoned request's right to be recorded, and its reservation.
    async fn end_attempt(&self, sql: &mut dyn Sql, request: &str) -> Result<Reserved, StoreError> {
        let row = sql
            .row(statement!(
                "SELECT judged, sandbox_calls, sandbox_seconds FROM requests \
                 WHERE id = $1 AND recorded_at IS NULL",
                request,
            ))
            .await?;
        let Some(mut row) = row else { return Ok(Reserved::default()) };
        let given_up = counts(&mut row)?;
        sql.batch(vec![
            self.give_back(given_up),
            statement!(
                "UPDATE requests SET attempt = attempt + 1, lease_until = 0, judged = 0, \
                 sandbox_calls = 0, sandbox_seconds = 0 WHERE id = $1",
                request,
            ),
        ])
        .await?;
        Ok(given_up)
    }

    /// Every call was judged for other requests: this one is recorded as it begins.
    async fn nothing_to_judge(
        &self,
        sql: &mut dyn Sql,
        taken: Taken,
        known: Vec<Option<RecordedCall>>,
    ) -> Result<Begun, StoreError> {
        sql.batch(vec![
            self.give_back(self.reserve),
            statement!(
                "UPDATE requests SET recorded_at = $2, calls = 0, judged = 0, sandbox_calls = 0, \
                 sandbox_seconds = 0 WHERE id = $1",
                &taken.request,
                self.now,
            ),
        ])
        .await?;
        Ok(Begun::Replayed { mode: taken.mode, calls: known.into_iter().flatten().collect() })
    }

    /// Pins what the conversation meets for the first time, and notes what it met last.
    async fn meet_definitions(
        &self,
        sql: &mut dyn Sql,
        known: &mut Vec<Known>,
    ) -> Result<(), StoreError> {
        let mut statements = Vec::new();
        for met in &self.tools {
            let named = |known: &&Known| known.tool.same_name(&met.tool);
            let same = known.iter().find(|known| known.tool == met.tool);
            if same.is_some_and(|known| known.latest) {
                continue;
            }
            let pinned = !known.iter().any(|known| named(&known));
            if !pinned {
                statements.push(self.forget_latest(&met.tool));
            }
            statements.push(self.meet_definition(met, pinned));
            if pinned {
                known.push(Known { tool: met.tool.clone(), pinned, latest: true });
            }
        }
        if !statements.is_empty() {
            sql.batch(statements).await?;
        }
        Ok(())
    }

    async fn earlier(
        &self,
        sql: &mut dyn Sql,
        call: &BeginCall,
    ) -> Result<Option<Earlier>, StoreError> {
        let row = sql
            .row(statement!(
                "SELECT calls.digest, calls.outcome, calls.detail, calls.timeout_seconds, \
                 calls.request, requests.lease_until \
                 FROM calls LEFT JOIN requests ON requests.id = calls.request \
                 WHERE calls.organisation = $1 AND calls.surface = $2 \
                 AND calls.conversation = $3 AND calls.turn = $4 AND calls.call_id = $5",
                &self.organisation,
                &self.surface,
                &self.conversation,
                &self.turn,
                &call.call_id,
            ))
            .await?;
        let Some(mut row) = row else { return Ok(None) };
        Ok(Some(Earlier {
            digest: row.text("call's digest")?,
            outcome: rows::outcome(&mut row)?,
            request: row.text("call's request")?,
            lease_until: row.optional_time("lease")?,
        }))
    }

    async fn recorded_call(
        &self,
        sql: &mut dyn Sql,
        call: &BeginCall,
        outcome: StoredOutcome,
    ) -> Result<RecordedCall, StoreError> {
        let outcome = match outcome {
            StoredOutcome::Whole(outcome) => outcome,
            StoredOutcome::Approval(id) => {
                let row = sql.row(statement!(rows::APPROVAL, &self.organisation, &id)).await?;
                let row = row.ok_or(StoreError::Unreadable { what: "call's approval" })?;
                CallOutcome::Approval(Box::new(rows::approval(row)?))
            }
        };
        Ok(RecordedCall { call_id: call.call_id.clone(), outcome })
    }
}

fn read_facts(rows: Vec<Row>) -> Result<Facts, StoreError> {
    let mut facts = Facts::default();
    for mut row in rows {
        let kind = row.text("kind of fact")?;
        let id = row.text("fact")?;
        match kind.as_str() {
            "grant" => facts.grants.push(Grant { approval_id: id, tool: rows::tool(&mut row)? }),
            "write" => facts.writes.push(id),
            "definition" => {
                let tool = rows::tool(&mut row)?;
                let (pinned, latest) = (row.truth("pin")?, row.truth("latest mark")?);
                facts.definitions.push(Known { tool, pinned, latest });
            }
            "escalation" => facts.escalations += 1,
            "judged" => facts.judged += 1,
            "switch" => {
                for _ in 0..4 {
                    row.text("fact")?;
                }
                facts.switched_off |= !row.truth("switch")?;
            }
            _ => return Err(StoreError::Unreadable { what: "kind of fact" }),
        }
    }
    Ok(facts)
}

fn first(rows: Vec<Row>, what: &'static str) -> Result<Row, StoreError> {
    rows.into_iter().next().ok_or(StoreError::Unreadable { what })
}

fn counts(row: &mut Row) -> Result<Reserved, StoreError> {
    Ok(Reserved {
        judged: row.count("judged calls")?,
        sandbox_calls: row.count("sandbox calls")?,
        sandbox_seconds: row.count("sandbox seconds")?,
    })
}

fn minus(counts: Reserved, share: Reserved) -> Reserved {
    Reserved {
        judged: counts.judged.saturating_sub(share.judged),
        sandbox_calls: counts.sandbox_calls.saturating_sub(share.sandbox_calls),
        sandbox_seconds: counts.sandbox_seconds.saturating_sub(share.sandbox_seconds),
    }
}
