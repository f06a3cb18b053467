//! What waiting costs: 10,000 requests that wait for a decision each, on loopback, and how long after
//! a person's decision its waiter knows. `cargo bench --bench polls`
//!
//! The service runs in this process; the waiters run in another one, which is this program once more,
//! so that each has its own open files. They must be allowed 10,100 each (`ulimit -n`).

#![expect(clippy::print_stdout, reason = "its figures are for whoever runs it")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use approver::decide::Settings;
use approver::decide::policy::{Class, Mode, Modes};
use approver::decide::request::{Door, Origin, Tool};
use approver::decide::state::ToolIdentity;
use approver::http::server::{self, Connections};
use approver::http::{Doors, router};
use approver::judge::breaker::Breakers;
use approver::service::keys::{Bound, KeyRing, Part, token_hash};
use approver::service::{Approver, Clock, Limits, Parts, Service, Timing, ids};
use approver::store::{
    Begin, BeginCall, Begun, Facts, Idempotency, ModeChoice, NewApproval, NewCallOutcome,
    NewOutcome, NewToken, PutVersion, Record, Recorded, Reserved, Sqlite, SqliteSettings, Standing,
    Store, Token, TokenKind,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// As the binary has it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const WAITERS: usize = 10_000;
const CALLS_OF_A_TURN: usize = 50;
/// Decisions that are measured, and the pause between them.
const DECISIONS: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(10);
const ORGANISATION: &str = "maple";
const TOKEN: &str = "bench-operator";
const ARGUMENTS: &str = r#"{"contact":"C-1042","text":"call back Monday"}"#;
/// Set for the process of the waiters: the service's address.
const WAIT_AT: &str = "APPROVER_BENCH_WAIT_AT";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match std::env::var(WAIT_AT) {
        Ok(address) => runtime.block_on(wait_at(&address)),
        Err(_) => runtime.block_on(serve()),
    }
}

fn unix_micros() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()
}

/// Reads ids, one a line, waits for each, and writes when each waiter knew: `id micros`.
async fn wait_at(address: &str) {
    let (told, mut knew) = tokio::sync::mpsc::unbounded_channel::<(String, u128)>();
    std::thread::spawn(move || {
        let mut output = std::io::stdout().lock();
        while let Some((id, micros)) = knew.blocking_recv() {
            if writeln!(output, "{id} {micros}").and_then(|()| output.flush()).is_err() {
                std::process::exit(0);
            }
        }
    });
    for (number, id) in std::io::stdin().lock().lines().enumerate() {
        // As many as a listener's queue holds: whoever is dropped there comes back seconds later.
        if number % 100 == 99 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let (id, address, told) = (id.unwrap(), address.to_owned(), told.clone());
        tokio::spawn(async move {
            let mut connection = TcpStream::connect(address).await.unwrap();
            let request = format!(
                "GET /v1/approvals/{id}?wait=30s HTTP/1.1\r\nhost: bench\r\n\
                 authorization: Bearer {TOKEN}\r\n\r\n"
            );
            loop {
                connection.write_all(request.as_bytes()).await.unwrap();
                let body = answer(&mut connection).await;
                if !body.contains("\"status\":\"pending\"") {
                    assert!(body.contains("\"status\":\"approved\""), "{body}");
                    told.send((id, unix_micros())).unwrap();
                    // Its place stays taken, as that of a client that keeps its connection.
                    return std::future::pending().await;
                }
            }
        });
    }
    std::future::pending().await
}

async fn answer(connection: &mut TcpStream) -> String {
    let mut reader = tokio::io::BufReader::new(connection);
    let mut length = 0;
    loop {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).await.unwrap() > 0, "the service hung up");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await.unwrap();
    String::from_utf8(body).unwrap()
}

