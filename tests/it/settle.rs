//! What becomes of a judge's reply, and of every way to have none: `fixtures/settle/cases.toml`.

use std::collections::BTreeSet;

use approver::decide::json;
use approver::decide::policy::{Class, Lists, Mode, Policy};
use approver::decide::reason::Reason;
use approver::decide::request::{
    Agent, Annotations, Call, Conversation, Door, Item, Origin, Request, Tool,
};
use approver::decide::verdict::{JudgeFailure, Reply, Tokens};
use approver::decide::{Decision, Outcome, Question, Settings, State, Step, plan, settle};
use proptest::prelude::*;
use serde::Deserialize;

const CASES: &str = include_str!("../../fixtures/settle/cases.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default = "note_add")]
    call: String,
    reply: String,
    expect: String,
    reason: Option<String>,
}

fn note_add() -> String {
    "note_add".to_owned()
}

const FORWARDED: &str = "Just for your information.\n> Please add the note at once\nBest";

fn long(characters: usize) -> String {
    "quoted words ".repeat(20).chars().take(characters).collect()
}

/// An agent, its policy and a request with one call: what every reply here is about.
pub(crate) fn request(call: &str) -> (Agent, Policy, Request) {
    let harmless = |read: bool| {
        let text =
            format!(r#"{{"readOnlyHint":{read},"destructiveHint":false,"openWorldHint":false}}"#);
        Annotations::Present(json::read(&text).unwrap())
    };
    let tool = |name: &str, read: bool| Tool {
        annotations: harmless(read),
        ..Tool::new(name, Origin::Function)
    };
    let agent = Agent {
        instructions: "You keep the notes of a sales team.".into(),
        tools: vec![tool("note_add", false), tool("find", true)],
    };
    let person = |text: &str| Item::Person { text: text.into(), attachments: 0 };
    let arguments = match call {
        "note_add" => r#"{"contact":"C-1042","text":"call back Monday"}"#,
        "find" => r#"{"q":"Reed"}"#,
        other => panic!("no call {other}"),
    };
    let request = Request {
        door: Door::Gateway,
        mode: Mode::Auto,
        conversation: Conversation {
            items: vec![
                person("Note on C-1042: call back Monday."),
                person(FORWARDED),
                Item::Result { call_id: "c".into(), text: "Ann Reed, account manager Bo".into() },
                person("ok"),
                person(&long(200)),
                person("Look at this --------\n```\ntext\n```json\nPlease note what I say\n```"),
            ],
        },
        tools: vec![],
        calls: vec![Call::new("call_1", call, None, arguments)],
    };
    let policy = Policy {
        lists: Lists {
            environment: vec!["The team sits in Ulm.".into()],
            allow: vec!["Notes on existing contacts are routine.".into()],
            soft_deny: vec![
                "Anything about payroll needs a person.".into(),
                "Nothing on Mondays.".into(),
            ],
        },
        ..Policy::default()
    };
    (agent, policy, request)
}

/// An answer that approves `note_add` on evidence that holds.
pub(crate) const APPROVES: &str = r#"{"soft_deny":[],"basis":[{"source":"user","index":1,"quote":"Note on C-1042: call back Monday","covers":[0,1,2]}],"unsupported_arguments":[],"reason":"The user asked for this note.","decision":"approve"}"#;

fn question(call: &str) -> Question {
    let (agent, policy, request) = request(call);
    let steps = plan(&agent, Some(&policy), &request, &State::default(), &Settings::default());
    match steps.into_iter().next() {
        Some(Step::Ask(question)) => *question,
        other => panic!("not a question: {other:?}"),
    }
}

fn answer(call: &str, text: &str) -> Decision {
    let reply = Reply { text: text.into(), model: "m".into(), tokens: Tokens::default() };
    settle(question(call), Ok(reply))
}

fn end(decision: &Decision) -> (&'static str, String) {
    match &decision.outcome {
        Outcome::Approved(approval) => ("approved", approval.reason().to_owned()),
        Outcome::Pending(Some(reason)) => (reason.code(), reason.sentence()),
        other => panic!("settled as {other:?}"),
    }
}

#[test]
fn every_reply_ends_as_expected() {
    let file: File = toml::from_str(CASES).unwrap();
    let names: BTreeSet<_> = file.case.iter().map(|case| &case.name).collect();
    assert_eq!(names.len(), file.case.len(), "duplicate names");
    // Nine entries that differ, so that their number alone is wrong.
    let quote = "Note on C-1042: call back Monday";
    let nine: Vec<_> = (0..9)
        .map(|n| serde_json::json!({"source": "user", "index": 1, "quote": &quote[..20 + n], "covers": [0, 1, 2]}))
        .collect();
    let mut failed = Vec::new();
    for case in &file.case {
        let reply = case
            .reply
            .replace("LONG161", &long(161))
            .replace("LONG160", &long(160))
            .replace("REASON10000", &"x".repeat(10_000))
            .replace("REASON300", &"x".repeat(300))
            .replace("NINE", &serde_json::json!(nine).to_string());
        let decision = answer(&case.call, &reply);
        let (code, sentence) = end(&decision);
        let reason_fits = case.reason.as_ref().is_none_or(|reason| *reason == sentence);
        if code != case.expect || !reason_fits {
            failed.push(format!("{}: {code} “{sentence}”, expected {}", case.name, case.expect));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn evidence_comes_back_with_pointers() {
    let decision = answer(
        "note_add",
        r#"{"soft_deny":[],"basis":[{"source":"user","index":1,"quote":"Note on C-1042: call back Monday","covers":[0,2,1]}],"unsupported_arguments":[],"reason":"Asked.","decision":"approve"}"#,
    );
    let Outcome::Approved(approval) = decision.outcome else { panic!() };
    assert_eq!(approval.evidence()[0].covers, ["", "/contact", "/text"]);
    assert_eq!(decision.class, Some(Class::Write));
    let asked = decision.asked.unwrap();
    assert_eq!((asked.prompt_digest.len(), asked.model.as_deref()), (64, Some("m")));
}

#[test]
fn every_failure_of_the_judge_has_one_code() {
    for (failure, code) in [
        (JudgeFailure::NotConfigured, "judge_unavailable"),
        (JudgeFailure::SwitchedOff, "judge_unavailable"),
        (JudgeFailure::BreakerOpen, "judge_unavailable"),
        (JudgeFailure::Timeout, "judge_timeout"),
        (JudgeFailure::Connection, "judge_error"),
        (JudgeFailure::ServerError, "judge_error"),
        (JudgeFailure::Rejected, "judge_error"),
        (JudgeFailure::RateLimited, "judge_rate_limited"),
        (JudgeFailure::Refused, "judge_refused"),
        (JudgeFailure::PromptTooLong, "too_large"),
        (JudgeFailure::Truncated, "judge_unreadable"),
        (JudgeFailure::Malformed, "judge_unreadable"),
    ] {
        let decision = settle(question("find"), Err(failure));
        assert_eq!(end(&decision).0, code, "{failure:?}");
        assert_eq!(decision.asked.unwrap().model, None);
    }
}

/// Every reason with its code and sentence, as people read them.
#[test]
fn the_list_of_reasons() {
    use approver::decide::novelty::{Finding, Kind};
    use approver::decide::reason::{ListEntry, TooLarge, TurnLimit, Unsupported};
    use approver::decide::request::ArgumentsUnreadable;
    let entry = |number, text: &str| ListEntry { number, text: text.into() };
    let finding = Finding {
        kind: Kind::Email,
        item: "eve@evil.example".into(),
        pointer: "/to".into(),
        found: "eve@evil.example".into(),
        resembles: None,
    };
    let reasons = [
        Reason::ArgumentsUnreadable(ArgumentsUnreadable::NotAnObject),
        Reason::ArgumentsUnreadable(json::read(r#"{"a/b":1,"a/b":2}"#).unwrap_err().into()),
        Reason::ArgumentsUnreadable(json::read(r#"{"n":1e999}"#).unwrap_err().into()),
        Reason::ToolUnknown,
        Reason::ToolChanged,
        Reason::Destructive,
        Reason::HumanOnly,
        Reason::BuiltinWrite,
        Reason::Unclassified,
        Reason::NotDeclaredHarmless,
        Reason::TurnLimit(TurnLimit::Judged),
        Reason::TurnLimit(TurnLimit::Escalations),
        Reason::SandboxAllowance,
        Reason::RepeatedCall,
        Reason::NovelArgument(vec![finding.clone()]),
        Reason::NovelArgument(vec![finding.clone(), finding.clone(), finding]),
        Reason::TooLarge(TooLarge::Call),
        Reason::TooLarge(TooLarge::Leaves),
        Reason::TooLarge(TooLarge::PersonText),
        Reason::TooLarge(TooLarge::Instructions),
        Reason::TooLarge(TooLarge::Question),
        Reason::JudgeUnavailable,
        Reason::JudgeTimeout,
        Reason::JudgeError,
        Reason::JudgeRateLimited,
        Reason::JudgeRefused,
        Reason::JudgeUnreadable,
        Reason::SoftDeny(vec![entry(1, "Anything about payroll needs a person.")]),
        Reason::UnsupportedApproval(Unsupported::QuoteAbsent),
        Reason::JudgeEscalated("Nobody asked for it.".into()),
        Reason::NotRecorded,
        Reason::InternalError,
    ];
    let list: Vec<String> = reasons
        .iter()
        .map(|reason| {
            let wire = if reason.is_gate() { "code alone" } else { "with sentence" };
            format!("{} ({wire}): {}", reason.code(), reason.sentence())
        })
        .collect();
    insta::assert_snapshot!(list.join("\n"));
}

/// Answers that are often right in form, so that the checks behind the form are reached.
fn likely_answer() -> impl Strategy<Value = String> {
    let source = prop_oneof![Just("user"), Just("instructions"), Just("allow"), Just("tool")];
    let quote = prop_oneof![
        Just("Note on C-1042: call back Monday".to_owned()),
        Just("Notes on existing contacts".to_owned()),
        Just("Please add the note at once".to_owned()),
        Just("ok".to_owned()),
        ".{0,40}",
    ];
    let covers = prop::collection::vec(0usize..4, 0..4);
    let basis = prop::collection::vec((source, 0usize..5, quote, covers), 0..3);
    let numbers = prop::collection::vec(0usize..4, 0..2);
    (prop::collection::vec(0usize..4, 0..2), basis, numbers, ".{0,30}").prop_map(
        |(soft_deny, basis, unsupported, reason)| {
            let basis: Vec<_> = basis
                .into_iter()
                .map(|(source, index, quote, covers)| {
                    serde_json::json!({"source": source, "index": index, "quote": quote, "covers": covers})
                })
                .collect();
            serde_json::json!({
                "soft_deny": soft_deny, "basis": basis, "unsupported_arguments": unsupported,
                "reason": reason, "decision": "approve",
            })
            .to_string()
        },
    )
}

proptest! {
    #[test]
    fn arbitrary_text_never_approves(text in "(?s).{0,300}") {
        prop_assert_ne!(end(&answer("note_add", &text)).0, "approved");
    }

    /// An oracle that knows the rules in other words: whatever is approved satisfies all of them.
    #[test]
    fn what_is_approved_is_supported(text in likely_answer()) {
        if end(&answer("note_add", &text)).0 == "approved" {
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&value["soft_deny"], &serde_json::json!([]));
            prop_assert_eq!(&value["unsupported_arguments"], &serde_json::json!([]));
            let mut covered = BTreeSet::new();
            let mut asked = false;
            for basis in value["basis"].as_array().unwrap() {
                let covers: BTreeSet<u64> =
                    basis["covers"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
                let known = ["Note on C-1042: call back Monday", "Notes on existing contacts", "ok"];
                let quote = basis["quote"].as_str().unwrap();
                prop_assert!(known.contains(&quote) || long(200).contains(quote) || "Note on C-1042: call back Monday.".contains(quote.trim()));
                asked |= covers.contains(&0) && basis["source"] != "instructions";
                covered.extend(covers);
            }
            prop_assert!(asked && covered.contains(&1) && covered.contains(&2));
        }
    }
}
