//! The embedded store: one file, one writer.
//!
//! A thread of its own runs every write. It takes all that wait, runs each in a savepoint of one
//! transaction, and answers them after the one commit, so that a sync of the disk serves many. The
//! file is in WAL mode with `synchronous=FULL`: readers do not wait for the writer, and what was
//! answered survives a power failure. Nothing here shares the file with another machine.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, params_from_iter};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::StoreError;
use super::migrations::{HEAD, MIGRATIONS, VERSIONS_TABLE};
use super::sql::{End, Engine, Operation, Row, Sql, Statement, Value};
use super::wake::{Key, Registry};

/// Operations of one transaction, at most.
const GROUP: usize = 256;
/// Writes that wait for the writer before whoever brings more has to wait.
const QUEUE: usize = 1024;
/// Statements that stay prepared on each connection.
const PREPARED: usize = 256;
/// Approvals that one statement of the slow poll asks about.
const POLLED: usize = 1000;

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
}

impl Sqlite {
    /// Opens the file, brings its tables up to date, and starts the writer. It must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    /// The file cannot be opened or written, or belongs to a newer program.
    pub async fn open(settings: SqliteSettings) -> Result<Self, StoreError> {
        let registry = Arc::new(Registry::default());
        let count = settings.readers.max(1);
        let poll_every = settings.poll;
        let opened = tokio::task::spawn_blocking(move || open_all(&settings)).await;
        let (writer, readers) = opened.map_err(|_| failed(OPENING, SqliteCause::PANIC))??;
        let (queue, jobs) = mpsc::channel(QUEUE);
        let wakes = Arc::clone(&registry);
        let writer = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || write_all(writer, jobs, &wakes))
            .map_err(|error| unavailable(OPENING, error))?;
        let sessions = Mutex::new(readers.into_iter().map(Session::new).collect());
        let readers = Arc::new(Readers { free: Semaphore::new(count), sessions });
        let poll = tokio::spawn(poll_all(Arc::clone(&readers), Arc::clone(&registry), poll_every));
        Ok(Self { queue: Some(queue), writer: Some(writer), readers, registry, poll })
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
        let job = Box::new(JobOf { operation, outcome: None, reply });
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

fn open_all(settings: &SqliteSettings) -> Result<(Connection, Vec<Connection>), StoreError> {
    create_private(&settings.path).map_err(|error| unavailable(OPENING, error))?;
    let writer = connect(settings, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    migrate(&writer)?;
    let reader = |_| connect(settings, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let readers = (0..settings.readers.max(1)).map(reader).collect::<Result<_, _>>()?;
    Ok((writer, readers))
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
    if access == OpenFlags::SQLITE_OPEN_READ_WRITE {
        connection.pragma_update(None, "journal_mode", "WAL").map_err(error)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(error)?;
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

/// The writer's life: one transaction after the other, each with all that waits.
fn write_all(connection: Connection, mut jobs: mpsc::Receiver<Box<dyn Job>>, wakes: &Registry) {
    let mut session = Session::new(connection);
    while let Some(first) = jobs.blocking_recv() {
        let mut group = Vec::new();
        let mut keys = Vec::new();
        let ended = write_group(&mut session, first, &mut jobs, &mut group, &mut keys);
        if ended.is_err() && !session.connection.is_autocommit() {
            // If even this fails the next BEGIN does, and says so.
            let _rolled_back = session.connection.execute_batch("ROLLBACK");
        }
        // After a failed commit too: then nobody knows, and a reader finds out.
        for key in &keys {
            wakes.wake(key);
        }
        for job in group {
            job.finish(ended.as_ref().err());
        }
    }
}

fn write_group(
    session: &mut Session,
    first: Box<dyn Job>,
    jobs: &mut mpsc::Receiver<Box<dyn Job>>,
    group: &mut Vec<Box<dyn Job>>,
    keys: &mut Vec<Key>,
) -> Result<(), rusqlite::Error> {
    let mut next = Some(first);
    let begun = session.connection.execute_batch("BEGIN IMMEDIATE");
    while let Some(mut job) = next {
        let run = match &begun {
            Ok(()) if !job.is_forsaken() => run_job(session, &mut *job, keys),
            Ok(()) | Err(_) => Ok(()),
        };
        group.push(job);
        run?;
        next = if group.len() < GROUP { jobs.try_recv().ok() } else { None };
    }
    begun?;
    session.connection.execute_batch("COMMIT")
}

/// An error here ends the whole transaction; an operation's own error only undoes the operation.
fn run_job(
    session: &mut Session,
    job: &mut dyn Job,
    keys: &mut Vec<Key>,
) -> Result<(), rusqlite::Error> {
    session.execute("SAVEPOINT operation")?;
    session.keys.clear();
    let keep = job.run(session);
    if session.connection.is_autocommit() {
        // The disk is full, or worse: SQLite has undone everything by itself.
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ABORT_ROLLBACK),
            None,
        ));
    }
    if keep {
        keys.append(&mut session.keys);
    } else {
        session.execute("ROLLBACK TO operation")?;
    }
    session.execute("RELEASE operation")
}

/// An operation on its way through the writer.
trait Job: Send {
    /// Whether nobody waits for its answer any more.
    fn is_forsaken(&self) -> bool;

    /// Runs it; whether its changes are to be kept.
    fn run(&mut self, session: &mut Session) -> bool;

    /// Answers it, after the commit or after its failure.
    fn finish(self: Box<Self>, failure: Option<&rusqlite::Error>);
}

struct JobOf<O: Operation> {
    operation: O,
    outcome: Option<Result<O::Output, StoreError>>,
    reply: oneshot::Sender<Result<O::Output, StoreError>>,
}

impl<O: Operation> Job for JobOf<O> {
    fn is_forsaken(&self) -> bool {
        self.reply.is_closed()
    }

    fn run(&mut self, session: &mut Session) -> bool {
        let (outcome, keep) = run(&self.operation, session);
        self.outcome = Some(outcome);
        keep
    }

    fn finish(self: Box<Self>, failure: Option<&rusqlite::Error>) {
        let outcome = match (failure, self.outcome) {
            (Some(failure), _) => Err(sqlite_error(O::DOING, failure)),
            (None, Some(outcome)) => outcome,
            (None, None) => Err(unavailable(O::DOING, SqliteCause::GONE)),
        };
        // Whoever hung up does not want it.
        let _unwanted = self.reply.send(outcome);
    }
}

/// Runs an operation to its end: a session here never makes anyone wait. A panic costs this
/// operation alone.
fn run<O: Operation>(
    operation: &O,
    session: &mut Session,
) -> (Result<O::Output, StoreError>, bool) {
    let ended = catch_unwind(AssertUnwindSafe(|| operation.run(session).now_or_never()));
    match ended {
        Ok(Some(Ok(End::Keep(output)))) => (Ok(output), true),
        Ok(Some(Ok(End::Undo(output)))) => (Ok(output), false),
        Ok(Some(Err(error))) => (Err(named(error, O::DOING)), false),
        Ok(None) | Err(_) => (Err(failed(O::DOING, SqliteCause::PANIC)), false),
    }
}

/// The error of a statement, with what was being done.
fn named(error: StoreError, doing: &'static str) -> StoreError {
    match error {
        StoreError::Unavailable { source, .. } => StoreError::Unavailable { doing, source },
        StoreError::Failed { source, .. } => StoreError::Failed { doing, source },
        other @ (StoreError::Unreadable { .. } | StoreError::Schema { .. }) => other,
    }
}

/// A connection as operations see it.
#[derive(Debug)]
struct Session {
    connection: Connection,
    /// Statements in SQLite's notation, by where ours stand.
    texts: HashMap<(usize, usize), String>,
    keys: Vec<Key>,
}

impl Session {
    fn new(connection: Connection) -> Self {
        Self { connection, texts: HashMap::new(), keys: Vec::new() }
    }

    fn execute(&self, text: &str) -> Result<(), rusqlite::Error> {
        self.connection.prepare_cached(text)?.execute([]).map(drop)
    }

    fn rows(&mut self, statement: &Statement) -> Result<Vec<Row>, rusqlite::Error> {
        let place = (statement.sql.as_ptr() as usize, statement.sql.len());
        // `$1` is the name of a parameter here, and `?1` its number.
        let text = self.texts.entry(place).or_insert_with(|| statement.sql.replace('$', "?"));
        let mut prepared = self.connection.prepare_cached(text)?;
        let columns = prepared.column_count();
        let mut rows = prepared.query(params_from_iter(&statement.parameters))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let values = (0..columns).map(|column| row.get_ref(column).map(Value::from));
            found.push(Row::new(values.collect::<Result<_, _>>()?));
        }
        Ok(found)
    }
}

impl Sql for Session {
    fn batch(
        &mut self,
        statements: Vec<Statement>,
    ) -> BoxFuture<'_, Result<Vec<Vec<Row>>, StoreError>> {
        let rows = statements.iter().map(|statement| self.rows(statement));
        let rows = rows.collect::<Result<_, _>>().map_err(|error| sqlite_error("", &error));
        Box::pin(std::future::ready(rows))
    }

