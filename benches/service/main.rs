//! What the service bears: judgements a second over HTTP on loopback, recorded with full durability.
//! `cargo bench --bench service`; with PostgreSQL too: `tests/with-postgres cargo bench --bench service`
//!
//! One judgement is one call in auto that the judge approves at once: a judge of this program alone,
//! which the service itself cannot be configured to use. Callers hold one connection each. They run
//! beside the service on the same processors, so the figures are lower than the service's own.
//!
//! Full load: every caller sends its next request as soon as it has its answer. Half load: half of
//! that rate, evenly. The parts show where the time of a request at half load goes, on average:
//! waiting for the store by stage, and everything else (`own`), which is measured at one request at a
//! time as well.

#![expect(clippy::print_stdout, reason = "its figures are for whoever runs it")]

#[path = "../../tests/it/doors/through.rs"]
mod through;
mod timed;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use approver::decide::Settings;
use approver::decide::prompt::Prompt;
use approver::decide::verdict::{JudgeFailure, Reply, Tokens};
use approver::http::{Doors, router};
use approver::judge::Judge;
use approver::service::keys::{KeyRing, token_hash};
use approver::service::{Approver, Clock, Limits, Parts, Service, Timing};
use approver::store::{
    NewToken, Postgres, PostgresSettings, PutVersion, Sqlite, SqliteSettings, Store, Timestamp,
    Token, TokenKind,
};
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use through::Through;
use timed::{Stage, Timed};

/// As the binary has it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const CALLERS: usize = 64;
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(8);
const CALLS_OF_A_TURN: u64 = 4;
const TOKEN: &str = "bench-token";

const SENTENCE: &str = "Please order 40 filters for plant 7 from the usual supplier by Thursday. ";
const ANSWER: &str = r#"{"soft_deny":[],"basis":[{"source":"user","index":1,"quote":"Please order 40 filters for plant 7","covers":[0,1,2]}],"unsupported_arguments":[],"reason":"The user asked for this order.","decision":"approve"}"#;

/// Approves at once.
struct Instantly;

impl Judge for Instantly {
    fn model(&self) -> &str {
        "instantly"
    }

    fn ask<'a>(
        &'a self,
        _prompt: &'a Prompt,
        _deadline: tokio::time::Instant,
    ) -> BoxFuture<'a, Result<Reply, JudgeFailure>> {
        let (text, model) = (ANSWER.to_owned(), "instantly".to_owned());
        let reply = Reply { text, model, tokens: Tokens::default() };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // `-- postgresql` measures that store alone.
        if !std::env::args().any(|argument| argument == "postgresql") {
            let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let settings = SqliteSettings::new(&folder.path().join("approver.db"));
            measure("SQLite", Arc::new(Sqlite::open(settings).await.unwrap())).await;
        }
        let Ok(address) = std::env::var("APPROVER_TEST_POSTGRES") else {
            println!("PostgreSQL  not measured: APPROVER_TEST_POSTGRES is not set");
            return;
        };
        let config: tokio_postgres::Config = address.parse().unwrap();
        let name = format!("approver_bench_{}", fastrand::u64(..));
        let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let (server, _) = address.rsplit_once('/').expect("an address that ends with a database");
        let settings = PostgresSettings::new(format!("{server}/{name}").into());
        measure("PostgreSQL", Arc::new(Postgres::open(settings).await.unwrap())).await;
        client.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
        drop(client);
        connection.await.unwrap().unwrap();
    });
}