async fn serve() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let settings = SqliteSettings::new(&folder.path().join("approver.db"));
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(settings).await.unwrap());
    let limits = Limits { polls_per_token: 20_000, ..Limits::default() };
    let service = Arc::new(Service::new(Parts {
        store: Arc::clone(&store),
        approver: Approver::new(
            approver::judge::build(None, &Breakers::new()).unwrap(),
            Settings::default(),
            Timing::default(),
        ),
        automatic_approval: Ok(()),
        sandbox_enabled: false,
        keys: KeyRing::throw_away().unwrap(),
        limits,
        allow_loopback_webhooks: false,
        clock: Clock::system(),
    }));
    let raised = prepare(&service).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let doors = router(Doors { service: Arc::clone(&service), settings: Arc::default() });
    let connections = Connections { most: 20_000, ..Connections::default() };
    let (never, grace) = (std::future::pending(), Duration::ZERO);
    tokio::spawn(server::serve(listener, doors, connections, never, grace));

    let before = resident();
    let mut waiters = Command::new(std::env::current_exe().unwrap())
        .env(WAIT_AT, &address)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (knew, mut known) = tokio::sync::mpsc::unbounded_channel();
    let output = BufReader::new(waiters.stdout.take().unwrap());
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let (id, micros) = line.split_once(' ').unwrap();
            if knew.send((id.to_owned(), micros.parse::<u128>().unwrap())).is_err() {
                return;
            }
        }
    });
    let start = Instant::now();
    let mut input = waiters.stdin.take().unwrap();
    let lines: String = raised.iter().map(|(id, _)| format!("{id}\n")).collect();
    std::thread::spawn(move || {
        input.write_all(lines.as_bytes()).unwrap();
        // Kept open: its end would be the waiters'.
        std::thread::park();
    });
    while service.waiting() < WAITERS {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("{WAITERS} requests wait after {:.1} s", start.elapsed().as_secs_f64());
    println!("memory of the service: {} MB, {before} MB before", resident());

    let mut decided = BTreeMap::new();
    for (id, hmac) in raised.iter().step_by(WAITERS / DECISIONS) {
        decided.insert(id.clone(), unix_micros());
        decide(&address, id, hmac).await;
        tokio::time::sleep(PAUSE).await;
    }
    let mut took: Vec<f64> = Vec::new();
    while took.len() < decided.len() {
        let (id, micros) = known.recv().await.unwrap();
        took.push(micros.saturating_sub(decided[&id]) as f64 / 1000.0);
    }
    took.sort_by(f64::total_cmp);
    let part = |part: f64| took[((took.len() - 1) as f64 * part) as usize];
    println!(
        "from sending a decision to its waiter's answer: median {:.1} ms, p99 {:.1} ms, most {:.1} ms",
        part(0.5),
        part(0.99),
        part(1.0)
    );
    println!("memory of the service: {} MB", resident());
    waiters.kill().unwrap();
    waiters.wait().unwrap();
}

async fn decide(address: &str, id: &str, hmac: &str) {
    let body = format!("{{\"decision\":\"approve\",\"hmac\":\"{hmac}\"}}");
    let request = format!(
        "POST /v1/approvals/{id}/decision HTTP/1.1\r\nhost: bench\r\n\
         authorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    let body = answer(&mut connection).await;
    assert!(body.contains("\"status\":\"approved\""), "{body}");
}

/// Resident memory of this process in MB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() / 1024
}

