//! The embedded store: one file, one writer.
//!
//! A thread of its own runs every write. It takes all that wait, runs each in a savepoint of one
//! transaction, and answers them after the one commit, so that a sync of the disk serves many. The
//! file is in WAL mode with `synchronous=FULL`: readers do not wait for the writer, and what was
//! answered survives a power failure. Nothing here shares the file with another machine.

mod cause;
mod presence;
mod session;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use self::cause::{SqliteCause, failed, sqlite_error, unavailable};
use self::presence::Presence;
use self::session::{Session, run};
use self::writer::{Job, JobOf, write_all};
use super::StoreError;
use super::migrations::{HEAD, MIGRATIONS, VERSIONS_TABLE};
use super::sql::{Engine, Operation};
use super::wake::Registry;

/// Writes that wait for the writer before whoever brings more has to wait.
const QUEUE: usize = 1024;
/// Statements that stay prepared on each connection.
const PREPARED: usize = 256;
/// Approvals that one statement of the slow poll asks about.
const POLLED: usize = 1000;

/// Pages of 4 KiB in the log after which it is carried over into the file.
const CHECKPOINT_PAGES: i64 = 8_000;
/// Pages of 4 KiB that the writer keeps in memory.
const CACHE_PAGES: i64 = 8_000;

/// How the embedded store is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteSettings {
    /// The file; made, readable for its owner alone, when there is none.
    pub path: PathBuf,
    /// Connections that read beside the writer.
    pub readers: usize,
    /// How long to wait while another process writes.
    pub busy: Duration,
    /// How often to look for changes that another process made.
    pub poll: Duration,
}

impl SqliteSettings {
    /// The usual settings for a file: 4 readers, 5 s each to wait and to look.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let (busy, poll) = (Duration::from_secs(5), Duration::from_secs(5));
        Self { path: path.to_owned(), readers: 4, busy, poll }
    }
}

/// The embedded store.
#[derive(Debug)]
pub struct Sqlite {
    /// `None` only while it is dropped.
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    writer: Option<thread::JoinHandle<()>>,
    readers: Arc<Readers>,
    registry: Arc<Registry>,
    poll: JoinHandle<()>,
    /// Given back last, after the writer ended.
    _presence: Presence,
}

impl Sqlite {
    /// Opens the file, brings its tables up to date, and starts the writer. Where no other process has
    /// the file open, what one that is gone had begun may be taken over at once. It must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    /// The file cannot be opened or written, or belongs to a newer program.
    pub async fn open(settings: SqliteSettings) -> Result<Self, StoreError> {
        let registry = Arc::new(Registry::default());
        let count = settings.readers.max(1);
        let poll_every = settings.poll;
        let opened = tokio::task::spawn_blocking(move || open_all(&settings)).await;
        let (writer, readers, presence) =
            opened.map_err(|_| failed(OPENING, SqliteCause::PANIC))??;
        let (queue, jobs) = mpsc::channel(QUEUE);
        let wakes = Arc::clone(&registry);
        let writer = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || write_all(writer, jobs, &wakes))
            .map_err(|error| unavailable(OPENING, error))?;
        let sessions = Mutex::new(readers.into_iter().map(Session::new).collect());
        let readers = Arc::new(Readers { free: Semaphore::new(count), sessions });
        let poll = tokio::spawn(poll_all(Arc::clone(&readers), Arc::clone(&registry), poll_every));
        let (queue, writer, _presence) = (Some(queue), Some(writer), presence);
        Ok(Self { queue, writer, readers, registry, poll, _presence })
    }
}

/// Waits for the writer, which finishes what it was given.
impl Drop for Sqlite {
    fn drop(&mut self) {
        self.poll.abort();
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has told its callers.
            let _ended = writer.join();
        }
    }
}

impl Engine for Sqlite {
    async fn write<O: Operation>(&self, operation: O) -> Result<O::Output, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(JobOf::new(operation, reply));
        let gone = || unavailable(O::DOING, SqliteCause::GONE);
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        queue.send(job).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    async fn read<O: Operation>(&self, operation: O) -> Result<O::Output, StoreError> {
        self.readers.read(operation).await
    }

    fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }
}

const OPENING: &str = "opening the database file";

