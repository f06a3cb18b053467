//! What Prometheus reads. Labels are words of ours: no id, no name that somebody else chose, no
//! organisation.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::events::EventCounts;
use super::{Judged, Refusal, Service};
use crate::decide::Outcome;
use crate::decide::prompt::Cuts;
use crate::decide::reason::Reason;
use crate::decide::verdict::Tokens;
use crate::judge::breaker::{Breaker, Position};
use crate::store::{Pending, Status, Timestamp};

/// Upper bounds of a judgement's time, in seconds.
const JUDGE_SECONDS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// Upper bounds of a request's time, in seconds; a long poll takes half a minute.
const HTTP_SECONDS: [f64; 9] = [0.005, 0.02, 0.1, 0.5, 1.0, 4.0, 10.0, 30.0, 60.0];

/// All metrics of a process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    judgements: Family<JudgementLabels, Counter>,
    judge_seconds: Histogram,
    tokens: Family<TokenLabels, Counter>,
    cuts: Family<CutLabels, Counter>,
    decisions: Family<DecisionLabels, Counter>,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Histogram,
    events_dropped: Counter,
    pending: Gauge,
    oldest_pending_seconds: Gauge,
    breaker_open: Gauge,
    breaker: OnceLock<Arc<Breaker>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct JudgementLabels {
    outcome: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CutLabels {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    decision: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: Word,
    status: u16,
}

/// A word of a bounded list that is not known at build time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Word(String);

impl EncodeLabelValue for Word {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.as_str().encode(encoder)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("approver"),
            judgements: Family::default(),
            judge_seconds: Histogram::new(JUDGE_SECONDS),
            tokens: Family::default(),
            cuts: Family::default(),
            decisions: Family::default(),
            requests: Family::default(),
            request_seconds: Histogram::new(HTTP_SECONDS),
            events_dropped: Counter::default(),
            pending: Gauge::default(),
            oldest_pending_seconds: Gauge::default(),
            breaker_open: Gauge::default(),
            breaker: OnceLock::new(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let Self {
            registry,
            judgements,
            judge_seconds,
            tokens,
            cuts,
            decisions,
            requests,
            request_seconds,
            events_dropped,
            pending,
            oldest_pending_seconds,
            breaker_open,
            breaker: _,
        } = self;
        registry.register(
            "judgements",
            "Calls by outcome, and by pause reason where they wait",
            judgements.clone(),
        );
        registry.register(
            "judge_seconds",
            "From a request's arrival to the decision about a call that the judge was asked about",
            judge_seconds.clone(),
        );
        registry.register(
            "judge_tokens",
            "Tokens as the judge's server counts them; `input` includes `cached`",
            tokens.clone(),
        );
        registry.register("prompt_cuts", "What was left out of questions", cuts.clone());
        registry.register(
            "tool_approval_decisions",
            "Approvals that ended: a person approved or rejected them, or they were cancelled or \
             expired",
            decisions.clone(),
        );
        registry.register("http_requests", "Answered requests by route", requests.clone());
        registry.register("http_request_seconds", "Time to an answer", request_seconds.clone());
        registry.register(
            "events_dropped",
            "Events that nobody was told of",
            events_dropped.clone(),
        );
        registry.register(
            "pending_approvals",
            "Approvals that wait for a person, on all replicas",
            pending.clone(),
        );
        registry.register(
            "oldest_pending_approval_seconds",
            "How long the oldest of them waits; 0 when none does",
            oldest_pending_seconds.clone(),
        );
        registry.register(
            "judge_breaker_open",
            "1 while the circuit breaker keeps questions from the judge",
            breaker_open.clone(),
        );
    }

    /// Counts a call's judgement, once, when it is recorded. A repeat is not counted.
    pub fn judged(&self, counted: &Counted) {
        let Counted { outcome, reason, latency, asked } = *counted;
        self.judgements.get_or_create(&JudgementLabels { outcome, reason }).inc();
        let Some((tokens, cuts)) = asked else { return };
        self.judge_seconds.observe(latency.as_secs_f64());
        for (kind, count) in
            [("input", tokens.input), ("output", tokens.output), ("cached", tokens.cached)]
        {
            self.tokens.get_or_create(&TokenLabels { kind }).inc_by(count.unwrap_or_default());
        }
        for (kind, count) in [
            ("shortened_items", cuts.shortened),
            ("dropped_items", cuts.dropped),
            ("characters", cuts.characters),
        ] {
            self.cuts.get_or_create(&CutLabels { kind }).inc_by(count as u64);
        }
    }

    /// Counts an approval that ended as `status` after it waited. A pending one has not ended.
    pub fn decided(&self, status: Status) {
        if status != Status::Pending {
            let decision = status.as_str();
            self.decisions.get_or_create(&DecisionLabels { decision }).inc();
        }
    }

    /// Counts an answered request. `method` is one of those that HTTP registers, or `other`; `route`
    /// is the router's template, never a path.
    pub fn answered(&self, method: &'static str, route: &str, status: u16, time: Duration) {
        let labels = RequestLabels { method, route: Word(route.to_owned()), status };
        self.requests.get_or_create(&labels).inc();
        self.request_seconds.observe(time.as_secs_f64());
    }

    /// From now on the judge's breaker is shown. The first one counts.
    pub fn watch_breaker(&self, breaker: Arc<Breaker>) {
        // A process has one judge; a second call would be a bug that shows nothing worse.
        let _first = self.breaker.set(breaker);
    }

    /// Whether the judge's breaker lets no question through.
    #[must_use]
    pub fn is_breaker_open(&self) -> bool {
        let position =
            self.breaker.get().map(|breaker| breaker.position(tokio::time::Instant::now()));
        position == Some(Position::Open)
    }

    /// Prometheus' text format.
    fn text(&self, pending: Pending, now: Timestamp, events: EventCounts) -> String {
        let Pending { count, oldest } = pending;
        self.pending.set(i64::try_from(count).unwrap_or(i64::MAX));
        let since = |oldest: Timestamp| now.unix_millis().saturating_sub(oldest.unix_millis());
        // Another replica's clock may be ahead of this one.
        self.oldest_pending_seconds.set(oldest.map_or(0, since).max(0) / 1_000);
        let dropped = events.dropped.saturating_add(events.failed);
        self.events_dropped.inner().store(dropped, Ordering::Relaxed);
        self.breaker_open.set(i64::from(self.is_breaker_open()));
        let mut text = String::new();
        // Writing into a string does not fail.
        let _written = encode(&mut text, &self.registry);
        text
    }
}

/// What is counted of a call's judgement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counted {
    outcome: &'static str,
    reason: &'static str,
    latency: Duration,
    asked: Option<(Tokens, Cuts)>,
}

