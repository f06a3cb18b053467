//! A real HTTP server does everything wrong, and the judge has one name for each of it. What it
//! means for a call (a person is asked) is tested with `settle`.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use approver::decide::prompt::Prompt;
use approver::decide::verdict::{JudgeFailure, Reply, Tokens};
use approver::judge::breaker::{Breakers, OPENS_AFTER, PROBE_AFTER};
use approver::judge::openai::{LARGEST_ANSWER, OpenAi, Settings};
use approver::judge::{self, Judge};
use secrecy::SecretString;
use serde_json::json;
use tokio::time::Instant;
use tracing_subscriber::fmt::MakeWriter;

use crate::faults::{Fault, FaultServer, PLANTED, refused_base_url};

/// A deadline that no row waits for.
const AMPLE: Duration = Duration::from_secs(600);

/// A deadline that a row is meant to reach.
const SHORT: Duration = Duration::from_millis(150);

const KEY: &str = "sk-PLANTED-KEY";
const HEADER: &str = "PLANTED-HEADER-VALUE";
const ARGUMENT: &str = "PLANTED-ARGUMENT";

pub(crate) fn prompt() -> Prompt {
    Prompt {
        system: "The rules of judging.".to_owned(),
        user: format!("Lists, instructions. The call: {ARGUMENT}"),
        fixed_prefix: "Lists, instructions.".len(),
        digest: "0".repeat(64),
    }
}

fn settings(base_url: String) -> Settings {
    let mut settings = Settings::new(base_url, "asked-model");
    settings.api_key = Some(SecretString::from(KEY));
    settings.extra_headers = vec![("x-organisation".to_owned(), SecretString::from(HEADER))];
    settings
}

async fn ask(judge: &dyn Judge, budget: Duration) -> Result<Reply, JudgeFailure> {
    judge.ask(&prompt(), Instant::now() + budget).await
}

/// Everything that was logged on this thread at any level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn capture(&self) -> tracing::subscriber::DefaultGuard {
        tracing::subscriber::set_default(
            tracing_subscriber::fmt()
                .with_max_level(tracing::Level::TRACE)
                .with_writer(self.clone())
                .finish(),
        )
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

struct Row {
    name: &'static str,
    fault: Fault,
    expected: JudgeFailure,
    /// Requests that the server sees from a whole judge, its retry included.
    requests: usize,
    budget: Duration,
}

fn row(name: &'static str, fault: Fault, expected: JudgeFailure) -> Row {
    Row { name, fault, expected, requests: 1, budget: AMPLE }
}

impl Row {
    fn retried(mut self) -> Self {
        self.requests = 2;
        self
    }

    fn within(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }
}

fn message(message: serde_json::Value, finish_reason: &str) -> Fault {
    Fault::choice(json!({"index": 0, "message": message, "finish_reason": finish_reason}))
}

