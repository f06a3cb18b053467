//! A circuit breaker for each (endpoint, model, credential).
//!
//! It keeps calls from waiting for an endpoint that does not answer: they go to a person at once.
//! It never retries, and it never looks at what an answer says.
//!
//! * It counts connection failures, server errors and timeouts. Any other outcome, good or bad,
//!   shows that the endpoint answers, and ends the row. Failures of our own (not configured,
//!   switched off, a breaker further in) show nothing and change nothing; neither does a question
//!   that was dropped before it had an outcome, or that came with its deadline already past.
//! * One question counts once, whatever its retry did: a first try that failed and a second that
//!   succeeded count as a success, two failed tries as one failure.
//! * Open, it lets no question through for [`PROBE_AFTER`]; then exactly one, the probe (which may
//!   retry like any other). The probe's outcome closes it or opens it anew. A dropped probe hands
//!   its place to the next question.
//! * Outcomes of questions that began before the breaker last opened or closed are ignored.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;

use super::Judge;
use crate::decide::prompt::Prompt;
use crate::decide::verdict::{JudgeFailure, Reply, Tokens};

/// Counted failures in a row that open a breaker.
pub const OPENS_AFTER: u32 = 5;

/// How long an open breaker waits before it lets one question through.
pub const PROBE_AFTER: Duration = Duration::from_secs(30);

/// What a breaker stands for: SHA-256 over endpoint, model and credential. The credential itself
/// is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity(pub(super) String);

/// All breakers of a process, so that judges of the same endpoint, model and credential share one.
/// It grows with the number of such triples that are configured, and never with traffic.
#[derive(Debug, Default)]
pub struct Breakers {
    by_identity: Mutex<HashMap<Identity, Arc<Breaker>>>,
}

impl Breakers {
    /// No breakers yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The one breaker of this triple.
    #[must_use]
    pub fn of(&self, identity: &Identity) -> Arc<Breaker> {
        let mut by_identity = self.by_identity.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(by_identity.entry(identity.clone()).or_default())
    }
}

/// One circuit breaker.
#[derive(Debug, Default)]
pub struct Breaker {
    state: Mutex<State>,
}

/// A breaker's position, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Questions pass.
    Closed,
    /// No question passes yet.
    Open,
    /// The wait is over: one question passes, or has passed and has no outcome yet.
    Probing,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Counts changes of phase, so that late outcomes can be told from current ones.
    generation: u64,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Closed { failures_in_a_row: u32 },
    Open { probe_at: Instant },
    Probing,
}

impl Default for State {
    fn default() -> Self {
        Self { phase: Phase::Closed { failures_in_a_row: 0 }, generation: 0 }
    }
}

impl State {
    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.generation = self.generation.wrapping_add(1);
    }
}

/// What an outcome says about the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Answers,
    DoesNotAnswer,
    Nothing,
}

impl Sign {
    fn of(outcome: &Result<Reply, JudgeFailure>) -> Self {
        match outcome {
            Ok(_) => Self::Answers,
            Err(failure) => match failure {
                JudgeFailure::Connection | JudgeFailure::ServerError | JudgeFailure::Timeout => {
                    Self::DoesNotAnswer
                }
                JudgeFailure::Rejected
                | JudgeFailure::RateLimited
                | JudgeFailure::Refused
                | JudgeFailure::PromptTooLong
                | JudgeFailure::Truncated
                | JudgeFailure::Malformed => Self::Answers,
                JudgeFailure::NotConfigured
                | JudgeFailure::SwitchedOff
                | JudgeFailure::BreakerOpen => Self::Nothing,
            },
        }
    }
}

impl Breaker {
    /// Where the breaker stands at `now`.
    #[must_use]
    pub fn position(&self, now: Instant) -> Position {
        match self.lock().phase {
            Phase::Closed { .. } => Position::Closed,
            Phase::Open { probe_at } if now < probe_at => Position::Open,
            Phase::Open { .. } | Phase::Probing => Position::Probing,
        }
    }

    /// Lets a question through, or not.
    fn admit(self: &Arc<Self>, now: Instant) -> Option<Permit> {
        let mut state = self.lock();
        match state.phase {
            Phase::Closed { .. } => {}
            Phase::Open { probe_at } if now >= probe_at => state.enter(Phase::Probing),
            Phase::Open { .. } | Phase::Probing => return None,
        }
        Some(Permit {
            breaker: Arc::clone(self),
            generation: state.generation,
            sign: Sign::Nothing,
        })
    }

