//! A report for a person at a terminal: the verdict, why, on what evidence, and where each argument
//! came from. Whatever others wrote is shown on one line with hidden characters as escapes, so that
//! nothing of it can move the cursor or pass for our own words.

use std::fmt::Write as _;

use crate::decide::text::{head, shown};
use crate::host::report::{CallReport, ProvenanceReport, Report};

/// Bytes of a foreign text on one line.
const LINE_LIMIT: usize = 200;

/// What a terminal shows of a call beside the report: its tool and arguments, as sent.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The tool's name.
    pub tool: String,
    /// The arguments' text.
    pub arguments: String,
}

/// The report as text; `calls` stand in the report's order. With `colour` the verdicts are coloured
/// (ANSI).
#[must_use]
pub fn render(report: &Report, calls: &[Shown], colour: bool) -> String {
    let mut text = format!("mode {}\n", report.conversation_mode);
    for (result, call) in report.results.iter().zip(calls) {
        text.push('\n');
        render_call(result, call, colour, &mut text);
    }
    text
}

fn render_call(result: &CallReport, call: &Shown, colour: bool, text: &mut String) {
    let class = result.class.unwrap_or("no class");
    line(text, &format!("{} ({class}) {}", one_line(&call.tool), one_line(&call.arguments)));
    let verdict = verdict(result);
    let (before, after) = match (colour, result.outcome) {
        (false, _) => ("", ""),
        (true, "approved" | "execute") => ("\u{1b}[1;32m", "\u{1b}[0m"),
        (true, "blocked") => ("\u{1b}[1;31m", "\u{1b}[0m"),
        (true, _) => ("\u{1b}[1;33m", "\u{1b}[0m"),
    };
    line(text, &format!("  {before}{verdict}{after}"));
    if let Some(explanation) = &result.explanation {
        field(text, "reason", explanation);
    }
    for evidence in &result.evidence {
        let covers: Vec<String> = evidence.covers.iter().map(|pointer| covered(pointer)).collect();
        let place = match evidence.source {
            "instructions" => "instructions".to_owned(),
            source => format!("{source} {}", evidence.index),
        };
        let quote = one_line(&evidence.quote);
        field(text, "evidence", &format!("{place} “{quote}” for {}", covers.join(", ")));
    }
    for finding in result.findings.iter().skip(usize::from(is_novelty(result))) {
        field(text, "found", &finding.sentence);
    }
    for argument in &result.provenance {
        let place = place(argument);
        field(text, "argument", &format!("{} {place}", one_line(&argument.pointer)));
    }
    if let Some(model) = &result.model {
        let seconds = result.latency_ms as f64 / 1000.0;
        field(text, "judge", &format!("{} in {seconds:.1} s{}", one_line(model), tokens(result)));
    }
}

/// The first finding stands in the reason already.
fn is_novelty(result: &CallReport) -> bool {
    result.pause_reason == Some(Some("novel_argument"))
}

fn verdict(result: &CallReport) -> String {
    match (result.outcome, result.decided_by.as_deref(), result.pause_reason.flatten()) {
        ("execute", ..) if result.approval_route.is_some() => "RUNS in the offline sandbox".into(),
        ("execute", ..) => "RUNS, the policy allows it".into(),
        ("approved", Some(decider), _) => format!("APPROVED by {}", one_line(decider)),
        ("blocked", ..) => "BLOCKED".into(),
        (_, _, Some(code)) => format!("WAITS for a person: {code}"),
        (_, _, None) => "WAITS for a person".into(),
    }
}

fn covered(pointer: &str) -> String {
    if pointer.is_empty() { "the call".to_owned() } else { one_line(pointer) }
}

fn place(argument: &ProvenanceReport) -> String {
    match (argument.source, argument.index, argument.tool.as_deref()) {
        ("nowhere", ..) => "stands nowhere before".to_owned(),
        ("untraced", ..) => "is not traced".to_owned(),
        ("result", Some(number), tool) => {
            format!("first in result {number} of {}", one_line(tool.unwrap_or_default()))
        }
        ("pasted", Some(number), _) => format!("first in pasted text of user {number}"),
        (source, Some(number), _) => format!("first in {source} {number}"),
        (source, None, _) => format!("first in the {source}"),
    }
}

fn tokens(result: &CallReport) -> String {
    let Some(tokens) = result.tokens else { return String::new() };
    let count =
        |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
    let (input, output, cached) = (count(tokens.input), count(tokens.output), count(tokens.cached));
    format!(", {input} tokens in ({cached} cached), {output} out")
}

fn one_line(foreign: &str) -> String {
    let line = shown(foreign);
    let short = head(&line, LINE_LIMIT);
    if short.len() < line.len() { format!("{short}…") } else { line }
}

fn field(text: &mut String, name: &str, value: &str) {
    line(text, &format!("    {name:<9} {value}"));
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}