async fn measure(name: &str, store: Arc<dyn Store>) {
    prepare(&*store).await;
    let timed = Arc::new(Through(Timed { inner: store, waited: Default::default() }));
    let service = Arc::new(Service::new(Parts {
        store: Arc::clone(&timed) as Arc<dyn Store>,
        approver: Approver::new(Arc::new(Instantly), Settings::default(), Timing::default()),
        automatic_approval: Ok(()),
        sandbox_enabled: true,
        keys: KeyRing::throw_away().unwrap(),
        limits: Limits::default(),
        allow_loopback_webhooks: false,
        clock: Clock::system(),
    }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = tokio::spawn(async move {
        axum::serve(listener, router(Doors { service, settings: Arc::default() })).await.unwrap();
    });

    let full = load(&address, "f", CALLERS, None).await;
    println!("{name:<11} full load: {}", full.line());
    for waited in &timed.0.waited {
        waited.store(0, Relaxed);
    }
    let between = CALLERS as f64 / (full.rate() / 2.0);
    let half = load(&address, "h", CALLERS, Some(Duration::from_secs_f64(between))).await;
    println!("{name:<11} half load: {}", half.line());
    println!("{name:<11} a request at half load: {}", parts(&timed.0, &half));
    for waited in &timed.0.waited {
        waited.store(0, Relaxed);
    }
    let single = load(&address, "s", 1, None).await;
    println!("{name:<11} one at a time: {}", single.line());
    println!("{name:<11} a request at one at a time: {}", parts(&timed.0, &single));
    server.abort();
}

/// Milliseconds of an average request, by what it waited for.
fn parts(timed: &Timed, load: &Load) -> String {
    let all = load.all.max(1) as f64;
    let mut own = load.total.as_secs_f64() * 1_000.0 / all;
    let mut text = format!("{own:.2} ms:");
    for (stage, name) in Stage::ALL {
        let waited = timed.waited[stage as usize].load(Relaxed) as f64 / 1e6 / all;
        own -= waited;
        text.push_str(&format!(" {name} {waited:.2},"));
    }
    text.push_str(&format!(" own and client {own:.2}"));
    text
}

/// What a load took.
struct Load {
    /// Measured requests, each from its time to be sent to its answer; sorted.
    taken: Vec<Duration>,
    /// All requests, also those of the warm-up.
    all: usize,
    /// What all requests took together, from being sent.
    total: Duration,
}

impl Load {
    fn rate(&self) -> f64 {
        self.taken.len() as f64 / MEASURED.as_secs_f64()
    }

    fn line(&self) -> String {
        let at = |share: f64| {
            let index = (share * (self.taken.len() - 1) as f64) as usize;
            self.taken[index].as_secs_f64() * 1_000.0
        };
        let (rate, median, slow) = (self.rate(), at(0.5), at(0.99));
        format!("{rate:>6.0} judgements/s, p50 {median:.2} ms, p99 {slow:.2} ms")
    }
}

/// Every caller sends a request when `between` has passed since its last one, or at once.
async fn load(address: &str, phase: &str, callers: usize, between: Option<Duration>) -> Load {
    let start = Instant::now() + WARM_UP;
    let end = start + MEASURED;
    let mut running = JoinSet::new();
    for caller in 0..callers {
        let address = address.to_owned();
        let name = format!("{phase}{caller}");
        let offset = between.unwrap_or_default().mul_f64(caller as f64 / callers as f64);
        running.spawn(async move {
            let mut client = Client::connect(&address).await;
            let mut taken = Vec::new();
            let (mut number, mut total) = (0, Duration::ZERO);
            let mut due = Instant::now() + offset;
            loop {
                match between {
                    Some(between) => {
                        tokio::time::sleep_until(due.into()).await;
                        due += between;
                    }
                    None => due = Instant::now(),
                }
                let sent = Instant::now();
                if sent >= end {
                    return (taken, number, total);
                }
                client.judge(&name, number).await;
                number += 1;
                total += sent.elapsed();
                if sent >= start {
                    // A late answer makes the next request late: that counts as its time.
                    let begun = between.map_or(sent, |between| due - between);
                    taken.push(begun.elapsed());
                }
            }
        });
    }
    let mut load = Load { taken: Vec::new(), all: 0, total: Duration::ZERO };
    for (taken, number, total) in running.join_all().await {
        load.taken.extend(taken);
        load.all += usize::try_from(number).unwrap();
        load.total += total;
    }
    load.taken.sort_unstable();
    load
}

/// HTTP/1.1 on one connection, as little of it as this needs.
struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    async fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    async fn judge(&mut self, caller: &str, number: u64) {
        let body = body(caller, number);
        let request = format!(
            "POST /v1/judgements HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {TOKEN}\r\n\
             content-type: application/json\r\nidempotency-key: {caller}-{number}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len(),
        );
        self.stream.write_all(request.as_bytes()).await.unwrap();
        let answer = self.answer().await;
        assert!(answer.contains("\"outcome\":\"approved\""), "{answer}");
    }

    async fn answer(&mut self) -> String {
        self.buffer.clear();
        loop {
            let text = String::from_utf8_lossy(&self.buffer);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if body.len() >= length.expect("a length").parse().unwrap() {
                    return body.to_owned();
                }
            }
            let read = self.stream.read_buf(&mut self.buffer).await.unwrap();
            assert!(read > 0, "the service hung up");
        }
    }
}

