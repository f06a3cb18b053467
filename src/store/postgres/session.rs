//! One operation on one connection.

use std::sync::Arc;
use std::task::Poll;

use bytes::BytesMut;
use deadpool_postgres::Object;
use futures::future::BoxFuture;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use super::cause::{self, Failure};
use super::together;
use crate::store::StoreError;
use crate::store::sql::{End, Operation, Row, Sql, Statement, Value};
use crate::store::wake::Key;

/// Every transaction is what the pool's connections have as their default: READ COMMITTED, and able to
/// write.
const BEGIN: &str = "BEGIN";
const BEGIN_LIGHTLY: &str = "BEGIN; SET LOCAL synchronous_commit = off";

/// A connection while it runs one operation.
///
/// INVARIANT: a connection goes back to the pool only from [`Session::end`] after a success; when
/// the operation failed or was given up halfway it is closed.
pub(super) struct Session {
    connection: Option<Object>,
    /// What the next batch begins with.
    begin: Option<&'static str>,
    /// Whether a transaction was begun that is to be ended.
    open: bool,
    /// Whether something was sent that ends its transaction by itself, and was not answered well.
    unanswered: bool,
    keys: Vec<Key>,
    /// The last statement's error asks for another try.
    again: Option<cause::PostgresCause>,
}

impl Session {
    pub(super) fn new(connection: Object, write: bool, durable: bool) -> Self {
        let begin = write.then_some(if durable { BEGIN } else { BEGIN_LIGHTLY });
        Self {
            connection: Some(connection),
            begin,
            open: false,
            unanswered: false,
            keys: Vec::new(),
            again: None,
        }
    }

    /// Runs the operation and ends its transaction.
    pub(super) async fn run<O: Operation>(&mut self, operation: &O) -> Result<O::Output, Failure> {
        let ended = match operation.run(self).await {
            Ok(ended) => ended,
            Err(error) => {
                // Where nobody knows whether it is done, whoever waits finds out.
                if !self.unanswered {
                    self.keys.clear();
                }
                return Err(match self.again.take() {
                    Some(cause) => Failure::Again(cause),
                    None => Failure::Final(error.doing(O::DOING)),
                });
            }
        };
        let (output, word) = match ended {
            End::Keep(output) => (output, "COMMIT"),
            End::Undo(output) => {
                self.keys.clear();
                (output, "ROLLBACK")
            }
        };
        if self.open
            && let Some(connection) = &self.connection
        {
            connection.batch_execute(word).await.map_err(|error| {
                if cause::asks_for_another_try(&error) {
                    Failure::Again(cause::cause(&error))
                } else {
                    Failure::Final(cause::error(O::DOING, &error))
                }
            })?;
        }
        Ok(output)
    }

    /// Gives the connection back when all went well, and says who is to be woken.
    pub(super) fn end(mut self, well: bool) -> Vec<Key> {
        if well {
            drop(self.connection.take());
        }
        std::mem::take(&mut self.keys)
    }

    async fn send(
        connection: &Object,
        begin: Option<&'static str>,
        statements: &[Statement],
    ) -> Result<Vec<Vec<Row>>, tokio_postgres::Error> {
        let runs: Vec<&[Statement]> = together::runs(statements).collect();
        let texts: Vec<_> = runs.iter().map(|run| together::text(run)).collect();
        let rows = Self::exchange(connection, begin, &runs, &texts, None).await?;
        let mut answers = Vec::with_capacity(statements.len());
        for (run, rows) in runs.into_iter().zip(rows) {
            answers.extend(together::answers(run, &rows)?);
        }
        Ok(answers)
    }

