//! One attempt at a begun request: plan, ask, settle, record.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::time::Instant;

use super::outcome::{Known, Ready, escalates};
use super::{JudgedCall, Judgement, Work};
use crate::decide::policy::Mode;
use crate::decide::request::Call;
use crate::decide::{Decision, Outcome, State, Step};
use crate::service::input::Shown;
use crate::service::{Code, Counted, Judged, Refusal, Service};
use crate::store::{Record, Recorded, Reserved, StoreError, Ticket, ToJudge};

/// Bytes of a request above which it is planned on a thread that may take its time.
const LARGE: usize = 64 * 1024;

impl Service {
    /// Judges and records; `None` when the attempt is no longer this request's to record.
    pub(super) async fn attempt(
        &self,
        work: &mut Work,
        begun: ToJudge,
    ) -> Result<Option<Judgement>, Refusal> {
        let ToJudge { ticket, mode, known, mut state, .. } = begun;
        state.sandbox.enabled = self.sandbox_enabled;
        state.automatic_approval = state.automatic_approval.and(self.automatic_approval);
        let mode = work.stricter.as_ref().map_or(mode, |stricter| stricter.apply(mode, &mut state));
        let replayed = known.iter().any(Option::is_some);
        let own: Vec<Call> = work
            .calls
            .iter()
            .zip(&known)
            .filter(|(_, known)| known.is_none())
            .map(|(call, _)| call.clone())
            .collect();

        let start = Instant::now();
        let before = start.duration_since(work.arrived);
        let (own, steps) = self.plan(work, mode, own, state).await?;
        let questions = steps.iter().filter(|step| matches!(step, Step::Ask(_))).count();
        let shown: Vec<Option<Shown>> = steps.iter().map(shown).collect();
        let judged = self.approver.answer(steps, start).await;

        let counted: Vec<Counted> = judged.iter().map(Counted::of).collect();
        let used = used(&judged, questions);
        let escalations = judged.iter().filter(|one| escalates(&one.decision)).count();
        let now = self.now();
        let known_facts = Known { service: self, work, ticket: &ticket, mode, now };
        let mut ready = Vec::with_capacity(own.len());
        for ((call, judged), shown) in own.iter().zip(judged).zip(shown) {
            let Judged { decision, latency } = judged;
            let judged = Judged { decision, latency: before + latency };
            ready.push(known_facts.outcome(call, judged, shown)?);
        }
        let record = Record {
            ticket: ticket.clone(),
            calls: Vec::new(),
            used,
            escalations: u32::try_from(escalations).unwrap_or(u32::MAX),
            now,
        };
        let Some((ready, tries)) = record_all(&known_facts, &own, record, ready).await? else {
            return Ok(None);
        };
        for one in counted {
            self.metrics.judged(&if tries == 1 { one } else { one.once_more() });
        }
        let mut fresh = ready.into_iter();
        let mut calls = Vec::with_capacity(work.calls.len());
        for (call, known) in work.calls.iter().zip(known) {
            match known {
                Some(known) => calls.push(self.recorded(call, known).await?),
                None => calls.extend(fresh.next().map(|ready| judged_call(call, ready))),
            }
        }
        Ok(Some(Judgement { mode, replayed, calls }))
    }

    /// Plans the calls. A bug in what they share costs them all a person's look, and nothing else.
    async fn plan(
        &self,
        work: &mut Work,
        mode: Mode,
        calls: Vec<Call>,
        state: State,
    ) -> Result<(Vec<Call>, Vec<Step>), Refusal> {
        let request = work.take(mode, calls);
        let approver = self.approver.clone();
        let version = Arc::clone(&work.version);
        let stricter = work.stricter.clone();
        let plan = move || {
            let content = &version.content;
            let policy = content.policy.as_ref();
            let work = || {
                let steps = approver.plan(&content.agent, policy, &request, &state);
                match &stricter {
                    None => steps,
                    Some(stricter) => stricter
                        .tighten(steps, |agent| approver.plan(agent, policy, &request, &state)),
                }
            };
            let steps = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
                let failed = |call: &Call| Decision::internal_error(&call.call_id, None);
                let failed = |call| Step::Settled(Box::new(failed(call)));
                request.calls.iter().map(failed).collect()
            });
            (request, steps)
        };
        let planned = if work.bytes > LARGE {
            tokio::task::spawn_blocking(plan).await.map_err(|_| {
                Refusal::new(Code::InternalError, "Something is wrong here, and it is recorded.")
            })?
        } else {
            plan()
        };
        let (request, steps) = planned;
        Ok((work.put_back(request), steps))
    }
}

/// Records all outcomes, which `record` does not have yet. What cannot be recorded is recorded once more, with every approval waiting
/// for a person; when that fails too, nothing of it may run. With what was recorded comes how many
/// tries it took; `None` when it is no longer this attempt's to record.
async fn record_all(
    known: &Known<'_>,
    own: &[Call],
    record: Record,
    ready: Vec<Ready>,
) -> Result<Option<(Vec<Ready>, u8)>, Refusal> {
    let of = |ready: &[Ready]| {
        let calls = ready.iter().map(|one| one.outcome.clone()).collect();
        Record { calls, ..record.clone() }
    };
    let store = &known.service.store;
    let error = match store.record(of(&ready)).await {
        Ok(Recorded::Done) => {
            known.tell(&ready);
            return Ok(Some((ready, 1)));
        }
        Ok(Recorded::Superseded) => return Ok(None),
        Err(error) => error,
    };
    log(&error, known.ticket);
    let once_more = own.iter().zip(ready).map(|(call, ready)| known.once_more(call, ready));
    let ready = once_more.collect::<Result<Vec<_>, _>>()?;
    match store.record(of(&ready)).await {
        Ok(Recorded::Done) => {
            known.tell(&ready);
            Ok(Some((ready, 2)))
        }
        Ok(Recorded::Superseded) => Ok(None),
        Err(error) => {
            log(&error, known.ticket);
            let text = "The judgement could not be recorded, so nothing of it may run. Try again.";
            Err(Refusal::new(Code::StoreUnavailable, text))
        }
    }
}

fn log(error: &StoreError, ticket: &Ticket) {
    let source = std::error::Error::source(error).map(ToString::to_string);
    tracing::error!(%error, source, request = ticket.request, "a judgement was not recorded");
}

fn shown(step: &Step) -> Option<Shown> {
    match step {
        Step::Ask(question) => Some(Shown::new(question.prompt())),
        Step::Settled(_) => None,
    }
}

/// What the request used of the turn's counts. A question counts whether it was answered or not.
fn used(judged: &[Judged], questions: usize) -> Reserved {
    let mut used =
        Reserved { judged: u32::try_from(questions).unwrap_or(u32::MAX), ..Reserved::default() };
    for one in judged {
        if let Outcome::ExecuteSandboxed { timeout_seconds } = one.decision.outcome {
            used.sandbox_calls = used.sandbox_calls.saturating_add(1);
            used.sandbox_seconds = used.sandbox_seconds.saturating_add(timeout_seconds);
        }
    }
    used
}

fn judged_call(call: &Call, ready: Ready) -> JudgedCall {
    let Ready { outcome, hmac } = ready;
    JudgedCall {
        call_id: call.call_id.clone(),
        arguments: call.arguments_text.clone(),
        outcome: super::outcome::standing(outcome.outcome),
        hmac,
    }
}
