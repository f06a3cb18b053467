//! The store of several replicas: PostgreSQL.
//!
//! Every operation is one transaction on a pooled connection, its statements sent together where they
//! do not depend on one another. Other replicas learn of changes by LISTEN/NOTIFY, and by a slow poll
//! where a notification was lost. Nothing here trusts a connection that an operation left halfway.

mod cause;
mod notify;
mod session;
mod tls;
mod together;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use secrecy::{ExposeSecret, SecretString};
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_postgres_rustls::MakeRustlsConnect;

use self::cause::{Failure, PostgresCause};
use self::notify::Notifier;
use self::session::Session;
use super::StoreError;
use super::migrations::{HEAD, MIGRATIONS, VERSIONS_TABLE};
use super::sql::{Engine, Operation};
use super::wake::Registry;

/// How often an operation is run when the database asks for another try (a deadlock).
const TRIES: u32 = 5;
/// Two programs that bring the tables up to date hold this advisory lock one after the other.
const MIGRATION_LOCK: i64 = 0x0061_7070_726f_7665;

/// How the store of several replicas is opened.
#[derive(Debug, Clone)]
pub struct PostgresSettings {
    /// `postgres://user:password@host:port/database`, or the `key=value` form. A server on another
    /// machine is spoken to over TLS unless it says `sslmode=disable`; its certificate is always
    /// checked.
    pub url: SecretString,
    /// A PEM file of the root certificates that count; those of the machine where there is none.
    pub root_certificates: Option<PathBuf>,
    /// Connections for operations, at most; one more waits for notifications.
    pub connections: usize,
    /// How long an operation may take, the wait for a connection included.
    pub timeout: Duration,
    /// How often to look for changes whose notification was lost.
    pub poll: Duration,
}

impl PostgresSettings {
    /// The usual settings for an address: 16 connections, 5 s for an operation and between looks.
    #[must_use]
    pub fn new(url: SecretString) -> Self {
        let (timeout, poll) = (Duration::from_secs(5), Duration::from_secs(5));
        Self { url, root_certificates: None, connections: 16, timeout, poll }
    }
}

/// The store of several replicas.
#[derive(Debug)]
pub struct Postgres {
    pool: Pool,
    registry: Arc<Registry>,
    notifier: Notifier,
    timeout: Duration,
    tasks: [JoinHandle<()>; 3],
}

impl Postgres {
    /// Connects, brings the tables up to date, and starts to listen. It must be called within a
    /// tokio runtime.
    ///
    /// # Errors
    /// The address is malformed, the database cannot be reached, or it belongs to a newer program.
    pub async fn open(settings: PostgresSettings) -> Result<Self, StoreError> {
        let doing = "connecting to the database";
        // Every certificate is checked in full, which is what the longer words ask for. The parser's
        // own error may quote the address, and with it the password.
        let mut config: tokio_postgres::Config = settings
            .url
            .expose_secret()
            .replace("sslmode=verify-full", "sslmode=require")
            .replace("sslmode=verify-ca", "sslmode=require")
            .parse()
            .map_err(|_| PostgresCause::own("the address is malformed").failed(doing))?;
        if config.get_application_name().is_none() {
            config.application_name("approver");
        }
        config
            .connect_timeout(settings.timeout)
            .keepalives_idle(Duration::from_secs(30))
            .tcp_user_timeout(settings.timeout.max(Duration::from_secs(10)));
        let tls = tls::connector(&mut config, settings.root_certificates.as_deref())?;
        let pool = pool(&config, tls.clone(), &settings)?;
        let registry = Arc::new(Registry::default());
        let (notifier, sending) = Notifier::new(pool.clone());
        let migrated = tokio::time::timeout(Duration::from_secs(60), async {
            let mut connection = pool.get().await.map_err(|error| cause::pool(doing, &error))?;
            migrate(&mut connection).await
        });
        migrated
            .await
            .map_err(|_| PostgresCause::own("no answer in time").unavailable(doing))??;
        let tasks = [
            tokio::spawn(sending),
            tokio::spawn(notify::listen(config, tls, Arc::clone(&registry))),
            tokio::spawn(notify::poll(pool.clone(), Arc::clone(&registry), settings.poll)),
        ];
        Ok(Self { pool, registry, notifier, timeout: settings.timeout, tasks })
    }

