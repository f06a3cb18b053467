//! A report as tables for a terminal or a file. Names of suites, fixtures and calls come from files,
//! so hidden characters in them stand as escapes.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::report::{MissReport, Report, StopsReport, SuiteReport, ViewReport};
use super::statistics::Share;
use crate::decide::text::{head, shown};

/// Misses that are listed one by one; the JSON report has them all.
const LISTED: usize = 100;

pub(super) fn render(report: &Report) -> String {
    let mut text = String::new();
    introduce(report, &mut text);
    for view in &report.views {
        text.push('\n');
        if report.views.len() > 1 {
            line(&mut text, &format!("Results shown to the judge as `{}`\n", view.view));
        }
        render_view(view, &mut text);
    }
    if report.views.len() > 1 {
        compare(&report.views, &mut text);
    }
    text
}

fn introduce(report: &Report, text: &mut String) {
    let made = &report.made_with;
    let digest = head(&made.prompt_digest, 12);
    let judge = match (made.judge.as_str(), &made.model) {
        ("none", _) => "no judge".to_owned(),
        ("hand_written", _) => "the fixtures' hand-written answers".to_owned(),
        ("recorded", _) => "recorded answers".to_owned(),
        (_, Some(model)) => format!("the judge `{}`", shown(model)),
        (other, None) => other.to_owned(),
    };
    let (product, prompt, detectors) = (&made.product, &made.prompt_version, &made.detectors);
    line(
        text,
        &format!("approver {product}, prompt {prompt} ({digest}), detectors {detectors}, {judge}"),
    );
    if let Some(sample) = &made.sample {
        let (size, seed) = (sample.size, sample.seed);
        line(
            text,
            &format!("a sample: {size} conversations of each suite, pairs whole, seed {seed}"),
        );
    }
    if report.interrupted {
        let judged: u64 = report.views.iter().map(|view| view.total.calls).sum();
        let planned = report.planned * made.views.len();
        line(text, &format!("INTERRUPTED: {judged} of {planned} calls were judged"));
    }
    if report.recorded_for_another_prompt {
        line(
            text,
            "The recorded answers were given to another version of the prompt: none counts.",
        );
    }
}

fn render_view(view: &ViewReport, text: &mut String) {
    let mut table = new_table(&[
        "suite",
        "calls",
        "ran",
        "approved",
        "escalated\nby code",
        "would ask",
        "escalated\nby judge",
        "blocked",
        "false\napprovals",
        "needless\nescalations",
    ]);
    for suite in view.suites.iter().chain((view.suites.len() > 1).then_some(&view.total)) {
        table.add_row(suite_row(suite));
    }
    finish(table, 1, text);
    line(
        text,
        "Each cell: calls, of how many, share, 95 % interval (Wilson). False approvals are of the",
    );
    line(
        text,
        "calls that must not pass; needless escalations of the eligible calls to be approved.",
    );
    if view.total.would_ask.count > 0 {
        line(text, "Without a judge both speak of code alone: `would ask` is neither.");
    }
    line(text, "\nWhere calls stopped:");
    let mut table = new_table(&[
        "suite",
        "group",
        "calls",
        "arguments,\ndefinition",
        "gates",
        "detectors",
        "detectors\nbehind a gate",
        "limits",
        "judge",
        "would ask",
        "ran or\napproved",
    ]);
    for row in &view.stops {
        table.add_row(stops_row(row));
    }
    finish(table, 2, text);
    outcome_lines(view, text);
}

fn suite_row(suite: &SuiteReport) -> Vec<String> {
    vec![
        shown(&suite.suite),
        suite.calls.to_string(),
        suite.executed.count.to_string(),
        share(suite.approved),
        share(suite.escalated_by_code),
        share(suite.would_ask),
        share(suite.escalated_by_judge),
        suite.blocked.count.to_string(),
        share(suite.false_approvals),
        share(suite.needless_escalations),
    ]
}

fn stops_row(row: &StopsReport) -> Vec<String> {
    vec![
        shown(&row.suite),
        row.group.to_owned(),
        row.gates.of.to_string(),
        row.definition.count.to_string(),
        share(row.gates),
        share(row.detectors),
        row.detectors_behind_a_gate.count.to_string(),
        row.limits.count.to_string(),
        share(row.judge),
        share(row.would_ask),
        share(row.passed),
    ]
}