    /// Sends a whole transaction at once; `None` when it was undone because a statement that is to
    /// return a row had none.
    async fn send_whole(
        connection: &Object,
        begin: &'static str,
        statements: &[Statement],
    ) -> Result<Option<Vec<Vec<Row>>>, tokio_postgres::Error> {
        let runs: Vec<&[Statement]> = together::runs(statements).collect();
        let texts: Vec<_> = runs.iter().map(|run| together::insistent_text(run)).collect();
        // What is alone is a transaction by itself.
        let (begin, end) = match runs.as_slice() {
            [_] if begin == BEGIN => (None, None),
            _ => (Some(begin), Some("COMMIT")),
        };
        let rows = match Self::exchange(connection, begin, &runs, &texts, end).await {
            Ok(rows) => rows,
            Err(error) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut answers = Vec::with_capacity(statements.len());
        for (run, rows) in runs.into_iter().zip(rows) {
            answers.extend(together::composed_answers(run, &rows)?);
        }
        Ok(Some(answers))
    }

    /// Sends everything at once, and waits for all the answers. Of several errors the first counts:
    /// what comes after it in a transaction fails for its sake.
    async fn exchange(
        connection: &Object,
        begin: Option<&'static str>,
        runs: &[&[Statement]],
        texts: &[Arc<str>],
        end: Option<&'static str>,
    ) -> Result<Vec<Vec<tokio_postgres::Row>>, tokio_postgres::Error> {
        let mut prepared = Vec::with_capacity(runs.len());
        for text in texts {
            prepared.push(connection.prepare_cached(text).await?);
        }
        let mut sent: Vec<BoxFuture<'_, Result<Vec<_>, tokio_postgres::Error>>> = Vec::new();
        let word = |word| async move { connection.batch_execute(word).await.map(|()| Vec::new()) };
        sent.extend(begin.map(|begin| Box::pin(word(begin)) as _));
        for (run, prepared) in runs.iter().zip(&prepared) {
            let values = run.iter().flat_map(|statement| &statement.parameters);
            let parameters: Vec<&(dyn ToSql + Sync)> =
                values.map(|value| value as &(dyn ToSql + Sync)).collect();
            sent.push(Box::pin(async move { connection.query(prepared, &parameters).await }));
        }
        sent.extend(end.map(|end| Box::pin(word(end)) as _));
        let answers = in_order(sent).await.into_iter();
        let answers = answers.collect::<Result<Vec<_>, _>>()?;
        Ok(answers.into_iter().skip(usize::from(begin.is_some())).take(runs.len()).collect())
    }

    /// Notes what an error asks for.
    fn failed(&mut self, error: &tokio_postgres::Error) -> StoreError {
        if cause::asks_for_another_try(error) {
            self.again = Some(cause::cause(error));
        }
        cause::error("", error)
    }

    fn connection(&self) -> Result<&Object, StoreError> {
        let gone = || cause::PostgresCause::own("the connection is gone").unavailable("");
        self.connection.as_ref().ok_or_else(gone)
    }
}

/// A connection that an operation left halfway is closed: what it holds is undone by that.
impl Drop for Session {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(Object::take(connection));
        }
    }
}

impl Sql for Session {
    fn batch(
        &mut self,
        statements: Vec<Statement>,
    ) -> BoxFuture<'_, Result<Vec<Vec<Row>>, StoreError>> {
        Box::pin(async move {
            let begin = self.begin.take();
            self.open |= begin.is_some();
            let answers = Self::send(self.connection()?, begin, &statements).await;
            answers.map_err(|error| self.failed(&error))
        })
    }

    fn whole(
        &mut self,
        statements: Vec<Statement>,
    ) -> BoxFuture<'_, Result<Vec<Vec<Row>>, StoreError>> {
        Box::pin(async move {
            let Some(begin) = self.begin else { return self.batch(statements).await };
            self.unanswered = true;
            let answers = Self::send_whole(self.connection()?, begin, &statements).await;
            self.unanswered = answers.is_err();
            match answers.map_err(|error| self.failed(&error))? {
                Some(answers) => {
                    self.begin = None;
                    Ok(answers)
                }
                // To learn which one it is, and end as the operation says.
                None => self.batch(statements).await,
            }
        })
    }

    fn wake(&mut self, key: Key) {
        self.keys.push(key);
    }
}

/// Sends everything at once, in order, then waits for the answers: a request goes out when it is
/// first polled. Every future is run to its end, whatever the others say.
async fn in_order<Output>(mut requests: Vec<BoxFuture<'_, Output>>) -> Vec<Output> {
    let mut early = Vec::with_capacity(requests.len());
    std::future::poll_fn(|context| {
        for request in &mut requests {
            early.push(match request.as_mut().poll(context) {
                Poll::Ready(output) => Some(output),
                Poll::Pending => None,
            });
        }
        Poll::Ready(())
    })
    .await;
    let mut outputs = Vec::with_capacity(requests.len());
    for (request, early) in requests.into_iter().zip(early) {
        outputs.push(match early {
            Some(output) => output,
            None => request.await,
        });
    }
    outputs
}

type Boxed = Box<dyn std::error::Error + Sync + Send>;

impl ToSql for Value {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(number) if *kind == Type::INT4 => {
                i32::try_from(*number)?.to_sql(kind, out)
            }
            Self::Integer(number) => number.to_sql(kind, out),
            Self::Text(text) => text.as_str().to_sql(kind, out),
            Self::Bytes(bytes) => bytes.as_slice().to_sql(kind, out),
        }
    }

    accepts!(INT4, INT8, TEXT, BYTEA);

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Boxed> {
        if *kind == Type::INT4 {
            i32::from_sql(kind, raw).map(|number| Self::Integer(number.into()))
        } else if *kind == Type::INT8 {
            i64::from_sql(kind, raw).map(Self::Integer)
        } else if *kind == Type::TEXT {
            String::from_sql(kind, raw).map(Self::Text)
        } else {
            Vec::<u8>::from_sql(kind, raw).map(Self::Bytes)
        }
    }

    fn from_sql_null(_: &Type) -> Result<Self, Boxed> {
        Ok(Self::Null)
    }

    accepts!(INT4, INT8, TEXT, BYTEA);
}