    async fn run<O: Operation>(&self, operation: &O, write: bool) -> Result<O::Output, StoreError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let connection =
                self.pool.get().await.map_err(|error| cause::pool(O::DOING, &error))?;
            let mut session = Session::new(connection, write, O::DURABLE);
            let outcome = session.run(operation).await;
            let keys = session.end(outcome.is_ok());
            // After a failed commit too: then nobody knows, and a reader finds out.
            for key in &keys {
                self.registry.wake(key);
            }
            self.notifier.send(keys);
            match outcome {
                Ok(output) => return Ok(output),
                Err(Failure::Again(_)) if tries < TRIES => {}
                Err(Failure::Again(cause)) => return Err(cause.unavailable(O::DOING)),
                Err(Failure::Final(error)) => return Err(error),
            }
        }
    }

    async fn in_time<O: Operation>(
        &self,
        operation: &O,
        write: bool,
    ) -> Result<O::Output, StoreError> {
        let run = tokio::time::timeout(self.timeout, self.run(operation, write));
        run.await
            .unwrap_or_else(|_| Err(PostgresCause::own("no answer in time").unavailable(O::DOING)))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        self.pool.close();
    }
}

impl Engine for Postgres {
    async fn write<O: Operation>(&self, operation: O) -> Result<O::Output, StoreError> {
        self.in_time(&operation, true).await
    }

    async fn read<O: Operation>(&self, operation: O) -> Result<O::Output, StoreError> {
        self.in_time(&operation, false).await
    }

    fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }
}

fn pool(
    config: &tokio_postgres::Config,
    tls: MakeRustlsConnect,
    settings: &PostgresSettings,
) -> Result<Pool, StoreError> {
    let manager = Manager::from_config(
        config.clone(),
        tls,
        ManagerConfig { recycling_method: RecyclingMethod::Fast },
    );
    // A replica that hangs must not hold rows for ever, and what is answered must be durable
    // whatever the database's own default.
    let timeout = settings.timeout.as_millis();
    let prepare = format!(
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE; \
         SET exit_on_error = off; \
         SET statement_timeout = {timeout}; SET idle_in_transaction_session_timeout = {timeout}; \
         SELECT set_config('synchronous_commit', 'on', false) \
         WHERE current_setting('synchronous_commit') = 'off'"
    );
    Pool::builder(manager)
        .max_size(settings.connections.max(1))
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(settings.timeout))
        .create_timeout(Some(settings.timeout))
        .recycle_timeout(Some(settings.timeout))
        .post_create(Hook::async_fn(move |client, _| {
            let prepare = prepare.clone();
            Box::pin(
                async move { client.batch_execute(&prepare).await.map_err(HookError::Backend) },
            )
        }))
        .build()
        .map_err(|_| PostgresCause::own("the pool cannot be made").failed("opening the pool"))
}

/// Whoever comes second waits for the first, and finds nothing left to do.
async fn migrate(client: &mut Client) -> Result<(), StoreError> {
    let doing = "bringing the tables up to date";
    let error = |error| cause::error(doing, &error);
    let transaction = client.transaction().await.map_err(error)?;
    // Waiting for the first may take longer than a statement otherwise may.
    transaction.batch_execute("SET LOCAL statement_timeout = 0").await.map_err(error)?;
    transaction
        .query("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK])
        .await
        .map_err(error)?;
    transaction.batch_execute(VERSIONS_TABLE).await.map_err(error)?;
    let newest = "SELECT COALESCE(MAX(version), 0) FROM schema_versions";
    let found: i64 = transaction.query_one(newest, &[]).await.map_err(error)?.get(0);
    if found > HEAD {
        return Err(StoreError::Schema { found, needed: HEAD });
    }
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > found) {
        transaction.batch_execute(migration.text).await.map_err(error)?;
        let insert = "INSERT INTO schema_versions (version) VALUES ($1)";
        transaction.execute(insert, &[&migration.version]).await.map_err(error)?;
    }
    transaction.commit().await.map_err(error)
}
