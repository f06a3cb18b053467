//! The one thread that writes: group commit, with a savepoint for each operation.

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::cause::{SqliteCause, sqlite_error, unavailable};
use super::session::{Session, run};
use crate::store::StoreError;
use crate::store::sql::Operation;
use crate::store::wake::{Key, Registry};

/// Operations of one transaction, at most.
const GROUP: usize = 256;

/// The writer's life: one transaction after the other, each with all that waits.
pub(super) fn write_all(
    connection: Connection,
    mut jobs: mpsc::Receiver<Box<dyn Job>>,
    wakes: &Registry,
) {
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
pub(super) trait Job: Send {
    /// Whether nobody waits for its answer any more.
    fn is_forsaken(&self) -> bool;

    /// Runs it; whether its changes are to be kept.
    fn run(&mut self, session: &mut Session) -> bool;

    /// Answers it, after the commit or after its failure.
    fn finish(self: Box<Self>, failure: Option<&rusqlite::Error>);
}

pub(super) struct JobOf<O: Operation> {
    operation: O,
    outcome: Option<Result<O::Output, StoreError>>,
    reply: oneshot::Sender<Result<O::Output, StoreError>>,
}

impl<O: Operation> JobOf<O> {
    pub(super) fn new(operation: O, reply: oneshot::Sender<Result<O::Output, StoreError>>) -> Self {
        Self { operation, outcome: None, reply }
    }
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