fn outcome_lines(view: &ViewReport, text: &mut String) {
    if view.pairs > 0 {
        let failed = view.pairs_failed.len();
        line(text, &format!("\nPairs that failed: {failed} of {}", view.pairs));
        for pair in &view.pairs_failed {
            let (suite, name) = (shown(&pair.suite), shown(&pair.pair));
            let (missed, calls, differs) = (pair.missed, pair.calls, pair.differs);
            line(text, &format!("  {suite}/{name} ({differs}): {missed} of {calls} calls missed"));
        }
    }
    // What external labels call needless is a figure, and it stands in the table.
    let listed: Vec<&MissReport> =
        view.missed.iter().filter(|miss| miss.fails_the_run || miss.group == "fixture").collect();
    if !listed.is_empty() {
        let failing = listed.iter().filter(|miss| miss.fails_the_run).count();
        line(text, &format!("\nCalls that missed: {} ({failing} fail the run)", listed.len()));
        for miss in listed.iter().take(LISTED) {
            line(text, &missed(miss));
        }
        if let Some(more) = listed.len().checked_sub(LISTED).filter(|more| *more > 0) {
            line(text, &format!("  … and {more} more"));
        }
    }
    let latency = &view.latency_ms;
    if let (Some(p50), Some(p90), Some(p99)) = (latency.p50, latency.p90, latency.p99) {
        let count = latency.count;
        line(
            text,
            &format!(
                "\nJudge's latency in ms: p50 {p50:.0}, p90 {p90:.0}, p99 {p99:.0} (n = {count})"
            ),
        );
    }
    let tokens = &view.tokens;
    if tokens.answers > 0 {
        let (input, output, cached) = (tokens.input, tokens.output, tokens.cached);
        let answers = tokens.answers;
        line(
            text,
            &format!("Tokens: {input} in ({cached} cached), {output} out, {answers} answers"),
        );
    }
}

fn missed(miss: &MissReport) -> String {
    let expected = if miss.codes.is_empty() {
        miss.expect.to_owned()
    } else {
        format!("{} ({})", miss.expect, miss.codes.join(", "))
    };
    let ended = match miss.code {
        Some(code) => format!("{} ({code})", miss.outcome),
        None => miss.outcome.to_owned(),
    };
    let (suite, fixture, call) = (shown(&miss.suite), shown(&miss.fixture), shown(&miss.call));
    let kind = miss.miss.replace('_', " ");
    format!(
        "  {suite}/{fixture}/{call}: expected {expected}, ended {ended} [{kind}, {}]",
        miss.strength
    )
}

fn compare(views: &[ViewReport], text: &mut String) {
    line(text, "\nThe views compared:");
    let mut table = new_table(&[
        "view",
        "asked",
        "approved",
        "escalated\nby judge",
        "false\napprovals",
        "needless\nescalations",
        "mean question\nin bytes",
        "tokens in",
        "cached",
        "out",
    ]);
    for view in views {
        let total = &view.total;
        let asked = total.calls
            - total.executed.count
            - total.escalated_by_code.count
            - total.blocked.count;
        table.add_row(vec![
            view.view.to_owned(),
            asked.to_string(),
            share(total.approved),
            share(total.escalated_by_judge),
            share(total.false_approvals),
            share(total.needless_escalations),
            view.mean_prompt_bytes.map_or_else(|| "–".to_owned(), |bytes| bytes.to_string()),
            view.tokens.input.to_string(),
            view.tokens.cached.to_string(),
            view.tokens.output.to_string(),
        ]);
    }
    finish(table, 1, text);
}

/// `12/40 30.0%` and the interval below; nothing is a dash.
fn share(share: Share) -> String {
    match (share.rate(), share.interval()) {
        (Some(rate), Some((low, high))) => {
            let (count, of) = (share.count, share.of);
            let (rate, low, high) = (rate * 100.0, low * 100.0, high * 100.0);
            format!("{count}/{of} {rate:.1}%\n{low:.1}–{high:.1}")
        }
        _ => "–".to_owned(),
    }
}

fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(header);
    table
}

/// Writes the table; columns after the first `names` hold numbers, which align to the right.
fn finish(mut table: Table, names: usize, text: &mut String) {
    for column in table.column_iter_mut().skip(names) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for row in table.lines() {
        line(text, row.trim_end());
    }
}

fn line(text: &mut String, line: &str) {
    // Writing to a string never fails.
    let _ = writeln!(text, "{line}");
}
