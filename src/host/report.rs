//! The answer of `approver judge`: what becomes of each call, and what is known about it. There is
//! no id, no hmac and no deadline in it, because nothing is recorded.

use std::time::Duration;

use serde::Serialize;

use crate::decide::novelty::{Finding, Resemblance};
use crate::decide::policy::Mode;
use crate::decide::provenance::FirstSeen;
use crate::decide::reason::Reason;
use crate::decide::verdict::{Evidence, Source};
use crate::decide::{BlockedBy, Decision, Outcome, Traced};

/// The decider named on what the judge approved: a value with a colon is a machine.
pub const AUTOMATIC_APPROVER: &str = "auto:approver";

/// Decisions about all calls of a request.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The mode that the request ran in: `plan`, `ask` or `auto`.
    pub conversation_mode: &'static str,
    /// One result a call, in call order.
    pub results: Vec<CallReport>,
}

/// The decision about one call.
#[derive(Debug, Clone, Serialize)]
pub struct CallReport {
    /// The caller's name for the call.
    pub call_id: String,
    /// `execute`, `approved`, `pending` or `blocked`.
    pub outcome: &'static str,
    /// `read`, `write`, `destructive`, or null for a tool without a class.
    pub class: Option<&'static str>,
    /// Who approved: `auto:approver`, or `grant:` and an approval's id.
    pub decided_by: Option<String>,
    /// Why the call waits, as a stable code; null when it does not. Absent outside auto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<Option<&'static str>>,
    /// One sentence: the judge's for an approval, ours for a pause; null where the code says it all.
    pub reason: Option<String>,
    /// The reason's sentence for a page or a terminal, also where the wire has the code alone.
    #[serde(skip)]
    pub explanation: Option<String>,
    /// `sandbox_offline` for a call of the offline sandbox, else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_route: Option<&'static str>,
    /// Seconds after which the offline sandbox ends the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// For a blocked call: the tool output that the model gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The quotes that authorise an approved call, checked.
    pub evidence: Vec<EvidenceReport>,
    /// What the detectors found.
    pub findings: Vec<FindingReport>,
    /// Where each argument was first seen.
    pub provenance: Vec<ProvenanceReport>,
    /// SHA-256 of the question; null when nobody was asked.
    pub prompt_digest: Option<String>,
    /// The model that answered, by its own name.
    pub model: Option<String>,
    /// Tokens as the server counted them; null when nobody was asked.
    pub tokens: Option<TokensReport>,
    /// Milliseconds from the request's start to this decision.
    pub latency_ms: u64,
}

/// A quote and what it covers.
#[derive(Debug, Clone, Serialize)]
pub struct EvidenceReport {
    /// `user`, `instructions` or `allow`.
    pub source: &'static str,
    /// The source's number, from 1.
    pub index: usize,
    /// The quote.
    pub quote: String,
    /// JSON pointers of arguments; the empty pointer is the call as such.
    pub covers: Vec<String>,
}

/// A novel item.
#[derive(Debug, Clone, Serialize)]
pub struct FindingReport {
    /// The kind of item.
    pub kind: &'static str,
    /// Its canonical form.
    pub item: String,
    /// JSON pointer of the argument.
    pub pointer: String,
    /// The item as it stands there.
    pub found: String,
    /// The known item that it resembles or whose host it shares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resembles: Option<String>,
    /// The finding as one sentence.
    pub sentence: String,
}

/// Where an argument was first seen.
#[derive(Debug, Clone, Serialize)]
pub struct ProvenanceReport {
    /// JSON pointer of the argument.
    pub pointer: String,
    /// `user`, `pasted` (text that a person pasted into a message), `instructions`, `environment`,
    /// `allow`, `soft_deny`, `result`, `nowhere`, or `untraced` for what is not looked for.
    pub source: &'static str,
    /// The source's number, from 1, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// For a result: the tool that gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// Tokens of one question.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct TokensReport {
    /// Of the prompt, cached ones included.
    pub input: Option<u64>,
    /// Of the answer.
    pub output: Option<u64>,
    /// Of the prompt, from the server's prefix cache.
    pub cached: Option<u64>,
}

impl Report {
    /// The report about a request that ran in `mode`: its decisions in call order, and how long
    /// each took from the request's start.
    #[must_use]
    pub fn new(mode: Mode, decisions: impl IntoIterator<Item = (Decision, Duration)>) -> Self {
        let results = decisions
            .into_iter()
            .map(|(decision, latency)| CallReport::new(mode, decision, latency))
            .collect();
        Self { conversation_mode: mode.as_str(), results }
    }
}

