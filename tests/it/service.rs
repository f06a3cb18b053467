//! A whole judgement through the service: a real HTTP server that misbehaves, and a scripted judge
//! that stalls, fails and panics. Whatever happens, each call has an outcome, and only evidence that
//! holds approves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use approver::decide::reason::Reason;
use approver::decide::request::Call;
use approver::decide::verdict::{JudgeFailure, Reply, Tokens};
use approver::decide::{Outcome, Settings, State};
use approver::host::report::Report;
use approver::judge::breaker::Breakers;
use approver::judge::scripted::{Move, Scripted};
use approver::judge::{self, Judge, openai};
use approver::service::{Approver, Judged, Timing};
use serde_json::json;

use crate::faults::{Fault, FaultServer, PLANTED, refused_base_url};
use crate::settle::{APPROVES, request};

const SHORT: Duration = Duration::from_millis(200);

async fn judge(judge: Arc<dyn Judge>, timing: Timing) -> Vec<Judged> {
    let (agent, policy, request) = request("note_add");
    let approver = Approver::new(judge, Settings::default(), timing);
    approver.judge(&agent, Some(&policy), &request, &State::default()).await
}

fn end(judged: &Judged) -> &'static str {
    match &judged.decision.outcome {
        Outcome::Approved(_) => "approved",
        Outcome::Pending(Some(reason)) => reason.code(),
        other => panic!("{other:?}"),
    }
}

/// Asks a real endpoint and answers the code and all that a person or a gateway would see.
async fn over_http(base_url: String, deadline: Duration) -> (&'static str, String) {
    let settings = openai::Settings::new(base_url, "asked-model");
    let endpoint = judge::build(Some(settings), &Breakers::new()).unwrap();
    let timing = Timing { judgement: deadline, ..Timing::default() };
    let judged = judge(endpoint, timing).await;
    let code = end(&judged[0]);
    let mode = approver::decide::policy::Mode::Auto;
    let report = Report::new(mode, judged.into_iter().map(|one| (one.decision, one.latency)));
    (code, serde_json::to_string(&report).unwrap())
}

fn message(message: serde_json::Value, finish_reason: &str) -> Fault {
    Fault::choice(json!({"index": 0, "message": message, "finish_reason": finish_reason}))
}

/// An answer in the right form with other members than [`APPROVES`].
fn answer(change: impl FnOnce(&mut serde_json::Value)) -> Fault {
    let mut answer = serde_json::from_str(APPROVES).unwrap();
    change(&mut answer);
    Fault::says(&answer.to_string())
}

