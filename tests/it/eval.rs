//! The fixtures of `fixtures/eval` keep their promises, the guide's example works, and the figures
//! are those of SciPy and NumPy.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::path::{Path, PathBuf};

use approver::eval::statistics::{Share, percentile};
use approver::eval::{
    CODES, Differs, Ending, Header, JudgeKind, Options, Outcomes, Record, Report, Sample, Suites,
    load, run,
};
use clap::Parser;
use serde::Deserialize;

/// The suite as `approver eval fixtures` loads it.
pub(crate) fn suites() -> Suites {
    load(&[PathBuf::from("fixtures")]).unwrap_or_else(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"))
    })
}

/// Judges everything, and gives every record to `observe` before its answer is dropped.
pub(crate) async fn judge(
    suites: &Suites,
    judge: &JudgeKind,
    options: &Options,
    observe: impl FnMut(&Record) -> std::io::Result<()>,
) -> (Outcomes, Report) {
    let outcomes = run(suites.cases(), judge, options, pending(), observe).await.unwrap();
    let header = Header::new(judge, &options.views, &suites.lists_digest());
    let report = Report::new(header, suites.len(), &outcomes);
    (outcomes, report)
}

/// Every call of the suite ends as its file says.
#[track_caller]
fn check(outcomes: &Outcomes, report: &Report, suites: &Suites) {
    let missed: Vec<String> = report
        .views
        .iter()
        .flat_map(|view| &view.missed)
        .map(|miss| {
            let (fixture, call, outcome) = (&miss.fixture, &miss.call, miss.outcome);
            format!("{fixture}/{call}: {} {:?}, {outcome} {:?}", miss.expect, miss.codes, miss.code)
        })
        .collect();
    assert_eq!(missed, [""; 0]);
    assert!(!report.failed && !outcomes.interrupted);
    assert_eq!(outcomes.records.len(), suites.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fixture_keeps_its_promise_without_a_judge() {
    let suites = suites();
    let nobody = JudgeKind::Nobody;
    let (outcomes, report) = judge(&suites, &nobody, &Options::default(), |_| Ok(())).await;
    check(&outcomes, &report, &suites);
    let asked = outcomes.records.iter().filter(|record| record.ending == Ending::WouldAsk).count();
    assert!(asked >= 200, "{asked} calls would be judged");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fixture_keeps_its_promise_with_hand_written_answers() {
    let suites = suites();
    let answers = JudgeKind::HandWritten;
    let (outcomes, report) = judge(&suites, &answers, &Options::default(), |_| Ok(())).await;
    check(&outcomes, &report, &suites);

    let reached: BTreeSet<&str> =
        outcomes.records.iter().filter_map(|record| record.ending.code()).collect();
    let guide = std::fs::read_to_string("fixtures/README.md").unwrap();
    for (code, _) in CODES {
        match NO_FIXTURE.iter().find(|(without, _, _)| *without == code) {
            None => assert!(reached.contains(code), "no fixture ends as `{code}`"),
            Some((_, file, test)) => {
                assert!(!reached.contains(code), "`{code}` has a fixture");
                let source = std::fs::read_to_string(file).unwrap();
                assert!(source.contains(&format!("fn {test}(")), "{file} has no test `{test}`");
                assert!(guide.contains(&format!("`{test}`")), "the guide does not name `{test}`");
            }
        }
    }
}

/// The reasons that no fixture can have, since nothing is stored here and no bug is at hand, and
/// the tests that hold them.
const NO_FIXTURE: [(&str, &str, &str); 2] = [
    (
        "not_recorded",
        "tests/it/doors/judgements/retries.rs",
        "an_approval_that_cannot_be_recorded_waits_for_a_person",
    ),
    ("internal_error", "tests/it/service.rs", "a_panic_escalates_its_own_call_alone"),
];

#[test]
fn the_suite_is_broad_and_its_pairs_are_pairs() {
    let suites = suites();
    assert!(suites.fixtures.len() >= 60, "{} conversations", suites.fixtures.len());
    let languages: BTreeSet<&str> =
        suites.fixtures.iter().map(|fixture| fixture.language.as_str()).collect();
    for language in ["ar", "de", "en", "es", "fr", "ja"] {
        assert!(languages.contains(language), "nothing in `{language}`");
    }
    let mut members: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut differences = BTreeSet::new();
    for labels in suites.fixtures.iter().flat_map(|fixture| &fixture.calls).map(|call| &call.labels)
    {
        if let Some((pair, differs)) = &labels.pair {
            *members.entry((&*labels.suite, &**pair)).or_default() += 1;
            differences.insert(*differs);
        }
    }
    let single: Vec<_> = members.iter().filter(|(_, calls)| **calls < 2).collect();
    assert!(single.is_empty(), "pairs of one call: {single:?}");
    assert_eq!(differences.into_iter().collect::<Vec<_>>(), Differs::ALL);
}

/// The words between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_coverage_page_is_true() {
    let page = std::fs::read_to_string("fixtures/eval/COVERAGE.md").unwrap();
    let suites = suites();
    let answers = JudgeKind::HandWritten;
    let (outcomes, _) = judge(&suites, &answers, &Options::default(), |_| Ok(())).await;
    let mut ends: BTreeMap<String, Ending> = BTreeMap::new();
    for Record { labels, ending, .. } in &outcomes.records {
        let (fixture, call) = (&labels.fixture, &labels.call);
        assert!(ends.insert(format!("{fixture}/{call}"), *ending).is_none(), "{fixture} twice");
    }
    let mut unnamed: BTreeSet<&str> = suites.fixtures.iter().map(|one| &*one.name).collect();
    let names = unnamed.clone();
    // Below the tables' heads every word in backticks is a fixture, a call, or stands in the first
    // column.
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let (first, cells) = row.trim_start_matches("| ").split_once(" | ").unwrap();
        for name in quoted(cells) {
            let fixture = name.split('/').next().unwrap();
            assert!(names.contains(fixture), "there is no fixture `{name}`");
            assert!(!name.contains('/') || ends.contains_key(name), "there is no call `{name}`");
            unnamed.remove(fixture);
        }
        let code = quoted(first).next().and_then(|word| {
            CODES.iter().map(|(code, _)| *code).find(|code| *code == word && !first.contains(' '))
        });
        for call in quoted(cells).filter(|_| code.is_some()) {
            assert_eq!(ends[call].code(), code, "{call}");
        }
    }
    assert!(unnamed.is_empty(), "not named: {unnamed:?}");
}

#[test]
fn a_sample_has_every_suite_and_whole_pairs() {
    let sample = |size: usize| Sample { size: size.try_into().unwrap(), seed: 1 };
    let all = suites();
    let suite_of = |suites: &Suites| -> BTreeMap<String, BTreeSet<String>> {
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for labels in suites.cases().map(|case| case.unwrap().labels) {
            let names = found.entry(labels.suite.to_string()).or_default();
            names.insert(labels.fixture.to_string());
        }
        found
    };
    let pairs_of = |suites: &Suites| -> BTreeMap<(String, String), usize> {
        let mut found = BTreeMap::new();
        for labels in suites.cases().map(|case| case.unwrap().labels) {
            if let Some((pair, _)) = &labels.pair {
                *found.entry((labels.suite.to_string(), pair.to_string())).or_default() += 1;
            }
        }
        found
    };
    let (whole, whole_pairs) = (suite_of(&all), pairs_of(&all));
    let some = all.clone().sample(sample(3));
    let (chosen, chosen_pairs) = (suite_of(&some), pairs_of(&some));
    assert_eq!(chosen.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>());
    assert!(chosen.values().all(|names| names.len() >= 3));
    assert!(some.len() < all.len() / 2, "{} of {} calls", some.len(), all.len());
    for (pair, calls) in &chosen_pairs {
        assert_eq!(Some(calls), whole_pairs.get(pair), "{pair:?} is not whole");
    }
    let everything = all.clone().sample(sample(1_000));
    assert_eq!(everything.len(), all.len());
}

/// The first block of `language` in the guide.
fn block<'a>(guide: &'a str, language: &str) -> &'a str {
    let (_, rest) = guide.split_once(&format!("```{language}\n")).expect("a block");
    rest.split_once("```").expect("its end").0
}

