//! One retry inside the one deadline.
//!
//! Only failures that a second try may cure are tried again: a failed connection, a server error, a
//! rate limit. A timeout never is, for the deadline is spent. The decision looks at the failure's
//! variant; nothing here reads a message.

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;

use super::Judge;
use crate::decide::prompt::Prompt;
use crate::decide::verdict::{JudgeFailure, Reply, Tokens};

/// The shortest pause before the second try, in milliseconds.
const SHORTEST_PAUSE_MS: u64 = 100;

/// The longest pause before the second try, in milliseconds, where the server names none.
const LONGEST_PAUSE_MS: u64 = 300;

/// A failed attempt, with what only the retry needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{failure}")]
pub struct Setback {
    /// What went wrong.
    pub failure: JudgeFailure,
    /// How long the server asks us to wait before we try again, if it says.
    pub retry_after: Option<Duration>,
}

impl From<JudgeFailure> for Setback {
    fn from(failure: JudgeFailure) -> Self {
        Self { failure, retry_after: None }
    }
}

/// A judge that tries once and says when to come back.
pub trait Attempt: Judge {
    /// Asks exactly once, and answers or fails by `deadline`.
    fn attempt<'a>(
        &'a self,
        prompt: &'a Prompt,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Reply, Setback>>;
}

/// A judge that tries a second time where that may help.
#[derive(Debug, Clone)]
pub struct Retrying<A> {
    inner: A,
}

impl<A: Attempt> Retrying<A> {
    /// Wraps a judge.
    pub fn new(inner: A) -> Self {
        Self { inner }
    }

    async fn ask_twice(&self, prompt: &Prompt, deadline: Instant) -> Result<Reply, JudgeFailure> {
        let setback = match self.inner.attempt(prompt, deadline).await {
            Ok(reply) => return Ok(reply),
            Err(setback) => setback,
        };
        if !is_worth_another_try(setback.failure) {
            return Err(setback.failure);
        }
        let pause = pause_before_retry(setback.retry_after);
        // A pause that ends after the deadline would only turn a precise failure into a timeout.
        let fits = Instant::now().checked_add(pause).is_some_and(|resume| resume < deadline);
        if !fits {
            return Err(setback.failure);
        }
        tokio::time::sleep(pause).await;
        self.inner.attempt(prompt, deadline).await.map_err(|setback| setback.failure)
    }
}

impl<A: Attempt> Judge for Retrying<A> {
    fn model(&self) -> &str {
        self.inner.model()
    }

    fn ask<'a>(
        &'a self,
        prompt: &'a Prompt,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Reply, JudgeFailure>> {
        Box::pin(self.ask_twice(prompt, deadline))
    }

    fn warm_up<'a>(
        &'a self,
        prompt: &'a Prompt,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Tokens, JudgeFailure>> {
        self.inner.warm_up(prompt, deadline)
    }
}

fn is_worth_another_try(failure: JudgeFailure) -> bool {
    match failure {
        JudgeFailure::Connection | JudgeFailure::ServerError | JudgeFailure::RateLimited => true,
        JudgeFailure::NotConfigured
        | JudgeFailure::SwitchedOff
        | JudgeFailure::BreakerOpen
        | JudgeFailure::Timeout
        | JudgeFailure::Rejected
        | JudgeFailure::Refused
        | JudgeFailure::PromptTooLong
        | JudgeFailure::Truncated
        | JudgeFailure::Malformed => false,
    }
}