/// An agent, an operator, and [`WAITERS`] calls that wait: each with its id and its `hmac`.
async fn prepare(service: &Service) -> Vec<(String, String)> {
    let now = service.now();
    let (organisation, by) = (ORGANISATION.to_owned(), "bench".to_owned());
    let content = r#"{"tools":[{"name":"note_add","origin":"function"}]}"#.to_owned();
    let version = PutVersion {
        organisation: organisation.clone(),
        agent: "crm".to_owned(),
        version: "1".to_owned(),
        digest: approver::decide::digest(&[&content]),
        content,
        by,
        now,
    };
    service.store.put_version(version).await.unwrap();
    let token = Token {
        id: "tok_bench".to_owned(),
        organisation,
        name: "ana".to_owned(),
        kind: TokenKind::Operator,
        created_at: now,
        revoked_at: None,
    };
    let hash = token_hash(TOKEN);
    service.store.create_token(NewToken { token, hash }).await.unwrap();
    let mut raised = Vec::with_capacity(WAITERS);
    for turn in 0..WAITERS / CALLS_OF_A_TURN {
        let turn = format!("turn-{turn}");
        let judged = match service.store.begin(begin(service, &turn)).await.unwrap() {
            Begun::Judge(judged) => judged,
            other => panic!("{other:?}"),
        };
        let mut calls = Vec::with_capacity(CALLS_OF_A_TURN);
        for call in 0..CALLS_OF_A_TURN {
            let call_id = format!("call-{call}");
            let facts = facts(service, &turn, &call_id);
            let plain = serde_json::json!({"version": 1, "arguments": ARGUMENTS, "provenance": [],
                "evidence": [], "prompt": null});
            let plain = plain.to_string();
            let keys = &service.keys;
            let input = keys.seal(ORGANISATION, &facts.id, Part::Input, plain.as_bytes()).unwrap();
            let bound = Bound {
                organisation: ORGANISATION,
                approval: &facts.id,
                conversation: &turn,
                call_id: &call_id,
                server_label: None,
                tool: "note_add",
                arguments: ARGUMENTS,
            };
            raised.push((facts.id.clone(), keys.hmac(&input.key_id, &bound).unwrap()));
            let approval = Box::new(NewApproval { facts, standing: Standing::Pending, input });
            calls.push(NewOutcome { call_id, outcome: NewCallOutcome::Approval(approval) });
        }
        let (ticket, used) = (judged.ticket, Reserved::default());
        let record = Record { ticket, calls, used, escalations: 0, now };
        assert_eq!(service.store.record(record).await.unwrap(), Recorded::Done);
    }
    raised
}

fn begin(service: &Service, turn: &str) -> Begin {
    Begin {
        organisation: ORGANISATION.to_owned(),
        idempotency: Idempotency {
            caller: "gateway".to_owned(),
            endpoint: "judgements".to_owned(),
            key: turn.to_owned(),
            digest: turn.to_owned(),
        },
        door: Door::Gateway,
        instance: None,
        agent: "crm".to_owned(),
        surface: "responses".to_owned(),
        conversation: turn.to_owned(),
        turn: turn.to_owned(),
        continues: None,
        mode: ModeChoice::Unsaid,
        modes: Modes::default(),
        calls: (0..CALLS_OF_A_TURN)
            .map(|call| BeginCall {
                call_id: format!("call-{call}"),
                digest: format!("{turn} {call}"),
                identity: None,
            })
            .collect(),
        tools: Vec::new(),
        reserve: Reserved::default(),
        instance_after: None,
        now: service.now(),
        lease: Duration::from_secs(60),
    }
}

fn facts(service: &Service, turn: &str, call_id: &str) -> Facts {
    let now = service.now();
    Facts {
        id: ids::approval(),
        organisation: ORGANISATION.to_owned(),
        door: Door::Gateway,
        instance: None,
        agent: "crm".to_owned(),
        version: "1".to_owned(),
        surface: "responses".to_owned(),
        conversation: turn.to_owned(),
        turn: turn.to_owned(),
        call_id: call_id.to_owned(),
        user: None,
        tool: ToolIdentity::of(&Tool::new("note_add", Origin::Function)),
        tool_version: None,
        class: Some(Class::Write),
        mode: Mode::Ask,
        timeout_seconds: None,
        pause_reason: None,
        pause_sentence: None,
        judged: None,
        findings: Vec::new(),
        detectors: "1".to_owned(),
        arguments_digest: "0".repeat(64),
        lists_digest: None,
        policy_digest: None,
        latency_ms: 3,
        created_at: now,
        deadline_at: now.plus(Duration::from_secs(24 * 3600)),
    }
}
