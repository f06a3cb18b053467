//! Judging cases, many at once: plan, ask, settle, each call on its own in a new conversation with
//! automatic approval at hand.
//!
//! A call is judged here as in service, with the same core and the same deadlines; counts across
//! calls (turns, grants, the sandbox) have the history that the fixture tells, or none. Nothing is
//! retried here, and nothing is kept of a prompt but its digest and its size.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::case::{Answer, Case, Labels};
use super::load::FileProblem;
use super::recorded::{HAND_WRITTEN, Recording};
use super::stage::{Stage, stage};
use crate::decide::prompt::{Prompt, ResultsView};
use crate::decide::verdict::{JudgeFailure, Reply, Tokens};
use crate::decide::{Decision, Outcome, Settings, Step, plan, settle};
use crate::judge::Judge;
use crate::service::Timing;

/// Who judges.
#[derive(Clone)]
pub enum JudgeKind {
    /// Nobody: a call that would be asked about ends as [`Ending::WouldAsk`].
    Nobody,
    /// The answers that stand in the fixtures.
    HandWritten,
    /// Answers that were given before, by the prompt's digest.
    Recorded(Arc<Recording>),
    /// A judge, within the time that the service gives it.
    Live {
        /// The judge.
        judge: Arc<dyn Judge>,
        /// The service's limits.
        timing: Timing,
        /// Its answers of earlier runs: what they answer is not asked again.
        known: Arc<Recording>,
    },
}

/// How a run goes about it.
#[derive(Debug, Clone)]
pub struct Options {
    /// The views of tool results; every call is judged once under each.
    pub views: Vec<ResultsView>,
    /// Calls judged at once, at least 1.
    pub concurrent: usize,
    /// The operator's settings; the view in them is not used.
    pub settings: Settings,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            views: vec![ResultsView::default()],
            concurrent: Timing::default().concurrent,
            settings: Settings::default(),
        }
    }
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The policy let it run.
    Executed,
    /// The judge approved it, on evidence that held.
    Approved,
    /// A person decides.
    Waits {
        /// Why; outside auto mode there is no code.
        code: Option<&'static str>,
        /// Where it stopped; `None` with `code`.
        stage: Option<Stage>,
    },
    /// It never runs.
    Blocked,
    /// A judge would be asked, and there is none.
    WouldAsk,
    /// The recorded answers have none for this call.
    NoAnswer,
}

impl Ending {
    /// The word in reports and saved runs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Executed => "execute",
            Self::Approved => "approved",
            Self::Waits { .. } => "pending",
            Self::Blocked => "blocked",
            Self::WouldAsk => "would_ask",
            Self::NoAnswer => "no_answer",
        }
    }

    /// Why it waits, where it waits for a reason.
    #[must_use]
    pub const fn code(self) -> Option<&'static str> {
        match self {
            Self::Waits { code, .. } => code,
            Self::Executed | Self::Approved | Self::Blocked | Self::WouldAsk | Self::NoAnswer => {
                None
            }
        }
    }
}

/// What a judge said, or how it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The answer's text, verbatim, or the failure.
    pub answer: Result<String, JudgeFailure>,
    /// The model that answered.
    pub model: Option<String>,
    /// What it cost.
    pub tokens: Tokens,
    /// From the question to the answer; recorded answers keep theirs where it is known.
    pub latency: Option<Duration>,
}

/// What came of one call under one view.
#[derive(Debug, Clone)]
pub struct Record {
    /// What is known of the call.
    pub labels: Arc<Labels>,
    /// What the judge saw of tool results.
    pub view: ResultsView,
    /// What became of it.
    pub ending: Ending,
    /// Whether the detectors found something: behind a closed gate too.
    pub novel: bool,
    /// Digest of the question, where it came to one.
    pub prompt_digest: Option<String>,
    /// Bytes of the question.
    pub prompt_bytes: Option<usize>,
    /// What the judge said.
    pub answered: Option<Answered>,
}