impl CallReport {
    fn new(mode: Mode, decision: Decision, latency: Duration) -> Self {
        let latency_ms = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
        let Decision { call_id, outcome, class, findings, provenance, asked } = decision;
        let waits = match &outcome {
            Outcome::Pending(Some(reason)) => Some(reason.code()),
            Outcome::Pending(None)
            | Outcome::Execute
            | Outcome::ExecuteSandboxed { .. }
            | Outcome::Granted { .. }
            | Outcome::Approved(_)
            | Outcome::Blocked(_) => None,
        };
        let mut report = Self {
            call_id,
            outcome: "pending",
            class: class.map(|class| class.as_str()),
            decided_by: None,
            pause_reason: (mode == Mode::Auto).then_some(waits),
            reason: None,
            explanation: None,
            approval_route: None,
            timeout_seconds: None,
            output: None,
            evidence: Vec::new(),
            findings: findings.iter().map(FindingReport::new).collect(),
            provenance: provenance.into_iter().map(ProvenanceReport::new).collect(),
            prompt_digest: None,
            model: None,
            tokens: None,
            latency_ms,
        };
        if let Some(asked) = asked {
            let (input, output, cached) =
                (asked.tokens.input, asked.tokens.output, asked.tokens.cached);
            report.prompt_digest = Some(asked.prompt_digest);
            report.model = asked.model;
            report.tokens = Some(TokensReport { input, output, cached });
        }
        report.set_outcome(outcome);
        report
    }

    fn set_outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Execute => self.outcome = "execute",
            Outcome::ExecuteSandboxed { timeout_seconds } => {
                self.outcome = "execute";
                self.approval_route = Some("sandbox_offline");
                self.timeout_seconds = Some(timeout_seconds);
            }
            Outcome::Granted { approval_id } => {
                self.outcome = "approved";
                self.decided_by = Some(format!("grant:{approval_id}"));
            }
            Outcome::Approved(approval) => {
                self.outcome = "approved";
                self.decided_by = Some(AUTOMATIC_APPROVER.to_owned());
                self.reason = Some(approval.reason().to_owned());
                self.explanation = self.reason.clone();
                self.evidence = approval.evidence().iter().map(EvidenceReport::new).collect();
            }
            Outcome::Pending(reason) => {
                self.reason = reason.as_ref().and_then(wire_reason);
                self.explanation = reason.as_ref().map(Reason::sentence);
            }
            Outcome::Blocked(by) => {
                self.outcome = "blocked";
                self.output = Some(blocked_output(by));
            }
        }
    }
}

/// The sentence that goes on the wire: a gate's code stands alone there.
#[must_use]
pub fn wire_reason(reason: &Reason) -> Option<String> {
    (!reason.is_gate()).then(|| reason.sentence())
}

/// What the model gets in place of a blocked call's result. A mode is named only where another mode
/// would help.
#[must_use]
pub fn blocked_output(by: BlockedBy) -> String {
    match by {
        BlockedBy::Policy => serde_json::json!({"error": "blocked_by_policy"}).to_string(),
        BlockedBy::Mode(mode) => {
            serde_json::json!({"error": "blocked_by_policy", "mode": mode.as_str()}).to_string()
        }
    }
}

impl EvidenceReport {
    /// A quote that code found in its source.
    #[must_use]
    pub fn new(evidence: &Evidence) -> Self {
        let source = match evidence.source {
            Source::User => "user",
            Source::Instructions => "instructions",
            Source::Allow => "allow",
        };
        let Evidence { index, quote, covers, .. } = evidence.clone();
        Self { source, index, quote, covers }
    }
}

impl FindingReport {
    fn new(finding: &Finding) -> Self {
        let resembles = finding.resembles.as_ref().map(|resemblance| match resemblance {
            Resemblance::HostKnown(known) | Resemblance::LookAlike(known) => known.clone(),
        });
        let Finding { item, pointer, found, .. } = finding.clone();
        let (kind, sentence) = (finding.kind.code(), finding.sentence());
        Self { kind, item, pointer, found, resembles, sentence }
    }
}

impl ProvenanceReport {
    /// Where an argument was first seen.
    #[must_use]
    pub fn new(traced: Traced) -> Self {
        let (source, index, tool) = match traced.first_seen {
            FirstSeen::User(number) => ("user", Some(number), None),
            FirstSeen::Pasted(number) => ("pasted", Some(number), None),
            FirstSeen::Instructions => ("instructions", None, None),
            FirstSeen::Environment(number) => ("environment", Some(number), None),
            FirstSeen::Allow(number) => ("allow", Some(number), None),
            FirstSeen::SoftDeny(number) => ("soft_deny", Some(number), None),
            FirstSeen::Result { number, tool, .. } => ("result", Some(number), Some(tool)),
            FirstSeen::Nowhere => ("nowhere", None, None),
            FirstSeen::Untraced => ("untraced", None, None),
        };
        Self { pointer: traced.pointer, source, index, tool }
    }
}