/// Never shorter than what the server asks for; jittered, so that callers who failed together do
/// not come back together.
fn pause_before_retry(retry_after: Option<Duration>) -> Duration {
    let own = Duration::from_millis(fastrand::u64(SHORTEST_PAUSE_MS..=LONGEST_PAUSE_MS));
    match retry_after {
        Some(asked) if asked > own => asked,
        Some(_) | None => own,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use super::*;

    /// Fails as told, then answers; remembers when each attempt began.
    struct Flaky {
        setbacks: Mutex<VecDeque<Setback>>,
        attempts: Mutex<Vec<Instant>>,
    }

    impl Judge for Flaky {
        fn model(&self) -> &str {
            "flaky"
        }

        fn ask<'a>(
            &'a self,
            prompt: &'a Prompt,
            deadline: Instant,
        ) -> BoxFuture<'a, Result<Reply, JudgeFailure>> {
            Box::pin(async move {
                self.attempt(prompt, deadline).await.map_err(|setback| setback.failure)
            })
        }
    }

    impl Attempt for Flaky {
        fn attempt<'a>(
            &'a self,
            _prompt: &'a Prompt,
            _deadline: Instant,
        ) -> BoxFuture<'a, Result<Reply, Setback>> {
            Box::pin(async move {
                self.attempts.lock().unwrap().push(Instant::now());
                match self.setbacks.lock().unwrap().pop_front() {
                    Some(setback) => Err(setback),
                    None => Ok(reply()),
                }
            })
        }
    }

    fn reply() -> Reply {
        Reply { text: "{}".to_owned(), model: "flaky".to_owned(), tokens: Tokens::default() }
    }

    fn prompt() -> Prompt {
        Prompt {
            system: "rules".to_owned(),
            user: "call".to_owned(),
            fixed_prefix: 0,
            digest: String::new(),
        }
    }

    /// What came back, how many attempts there were, and the pause between the first two.
    async fn run(
        setbacks: &[Setback],
        budget: Duration,
    ) -> (Result<Reply, JudgeFailure>, usize, Option<Duration>) {
        let judge = Retrying::new(Flaky {
            setbacks: Mutex::new(setbacks.iter().copied().collect()),
            attempts: Mutex::default(),
        });
        let outcome = judge.ask(&prompt(), Instant::now() + budget).await;
        let attempts = judge.inner.attempts.lock().unwrap().clone();
        let pause = match attempts.as_slice() {
            [first, second, ..] => Some(*second - *first),
            _ => None,
        };
        (outcome, attempts.len(), pause)
    }

    const TEN_SECONDS: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn only_three_failures_are_tried_again() {
        use JudgeFailure::*;
        let rows = [
            (Connection, 2),
            (ServerError, 2),
            (RateLimited, 2),
            (NotConfigured, 1),
            (SwitchedOff, 1),
            (BreakerOpen, 1),
            (Timeout, 1),
            (Rejected, 1),
            (Refused, 1),
            (PromptTooLong, 1),
            (Truncated, 1),
            (Malformed, 1),
        ];
        for (failure, expected) in rows {
            let (outcome, attempts, _) = run(&[failure.into()], TEN_SECONDS).await;
            assert_eq!(attempts, expected, "{failure:?}");
            assert_eq!(outcome.is_ok(), expected == 2, "{failure:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_no_third_attempt_and_the_last_failure_counts() {
        let (outcome, attempts, _) = run(
            &[
                JudgeFailure::Connection.into(),
                JudgeFailure::RateLimited.into(),
                JudgeFailure::ServerError.into(),
            ],
            TEN_SECONDS,
        )
        .await;
        assert_eq!(attempts, 2);
        assert_eq!(outcome, Err(JudgeFailure::RateLimited));
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_is_short_unless_the_server_asks_for_more() {
        let asks = |retry_after| Setback { failure: JudgeFailure::RateLimited, retry_after };
        let own =
            Duration::from_millis(SHORTEST_PAUSE_MS)..=Duration::from_millis(LONGEST_PAUSE_MS + 5);

        for retry_after in [None, Some(Duration::ZERO)] {
            let (_, _, pause) = run(&[asks(retry_after)], TEN_SECONDS).await;
            assert!(own.contains(&pause.unwrap()), "{pause:?}");
        }
        let (outcome, _, pause) = run(&[asks(Some(Duration::from_secs(3)))], TEN_SECONDS).await;
        assert!(pause.unwrap() >= Duration::from_secs(3), "{pause:?}");
        assert!(outcome.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_that_does_not_fit_is_not_begun() {
        let rows = [
            (TEN_SECONDS, Some(Duration::from_secs(10))),
            (TEN_SECONDS, Some(Duration::MAX)),
            (Duration::from_millis(50), None),
        ];
        for (budget, retry_after) in rows {
            let began = Instant::now();
            let setback = Setback { failure: JudgeFailure::RateLimited, retry_after };
            let (outcome, attempts, _) = run(&[setback], budget).await;
            assert_eq!(attempts, 1, "{retry_after:?}");
            assert_eq!(outcome, Err(JudgeFailure::RateLimited));
            assert_eq!(began.elapsed(), Duration::ZERO, "it waited for nothing");
        }
    }
}
