//! What only the store of several replicas has: replicas, and a network that fails.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_postgres::{AsyncMessage, NoTls};

use approver::store::{
    Begun, CallOutcome, Decided, NewCallOutcome, PersonVerdict, Postgres, PostgresSettings,
    Recorded, Status, Store, StoreError, Watched,
};

use super::place::PostgresPlace;
use super::proxy::{Proxy, TlsServer};
use super::world::{CONVERSATION, ORGANISATION, SURFACE, World, approve};

/// Long enough that nothing here is ever seen by a slow poll.
const NEVER: Duration = Duration::from_secs(24 * 3_600);

async fn open(settings: PostgresSettings) -> World {
    World::new(Arc::new(Postgres::open(settings).await.unwrap()))
}

async fn replica(place: &PostgresPlace) -> World {
    let mut settings = place.settings();
    settings.poll = NEVER;
    open(settings).await
}

/// Waits for a state, as a long poll does.
async fn wait_until_decided(world: &World, id: &str) -> Status {
    let mut watch = world.store.subscribe(vec![Watched::Approval(id.to_owned())]);
    loop {
        let status = world.approval(id).await.status;
        if status != Status::Pending {
            return status;
        }
        watch.changed().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_on_one_replica_reaches_the_others() {
    let place = PostgresPlace::new().await;
    let (one, other) = (replica(&place).await, replica(&place).await);
    for round in 0..20 {
        let call = format!("c{round}");
        let conversation = Watched::Conversation {
            organisation: ORGANISATION.to_owned(),
            surface: SURFACE.to_owned(),
            id: CONVERSATION.to_owned(),
        };
        let mut conversation = other.store.subscribe(vec![conversation]);
        one.raise(&format!("k{round}"), &[&call]).await;
        conversation.changed().await;
        let id = format!("ap-{call}");
        let (waiter, waited) = (one.clone(), id.clone());
        let waiter = tokio::spawn(async move { wait_until_decided(&waiter, &waited).await });
        tokio::task::yield_now().await;
        other.decided(other.decision(&id, approve())).await;
        assert_eq!(waiter.await.unwrap(), Status::Approved);
        let late = one.decide(one.decision(&id, PersonVerdict::Reject)).await;
        assert!(matches!(late, Decided::TooLate(_)), "{late:?}");
    }
    drop((one, other));
    place.remove().await;
}

/// A database's own defaults for transactions are not ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_of_the_database_change_nothing() {
    let place = PostgresPlace::new().await;
    let client = place.client().await;
    for setting in [
        "default_transaction_isolation = 'serializable'",
        "default_transaction_read_only = on",
        "default_transaction_deferrable = on",
        "synchronous_commit = off",
        "exit_on_error = on",
    ] {
        let statement = format!(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET {}', current_database()); END $$",
            setting.replace('\'', "''"),
        );
        client.batch_execute(&statement).await.unwrap();
    }
    let world = replica(&place).await;
    world.raise("k1", &["c1"]).await;
    world.decided(world.decision("ap-c1", approve())).await;
    let rounds = (0..20).map(|round| {
        let world = world.clone();
        async move { world.raise(&format!("k{round}x"), &[&format!("c{round}x")]).await }
    });
    // A repeat is undone by an error of the server's.
    let again = world.begin(world.request("k1", &["c1"])).await;
    assert!(matches!(again, Begun::Replayed { .. }), "{again:?}");
    // Transactions of one conversation, none of which is to be run once more for the others' sake.
    futures::future::join_all(rounds).await;
    drop(world);
    place.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_begun_on_one_replica_is_in_progress_on_the_others() {
    let place = PostgresPlace::new().await;
    let (one, other) = (replica(&place).await, replica(&place).await);
    let judged = one.judge(one.request("k1", &["c1"])).await;
    let again = other.begin(other.request("k1", &["c1"])).await;
    assert!(matches!(again, Begun::InProgress { .. }), "{again:?}");
    // The first replica died. What it began is judged again, once, wherever it is asked for.
    let mut late = other.request("k1", &["c1"]);
    late.now = super::world::at(60);
    let taken = other.judge(late).await;
    other.record(&taken, vec![other.pending(&taken, "c1", "a2")]).await;
    let dead = one.try_record(&judged, vec![one.pending(&judged, "c1", "a1")]).await.unwrap();
    assert_eq!(dead, Recorded::Superseded);
    match one.begin(one.request("k1", &["c1"])).await {
        Begun::Replayed { calls, .. } => {
            let CallOutcome::Approval(approval) = &calls[0].outcome else { panic!("{calls:?}") };
            assert_eq!(approval.facts.id, "a2");
        }
        other => panic!("{other:?}"),
    }
    drop((one, other));
    place.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_notification_is_made_up_for_by_the_slow_poll() {
    let place = PostgresPlace::new().await;
    let mut settings = place.settings();
    settings.poll = Duration::from_millis(100);
    let world = open(settings).await;
    world.raise("k1", &["c1"]).await;
    let client = place.client().await;
    let waiter = world.clone();
    let waiter = tokio::spawn(async move { wait_until_decided(&waiter, "ap-c1").await });
    // A change that notifies nobody.
    let statement = "UPDATE approvals SET status = 'rejected', decided_at = 1, revision = 2";
    client.batch_execute(statement).await.unwrap();
    assert_eq!(waiter.await.unwrap(), Status::Rejected);
    drop(world);
    place.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listening_is_taken_up_again() {
    let place = PostgresPlace::new().await;
    let (one, other) = (replica(&place).await, replica(&place).await);
    let client = place.client().await;
    for round in 0..5 {
        let call = format!("c{round}");
        one.raise(&format!("k{round}"), &[&call]).await;
        let id = format!("ap-{call}");
        let (waiter, waited) = (one.clone(), id.clone());
        let waiter = tokio::spawn(async move { wait_until_decided(&waiter, &waited).await });
        let statement = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                         WHERE datname = current_database() AND query LIKE 'LISTEN%'";
        client.batch_execute(statement).await.unwrap();
        other.decided(other.decision(&id, approve())).await;
        assert_eq!(waiter.await.unwrap(), Status::Approved);
    }
    drop((one, other));
    place.remove().await;
}

/// Judges calls until it is told to stop; through every failure each call ends with exactly one
/// approval, the one that was told.
async fn judge_through_failures(world: World, worker: usize, stop: Arc<AtomicBool>) -> u32 {
    let mut failures = 0;
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let call = format!("c{worker}-{number}");
        let mut attempt = 0;
        let told = loop {
            attempt += 1;
            // A moment later each time, so that what was begun and lost is taken over.
            let mut begin = world.request(&call, &[&call]);
            begin.conversation = format!("conv-{worker}");
            begin.now = super::world::at(attempt * 61);
            let begun = world.store.begin(begin).await;
            let error = match begun {
                Ok(Begun::Judge(judged)) => {
                    let id = format!("{call}-{attempt}");
                    let outcome = world.pending(&judged, &call, &id);
                    match world.try_record(&judged, vec![outcome]).await {
                        Ok(Recorded::Done) => break id,
                        Ok(Recorded::Superseded) => panic!("nobody else judges {call}"),
                        Err(error) => error,
                    }
                }
                Ok(Begun::Replayed { calls, .. }) => {
                    let CallOutcome::Approval(approval) = &calls[0].outcome else {
                        panic!("{calls:?}")
                    };
                    break approval.facts.id.clone();
                }
                Ok(other) => panic!("{other:?}"),
                Err(error) => error,
            };
            assert!(error.is_unavailable(), "{error:?} {:?}", error.source());
            failures += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        // What was told is there, and nothing else for that call.
        let turn = loop {
            let turn = world
                .store
                .approvals_of_turn(ORGANISATION, SURFACE, &format!("conv-{worker}"), "turn-1")
                .await;
            match turn {
                Ok(turn) => break turn,
                Err(error) => {
                    assert!(error.is_unavailable(), "{error:?}");
                    failures += 1;
                }
            }
        };
        let ids: Vec<_> = turn
            .into_iter()
            .filter(|approval| approval.facts.call_id == call)
            .map(|approval| approval.facts.id)
            .collect();
        assert_eq!(ids, [told]);
    }
    failures
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_fails_loses_nothing() {
    let place = PostgresPlace::new().await;
    let proxy = Proxy::start(place.address()).await;
    let mut settings = place.settings();
    settings.url = place.url_at("127.0.0.1", proxy.port());
    let world = open(settings).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut workers = JoinSet::new();
    for worker in 0..4 {
        workers.spawn(judge_through_failures(world.clone(), worker, Arc::clone(&stop)));
    }
    for _ in 0..15 {
        tokio::time::sleep(Duration::from_millis(60)).await;
        proxy.cut();
    }
    // For a while nobody gets through at all.
    proxy.refuse(true);
    proxy.cut();
    let error = world.store.ping().await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    proxy.refuse(false);
    tokio::time::sleep(Duration::from_millis(200)).await;
    stop.store(true, Ordering::Relaxed);
    let failures: u32 = workers.join_all().await.into_iter().sum();
    assert!(failures > 0, "the proxy cut nobody off");
    world.store.ready().await.unwrap();
    drop(world);
    place.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backends_that_are_ended_lose_nothing() {
    let place = PostgresPlace::new().await;
    let world = open(place.settings()).await;
    let client = place.client().await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut workers = JoinSet::new();
    for worker in 0..4 {
        workers.spawn(judge_through_failures(world.clone(), worker, Arc::clone(&stop)));
    }
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(40)).await;
        let statement = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                         WHERE datname = current_database() AND pid <> pg_backend_pid()";
        client.batch_execute(statement).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let failures: u32 = workers.join_all().await.into_iter().sum();
    assert!(failures > 0, "no connection was in use");
    drop(world);
    place.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_somebody_holds_makes_it_unavailable_for_a_while() {
    let place = PostgresPlace::new().await;
    let mut settings = place.settings();
    settings.timeout = Duration::from_millis(300);
    let patient = open(place.settings()).await;
    let world = open(settings).await;
    patient.raise("k1", &["c1"]).await;
    let client = place.client().await;
    client.batch_execute("BEGIN; UPDATE conversations SET escalations = 0").await.unwrap();
    let decision = world.decision("ap-c1", approve());
    let error = world.store.decide(decision.clone()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    world.check_status("ap-c1", Status::Pending).await;
    client.batch_execute("ROLLBACK").await.unwrap();
    patient.decided(decision).await;
    drop((world, patient));
    place.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_start_at_once_migrate_once() {
    let place = PostgresPlace::new().await;
    let mut starting = JoinSet::new();
    for _ in 0..8 {
        let mut settings = place.settings();
        settings.connections = 2;
        starting.spawn(async move {
            let store = Postgres::open(settings).await.unwrap();
            store.ready().await.unwrap();
        });
    }
    starting.join_all().await;
    let client = place.client().await;
    let versions = "SELECT COUNT(*), MAX(version) FROM schema_versions";
    let row = client.query_one(versions, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), row.get::<_, i64>(1));
    // A database of a newer program is refused.
    client.batch_execute("INSERT INTO schema_versions (version) VALUES (999)").await.unwrap();
    let error = Postgres::open(place.settings()).await.unwrap_err();
    assert!(matches!(error, StoreError::Schema { found: 999, .. }), "{error:?}");
    place.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_is_never_shown() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let addresses = [
        (format!("postgres://user:planted-secret@127.0.0.1:{port}/db"), true),
        ("postgres://user:planted-secret@[nonsense/db".to_owned(), false),
    ];
    for (address, reachable) in addresses {
        let settings = PostgresSettings::new(address.into());
        assert!(!format!("{settings:?}").contains("planted-secret"));
        let error = Postgres::open(settings).await.unwrap_err();
        assert_eq!(error.is_unavailable(), reachable, "{error:?}");
        let mut shown = format!("{error} {error:?}");
        let mut source = error.source();
        while let Some(cause) = source {
            shown.push_str(&format!(" {cause} {cause:?}"));
            source = cause.source();
        }
        assert!(!shown.contains("planted-secret"), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_checked() {
    let place = PostgresPlace::new().await;
    let server = TlsServer::start(place.address()).await;
    let encrypted = |port: u16, roots: Option<std::path::PathBuf>| {
        let mut settings = place.settings();
        let url = place.url_at("127.0.0.1", port);
        let url = format!("{}?sslmode=verify-full", secrecy::ExposeSecret::expose_secret(&url));
        settings.url = url.into();
        settings.root_certificates = roots;
        settings
    };
    // Nobody vouches for it but the file that says so.
    let roots = Some(server.certificate().to_owned());
    let world = open(encrypted(server.port(), roots.clone())).await;
    world.raise("k1", &["c1"]).await;
    let other = Postgres::open(encrypted(server.port(), None)).await.unwrap_err();
    assert!(other.is_unavailable(), "{other:?}");
    // A server that speaks no TLS is not spoken to without.
    let plain = Postgres::open(encrypted(place.address().1, roots)).await.unwrap_err();
    assert!(plain.is_unavailable(), "{plain:?}");
    drop(world);
    place.remove().await;
}

/// A notification carries ids, and nothing of what they stand for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_carry_ids_alone() {
    let place = PostgresPlace::new().await;
    let (host, port) = place.address();
    let url = secrecy::ExposeSecret::expose_secret(&place.url_at(&host, port)).to_owned();
    let (client, mut connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let (heard, mut payloads) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(message) =
            std::future::poll_fn(|context| connection.poll_message(context)).await
        {
            if let Ok(AsyncMessage::Notification(notification)) = message {
                heard.send(notification.payload().to_owned()).unwrap();
            }
        }
    });
    client.batch_execute("LISTEN approver_changes").await.unwrap();
    let world = open(place.settings()).await;
    let mut begin = world.request("planted-key", &["planted-call"]);
    begin.conversation = "planted-conversation".to_owned();
    let judged = world.judge(begin).await;
    let mut outcome = world.pending(&judged, "planted-call", "apreq_1");
    if let NewCallOutcome::Approval(approval) = &mut outcome.outcome {
        approval.facts.pause_sentence = Some("planted-sentence".to_owned());
        approval.facts.user = Some("planted-user".to_owned());
    }
    world.record(&judged, vec![outcome]).await;
    let mut decision = world.decision("apreq_1", approve());
    decision.reason = Some("planted-reason".to_owned());
    decision.by = "planted-person".to_owned();
    world.decided(decision).await;
    let mut all = Vec::new();
    while !all.contains(&"a:apreq_1".to_owned()) {
        all.push(payloads.recv().await.unwrap());
    }
    for payload in &all {
        assert!(!payload.contains("planted"), "{payload}");
        assert!(!payload.contains(ORGANISATION), "{payload}");
    }
    drop(world);
    place.remove().await;
}
