//! A connection as operations see it.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt;
use futures::future::BoxFuture;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};

use super::cause::{SqliteCause, failed, sqlite_error};
use crate::store::StoreError;
use crate::store::migrations::without_postgres;
use crate::store::sql::{End, Operation, Row, Sql, Statement, Value};
use crate::store::wake::Key;

/// Runs an operation to its end: a session here never makes anyone wait. A panic costs this
/// operation alone.
pub(super) fn run<O: Operation>(
    operation: &O,
    session: &mut Session,
) -> (Result<O::Output, StoreError>, bool) {
    let ended = catch_unwind(AssertUnwindSafe(|| operation.run(session).now_or_never()));
    match ended {
        Ok(Some(Ok(End::Keep(output)))) => (Ok(output), true),
        Ok(Some(Ok(End::Undo(output)))) => (Ok(output), false),
        Ok(Some(Err(error))) => (Err(error.doing(O::DOING)), false),
        Ok(None) | Err(_) => (Err(failed(O::DOING, SqliteCause::PANIC)), false),
    }
}

/// A connection as operations see it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) connection: Connection,
    /// Statements in SQLite's notation, by where ours stand.
    texts: HashMap<(usize, usize), String>,
    pub(super) keys: Vec<Key>,
}

impl Session {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection, texts: HashMap::new(), keys: Vec::new() }
    }

    pub(super) fn execute(&self, text: &str) -> Result<(), rusqlite::Error> {
        self.connection.prepare_cached(text)?.execute([]).map(drop)
    }

    fn rows(&mut self, statement: &Statement) -> Result<Vec<Row>, rusqlite::Error> {
        let place = (statement.sql.as_ptr() as usize, statement.sql.len());
        // `$1` is the name of a parameter here, and `?1` its number; the one writer locks no rows.
        let text = self.texts.entry(place);
        let text = text.or_insert_with(|| without_postgres(statement.sql).replace('$', "?"));
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