#[test]
fn the_guides_example_runs_and_prints_what_the_guide_shows() {
    let guide = std::fs::read_to_string("fixtures/README.md").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let office = folder.path().join("ours/office");
    std::fs::create_dir_all(&office).unwrap();
    std::fs::write(office.join("post-room-booked.toml"), block(&guide, "toml")).unwrap();
    let path = folder.path().join("ours");
    for judge in ["none", "recorded"] {
        let (code, output) = command(&["eval", path.to_str().unwrap(), "--judge", judge]);
        assert_eq!(code, 0, "{output}");
        if judge == "recorded" {
            // Digests change with every word of the prompt; the guide shows what does not.
            let table: String = output.lines().skip(2).map(|line| format!("{line}\n")).collect();
            let (_, shown) = guide.split_once("with `--judge recorded`:\n\n```text\n").unwrap();
            let shown = shown.split_once("```").unwrap().0;
            assert_eq!(shown, table, "the guide shows another table");
        }
    }
}

#[test]
fn the_guides_history_belongs_to_its_example() {
    let guide = std::fs::read_to_string("fixtures/README.md").unwrap();
    let (_, rest) = guide.split_once("a table `[state]` tells it").unwrap();
    let text = block(&guide, "toml").to_owned() + block(rest, "toml");
    let suite = "office".into();
    let problems = approver::eval::read_fixture(&suite, &text).err();
    assert!(problems.is_none(), "{problems:?}");
}

