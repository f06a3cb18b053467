//! One request's calls from their plan to their decisions: plan, ask, settle.
//!
//! Each question runs in a task of its own, so that a panic costs one call and a caller who hangs
//! up stops nothing. Nothing here records anything or knows a wire format.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::decide::policy::Policy;
use crate::decide::request::{Agent, Request};
use crate::decide::verdict::JudgeFailure;
use crate::decide::{Decision, Question, Settings, State, Step, plan, settle};
use crate::judge::Judge;

/// How long judging may take, and how much of it goes on at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// For one judgement, its retry included; 10 s unless configured.
    pub judgement: Duration,
    /// For all calls of one request; 30 s unless configured.
    pub request: Duration,
    /// Calls of one request that are judged at once; 4 unless configured.
    pub concurrent: usize,
}

impl Default for Timing {
    fn default() -> Self {
        Self { judgement: Duration::from_secs(10), request: Duration::from_secs(30), concurrent: 4 }
    }
}

/// A question that has less time left than this is not asked: no judge answers so fast, and a
/// timeout that our own queue caused would count against the endpoint.
const SHORTEST: Duration = Duration::from_millis(500);

/// A decision and how long it took from the request's arrival.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The decision.
    pub decision: Decision,
    /// From the start of the request's plan to this decision.
    pub latency: Duration,
}

/// Judges requests.
#[derive(Clone)]
pub struct Approver {
    judge: Arc<dyn Judge>,
    settings: Settings,
    timing: Timing,
}

impl Approver {
    /// An approver that asks `judge`.
    #[must_use]
    pub fn new(judge: Arc<dyn Judge>, settings: Settings, timing: Timing) -> Self {
        Self { judge, settings, timing }
    }

    /// The operator's settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Deadlines.
    #[must_use]
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// The judge's model, as configured.
    #[must_use]
    pub fn model(&self) -> &str {
        self.judge.model()
    }

    /// Decides every call of a request, in call order. It cannot fail: what fails ends at a person.
    pub async fn judge(
        &self,
        agent: &Agent,
        policy: Option<&Policy>,
        request: &Request,
        state: &State,
    ) -> Vec<Judged> {
        let start = Instant::now();
        let steps = self.plan(agent, policy, request, state);
        self.answer(steps, start).await
    }

    /// What code alone decides, and the questions that are left: work for a processor, which may
    /// take its time for a large request.
    #[must_use]
    pub fn plan(
        &self,
        agent: &Agent,
        policy: Option<&Policy>,
        request: &Request,
        state: &State,
    ) -> Vec<Step> {
        plan(agent, policy, request, state, &self.settings)
    }

    /// Asks what a plan that began at `start` left open, and settles it. It cannot fail: what fails
    /// ends at a person.
    pub async fn answer(&self, steps: Vec<Step>, start: Instant) -> Vec<Judged> {
        let slots = Arc::new(Semaphore::new(self.timing.concurrent.max(1)));
        let request_deadline = start + self.timing.request;
        // All tasks start before any is awaited.
        let running: Vec<Running> = steps
            .into_iter()
            .map(|step| match step {
                Step::Settled(decision) => {
                    Running::Settled(Judged { decision: *decision, latency: start.elapsed() })
                }
                Step::Ask(question) => Running::Asked {
                    unanswered: Decision::internal_error(question.call_id(), question.class()),
                    task: self.ask(*question, Arc::clone(&slots), start, request_deadline),
                },
            })
            .collect();
        let mut judged = Vec::with_capacity(running.len());
        for one in running {
            judged.push(match one {
                Running::Settled(settled) => settled,
                Running::Asked { unanswered, task } => task
                    .await
                    .unwrap_or_else(|_| Judged { decision: unanswered, latency: start.elapsed() }),
            });
        }
        judged
    }

    fn ask(
        &self,
        question: Question,
        slots: Arc<Semaphore>,
        start: Instant,
        request_deadline: Instant,
    ) -> JoinHandle<Judged> {
        let judge = Arc::clone(&self.judge);
        let judgement = self.timing.judgement;
        tokio::spawn(async move {
            let reply = match timeout_at(request_deadline, slots.acquire_owned()).await {
                Ok(Ok(_slot)) => {
                    let deadline = request_deadline.min(Instant::now() + judgement);
                    if deadline.duration_since(Instant::now()) < SHORTEST.min(judgement) {
                        return Judged {
                            decision: settle(question, Err(JudgeFailure::Timeout)),
                            latency: start.elapsed(),
                        };
                    }
                    // The judge keeps the deadline itself; this holds where it does not.
                    timeout_at(deadline, judge.ask(question.prompt(), deadline))
                        .await
                        .unwrap_or(Err(JudgeFailure::Timeout))
                }
                // The semaphore is never closed; either way nobody was asked in time.
                Ok(Err(_)) | Err(_) => Err(JudgeFailure::Timeout),
            };
            if let Err(failure) = &reply
                && was_asked(failure)
            {
                tracing::warn!(%failure, model = judge.model(), "the judge gave no answer");
            }
            Judged { decision: settle(question, reply), latency: start.elapsed() }
        })
    }
}

/// Whether somebody was asked who gave no answer, and not nobody on purpose.
fn was_asked(failure: &JudgeFailure) -> bool {
    use JudgeFailure::{BreakerOpen, NotConfigured, SwitchedOff};
    !matches!(failure, NotConfigured | SwitchedOff | BreakerOpen)
}

enum Running {
    Settled(Judged),
    Asked { unanswered: Decision, task: JoinHandle<Judged> },
}
