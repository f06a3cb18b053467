//! What a store bears: judgements a second, begun and recorded with full durability, by callers that
//! each wait for their answer. `cargo bench --bench store`; with PostgreSQL too:
//! `tests/with-postgres cargo bench --bench store`
//!
//! One judgement is one call that the judge approved: a begun request with its idempotency key, call
//! and reservation, then an approval with 2 KB of sealed input. A turn has four of them.

#![expect(clippy::print_stdout, reason = "its figures are for whoever runs it")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use approver::decide::policy::{Class, Mode, Modes};
use approver::decide::prompt::Cuts;
use approver::decide::request::{Door, Origin};
use approver::decide::state::ToolIdentity;
use approver::decide::verdict::Tokens;
use approver::store::{
    Begin, BeginCall, Begun, Facts, Idempotency, JudgeRecord, ModeChoice, NewApproval,
    NewCallOutcome, NewOutcome, Postgres, PostgresSettings, Record, Recorded, Reserved, Sealed,
    Sqlite, SqliteSettings, Standing, Store, Timestamp, ToJudge, ToolDefinition,
};
use tokio::task::JoinSet;

const CALLERS: usize = 64;
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(10);
const INPUT_BYTES: usize = 2_048;
const CALLS_OF_A_TURN: u64 = 4;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let settings = SqliteSettings::new(&folder.path().join("approver.db"));
        measure("SQLite", Arc::new(Sqlite::open(settings).await.unwrap())).await;
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
    let start = Instant::now() + WARM_UP;
    let end = start + MEASURED;
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            let mut taken = Vec::new();
            let mut number = 0;
            loop {
                let begun = Instant::now();
                if begun >= end {
                    return taken;
                }
                judge(&*store, caller, number).await;
                number += 1;
                if begun >= start {
                    taken.push(begun.elapsed());
                }
            }
        });
    }
    let mut taken = callers.join_all().await.concat();
    taken.sort_unstable();
    let at = |share: f64| {
        let index = (share * (taken.len() - 1) as f64) as usize;
        taken[index].as_secs_f64() * 1_000.0
    };
    let rate = taken.len() as f64 / MEASURED.as_secs_f64();
    println!(
        "{name:<11} {rate:>6.0} judgements/s with {CALLERS} callers, p50 {:.1} ms, p99 {:.1} ms",
        at(0.5),
        at(0.99)
    );
}

async fn judge(store: &dyn Store, caller: usize, number: u64) {
    let begun = store.begin(request(caller, number)).await.unwrap();
    let Begun::Judge(judged) = begun else { panic!("{begun:?}") };
    let record = Record {
        ticket: judged.ticket.clone(),
        calls: vec![approved(&judged, caller, number)],
        used: judged.ticket.reserved,
        escalations: 0,
        now: now(),
    };
    assert_eq!(store.record(record).await.unwrap(), Recorded::Done);
}

fn now() -> Timestamp {
    std::time::SystemTime::now().into()
}

fn tool() -> ToolIdentity {
    ToolIdentity {
        origin: Origin::Connector,
        server_label: Some("crm".to_owned()),
        name: "note_add".to_owned(),
        definition: "d".repeat(64),
    }
}

fn request(caller: usize, number: u64) -> Begin {
    let turn = number / CALLS_OF_A_TURN;
    let content = "{\"description\":\"adds a note\"}".to_owned();
    Begin {
        organisation: "org_1".to_owned(),
        idempotency: Idempotency {
            caller: "tok_gateway".to_owned(),
            endpoint: "judgements".to_owned(),
            key: format!("key-{caller}-{number}"),
            digest: "b".repeat(64),
        },
        door: Door::Gateway,
        instance: None,
        agent: "erp-assistant".to_owned(),
        surface: "responses".to_owned(),
        conversation: format!("conv_{caller}_{}", turn / 4),
        turn: format!("resp_{turn}"),
        continues: None,
        mode: ModeChoice::Unsaid,
        modes: Modes { offered: Mode::ALL.to_vec(), default: Mode::Auto },
        calls: vec![BeginCall {
            call_id: format!("call_{number}"),
            digest: "c".repeat(64),
            identity: Some("i".repeat(64)),
        }],
        tools: vec![ToolDefinition { tool: tool(), content }],
        reserve: Reserved { judged: 1, sandbox_calls: 0, sandbox_seconds: 0 },
        instance_after: None,
        now: now(),
        lease: Duration::from_secs(60),
    }
}

fn approved(judged: &ToJudge, caller: usize, number: u64) -> NewOutcome {
    let call_id = format!("call_{number}");
    let now = now();
    let facts = Facts {
        id: format!("apreq_{caller}_{number}"),
        organisation: judged.ticket.organisation.clone(),
        door: Door::Gateway,
        instance: None,
        agent: "erp-assistant".to_owned(),
        version: "7".to_owned(),
        surface: judged.ticket.surface.clone(),
        conversation: judged.ticket.conversation.clone(),
        turn: judged.ticket.turn.clone(),
        call_id: call_id.clone(),
        user: Some("usr_81".to_owned()),
        tool: tool(),
        tool_version: Some("3".to_owned()),
        class: Some(Class::Write),
        mode: judged.mode,
        timeout_seconds: None,
        pause_reason: None,
        pause_sentence: None,
        judged: Some(JudgeRecord {
            model: "judge-1".to_owned(),
            reason: Some("The user asked for exactly this note.".to_owned()),
            prompt_digest: "p".repeat(64),
            tokens: Tokens { input: Some(2_000), output: Some(90), cached: Some(1_500) },
            cuts: Cuts::default(),
        }),
        findings: Vec::new(),
        detectors: "1".to_owned(),
        arguments_digest: "a".repeat(64),
        lists_digest: Some("l".repeat(64)),
        policy_digest: Some("q".repeat(64)),
        latency_ms: 800,
        created_at: now,
        deadline_at: now.plus(Duration::from_secs(86_400)),
    };
    let standing = Standing::Approved {
        by: "auto:approver".to_owned(),
        reason: Some("The user asked for exactly this note.".to_owned()),
        start_by: now.plus(Duration::from_secs(300)),
    };
    let input = Sealed { key_id: "k1".to_owned(), ciphertext: vec![7; INPUT_BYTES] };
    let approval = Box::new(NewApproval { facts, standing, input });
    NewOutcome { call_id, outcome: NewCallOutcome::Approval(approval) }
}
