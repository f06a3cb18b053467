//! Where a store lives in a test: a file of its own, or a database of its own on the server whose
//! address stands in `APPROVER_TEST_POSTGRES`.

use std::sync::Arc;
use std::time::Duration;

use approver::store::{
    Begun, NewCallOutcome, Postgres, PostgresSettings, Sqlite, SqliteSettings, Store, StoreError,
};
use secrecy::SecretString;
use tempfile::TempDir;
use tokio_postgres::{Client, Config, NoTls};

use super::world::{World, at};

/// A folder with a database file in it.
pub(crate) struct SqlitePlace {
    folder: TempDir,
}

impl SqlitePlace {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn settings(&self) -> SqliteSettings {
        let mut settings = SqliteSettings::new(&self.folder.path().join("approver.db"));
        settings.poll = Duration::from_millis(200);
        settings
    }

    pub(crate) async fn open(&self) -> Arc<dyn Store> {
        Arc::new(Sqlite::open(self.settings()).await.unwrap())
    }
}

/// A database on a PostgreSQL server.
pub(crate) struct PostgresPlace {
    server: Config,
    name: String,
}

impl PostgresPlace {
    pub(crate) async fn new() -> Self {
        let server = server();
        let process = std::process::id();
        let name = format!("approver_test_{process}_{}", fastrand::u64(..));
        administer(&server, &format!("CREATE DATABASE {name}")).await;
        Self { server, name }
    }

    /// The server's host and port.
    pub(crate) fn address(&self) -> (String, u16) {
        let host = match self.server.get_hosts() {
            [tokio_postgres::config::Host::Tcp(host), ..] => host.clone(),
            _ => panic!("APPROVER_TEST_POSTGRES must name a TCP host"),
        };
        (host, self.server.get_ports().first().copied().unwrap_or(5432))
    }

    /// The address of the database, through `host` and `port`.
    pub(crate) fn url_at(&self, host: &str, port: u16) -> SecretString {
        let user = self.server.get_user().unwrap_or("postgres");
        let password = self.server.get_password().map(String::from_utf8_lossy);
        let password = password.map(|password| format!(":{password}")).unwrap_or_default();
        format!("postgres://{user}{password}@{host}:{port}/{}", self.name).into()
    }

    pub(crate) fn settings(&self) -> PostgresSettings {
        let (host, port) = self.address();
        let mut settings = PostgresSettings::new(self.url_at(&host, port));
        settings.connections = 8;
        // Tests share two cores with each other: nothing here may fail for being slow.
        settings.timeout = Duration::from_secs(60);
        settings
    }

    pub(crate) async fn open(&self) -> Arc<dyn Store> {
        Arc::new(Postgres::open(self.settings()).await.unwrap())
    }

    /// A connection beside the store's own.
    pub(crate) async fn client(&self) -> Client {
        let mut config = self.server.clone();
        connect(config.dbname(&self.name)).await
    }

    pub(crate) async fn remove(self) {
        administer(&self.server, &format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }
}

fn server() -> Config {
    let Ok(address) = std::env::var("APPROVER_TEST_POSTGRES") else {
        panic!(
            "these tests need a PostgreSQL server: run `tests/run`, or `tests/with-postgres cargo \
             test`, or set APPROVER_TEST_POSTGRES"
        );
    };
    address.parse().expect("APPROVER_TEST_POSTGRES is an address such as postgres://user@host/db")
}

async fn administer(server: &Config, statement: &str) {
    connect(server).await.batch_execute(statement).await.unwrap();
}

async fn connect(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub(super) async fn it_is_ready(world: World) {
    world.store.ping().await.unwrap();
    world.store.ready().await.unwrap();
}

/// An error's whole chain names what was done and the database's code, never a value.
pub(super) async fn errors_quote_no_value(world: World) {
    let planted = "planted-secret";
    let first = world.judge(world.request("k1", &["c1"])).await;
    let mut outcome = world.pending(&first, "c1", planted);
    world.record(&first, vec![outcome.clone()]).await;
    // An approval's id that exists: the database refuses it.
    let second = world.judge(world.request("k2", &["c2"])).await;
    outcome.call_id = "c2".to_owned();
    if let NewCallOutcome::Approval(approval) = &mut outcome.outcome {
        approval.facts.call_id = "c2".to_owned();
    }
    let error = world.try_record(&second, vec![outcome]).await.unwrap_err();
    assert!(matches!(error, StoreError::Failed { .. }), "{error:?}");
    let mut chain = format!("{error:?} {error}");
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        chain.push_str(&format!(" {cause} {cause:?}"));
        source = cause.source();
    }
    assert!(chain.contains("recording a judgement"), "{chain}");
    assert!(!chain.contains(planted), "{chain}");
    // Nothing of it was stored, and it can still be recorded.
    let outcome = world.pending(&second, "c2", "a2");
    world.record(&second, vec![outcome]).await;
}

/// What one database could not store, neither does.
pub(super) async fn text_may_hold_any_character(world: World) {
    let judged = world.judge(world.request("k1", &["c1"])).await;
    let mut outcome = world.pending(&judged, "c1", "a1");
    let text = "a\0b\u{202e}c\u{10ffff}\u{1f600}\\ ' \" $1 ?1";
    if let NewCallOutcome::Approval(approval) = &mut outcome.outcome {
        approval.facts.pause_sentence = Some(text.to_owned());
        approval.facts.user = Some(String::new());
    }
    world.record(&judged, vec![outcome]).await;
    let stored = world.approval("a1").await;
    let expected = text.replace('\0', "\u{fffd}");
    assert_eq!(stored.facts.pause_sentence, Some(expected));
    assert_eq!(stored.facts.user, Some(String::new()));
    assert_eq!(stored.facts.created_at, at(0));
    let replay = world.begin(world.request("k1", &["c1"])).await;
    assert!(matches!(replay, Begun::Replayed { .. }), "{replay:?}");
}