    fn record(&self, generation: u64, sign: Sign, now: Instant) {
        let mut state = self.lock();
        if state.generation != generation {
            return;
        }
        let opened = Phase::Open { probe_at: now + PROBE_AFTER };
        match (state.phase, sign) {
            (Phase::Closed { failures_in_a_row }, Sign::DoesNotAnswer) => {
                let failures_in_a_row = failures_in_a_row.saturating_add(1);
                if failures_in_a_row >= OPENS_AFTER {
                    state.enter(opened);
                } else {
                    state.phase = Phase::Closed { failures_in_a_row };
                }
            }
            (Phase::Closed { .. }, Sign::Answers) => {
                state.phase = Phase::Closed { failures_in_a_row: 0 };
            }
            (Phase::Probing, Sign::Answers) => state.enter(Phase::Closed { failures_in_a_row: 0 }),
            (Phase::Probing, Sign::DoesNotAnswer) => state.enter(opened),
            // The probe showed nothing: the next question takes its place.
            (Phase::Probing, Sign::Nothing) => state.enter(Phase::Open { probe_at: now }),
            (Phase::Closed { .. }, Sign::Nothing) | (Phase::Open { .. }, _) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to ask once. Dropping it, for whatever reason, reports what is known by then.
struct Permit {
    breaker: Arc<Breaker>,
    generation: u64,
    sign: Sign,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.breaker.record(self.generation, self.sign, Instant::now());
    }
}

/// A judge behind a circuit breaker.
#[derive(Debug, Clone)]
pub struct Guarded<J> {
    inner: J,
    breaker: Arc<Breaker>,
}

impl<J: Judge> Guarded<J> {
    /// Puts a judge behind a breaker.
    pub fn new(inner: J, breaker: Arc<Breaker>) -> Self {
        Self { inner, breaker }
    }
}

impl<J: Judge> Judge for Guarded<J> {
    fn model(&self) -> &str {
        self.inner.model()
    }

    fn ask<'a>(
        &'a self,
        prompt: &'a Prompt,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Reply, JudgeFailure>> {
        Box::pin(async move {
            let now = Instant::now();
            if now >= deadline {
                return Err(JudgeFailure::Timeout);
            }
            let Some(mut permit) = self.breaker.admit(now) else {
                return Err(JudgeFailure::BreakerOpen);
            };
            let outcome = self.inner.ask(prompt, deadline).await;
            permit.sign = Sign::of(&outcome);
            drop(permit);
            outcome
        })
    }

    /// Passes by the breaker and does not count: a slow first read of a prefix says nothing about
    /// the judgements after it.
    fn warm_up<'a>(
        &'a self,
        prompt: &'a Prompt,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Tokens, JudgeFailure>> {
        self.inner.warm_up(prompt, deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{Move, Scripted};
    use super::*;

    use JudgeFailure::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn prompt() -> Prompt {
        Prompt {
            system: "rules".to_owned(),
            user: "call".to_owned(),
            fixed_prefix: 0,
            digest: String::new(),
        }
    }

    fn guarded(moves: Vec<Move>) -> Guarded<Scripted> {
        Guarded::new(Scripted::queue(moves), Arc::default())
    }

    async fn ask(judge: &Guarded<Scripted>) -> Result<Reply, JudgeFailure> {
        judge.ask(&prompt(), Instant::now() + SECOND).await
    }

    /// Asks once for each move and says whether the breaker is open after them.
    async fn is_open_after(moves: Vec<Move>) -> bool {
        let count = moves.len();
        let judge = guarded(moves);
        for _ in 0..count {
            let _outcome = ask(&judge).await;
        }
        judge.breaker.position(Instant::now()) == Position::Open
    }

    async fn opened(then: Vec<Move>) -> Guarded<Scripted> {
        let mut moves = vec![Move::Fail(ServerError); 5];
        moves.extend(then);
        let judge = guarded(moves);
        for _ in 0..5 {
            assert_eq!(ask(&judge).await, Err(ServerError));
        }
        assert_eq!(ask(&judge).await, Err(BreakerOpen));
        judge
    }

    #[tokio::test(start_paused = true)]
    async fn five_counted_failures_in_a_row_open_it() {
        for counted in [Connection, ServerError, Timeout] {
            assert!(!is_open_after(vec![Move::Fail(counted); 4]).await);
            assert!(is_open_after(vec![Move::Fail(counted); 5]).await);
        }
        let mixed = [Connection, Timeout, ServerError, ServerError, Connection];
        assert!(is_open_after(mixed.map(Move::Fail).to_vec()).await);
        assert!(is_open_after(vec![Move::Stall; 5]).await);
    }

    #[tokio::test(start_paused = true)]
    async fn no_other_failure_counts_and_each_answer_ends_the_row() {
        for answers in [Rejected, RateLimited, Refused, PromptTooLong, Truncated, Malformed] {
            assert!(!is_open_after(vec![Move::Fail(answers); 9]).await);
            let mut moves = vec![Move::Fail(Connection); 9];
            moves.insert(4, Move::Fail(answers));
            moves.truncate(9);
            assert!(!is_open_after(moves).await, "{answers:?}");
        }
        for nothing in [NotConfigured, SwitchedOff, BreakerOpen] {
            assert!(!is_open_after(vec![Move::Fail(nothing); 9]).await);
            let mut moves = vec![Move::Fail(Connection); 5];
            moves.insert(4, Move::Fail(nothing));
            assert!(is_open_after(moves).await, "{nothing:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn open_it_answers_at_once_and_after_thirty_seconds_probes_once() {
        let judge = opened(vec![Move::Stall, Move::say("{}"), Move::say("{}")]).await;
        tokio::time::advance(PROBE_AFTER - Duration::from_millis(1)).await;
        assert_eq!(ask(&judge).await, Err(BreakerOpen));
        tokio::time::advance(Duration::from_millis(1)).await;

        // While the probe is out, everybody else is turned away without waiting.
        let (probe, other) = tokio::join!(ask(&judge), async {
            tokio::task::yield_now().await;
            let began = Instant::now();
            let outcome = ask(&judge).await;
            (outcome, began.elapsed())
        });
        assert_eq!(probe, Err(Timeout));
        assert_eq!(other, (Err(BreakerOpen), Duration::ZERO));

        // The failed probe opened it for another thirty seconds; a good one closes it.
        assert_eq!(ask(&judge).await, Err(BreakerOpen));
        tokio::time::advance(PROBE_AFTER).await;
        assert!(ask(&judge).await.is_ok());
        assert!(ask(&judge).await.is_ok());
        assert_eq!(judge.inner.asked().len(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_probe_hands_its_place_on() {
        let judge = opened(vec![Move::Stall, Move::say("{}")]).await;
        tokio::time::advance(PROBE_AFTER).await;
        let dropped = tokio::time::timeout(Duration::from_millis(10), ask(&judge)).await;
        assert!(dropped.is_err(), "the probe was to be dropped half-way");
        assert!(ask(&judge).await.is_ok());
        assert_eq!(judge.breaker.position(Instant::now()), Position::Closed);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panicking_probe_hands_its_place_on() {
        let judge = Arc::new(opened(vec![Move::Panic, Move::say("{}")]).await);
        tokio::time::advance(PROBE_AFTER).await;
        let probe = Arc::clone(&judge);
        let panicked = tokio::spawn(async move { ask(&probe).await }).await;
        assert!(panicked.is_err());
        assert!(ask(&judge).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_questions_do_not_count() {
        let judge = guarded(vec![Move::Stall; 6]);
        for _ in 0..6 {
            let dropped = tokio::time::timeout(Duration::from_millis(10), ask(&judge)).await;
            assert!(dropped.is_err());
        }
        assert_eq!(judge.breaker.position(Instant::now()), Position::Closed);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_already_past_says_nothing_about_the_endpoint() {
        let judge = guarded(Vec::new());
        for _ in 0..6 {
            let outcome = judge.ask(&prompt(), Instant::now()).await;
            assert_eq!(outcome, Err(Timeout));
        }
        assert_eq!(judge.breaker.position(Instant::now()), Position::Closed);
    }

    #[tokio::test(start_paused = true)]
    async fn late_outcomes_of_an_earlier_generation_are_ignored() {
        let late = Move::AnswerAfter(
            Duration::from_millis(500),
            Reply {
                text: "{}".to_owned(),
                model: "scripted".to_owned(),
                tokens: Tokens::default(),
            },
        );
        let mut moves = vec![late];
        moves.extend(vec![Move::Fail(ServerError); 5]);
        let judge = guarded(moves);
        let (first, ()) = tokio::join!(ask(&judge), async {
            tokio::task::yield_now().await;
            for _ in 0..5 {
                assert_eq!(ask(&judge).await, Err(ServerError));
            }
        });
        assert!(first.is_ok());
        assert_eq!(judge.breaker.position(Instant::now()), Position::Open);
    }

    #[test]
    fn one_breaker_for_each_identity() {
        let breakers = Breakers::new();
        let (one, other) = (Identity("one".into()), Identity("other".into()));
        assert!(Arc::ptr_eq(&breakers.of(&one), &breakers.of(&one)));
        assert!(!Arc::ptr_eq(&breakers.of(&one), &breakers.of(&other)));
    }
}