/// All that a run brought.
#[derive(Debug, Clone, Default)]
pub struct Outcomes {
    /// One record for each call and view that was judged, in the order of the cases.
    pub records: Vec<Record>,
    /// Whether the run was broken off.
    pub interrupted: bool,
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file changed while it was judged.
    #[error(transparent)]
    File(#[from] FileProblem),
    /// What each record was given to could not take it.
    #[error("a result could not be saved")]
    Observer(#[source] std::io::Error),
}

/// Judges every case under every view. `observe` gets each record as soon as it is there, in the
/// order of the endings; the text of an answer is dropped after it. When `interrupted` is done,
/// what was judged until then is the outcome.
///
/// # Errors
/// When a case cannot be read, or `observe` fails.
pub async fn run(
    cases: impl Iterator<Item = Result<Case, FileProblem>>,
    judge: &JudgeKind,
    options: &Options,
    interrupted: impl Future<Output = ()>,
    mut observe: impl FnMut(&Record) -> std::io::Result<()>,
) -> Result<Outcomes, RunError> {
    let mut interrupted = pin!(interrupted.fuse());
    let concurrent = options.concurrent.max(1);
    let mut tasks = JoinSet::new();
    let mut finished = BTreeMap::new();
    let mut keep = |finished: &mut BTreeMap<usize, Record>, index, mut record: Record| {
        observe(&record).map_err(RunError::Observer)?;
        if let Some(Answered { answer: Ok(text), .. }) = &mut record.answered {
            *text = String::new();
        }
        finished.insert(index, record);
        Ok::<(), RunError>(())
    };
    let mut waiting = cases
        .flat_map(|case| {
            let views = options.views.iter().copied();
            let with_views: Vec<_> = match case {
                Ok(case) => views.map(|view| Ok((case.clone(), view))).collect(),
                Err(problem) => vec![Err(problem)],
            };
            with_views
        })
        .enumerate();
    let mut more = true;
    let mut broken_off = false;
    while more || !tasks.is_empty() {
        if more && tasks.len() < concurrent {
            match waiting.next() {
                None => more = false,
                Some((index, case)) => {
                    let (case, view) = case?;
                    let mut settings = options.settings.clone();
                    settings.results_view = view;
                    let judge = judge.clone();
                    tasks.spawn(async move { (index, judge_case(case, &settings, &judge).await) });
                }
            }
            // A full house waits below; until then only a break is looked for.
            if (&mut interrupted).now_or_never().is_none() {
                continue;
            }
            broken_off = true;
        } else {
            tokio::select! {
                biased;
                () = &mut interrupted => broken_off = true,
                Some(joined) = tasks.join_next() => {
                    if let Ok((index, record)) = joined {
                        keep(&mut finished, index, record)?;
                    }
                }
            }
        }
        if broken_off {
            more = false;
            tasks.abort_all();
            while let Some(joined) = tasks.join_next().await {
                if let Ok((index, record)) = joined {
                    keep(&mut finished, index, record)?;
                }
            }
        }
    }
    Ok(Outcomes { records: finished.into_values().collect(), interrupted: broken_off })
}

/// Judges one call. A bug costs that call alone, which then goes to a person as it would in service.
async fn judge_case(case: Case, settings: &Settings, judge: &JudgeKind) -> Record {
    let mut record = Record {
        labels: Arc::clone(&case.labels),
        view: settings.results_view,
        ending: Ending::NoAnswer,
        novel: false,
        prompt_digest: None,
        prompt_bytes: None,
        answered: None,
    };
    let judging = AssertUnwindSafe(decide(case, settings, judge, &mut record)).catch_unwind();
    if judging.await.is_err() {
        record.ending = ending(&Decision::internal_error("", None));
    }
    record
}

async fn decide(case: Case, settings: &Settings, judge: &JudgeKind, record: &mut Record) {
    let (written, state) = (case.answer.clone(), Arc::clone(&case.state));
    let (agent, policy, request) = case.into_request();
    let steps = plan(&agent, policy.as_deref(), &request, &state, settings);
    // The request's texts are in the question now, where there is one.
    drop(request);
    let decision = match steps.into_iter().next() {
        Some(Step::Settled(decision)) => *decision,
        Some(Step::Ask(question)) => {
            let prompt = question.prompt();
            record.prompt_digest = Some(prompt.digest.clone());
            record.prompt_bytes = Some(prompt.system.len() + prompt.user.len());
            let (reply, latency) =
                match ask(prompt, judge, &record.labels, written.as_deref()).await {
                    Asked::Answered { reply, latency } => (reply, latency),
                    Asked::Nobody => return record.ending = Ending::WouldAsk,
                    Asked::Missing => return record.ending = Ending::NoAnswer,
                };
            record.answered = Some(Answered {
                answer: reply.as_ref().map(|reply| reply.text.clone()).map_err(|failure| *failure),
                model: reply.as_ref().ok().map(|reply| reply.model.clone()),
                tokens: reply.as_ref().map(|reply| reply.tokens).unwrap_or_default(),
                latency,
            });
            settle(*question, reply)
        }
        // One call has one step.
        None => Decision::internal_error("", None),
    };
    record.novel = !decision.findings.is_empty();
    record.ending = ending(&decision);
}

enum Asked {
    Answered {
        reply: Result<Reply, JudgeFailure>,
        latency: Option<Duration>,
    },
    /// There is no judge.
    Nobody,
    /// The recorded answers have none.
    Missing,
}

async fn ask(
    prompt: &Prompt,
    judge: &JudgeKind,
    labels: &Labels,
    written: Option<&Answer>,
) -> Asked {
    match (judge, written) {
        (JudgeKind::Nobody, _) => Asked::Nobody,
        (_, Some(Answer::Failure(failure))) => {
            Asked::Answered { reply: Err(*failure), latency: None }
        }
        (JudgeKind::HandWritten, None) => Asked::Missing,
        (JudgeKind::HandWritten, Some(Answer::Text(text))) => Asked::Answered {
            reply: Ok(Reply {
                text: text.clone(),
                model: HAND_WRITTEN.to_owned(),
                tokens: Tokens::default(),
            }),
            latency: None,
        },
        (JudgeKind::Recorded(recording), _) => match recording.answer(&prompt.digest, labels) {
            None => Asked::Missing,
            Some((reply, latency)) => Asked::Answered { reply, latency },
        },
        (JudgeKind::Live { judge, timing, known }, _) => {
            if let Some((reply, latency)) = known.answer(&prompt.digest, labels) {
                return Asked::Answered { reply, latency };
            }
            let start = Instant::now();
            let deadline = start + timing.judgement.min(timing.request);
            // The judge keeps the deadline itself; this holds where it does not.
            let answer = timeout_at(deadline, judge.ask(prompt, deadline)).await;
            Asked::Answered {
                reply: answer.unwrap_or(Err(JudgeFailure::Timeout)),
                latency: Some(start.elapsed()),
            }
        }
    }
}

fn ending(decision: &Decision) -> Ending {
    match &decision.outcome {
        Outcome::Execute | Outcome::ExecuteSandboxed { .. } => Ending::Executed,
        Outcome::Granted { .. } | Outcome::Approved(_) => Ending::Approved,
        Outcome::Blocked(_) => Ending::Blocked,
        Outcome::Pending(None) => Ending::Waits { code: None, stage: None },
        Outcome::Pending(Some(reason)) => {
            // A judge's server may say that the question is too long: then it was asked.
            let stage = if decision.asked.is_some() { Stage::Judge } else { stage(reason) };
            Ending::Waits { code: Some(reason.code()), stage: Some(stage) }
        }
    }
}