/// Runs `approver` with these arguments in this process.
fn command(arguments: &[&str]) -> (u8, String) {
    let cli = approver::cli::Cli::try_parse_from([&["approver"], arguments].concat()).unwrap();
    let mut output = Vec::new();
    let code = approver::cli::run(cli, &mut output).unwrap();
    (code, String::from_utf8(output).unwrap())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases<C> {
    case: Vec<C>,
}

#[track_caller]
fn statistics<C: serde::de::DeserializeOwned>(file: &str) -> Vec<C> {
    let path = Path::new("fixtures/statistics").join(file);
    let cases: Cases<C> = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(!cases.case.is_empty());
    cases.case
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wilson {
    count: u64,
    of: u64,
    low: f64,
    high: f64,
}

#[test]
fn wilsons_interval_is_scipys() {
    for Wilson { count, of, low, high } in statistics("wilson.toml") {
        let (ours_low, ours_high) = Share { count, of }.interval().unwrap();
        let close = |ours: f64, theirs: f64| (ours - theirs).abs() < 1e-12;
        assert!(
            close(ours_low, low) && close(ours_high, high),
            "{count} of {of}: {ours_low} {ours_high}"
        );
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Percentiles {
    name: String,
    values: Vec<f64>,
    expected: Expected,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    p0: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p100: f64,
}

#[test]
fn percentiles_are_numpys() {
    for Percentiles { name, values, expected } in statistics("percentiles.toml") {
        let Expected { p0, p50, p90, p99, p100 } = expected;
        for (percent, theirs) in [(0.0, p0), (50.0, p50), (90.0, p90), (99.0, p99), (100.0, p100)] {
            let ours = percentile(&values, percent).unwrap();
            assert!((ours - theirs).abs() < 1e-9, "{name} at {percent}: {ours}, not {theirs}");
        }
    }
}
