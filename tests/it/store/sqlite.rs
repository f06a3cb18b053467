//! What only the embedded store has: a file, and other processes that use it too.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use approver::store::{
    Begun, ChangeOperation, Decided, PersonVerdict, Recorded, Sqlite, SqliteSettings, Status,
    StoreError, Watched,
};
use rusqlite::Connection;

use super::instances;
use super::place::SqlitePlace;
use super::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_is_there_after_opening_again() {
    let place = SqlitePlace::new();
    let world = World::new(place.open().await);
    world.raise("k1", &["c1"]).await;
    let decided = world.decided(world.decision("ap-c1", PersonVerdict::Reject)).await;
    drop(world);
    let world = World::new(place.open().await);
    assert_eq!(world.approval("ap-c1").await, decided);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_a_file() {
    let place = SqlitePlace::new();
    // Both start at once with no file at all.
    let (one, other) = tokio::join!(place.open(), place.open());
    let (one, other) = (World::new(one), World::new(other));
    one.raise("k1", &["c1"]).await;
    let mut watch = one.store.subscribe(vec![Watched::Approval("ap-c1".to_owned())]);
    let decided = other.decided(other.decision("ap-c1", PersonVerdict::Reject)).await;
    while one.approval("ap-c1").await.status == Status::Pending {
        watch.changed().await;
    }
    assert_eq!(one.approval("ap-c1").await, decided);
    let late = one.decide(one.decision("ap-c1", PersonVerdict::Reject)).await;
    assert_eq!(late, Decided::TooLate(Box::new(decided)));
}

/// What a process that is gone had begun is taken over at once: nobody else can be at work on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_process_takes_over_what_another_left() {
    let place = SqlitePlace::new();
    let world = World::new(place.open().await);
    let left = world.judge(world.request("k1", &["c1"])).await;
    let repeat = world.begin(world.request("k1", &["c1"])).await;
    assert!(matches!(repeat, Begun::InProgress { .. }), "{repeat:?}");
    let change = || {
        let operation = ChangeOperation::Create { proposed: "i1".to_owned() };
        instances::change(operation, "k2", "d")
    };
    let left_change = instances::go(&world, change()).await;
    drop(world);
    let world = World::new(place.open().await);
    let taken_over = world.judge(world.request("k1", &["c1"])).await;
    assert!(taken_over.ticket.attempt > left.ticket.attempt);
    let taken = instances::go(&world, change()).await;
    assert!(taken.attempt > left_change.attempt && taken.instance == "i1");
    // Had it only been slow, then what it still brings would not count.
    let late = world.pending(&left, "c1", "late");
    assert_eq!(world.try_record(&left, vec![late]).await.unwrap(), Recorded::Superseded);
    let outcome = world.pending(&taken_over, "c1", "ap-c1");
    world.record(&taken_over, vec![outcome]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_another_process_works_its_leases_hold() {
    let place = SqlitePlace::new();
    let (one, other) = (World::new(place.open().await), World::new(place.open().await));
    let judged = one.judge(one.request("k1", &["c1"])).await;
    let check = async |world: &World| {
        let repeat = world.begin(world.request("k1", &["c1"])).await;
        assert!(matches!(repeat, Begun::InProgress { .. }), "{repeat:?}");
    };
    check(&other).await;
    // One comes and one goes; the first is never left alone with the file.
    let third = World::new(place.open().await);
    check(&third).await;
    drop(other);
    let fourth = World::new(place.open().await);
    check(&fourth).await;
    let outcome = one.pending(&judged, "c1", "ap-c1");
    one.record(&judged, vec![outcome]).await;
    let replay = fourth.begin(fourth.request("k1", &["c1"])).await;
    assert!(matches!(replay, Begun::Replayed { .. }), "{replay:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_elsewhere_makes_it_unavailable_for_a_while() {
    let place = SqlitePlace::new();
    let mut settings = place.settings();
    settings.busy = Duration::from_millis(10);
    let world = World::new(Arc::new(Sqlite::open(settings.clone()).await.unwrap()));
    world.raise("k1", &["c1"]).await;
    let other = Connection::open(&settings.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let decision = world.decision("ap-c1", PersonVerdict::Reject);
    let error = world.store.decide(decision.clone()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert_eq!(error.to_string(), "the store is not available while recording a decision");
    assert!(error.source().unwrap().to_string().contains("locked"), "{error:?}");
    // Who only reads does not wait for a writer.
    world.check_status("ap-c1", Status::Pending).await;
    other.execute_batch("ROLLBACK").unwrap();
    world.decided(decision).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_a_newer_program_is_refused() {
    let place = SqlitePlace::new();
    let store = place.open().await;
    let other = Connection::open(place.settings().path).unwrap();
    other.execute("INSERT INTO schema_versions (version) VALUES (999)", []).unwrap();
    let refused = |error: StoreError| {
        assert!(matches!(error, StoreError::Schema { found: 999, .. }), "{error:?}");
    };
    refused(store.ready().await.unwrap_err());
    refused(Sqlite::open(place.settings()).await.unwrap_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cannot_be_is_an_error() {
    let place = SqlitePlace::new();
    let path = place.settings().path.join("below-a-file-that-is-none").join("approver.db");
    let error = Sqlite::open(SqliteSettings::new(&path)).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    std::fs::write(place.settings().path, "this is no database, and long enough to say so")
        .unwrap();
    let error = Sqlite::open(place.settings()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_else_may_read_the_file() {
    use std::os::unix::fs::PermissionsExt;

    let place = SqlitePlace::new();
    let world = World::new(place.open().await);
    world.raise("k1", &["c1"]).await;
    let path = place.settings().path;
    for suffix in ["", "-wal", "-shm", "-lock"] {
        let path = format!("{}{suffix}", path.display());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{path}");
    }
}