    fn wake(&mut self, key: Key) {
        self.keys.push(key);
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// A number with a fraction is none of ours: as an empty blob it is unreadable everywhere.
impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Real(_) => Self::Bytes(Vec::new()),
            ValueRef::Text(text) => Self::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(bytes) => Self::Bytes(bytes.to_vec()),
        }
    }
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

/// A failure by SQLite's code. Its own message may quote a row, so it is not kept.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("SQLite: {text} (code {code})")]
struct SqliteCause {
    code: i32,
    text: &'static str,
}

impl SqliteCause {
    const GONE: Self = Self { code: 0, text: "the connection is gone" };
    const PANIC: Self = Self { code: 0, text: "a bug ended the operation" };
}

fn sqlite_error(doing: &'static str, error: &rusqlite::Error) -> StoreError {
    let Some(failure) = error.sqlite_error() else {
        let text = "a value or a statement has the wrong form";
        return failed(doing, SqliteCause { code: 0, text });
    };
    let code = failure.extended_code;
    let cause = SqliteCause { code, text: rusqlite::ffi::code_to_str(code) };
    match failure.code {
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::OutOfMemory
        | ErrorCode::ReadOnly
        | ErrorCode::OperationAborted
        | ErrorCode::OperationInterrupted
        | ErrorCode::SystemIoFailure
        | ErrorCode::DatabaseCorrupt
        | ErrorCode::DiskFull
        | ErrorCode::CannotOpen
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::PermissionDenied
        | ErrorCode::NotADatabase => unavailable(doing, cause),
        // The rest says that a statement is wrong. The list is SQLite's, and may grow.
        _ => failed(doing, cause),
    }
}

fn unavailable(
    doing: &'static str,
    source: impl std::error::Error + Send + Sync + 'static,
) -> StoreError {
    StoreError::Unavailable { doing, source: Box::new(source) }
}

fn failed(
    doing: &'static str,
    source: impl std::error::Error + Send + Sync + 'static,
) -> StoreError {
    StoreError::Failed { doing, source: Box::new(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was answered survives a power failure only with these.
    #[test]
    fn the_writer_is_durable_and_readers_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let settings = SqliteSettings::new(&folder.path().join("approver.db"));
        let (writer, readers) = open_all(&settings).unwrap();
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
