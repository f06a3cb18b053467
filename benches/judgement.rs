//! What a judgement costs besides the model: plan and settle, on a typical request and on growing
//! conversations. `cargo bench --bench judgement`
//!
//! The typical request: 2 KB of instructions, 2 KB of arguments, 20 messages of which 6 are the
//! person's. The growing ones repeat its calls and results.

use std::hint::black_box;

use approver::decide::json::{self, Json};
use approver::decide::policy::{Lists, Mode, Policy};
use approver::decide::request::{
    Agent, Annotations, Call, Conversation, Door, Item, Origin, Request, Tool,
};
use approver::decide::verdict::{Reply, Tokens};
use approver::decide::{Outcome, Settings, State, Step, plan, settle};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// As the binary has it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const SENTENCE: &str = "Please order 40 filters for plant 7 from the usual supplier by Thursday. ";
const ANSWER: &str = r#"{"soft_deny":[],"basis":[{"source":"user","index":1,"quote":"Please order 40 filters for plant 7","covers":[0,1,2,3]}],"unsupported_arguments":[],"reason":"The user asked for this order.","decision":"approve"}"#;

/// Rounds of question, call and result, until the calls and results have that many bytes; the
/// person writes in the first six rounds.
fn conversation(bytes: usize) -> Conversation {
    let mut items = Vec::new();
    let (mut size, mut round) = (0, 0);
    while size < bytes {
        if round < 6 {
            items.push(Item::Person { text: SENTENCE.repeat(6), attachments: 0 });
        }
        let arguments = format!(r#"{{"query":"filters {round}"}}"#);
        let text = format!("{{\"row\":{round},\"text\":\"{}\"}}", SENTENCE.repeat(5));
        size += arguments.len() + text.len();
        let call_id = format!("c{round}");
        items.push(Item::Call { call_id: call_id.clone(), tool: "find".into(), arguments });
        items.push(Item::Result { call_id, text });
        round += 1;
    }
    Conversation { items }
}

fn request(conversation_bytes: usize) -> (Agent, Policy, Request) {
    let hints = r#"{"readOnlyHint":false,"destructiveHint":false,"openWorldHint":false}"#;
    let tool = Tool {
        annotations: Annotations::Present(json::read(hints).unwrap()),
        description: Some("Places an order with a supplier.".into()),
        ..Tool::new("order", Origin::Function)
    };
    let agent = Agent { instructions: SENTENCE.repeat(28), tools: vec![tool] };
    let policy = Policy {
        lists: Lists {
            environment: vec!["Plant 7 makes pumps.".into()],
            allow: vec!["Orders under 500 EUR are routine.".into()],
            soft_deny: vec!["Never order from new suppliers.".into()],
        },
        ..Policy::default()
    };
    let arguments = Json::Object(vec![
        ("item".into(), Json::String("filters".into())),
        ("quantity".into(), Json::Number("40".into())),
        ("note".into(), Json::String(SENTENCE.repeat(28))),
    ]);
    let request = Request {
        door: Door::Gateway,
        mode: Mode::Auto,
        conversation: conversation(conversation_bytes),
        tools: vec![],
        calls: vec![Call::new("call_1", "order", None, &arguments.to_string())],
    };
    (agent, policy, request)
}

fn judge(agent: &Agent, policy: &Policy, request: &Request, settings: &Settings) -> Outcome {
    let steps = plan(agent, Some(policy), request, &State::default(), settings);
    let Some(Step::Ask(question)) = steps.into_iter().next() else { panic!("not a question") };
    let reply = Reply { text: ANSWER.into(), model: "m".into(), tokens: Tokens::default() };
    settle(*question, Ok(reply)).outcome
}

fn benchmarks(criterion: &mut Criterion) {
    let settings = Settings::default();
    let (agent, policy, typical) = request(7 * 400 - 1);
    assert_eq!(typical.conversation.items.len(), 20);
    assert!(matches!(judge(&agent, &policy, &typical, &settings), Outcome::Approved(_)));
    criterion.bench_function("typical", |bencher| {
        bencher.iter(|| black_box(judge(&agent, &policy, black_box(&typical), &settings)));
    });
    let mut group = criterion.benchmark_group("conversation");
    for kib in [64, 128, 256, 512, 1024] {
        let (agent, policy, request) = request(kib * 1024);
        group.throughput(Throughput::Bytes(kib as u64 * 1024));
        group.bench_with_input(BenchmarkId::from_parameter(kib), &request, |bencher, request| {
            bencher.iter(|| black_box(judge(&agent, &policy, black_box(request), &settings)));
        });
    }
    group.finish();
}

criterion_group!(benches, benchmarks);
criterion_main!(benches);