fn rows() -> Vec<Row> {
    use JudgeFailure::*;
    let error = |error: serde_json::Value| Fault::json(400, &json!({"error": error}));
    vec![
        // The network.
        row("reset", Fault::HangUp, Connection).retried(),
        row("slow headers", Fault::Silence, Timeout).within(SHORT),
        row("slow body", Fault::DripBody, Timeout).within(SHORT),
        row("cut body", Fault::CutBody, Connection).retried(),
        row("cut chunked body", Fault::CutChunkedBody, Connection).retried(),
        row("not HTTP", Fault::Garbage(format!("{PLANTED}\r\n\r\n").into_bytes()), Connection)
            .retried(),
        // The status.
        row("400", Fault::status(400), Rejected),
        row("401", Fault::status(401), Rejected),
        row("402", Fault::status(402), Rejected),
        row("403", Fault::status(403), Rejected),
        row("404", Fault::status(404), Rejected),
        row("408", Fault::status(408), Timeout),
        row("413", Fault::status(413), Rejected),
        row("422", Fault::status(422), Rejected),
        row("429", Fault::status(429), RateLimited).retried(),
        row("500", Fault::status(500), ServerError).retried(),
        row("502", Fault::status(502), ServerError).retried(),
        row("503", Fault::status(503), ServerError).retried(),
        row("529", Fault::status(529), ServerError).retried(),
        row(
            "a redirect is not followed",
            Fault::status(307).header("location", "/v1/chat/completions"),
            Rejected,
        ),
        row(
            "401 with an integer code",
            Fault::json(
                401,
                &json!({"error": {"code": 401, "message": PLANTED, "type": "authentication_error"}}),
            ),
            Rejected,
        ),
        row(
            "503 with an integer code",
            Fault::json(503, &json!({"error": {"code": 503, "message": PLANTED}})),
            ServerError,
        )
        .retried(),
        row("500 in HTML", html(500), ServerError).retried(),
        row("404 in HTML", html(404), Rejected),
        row("429 without a body", Fault::raw(429, "", ""), RateLimited).retried(),
        // The prompt is too long, in several dialects.
        row(
            "context_length_exceeded",
            error(json!({"code": "context_length_exceeded", "message": PLANTED})),
            PromptTooLong,
        ),
        row(
            "exceed_context_size_error with an integer code",
            error(json!({"code": 400, "type": "exceed_context_size_error", "message": PLANTED})),
            PromptTooLong,
        ),
        row(
            "the code in the message alone",
            error(json!({"code": 400, "message": format!("{PLANTED} context_length_exceeded")})),
            Rejected,
        ),
        row(
            "content filter in front of the model",
            error(json!({"code": "content_filter", "message": PLANTED})),
            Refused,
        ),
        row(
            "400 with an endless body",
            Fault::raw(400, "application/json", vec![b' '; 8 * 1024 * 1024]),
            Rejected,
        ),
        // The answer.
        row("HTML", html(200), Malformed),
        row("no body", Fault::raw(204, "", ""), Malformed),
        row(
            "an event stream",
            Fault::raw(200, "text/event-stream", format!("data: {PLANTED}\n\n")),
            Malformed,
        ),
        row(
            "an error under 200",
            Fault::json(200, &json!({"error": {"message": PLANTED}})),
            Malformed,
        ),
        row("no choices", Fault::json(200, &json!({"choices": [], "id": PLANTED})), Malformed),
        row(
            "invalid UTF-8",
            Fault::raw(200, "application/json", b"{\"choices\": \"\xff\"}".to_vec()),
            Malformed,
        ),
        row("deep nesting", Fault::raw(200, "application/json", "[".repeat(100_000)), Malformed),
        row("refusal", message(json!({"content": null, "refusal": PLANTED}), "stop"), Refused),
        row("content filter", message(json!({"content": PLANTED}), "content_filter"), Refused),
        row("cut by length", message(json!({"content": PLANTED}), "length"), Truncated),
        row(
            "tool call",
            message(
                json!({"content": null, "tool_calls": [{"id": "1", "type": "function",
                    "function": {"name": PLANTED, "arguments": "{}"}}]}),
                "tool_calls",
            ),
            Malformed,
        ),
        row("null content", message(json!({"content": null}), "stop"), Malformed),
        row("empty content", message(json!({"content": ""}), "stop"), Malformed),
        row("50 MB", Fault::Flood { bytes: 50_000_000 }, Malformed),
    ]
}

fn html(status: u16) -> Fault {
    let page = format!("<!doctype html><title>{PLANTED}</title><p>{PLANTED}");
    Fault::raw(status, "text/html", page)
}

