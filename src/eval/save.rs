//! Saved runs: JSON lines, a header first, then one line a call, each written through at once, so
//! that a run that breaks keeps what it paid for.
//!
//! A saved run holds the judge's answers, and answers quote conversations: it is as confidential as
//! the conversations are. `fixtures/README.md` describes the format for readers.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::run::{Answered, JudgeKind, Record};
use super::sample::Sample;
use crate::decide::prompt::{self, ResultsView};
use crate::decide::verdict::{JudgeFailure, Tokens};

/// The format's name, in the header of every saved run.
pub(super) const FORMAT: &str = "approver-eval-run";
/// The format's version: raised when a reader of the one before would misread it.
pub(super) const FORMAT_VERSION: u32 = 1;

/// The first line of a saved run: what its results depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// `approver-eval-run`.
    pub format: String,
    /// The format's version.
    pub version: u32,
    /// The product's version.
    pub product: String,
    /// The prompt's version.
    pub prompt_version: String,
    /// Digest of the prompt's own text.
    pub prompt_digest: String,
    /// The detectors' version.
    pub detectors: String,
    /// `none`, `hand_written`, `recorded` or `live`.
    pub judge: String,
    /// The model's name as configured, for a live judge.
    pub model: Option<String>,
    /// Digest of all lists that the cases bring along.
    pub lists: String,
    /// The views of tool results, by name.
    pub views: Vec<String>,
    /// Which part of the suites was judged; null for all of them.
    #[serde(default)]
    pub sample: Option<Sample>,
}

impl Header {
    /// The header of a run by this version of the product.
    #[must_use]
    pub fn new(judge: &JudgeKind, views: &[ResultsView], lists_digest: &str) -> Self {
        let (word, model) = match judge {
            JudgeKind::Nobody => ("none", None),
            JudgeKind::HandWritten => ("hand_written", None),
            JudgeKind::Recorded(_) => ("recorded", None),
            JudgeKind::Live { judge, .. } => ("live", Some(judge.model().to_owned())),
        };
        Self {
            format: FORMAT.to_owned(),
            version: FORMAT_VERSION,
            product: env!("CARGO_PKG_VERSION").to_owned(),
            prompt_version: prompt::VERSION.to_owned(),
            prompt_digest: prompt::text_digest(),
            detectors: crate::decide::novelty::VERSION.to_owned(),
            judge: word.to_owned(),
            model,
            lists: lists_digest.to_owned(),
            views: views.iter().map(|view| view_word(*view).to_owned()).collect(),
            sample: None,
        }
    }

    /// The same for a run that judges a sample, or everything.
    #[must_use]
    pub fn of_sample(self, sample: Option<Sample>) -> Self {
        Self { sample, ..self }
    }
}

/// The view's name in options, reports and saved runs.
pub(super) const fn view_word(view: ResultsView) -> &'static str {
    match view {
        ResultsView::Excerpt => "excerpt",
        ResultsView::Provenance => "provenance",
        ResultsView::Text => "text",
    }
}

/// One call of a saved run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub(super) suite: String,
    pub(super) fixture: String,
    pub(super) call: String,
    pub(super) view: String,
    /// `execute`, `approved`, `pending`, `blocked`, `would_ask` or `no_answer`.
    pub(super) outcome: String,
    /// The reason's code, where the call waits for one.
    pub(super) code: Option<String>,
    /// SHA-256 of the question, where it came to one.
    pub(super) prompt_digest: Option<String>,
    /// The answer's text, where there was one.
    pub(super) answer: Option<String>,
    /// Why there was none.
    pub(super) failure: Option<String>,
    pub(super) model: Option<String>,
    pub(super) tokens_in: Option<u64>,
    pub(super) tokens_out: Option<u64>,
    pub(super) tokens_cached: Option<u64>,
    pub(super) latency_ms: Option<f64>,
}

impl Line {
    fn new(record: &Record) -> Self {
        let labels = &record.labels;
        let answered = record.answered.as_ref();
        let tokens = answered.map_or_else(Tokens::default, |answered| answered.tokens);
        let (answer, failure) = match answered.map(|answered| &answered.answer) {
            Some(Ok(text)) => (Some(text.clone()), None),
            Some(Err(failure)) => (None, Some(failure_word(*failure).to_owned())),
            None => (None, None),
        };
        let latency = answered.and_then(|answered| answered.latency);
        Self {
            suite: labels.suite.to_string(),
            fixture: labels.fixture.to_string(),
            call: labels.call.clone(),
            view: view_word(record.view).to_owned(),
            outcome: record.ending.as_str().to_owned(),
            code: record.ending.code().map(str::to_owned),
            prompt_digest: record.prompt_digest.clone(),
            answer,
            failure,
            model: answered.and_then(|answered: &Answered| answered.model.clone()),
            tokens_in: tokens.input,
            tokens_out: tokens.output,
            tokens_cached: tokens.cached,
            latency_ms: latency.map(|latency| latency.as_secs_f64() * 1_000.0),
        }
    }
}

/// Writes a saved run.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Begins a saved run with its header.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(out: W, header: &Header) -> io::Result<Self> {
        let mut writer = Self { out };
        writer.line(header)?;
        Ok(writer)
    }

    /// Writes what came of one call, through to the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn record(&mut self, record: &Record) -> io::Result<()> {
        self.line(&Line::new(record))
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.out.write_all(&line)?;
        self.out.flush()
    }
}

const FAILURES: [JudgeFailure; 12] = [
    JudgeFailure::NotConfigured,
    JudgeFailure::SwitchedOff,
    JudgeFailure::BreakerOpen,
    JudgeFailure::Timeout,
    JudgeFailure::Connection,
    JudgeFailure::ServerError,
    JudgeFailure::Rejected,
    JudgeFailure::RateLimited,
    JudgeFailure::Refused,
    JudgeFailure::PromptTooLong,
    JudgeFailure::Truncated,
    JudgeFailure::Malformed,
];

/// The failure's name in saved runs.
pub(super) const fn failure_word(failure: JudgeFailure) -> &'static str {
    match failure {
        JudgeFailure::NotConfigured => "not_configured",
        JudgeFailure::SwitchedOff => "switched_off",
        JudgeFailure::BreakerOpen => "breaker_open",
        JudgeFailure::Timeout => "timeout",
        JudgeFailure::Connection => "connection",
        JudgeFailure::ServerError => "server_error",
        JudgeFailure::Rejected => "rejected",
        JudgeFailure::RateLimited => "rate_limited",
        JudgeFailure::Refused => "refused",
        JudgeFailure::PromptTooLong => "prompt_too_long",
        JudgeFailure::Truncated => "truncated",
        JudgeFailure::Malformed => "malformed",
    }
}

/// The failure of that name.
pub(super) fn failure_of_word(word: &str) -> Option<JudgeFailure> {
    FAILURES.into_iter().find(|failure| failure_word(*failure) == word)
}
