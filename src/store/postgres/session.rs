//! One operation on one connection.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use bytes::BytesMut;
use deadpool_postgres::Object;
use futures::future::BoxFuture;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use super::cause::{self, Failure};
use super::together;
use crate::store::StoreError;
use crate::store::sql::{End, Operation, Row, Sql, Statement, Value};
use crate::store::wake::Key;

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
const BEGIN_LIGHTLY: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = off";

/// A connection while it runs one operation.
///
/// INVARIANT: a connection goes back to the pool only from [`Session::end`] after a success; when
/// the operation failed or was given up halfway it is closed.
pub(super) struct Session {
    connection: Option<Object>,
    /// What the next batch begins with.
    begin: Option<&'static str>,
    keys: Vec<Key>,
    /// The last statement's error asks for another try.
    again: Option<cause::PostgresCause>,
}

impl Session {
    pub(super) fn new(connection: Object, write: bool, durable: bool) -> Self {
        let begin = write.then_some(if durable { BEGIN } else { BEGIN_LIGHTLY });
        Self { connection: Some(connection), begin, keys: Vec::new(), again: None }
    }

    /// Runs the operation and ends its transaction.
    pub(super) async fn run<O: Operation>(&mut self, operation: &O) -> Result<O::Output, Failure> {
        let write = self.begin.is_some();
        let ended = match operation.run(self).await {
            Ok(ended) => ended,
            Err(error) => {
                self.keys.clear();
                return Err(match self.again.take() {
                    Some(cause) => Failure::Again(cause),
                    None => Failure::Final(error.doing(O::DOING)),
                });
            }
        };
        // Without a batch there is no transaction.
        let open = write && self.begin.is_none();
        let (output, word) = match ended {
            End::Keep(output) => (output, "COMMIT"),
            End::Undo(output) => {
                self.keys.clear();
                (output, "ROLLBACK")
            }
        };
        if open && let Some(connection) = &self.connection {
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
        let mut prepared = Vec::with_capacity(runs.len());
        for run in &runs {
            prepared.push(connection.prepare_cached(&together::text(run)).await?);
        }
        let begun = async {
            match begin {
                Some(begin) => connection.batch_execute(begin).await,
                None => Ok(()),
            }
        };
        let mut sent = Vec::with_capacity(runs.len());
        for (run, prepared) in runs.iter().zip(&prepared) {
            let values = run.iter().flat_map(|statement| &statement.parameters);
            let parameters: Vec<&(dyn ToSql + Sync)> =
                values.map(|value| value as &(dyn ToSql + Sync)).collect();
            sent.push(async move { connection.query(prepared, &parameters).await });
        }
        let (begun, rows) = in_order(begun, sent).await;
        begun?;
        let mut answers = Vec::with_capacity(statements.len());
        for (run, rows) in runs.into_iter().zip(rows) {
            answers.extend(together::answers(run, &rows?)?);
        }
        Ok(answers)
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
            let Some(connection) = &self.connection else {
                return Err(cause::PostgresCause::own("the connection is gone").unavailable(""));
            };
            Self::send(connection, begin, &statements).await.map_err(|error| {
                if cause::asks_for_another_try(&error) {
                    self.again = Some(cause::cause(&error));
                }
                cause::error("", &error)
            })
        })
    }

    fn wake(&mut self, key: Key) {
        self.keys.push(key);
    }
}

/// Sends everything at once, in order, then waits for the answers: a request goes out when it is
/// first polled. Every future is run to its end, whatever the others say.
async fn in_order<First: Future, Other: Future>(
    first: First,
    others: Vec<Other>,
) -> (First::Output, Vec<Other::Output>) {
    let mut first = Box::pin(first);
    let mut others: Vec<_> = others.into_iter().map(Box::pin).collect();
    let mut first_early = None;
    let mut early = Vec::with_capacity(others.len());
    std::future::poll_fn(|context| {
        if let Poll::Ready(output) = first.as_mut().poll(context) {
            first_early = Some(output);
        }
        for other in &mut others {
            early.push(match Pin::as_mut(other).poll(context) {
                Poll::Ready(output) => Some(output),
                Poll::Pending => None,
            });
        }
        Poll::Ready(())
    })
    .await;
    let first = match first_early {
        Some(output) => output,
        None => first.await,
    };
    let mut outputs = Vec::with_capacity(others.len());
    for (other, early) in others.into_iter().zip(early) {
        outputs.push(match early {
            Some(output) => output,
            None => other.await,
        });
    }
    (first, outputs)
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