/// Each row once with the bare endpoint and once with the whole judge.
#[tokio::test]
async fn every_fault_has_one_name_and_shows_nothing() {
    for row in rows() {
        let log = Log::default();
        let guard = log.capture();

        let server = FaultServer::start([row.fault.clone()]).await;
        let bare = OpenAi::new(settings(server.base_url())).unwrap();
        let failure = ask(&bare, row.budget).await.unwrap_err();
        assert_eq!(failure, row.expected, "{}", row.name);
        assert_eq!(server.requests().len(), 1, "{}: bare", row.name);

        let server = FaultServer::start([row.fault.clone()]).await;
        let whole = judge::build(Some(settings(server.base_url())), &Breakers::new()).unwrap();
        let failure = ask(&*whole, row.budget).await.unwrap_err();
        assert_eq!(failure, row.expected, "{}: whole", row.name);
        assert_eq!(server.requests().len(), row.requests, "{}: whole", row.name);

        drop(guard);
        let shown = format!("{failure:?} {failure} {}", log.text());
        for planted in [PLANTED, KEY, HEADER, ARGUMENT] {
            assert!(!shown.contains(planted), "{}: {planted} in {shown}", row.name);
        }
    }
}

/// The test above searches a log: here is one with something in it.
#[tokio::test]
async fn the_log_is_captured() {
    let log = Log::default();
    let guard = log.capture();
    tracing::trace!("a trace");
    drop(guard);
    assert!(log.text().contains("a trace"));
}

#[tokio::test]
async fn a_refused_connection() {
    let base_url = refused_base_url().await;
    let bare = OpenAi::new(settings(base_url.clone())).unwrap();
    assert_eq!(ask(&bare, AMPLE).await, Err(JudgeFailure::Connection));
    let whole = judge::build(Some(settings(base_url)), &Breakers::new()).unwrap();
    assert_eq!(ask(&*whole, AMPLE).await, Err(JudgeFailure::Connection));
}