fn rows() -> Vec<(&'static str, Fault, &'static str)> {
    vec![
        ("an approval with evidence", Fault::says(APPROVES), "approved"),
        ("hang up", Fault::HangUp, "judge_error"),
        ("slow headers", Fault::Silence, "judge_timeout"),
        ("slow body", Fault::DripBody, "judge_timeout"),
        ("cut body", Fault::CutBody, "judge_error"),
        ("400", Fault::status(400), "judge_error"),
        ("401", Fault::status(401), "judge_error"),
        ("403", Fault::status(403), "judge_error"),
        ("404", Fault::status(404), "judge_error"),
        ("408", Fault::status(408), "judge_timeout"),
        ("429", Fault::status(429), "judge_rate_limited"),
        ("500", Fault::status(500), "judge_error"),
        ("503", Fault::status(503), "judge_error"),
        (
            "a prompt too long for the model",
            Fault::json(
                400,
                &json!({"error": {"code": "context_length_exceeded", "message": PLANTED}}),
            ),
            "too_large",
        ),
        ("HTML", Fault::raw(200, "text/html", format!("<p>{PLANTED}")), "judge_unreadable"),
        ("no choices", Fault::json(200, &json!({"choices": []})), "judge_unreadable"),
        ("refusal", message(json!({"content": null, "refusal": PLANTED}), "stop"), "judge_refused"),
        ("content filter", message(json!({"content": PLANTED}), "content_filter"), "judge_refused"),
        ("cut by length", message(json!({"content": APPROVES}), "length"), "judge_unreadable"),
        (
            "a tool call",
            message(
                json!({"content": null, "tool_calls": [{"id": "1", "type": "function",
                    "function": {"name": "approve", "arguments": APPROVES}}]}),
                "tool_calls",
            ),
            "judge_unreadable",
        ),
        (
            "another schema",
            Fault::says(&json!({"verdict": "approve"}).to_string()),
            "judge_unreadable",
        ),
        ("an extra member", answer(|answer| answer["note"] = json!(PLANTED)), "judge_unreadable"),
        (
            "a repeated member",
            Fault::says(
                &APPROVES.replace("{\"soft_deny\"", "{\"decision\":\"approve\",\"soft_deny\""),
            ),
            "judge_unreadable",
        ),
        ("prose before", Fault::says(&format!("{PLANTED} {APPROVES}")), "judge_unreadable"),
        ("prose after", Fault::says(&format!("{APPROVES} {PLANTED}")), "judge_unreadable"),
        (
            "a made-up quote",
            answer(|answer| answer["basis"][0]["quote"] = json!("Add whatever you like")),
            "unsupported_approval",
        ),
        (
            "a quote from pasted material",
            answer(|answer| {
                answer["basis"][0]["index"] = json!(2);
                answer["basis"][0]["quote"] = json!("Please add the note at once");
            }),
            "unsupported_approval",
        ),
        (
            "an argument that nothing covers",
            answer(|answer| answer["basis"][0]["covers"] = json!([0, 1])),
            "unsupported_approval",
        ),
        ("a soft_deny entry", answer(|answer| answer["soft_deny"] = json!([1])), "soft_deny"),
        (
            "a reason with markup and control characters",
            answer(|answer| {
                answer["decision"] = json!("escalate");
                answer["reason"] =
                    json!(format!("<b title=\"{PLANTED}\">No</b>\u{1b}[2J\u{7}\nway"));
            }),
            "judge_escalated",
        ),
        (
            "a reason of 10,000 characters",
            answer(|answer| answer["reason"] = json!("x".repeat(10_000))),
            "judge_unreadable",
        ),
        ("50 MB", Fault::Flood { bytes: 50_000_000 }, "judge_unreadable"),
    ]
}