/// 20 items before the call, 2 KB of them the person's; written once, as the load generator should
/// take as little as it can.
static ITEMS: LazyLock<String> = LazyLock::new(|| {
    let mut items = Vec::new();
    for round in 0..5 {
        let person = SENTENCE.repeat(6);
        items.push(serde_json::json!({"type": "message", "role": "user", "content": person}));
        let arguments = format!(r#"{{"query":"filters {round}"}}"#);
        let id = format!("f{round}");
        items.push(serde_json::json!({"type": "function_call", "call_id": id, "name": "find",
            "arguments": arguments}));
        items.push(serde_json::json!({"type": "function_call_output", "call_id": id,
            "output": SENTENCE.repeat(3)}));
        items
            .push(serde_json::json!({"type": "message", "role": "assistant", "content": "Found."}));
    }
    serde_json::json!(items).to_string()
});

fn body(caller: &str, number: u64) -> String {
    let turn = number / CALLS_OF_A_TURN;
    let (items, conversation, quantity) = (&*ITEMS, turn / 4, number % CALLS_OF_A_TURN);
    // One write after the other, each another one.
    format!(
        r#"{{"agent":"orders","version":"1","user":"usr_81","conversation":{{"id":"conv_{caller}_{conversation}","surface":"responses","items":{items},"person_items":[0,4,8,12,16]}},"turn":{{"id":"resp_{turn}"}},"input":[{{"type":"backbone:mode","mode":"auto"}}],"calls":[{{"call_id":"call_{number}","tool":"order","arguments":"{{\"quantity\":40,\"order\":\"{quantity}\"}}"}}]}}"#
    )
}

async fn prepare(store: &dyn Store) {
    let now = Timestamp::from(std::time::SystemTime::now());
    let token = Token {
        id: "tok_bench".to_owned(),
        organisation: "org_1".to_owned(),
        name: "bench".to_owned(),
        kind: TokenKind::Gateway { decide: false },
        created_at: now,
        revoked_at: None,
    };
    store.create_token(NewToken { token, hash: token_hash(TOKEN) }).await.unwrap();
    let harmless = |read: bool| serde_json::json!({"readOnlyHint": read, "destructiveHint": false, "openWorldHint": false});
    let content = serde_json::json!({
        "instructions": SENTENCE.repeat(25),
        "tools": [
            {"name": "order", "origin": "function", "annotations": harmless(false)},
            {"name": "find", "origin": "function", "annotations": harmless(true)},
        ],
        "policy": {
            "version": 1,
            "classes": {"read": "allow", "write": "approve", "destructive": "approve"},
            "conversation_modes": {"offered": ["plan", "ask", "auto"], "default": "ask"},
            "judge": {"allow": ["Orders of filters are routine."]},
        },
    });
    let version = PutVersion {
        organisation: "org_1".to_owned(),
        agent: "orders".to_owned(),
        version: "1".to_owned(),
        content: content.to_string(),
        digest: "d".repeat(64),
        by: "owner".to_owned(),
        now,
    };
    store.put_version(version).await.unwrap();
}