impl Counted {
    /// Outcome and pause reason (outside auto a pause has none), and what the question cost.
    #[must_use]
    pub fn of(judged: &Judged) -> Self {
        let Judged { decision, latency } = judged;
        let (outcome, reason) = match &decision.outcome {
            Outcome::Execute => ("execute", ""),
            Outcome::ExecuteSandboxed { .. } => ("execute_sandboxed", ""),
            Outcome::Granted { .. } => ("granted", ""),
            Outcome::Approved(_) => ("approved", ""),
            Outcome::Pending(reason) => ("pending", reason.as_ref().map_or("", Reason::code)),
            Outcome::Blocked(_) => ("blocked", ""),
        };
        let asked = decision.asked.as_ref().map(|asked| (asked.tokens, asked.cuts));
        Self { outcome, reason, latency: *latency, asked }
    }

    /// The same when what was recorded is that an approval waits, because recording it failed first.
    #[must_use]
    pub fn once_more(self) -> Self {
        match self.outcome {
            "approved" | "granted" | "pending" => {
                Self { outcome: "pending", reason: Reason::NotRecorded.code(), ..self }
            }
            _ => self,
        }
    }
}

impl Service {
    /// All metrics in Prometheus' text format.
    ///
    /// # Errors
    /// The store, which counts what waits, cannot be reached.
    pub async fn metrics_text(&self) -> Result<String, Refusal> {
        let pending = self.store.pending().await?;
        Ok(self.metrics.text(pending, self.now(), self.events.counts()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::{Asked, Decision};

    #[test]
    fn what_was_counted_is_shown() {
        let metrics = Metrics::default();
        let decision = Decision {
            outcome: Outcome::Pending(Some(Reason::JudgeTimeout)),
            asked: Some(Asked {
                prompt_digest: "PLANTED".to_owned(),
                model: Some("PLANTED".to_owned()),
                tokens: Tokens { input: Some(70), output: Some(8), cached: Some(60) },
                cuts: Cuts { shortened: 2, dropped: 1, characters: 900 },
            }),
            ..Decision::internal_error("PLANTED", None)
        };
        let judged = Judged { decision, latency: Duration::from_millis(300) };
        metrics.judged(&Counted::of(&judged));
        metrics.judged(&Counted::of(&judged));
        metrics.judged(&Counted::of(&judged).once_more());
        metrics.decided(Status::Approved);
        metrics.decided(Status::Pending);
        metrics.answered("GET", "/healthz", 200, Duration::from_millis(1));
        metrics.answered("other", "/healthz", 405, Duration::from_millis(1));
        let now = Timestamp::from_unix_millis(100_999);
        let oldest = Some(Timestamp::from_unix_millis(30_000));
        let counts = EventCounts { delivered: 5, failed: 0, dropped: 1 };
        let text = metrics.text(Pending { count: 3, oldest }, now, counts);
        for line in [
            "approver_judgements_total{outcome=\"pending\",reason=\"judge_timeout\"} 2",
            "approver_judgements_total{outcome=\"pending\",reason=\"not_recorded\"} 1",
            "approver_judge_seconds_bucket{le=\"0.25\"} 0",
            "approver_judge_seconds_bucket{le=\"0.5\"} 3",
            "approver_judge_tokens_total{kind=\"input\"} 210",
            "approver_judge_tokens_total{kind=\"cached\"} 180",
            "approver_prompt_cuts_total{kind=\"characters\"} 2700",
            "approver_tool_approval_decisions_total{decision=\"approved\"} 1",
            "approver_http_requests_total{method=\"GET\",route=\"/healthz\",status=\"200\"} 1",
            "approver_http_requests_total{method=\"other\",route=\"/healthz\",status=\"405\"} 1",
            "approver_events_dropped_total 1",
            "approver_pending_approvals 3",
            "approver_oldest_pending_approval_seconds 70",
            "approver_judge_breaker_open 0",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
        assert!(!text.contains("PLANTED") && !text.contains("decision=\"pending\""), "{text}");
    }

    #[test]
    fn nothing_that_waits_has_no_age() {
        let now = Timestamp::from_unix_millis(100_000);
        let ahead = Some(Timestamp::from_unix_millis(100_001));
        for pending in [Pending::default(), Pending { count: 1, oldest: ahead }] {
            let text = Metrics::default().text(pending, now, EventCounts::default());
            let line = "approver_oldest_pending_approval_seconds 0";
            assert!(text.lines().any(|shown| shown == line), "{text}");
        }
    }

    #[test]
    fn an_open_breaker_is_shown() {
        let metrics = Metrics::default();
        metrics.watch_breaker(Arc::default());
        assert!(!metrics.is_breaker_open());
    }
}