#[tokio::test]
async fn whatever_a_server_does_ends_at_a_person_in_our_words() {
    let mut failed = Vec::new();
    for (name, fault, expected) in rows() {
        let server = FaultServer::start([fault]).await;
        let waits = expected == "judge_timeout" && name.starts_with("slow");
        let deadline = if waits { SHORT } else { Duration::from_secs(30) };
        let (code, seen) = over_http(server.base_url(), deadline).await;
        if code != expected {
            failed.push(format!("{name}: {code}, expected {expected}"));
        }
        assert!(!seen.contains(PLANTED), "{name}: {seen}");
        assert!(!seen.contains("\\u001b") && !seen.contains("<b"), "{name}: {seen}");
    }
    let (code, _) = over_http(refused_base_url().await, Duration::from_secs(30)).await;
    if code != "judge_error" {
        failed.push(format!("refused connection: {code}"));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Ten calls that differ, each a question.
fn ten() -> (
    approver::decide::request::Agent,
    approver::decide::policy::Policy,
    approver::decide::request::Request,
) {
    let (agent, policy, mut request) = request("find");
    request.calls = (0..10)
        .map(|n| {
            Call::new(&format!("call_{n}"), "find", None, &format!(r#"{{"q":"Reed","n":{n}}}"#))
        })
        .collect();
    (agent, policy, request)
}

async fn judge_ten(judge: Arc<dyn Judge>, timing: Timing) -> Vec<Judged> {
    let (agent, policy, request) = ten();
    let approver = Approver::new(judge, Settings::default(), timing);
    approver.judge(&agent, Some(&policy), &request, &State::default()).await
}

const READ: &str = r#"{"soft_deny":[],"basis":[{"source":"instructions","index":1,"quote":"You keep the notes","covers":[0]}],"unsupported_arguments":[],"reason":"A step.","decision":"approve"}"#;

#[tokio::test]
async fn a_panic_escalates_its_own_call_alone() {
    let judge = Scripted::function(|prompt| {
        let fourth = r#"# Pending call
"find" {"q":"Reed","n":3}"#;
        if prompt.user.contains(fourth) { Move::Panic } else { Move::say(READ) }
    });
    let judged = judge_ten(Arc::new(judge), Timing::default()).await;
    let ends: Vec<_> = judged.iter().map(end).collect();
    let mut expected = vec!["approved"; 10];
    expected[3] = "internal_error";
    assert_eq!(ends, expected);
    let ids: Vec<_> = judged.iter().map(|one| one.decision.call_id.as_str()).collect();
    assert_eq!(ids[..4], ["call_0", "call_1", "call_2", "call_3"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_judged_by_the_requests_deadline_waits() {
    let reply = Reply { text: READ.into(), model: "m".into(), tokens: Tokens::default() };
    // Four at once, nine seconds each: two rounds end in time, the third has two seconds left.
    let judge = Scripted::always(Move::AnswerAfter(Duration::from_secs(9), reply));
    let timing = Timing { request: Duration::from_secs(20), ..Timing::default() };
    let judged = judge_ten(Arc::new(judge), timing).await;
    let ends: Vec<_> = judged.iter().map(end).collect();
    assert_eq!(ends[..8], ["approved"; 8]);
    assert_eq!(ends[8..], ["judge_timeout"; 2]);
    assert!(judged.iter().all(|one| one.latency <= Duration::from_secs(20)));
}

/// A judge that counts how many questions it has at once.
struct Counting {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Judge for Counting {
    fn model(&self) -> &str {
        "counting"
    }

    fn ask<'a>(
        &'a self,
        _prompt: &'a approver::decide::prompt::Prompt,
        _deadline: tokio::time::Instant,
    ) -> futures::future::BoxFuture<'a, Result<Reply, JudgeFailure>> {
        Box::pin(async {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.now.fetch_sub(1, Ordering::SeqCst);
            Err(JudgeFailure::Refused)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn at_most_four_calls_of_a_request_are_judged_at_once() {
    let judge = Arc::new(Counting { now: AtomicUsize::new(0), most: AtomicUsize::new(0) });
    let judged = judge_ten(Arc::clone(&judge) as Arc<dyn Judge>, Timing::default()).await;
    assert_eq!(judge.most.load(Ordering::SeqCst), 4);
    assert!(judged.iter().all(|one| end(one) == "judge_refused"));
}

/// A judge that ignores its deadline.
struct Deaf;

impl Judge for Deaf {
    fn model(&self) -> &str {
        "deaf"
    }

    fn ask<'a>(
        &'a self,
        _prompt: &'a approver::decide::prompt::Prompt,
        _deadline: tokio::time::Instant,
    ) -> futures::future::BoxFuture<'a, Result<Reply, JudgeFailure>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_holds_even_where_a_judge_ignores_it() {
    let judged = judge(Arc::new(Deaf), Timing::default()).await;
    assert_eq!(end(&judged[0]), "judge_timeout");
    assert_eq!(judged[0].latency, Duration::from_secs(10));
}

#[tokio::test]
async fn each_judge_sees_all_calls_of_the_request() {
    let judge = Arc::new(Scripted::always(Move::say(READ)));
    judge_ten(Arc::clone(&judge) as Arc<dyn Judge>, Timing::default()).await;
    let asked = judge.asked();
    assert_eq!(asked.len(), 10);
    for prompt in &asked {
        assert_eq!(prompt.user.matches("also raised in this request").count(), 9);
    }
    let prefixes: std::collections::BTreeSet<_> = asked
        .iter()
        .map(|prompt| prompt.user.split_once("# Tool of the pending call").unwrap().0)
        .collect();
    assert_eq!(prefixes.len(), 1, "the calls of a request share their prefix");
}

#[tokio::test]
async fn a_judge_that_is_switched_off_is_not_asked() {
    let judge = Arc::new(Scripted::always(Move::say(READ)));
    let (agent, policy, request) = ten();
    let approver =
        Approver::new(Arc::clone(&judge) as Arc<dyn Judge>, Settings::default(), Timing::default());
    let state = State { automatic_approval: Err(JudgeFailure::SwitchedOff), ..State::default() };
    let judged = approver.judge(&agent, Some(&policy), &request, &state).await;
    assert!(judge.asked().is_empty());
    assert!(
        judged
            .iter()
            .all(|one| one.decision.outcome == Outcome::Pending(Some(Reason::JudgeUnavailable)))
    );
}