fn open_all(
    settings: &SqliteSettings,
) -> Result<(Connection, Vec<Connection>, Presence), StoreError> {
    create_private(&settings.path).map_err(|error| unavailable(OPENING, error))?;
    let writer = connect(settings, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    migrate(&writer)?;
    let presence = Presence::enter(&settings.path, &writer)?;
    let reader = |_| connect(settings, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let readers = (0..settings.readers.max(1)).map(reader).collect::<Result<_, _>>()?;
    Ok((writer, readers, presence))
}

/// Makes the file where there is none; nobody but its owner may read it.
fn create_private(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

fn connect(settings: &SqliteSettings, access: OpenFlags) -> Result<Connection, StoreError> {
    let error = |error| sqlite_error(OPENING, &error);
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&settings.path, flags).map_err(error)?;
    connection.busy_timeout(settings.busy).map_err(error)?;
    // Plans never look at parameters: with partial indexes a statement would else be planned anew
    // each time that it runs.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(error)?;
    if access == OpenFlags::SQLITE_OPEN_READ_WRITE {
        connection.pragma_update(None, "journal_mode", "WAL").map_err(error)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(error)?;
        // The writer itself carries the log over into the file; less often is cheaper.
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(error)?;
        connection.pragma_update(None, "cache_size", CACHE_PAGES).map_err(error)?;
    }
    connection.set_prepared_statement_cache_capacity(PREPARED);
    Ok(connection)
}

/// Whoever comes second waits for the first, and finds nothing left to do.
fn migrate(connection: &Connection) -> Result<(), StoreError> {
    let doing = "bringing the tables up to date";
    let error = |error| sqlite_error(doing, &error);
    connection.execute_batch("BEGIN IMMEDIATE").map_err(error)?;
    let found: i64 = connection
        .execute_batch(VERSIONS_TABLE)
        .and_then(|()| {
            let newest = "SELECT COALESCE(MAX(version), 0) FROM schema_versions";
            connection.query_row(newest, [], |row| row.get(0))
        })
        .map_err(error)?;
    if found > HEAD {
        return Err(StoreError::Schema { found, needed: HEAD });
    }
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > found) {
        connection
            .execute_batch(&migration.for_sqlite())
            .and_then(|()| {
                let insert = "INSERT INTO schema_versions (version) VALUES (?1)";
                connection.execute(insert, [migration.version])
            })
            .map_err(error)?;
    }
    connection.execute_batch("COMMIT").map_err(error)
}

/// Connections that read beside the writer.
#[derive(Debug)]
struct Readers {
    free: Semaphore,
    sessions: Mutex<Vec<Session>>,
}

impl Readers {
    async fn read<O: Operation>(self: &Arc<Self>, operation: O) -> Result<O::Output, StoreError> {
        self.with(move |session| run(&operation, session).0)
            .await
            .unwrap_or_else(|| Err(unavailable(O::DOING, SqliteCause::GONE)))
    }

    /// Runs `work` on a thread that may wait for the disk; `None` when it panicked.
    async fn with<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Session) -> T + Send + 'static,
    ) -> Option<T> {
        let readers = Arc::clone(self);
        // Whoever waits for the answer may go away; the session and its slot come back all the same.
        self.free.acquire().await.ok()?.forget();
        let worked = tokio::task::spawn_blocking(move || {
            let lock = || readers.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            let session = lock().pop();
            let output = session.map(|mut session| {
                let output = work(&mut session);
                lock().push(session);
                output
            });
            readers.free.add_permits(1);
            output
        });
        worked.await.ok()?
    }
}

/// Looks for changes that another process made.
async fn poll_all(readers: Arc<Readers>, registry: Arc<Registry>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let mut found = Vec::new();
        for ids in registry.watched_approvals().chunks(POLLED) {
            let ids = serde_json::json!(ids).to_string();
            let polled = readers.with(move |session| revisions(&session.connection, &ids)).await;
            // What fails now is looked for again next time.
            found.extend(polled.and_then(Result::ok).unwrap_or_default());
        }
        registry.polled(found);
    }
}

fn revisions(connection: &Connection, ids: &str) -> rusqlite::Result<Vec<(String, i64)>> {
    let text = "SELECT id, revision FROM approvals WHERE id IN (SELECT value FROM json_each(?1))";
    let mut statement = connection.prepare_cached(text)?;
    let rows = statement.query_map([ids], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use rusqlite::ErrorCode;
    use rusqlite::types::ValueRef;

    use super::*;

    /// What was answered survives a power failure only with these.
    #[test]
    fn the_writer_is_durable_and_readers_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let settings = SqliteSettings::new(&folder.path().join("approver.db"));
        let (writer, readers, _presence) = open_all(&settings).unwrap();
        let pragma = |connection: &Connection, name: &str| -> String {
            let read = |row: &rusqlite::Row<'_>| {
                row.get_ref(0).map(|value| match value {
                    ValueRef::Integer(number) => number.to_string(),
                    ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                    ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => String::new(),
                })
            };
            connection.query_row(&format!("PRAGMA {name}"), [], read).unwrap()
        };
        assert_eq!(pragma(&writer, "journal_mode"), "wal");
        assert_eq!(pragma(&writer, "synchronous"), "2");
        for reader in &readers {
            let error = reader.execute("DELETE FROM approvals", []).unwrap_err();
            assert_eq!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly));
        }
    }
}
