//! Every operation of the store, written once for both databases.
//!
//! An [`Operation`] is a few batches of statements that a [`Sql`] session runs in one transaction.
//! The statements are in the words that both databases understand (`/*postgres*/ … /*end*/` apart,
//! which SQLite is not shown), so that the two stores cannot drift apart; what differs (connections, waiting, durability) is the engines' own.

mod store;
mod value;

pub(super) mod begin;
pub(super) mod conversations;
pub(super) mod decide;
pub(super) mod decide_turn;
pub(super) mod directory;
pub(super) mod instance_settings;
mod instances;
pub(super) mod lifecycle;
pub(super) mod notifications;
pub(super) mod read;
pub(super) mod record;
mod rows;
pub(super) mod sealing;
pub(super) mod sweep;

pub(super) use store::Engine;
pub(super) use value::{Row, Value};

use futures::future::BoxFuture;

use super::StoreError;
use super::wake::Key;

/// One statement and its parameters, which stand in it as `$1`, `$2`, …
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) sql: &'static str,
    pub(super) parameters: Vec<Value>,
    /// Whether it may run together with the one before it, in any order: both change rows of their
    /// own, neither reads what the other changes, and at most one row comes back of what changes
    /// something.
    pub(super) along: bool,
}

impl Statement {
    /// The same, to run together with the one before it.
    pub(super) fn along(self) -> Self {
        Self { along: true, ..self }
    }
}

/// `statement!("… $1 …", value, …)`
macro_rules! statement {
    ($sql:expr $(, $value:expr)* $(,)?) => {
        $crate::store::sql::Statement {
            sql: $sql,
            parameters: vec![$($crate::store::sql::Value::from($value)),*],
            along: false,
        }
    };
}
pub(super) use statement;

/// A session with a database, inside a transaction unless the operation only reads.
pub(super) trait Sql: Send {
    /// Runs statements in order and returns the rows of each. Where the database is far away they
    /// travel together, so a batch holds all that does not depend on one another's answers.
    fn batch(
        &mut self,
        statements: Vec<Statement>,
    ) -> BoxFuture<'_, Result<Vec<Vec<Row>>, StoreError>>;

    /// The same for a batch that is all that its operation does, and whose operation ends in
    /// [`End::Undo`] or in an error unless every statement with a `RETURNING` returns a row. Where
    /// the database is far away it may be a transaction by itself.
    fn whole(
        &mut self,
        statements: Vec<Statement>,
    ) -> BoxFuture<'_, Result<Vec<Vec<Row>>, StoreError>> {
        self.batch(statements)
    }

    /// Wakes whoever waits for `key`, once the transaction is durable.
    fn wake(&mut self, key: Key);
}

/// Conveniences over [`Sql::batch`].
impl dyn Sql + '_ {
    /// The rows of one statement.
    pub(super) async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>, StoreError> {
        Ok(self.batch(vec![statement]).await?.pop().unwrap_or_default())
    }

    /// The first row of one statement.
    pub(super) async fn row(&mut self, statement: Statement) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(statement).await?.into_iter().next())
    }
}

/// How an operation's transaction ends.
#[derive(Debug)]
pub(super) enum End<T> {
    /// With what it changed.
    Keep(T),
    /// As if nothing had happened.
    Undo(T),
}

/// One operation of the store. It may be run again from the start when the database asks for that.
pub(super) trait Operation: Send + Sync + 'static {
    /// What the caller gets.
    type Output: Send + 'static;

    /// What is being done, for errors.
    const DOING: &'static str;

    /// Whether what it changed must outlive a crash of the database before the caller goes on. It is
    /// not so only where a later durable transaction carries it along.
    const DURABLE: bool = true;

    /// Runs it.
    fn run<'a>(
        &'a self,
        sql: &'a mut dyn Sql,
    ) -> impl Future<Output = Result<End<Self::Output>, StoreError>> + Send + 'a;
}