#[tokio::test]
async fn a_connection_reset_at_once_is_tried_again_once() {
    let server = FaultServer::start([Fault::Reset]).await;
    let whole = judge::build(Some(settings(server.base_url())), &Breakers::new()).unwrap();
    assert_eq!(ask(&*whole, AMPLE).await, Err(JudgeFailure::Connection));
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_good_answer_with_its_figures() {
    let server = FaultServer::start([Fault::says("{\"decision\":\"approve\"}")]).await;
    let whole = judge::build(Some(settings(server.base_url())), &Breakers::new()).unwrap();
    assert_eq!(
        ask(&*whole, AMPLE).await,
        Ok(Reply {
            text: "{\"decision\":\"approve\"}".to_owned(),
            model: "served-model".to_owned(),
            tokens: Tokens { input: Some(1450), output: Some(120), cached: Some(1386) },
        })
    );
    assert_eq!(whole.model(), "asked-model");
}

#[tokio::test]
async fn the_second_try_counts() {
    for fault in [Fault::status(503), Fault::status(429), Fault::HangUp, Fault::CutBody] {
        let server = FaultServer::start([fault.clone(), Fault::says("{}")]).await;
        let whole = judge::build(Some(settings(server.base_url())), &Breakers::new()).unwrap();
        assert!(ask(&*whole, AMPLE).await.is_ok(), "{fault:?}");
        assert_eq!(server.requests().len(), 2, "{fault:?}");
    }
}

#[tokio::test]
async fn retry_after_is_kept_where_it_fits_and_not_waited_for_where_it_does_not() {
    let asks_for = |pause| Fault::status(429).header("retry-after", pause);

    let server = FaultServer::start([asks_for("1"), Fault::says("{}")]).await;
    let whole = judge::build(Some(settings(server.base_url())), &Breakers::new()).unwrap();
    let began = Instant::now();
    assert!(ask(&*whole, AMPLE).await.is_ok());
    assert!(began.elapsed() >= Duration::from_secs(1));

    let server = FaultServer::start([asks_for("3600"), Fault::says("{}")]).await;
    let whole = judge::build(Some(settings(server.base_url())), &Breakers::new()).unwrap();
    assert_eq!(ask(&*whole, AMPLE).await, Err(JudgeFailure::RateLimited));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_flood_is_left_at_the_bound() {
    let server = FaultServer::start([Fault::Flood { bytes: 50_000_000 }]).await;
    let bare = OpenAi::new(settings(server.base_url())).unwrap();
    assert_eq!(ask(&bare, AMPLE).await, Err(JudgeFailure::Malformed));
    // Past the bound only what the sockets' buffers hold has left the server.
    let written = server.written();
    assert!(written < 25_000_000, "{written} bytes were taken");

    // Just under the bound an answer is read whole.
    let bytes = LARGEST_ANSWER - 100;
    let server = FaultServer::start([Fault::Flood { bytes }]).await;
    let bare = OpenAi::new(settings(server.base_url())).unwrap();
    assert_eq!(ask(&bare, AMPLE).await.unwrap().text.len(), bytes);
}

#[tokio::test]
async fn connections_are_kept_and_used_again() {
    let server = FaultServer::start([Fault::says("{}")]).await;
    let whole = judge::build(Some(settings(server.base_url())), &Breakers::new()).unwrap();
    for _ in 0..5 {
        assert!(ask(&*whole, AMPLE).await.is_ok());
    }
    assert_eq!((server.requests().len(), server.connections()), (5, 1));
    assert_eq!(server.requests().last().unwrap().connection, 0);
}

#[tokio::test]
async fn the_breaker_opens_for_every_judge_of_the_same_endpoint_model_and_credential() {
    let server = FaultServer::start([Fault::status(500)]).await;
    let breakers = Breakers::new();
    let built = |change: fn(&mut Settings)| {
        let mut settings = settings(server.base_url());
        change(&mut settings);
        judge::build(Some(settings), &breakers).unwrap()
    };
    let (one, same) = (built(|_| {}), built(|settings| settings.seed = Some(1)));
    let other_model = built(|settings| settings.model = "other".to_owned());
    let other_key = built(|settings| settings.api_key = None);

    for _ in 0..OPENS_AFTER {
        assert_eq!(ask(&*one, AMPLE).await, Err(JudgeFailure::ServerError));
    }
    let seen = server.requests().len();
    assert_eq!(seen, 2 * OPENS_AFTER as usize, "each with its one retry");
    assert_eq!(ask(&*one, AMPLE).await, Err(JudgeFailure::BreakerOpen));
    assert_eq!(ask(&*same, AMPLE).await, Err(JudgeFailure::BreakerOpen));
    assert_eq!(server.requests().len(), seen, "nothing was sent");

    assert_eq!(ask(&*other_model, AMPLE).await, Err(JudgeFailure::ServerError));
    assert_eq!(ask(&*other_key, AMPLE).await, Err(JudgeFailure::ServerError));
}

/// The clock moves by thirty seconds; the sockets do not notice.
#[tokio::test]
async fn an_open_breaker_probes_once_and_closes() {
    let mut faults = vec![Fault::status(500); 2 * OPENS_AFTER as usize];
    faults.push(Fault::says("{}"));
    let server = FaultServer::start(faults).await;
    let whole = judge::build(Some(settings(server.base_url())), &Breakers::new()).unwrap();
    for _ in 0..OPENS_AFTER {
        assert_eq!(ask(&*whole, AMPLE).await, Err(JudgeFailure::ServerError));
    }
    assert_eq!(ask(&*whole, AMPLE).await, Err(JudgeFailure::BreakerOpen));
    let seen = server.requests().len();

    tokio::time::pause();
    tokio::time::advance(PROBE_AFTER).await;
    tokio::time::resume();
    let (probe, other) = tokio::join!(ask(&*whole, AMPLE), ask(&*whole, AMPLE));
    assert!(probe.is_ok());
    assert_eq!(other, Err(JudgeFailure::BreakerOpen), "while the probe is out");
    assert_eq!(server.requests().len(), seen + 1);
    assert!(ask(&*whole, AMPLE).await.is_ok(), "closed again");
}

#[tokio::test]
async fn nobody_configured_or_somebody_switched_off() {
    let none = judge::build(None, &Breakers::new()).unwrap();
    assert_eq!(ask(&*none, AMPLE).await, Err(JudgeFailure::NotConfigured));
    let off = judge::Unavailable::switched_off();
    assert_eq!(ask(&off, AMPLE).await, Err(JudgeFailure::SwitchedOff));
}
