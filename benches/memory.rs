//! The memory that 1,000 concurrent judgements take while their judge is slow.
//! `cargo bench --bench memory` (Linux: it reads `/proc/self/status`)
//!
//! The judge is the real HTTP client against a server in the same process that reads each question
//! and answers after two seconds; the figure holds both. Each request is the typical one of
//! `benches/judgement.rs`: 2 KB of instructions, 2 KB of arguments, 20 messages.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use approver::decide::json;
use approver::decide::policy::{Mode, Policy};
use approver::decide::request::{
    Agent, Annotations, Call, Conversation, Door, Item, Origin, Request, Tool,
};
use approver::decide::{Outcome, Settings, State};
use approver::judge::breaker::Breakers;
use approver::judge::{self, openai};
use approver::service::{Approver, Timing};
use axum::Router;
use axum::extract::State as Shared;
use axum::routing::post;
use serde_json::json;

/// As the binary has it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const JUDGEMENTS: usize = 1_000;
const SENTENCE: &str = "Please order 40 filters for plant 7 from the usual supplier by Thursday. ";
const ANSWER: &str = r#"{"soft_deny":[],"basis":[{"source":"user","index":1,"quote":"Please order 40 filters for plant 7","covers":[0,1,2]}],"unsupported_arguments":[],"reason":"The user asked for this order.","decision":"approve"}"#;

#[derive(Default)]
struct Open {
    now: AtomicUsize,
    most: AtomicUsize,
}

async fn slow(
    Shared(open): Shared<Arc<Open>>,
    body: axum::body::Bytes,
) -> axum::Json<serde_json::Value> {
    let now = open.now.fetch_add(1, Ordering::SeqCst) + 1;
    open.most.fetch_max(now, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(2)).await;
    open.now.fetch_sub(1, Ordering::SeqCst);
    drop(body);
    axum::Json(json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "slow",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}],
    }))
}

fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    tokio::runtime::Runtime::new().unwrap().block_on(run());
}

async fn run() {
    let open = Arc::new(Open::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let router =
        Router::new().route("/v1/chat/completions", post(slow)).with_state(Arc::clone(&open));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let endpoint = judge::build(Some(openai::Settings::new(base_url, "slow")), &Breakers::new());
    let timing = Timing {
        judgement: Duration::from_secs(60),
        request: Duration::from_secs(60),
        ..Timing::default()
    };
    let approver = Approver::new(endpoint.unwrap(), Settings::default(), timing);
    let before = peak_mebibytes();
    let tasks: Vec<_> = (0..JUDGEMENTS)
        .map(|number| {
            let approver = approver.clone();
            tokio::spawn(async move {
                let (agent, policy, request) = request(number);
                approver.judge(&agent, Some(&policy), &request, &State::default()).await
            })
        })
        .collect();
    let mut approved = 0;
    for task in tasks {
        let judged = task.await.unwrap();
        approved += usize::from(matches!(judged[0].decision.outcome, Outcome::Approved(_)));
    }
    let at_once = open.most.load(Ordering::SeqCst);
    let peak = peak_mebibytes();
    println!("{approved} of {JUDGEMENTS} approved, at most {at_once} open at once");
    println!("peak resident memory {peak} MiB, {before} MiB before the first judgement");
    assert_eq!(approved, JUDGEMENTS);
}

fn request(number: usize) -> (Agent, Policy, Request) {
    let hints = r#"{"readOnlyHint":false,"destructiveHint":false,"openWorldHint":false}"#;
    let tool = Tool {
        annotations: Annotations::Present(json::read(hints).unwrap()),
        ..Tool::new("order", Origin::Function)
    };
    let agent = Agent { instructions: SENTENCE.repeat(28), tools: vec![tool] };
    let mut items = Vec::new();
    for round in 0..7 {
        let call_id = format!("c{round}");
        items.push(Item::Person { text: SENTENCE.repeat(6), attachments: 0 });
        items.push(Item::Call {
            call_id: call_id.clone(),
            tool: "find".into(),
            arguments: format!(r#"{{"query":{number}}}"#),
        });
        items.push(Item::Result { call_id, text: SENTENCE.repeat(5) });
    }
    let note = SENTENCE.repeat(28);
    let arguments = json!({"quantity": number, "note": note}).to_string();
    let request = Request {
        door: Door::Gateway,
        mode: Mode::Auto,
        conversation: Conversation { items },
        tools: vec![],
        calls: vec![Call::new("call_1", "order", None, &arguments)],
    };
    (agent, Policy::default(), request)
}

/// The most memory that this process ever had resident.
fn peak_mebibytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}
