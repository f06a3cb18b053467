//! Statements that travel as one: a `WITH` whose parts are the statements that run along with the one
//! before them. A server answers, and a client wakes, once a statement; most of a judgement's are tiny.
//!
//! Parts of a `WITH` see the same snapshot and run in no certain order, so none of them may read or
//! change a row that another one changes. Who writes a batch says which statements keep to that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_postgres::Error;

use crate::store::sql::{Row, Statement, Value};

/// Statements of one text, at most: texts stay prepared on each connection, so their number counts.
const MOST: usize = 4;

/// The column before a part's own, which says that there is a row.
const HERE: &str = "here";

/// Texts by where those of their parts stand.
static TEXTS: Mutex<BTreeMap<Vec<usize>, Arc<str>>> = Mutex::new(BTreeMap::new());

/// Cuts a batch into runs that travel as one.
pub(super) fn runs(statements: &[Statement]) -> impl Iterator<Item = &[Statement]> {
    statements.chunk_by(|_, next| next.along).flat_map(|run| run.chunks(MOST))
}

/// The text of a run, its parameters numbered through.
pub(super) fn text(run: &[Statement]) -> Arc<str> {
    if let [alone] = run {
        return alone.sql.into();
    }
    let places = run.iter().map(|statement| statement.sql.as_ptr() as usize).collect();
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(texts.entry(places).or_insert_with(|| compose(run).into()))
}

fn compose(run: &[Statement]) -> String {
    let (mut parts, mut joins) = (Vec::new(), String::new());
    let mut before = 0;
    for (index, statement) in run.iter().enumerate() {
        parts.push(format!("part_{index} AS ({})", renumbered(statement.sql, before)));
        if returns(statement) {
            joins.push_str(&format!(
                " LEFT JOIN (SELECT 1 AS {HERE}, part_{index}.* FROM part_{index}) \
                 AS answer_{index} ON TRUE"
            ));
        }
        before += statement.parameters.len();
    }
    format!("WITH {} SELECT * FROM (SELECT 1 AS one) AS one{joins}", parts.join(", "))
}

fn returns(statement: &Statement) -> bool {
    statement.sql.contains(" RETURNING ")
}

/// `$1` becomes `$4` where three parameters stand before it.
fn renumbered(sql: &str, before: usize) -> String {
    let mut pieces = sql.split('$');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits =
            piece.len() - piece.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
        let (number, rest) = piece.split_at_checked(digits).unwrap_or_default();
        let number = number.parse::<usize>().map_or(0, |number| number + before);
        text.push_str(&format!("${number}{rest}"));
    }
    text
}

/// The rows of each statement of a run, out of the run's own.
///
/// # Errors
/// A value is of no kind that we know.
pub(super) fn answers(
    run: &[Statement],
    rows: &[tokio_postgres::Row],
) -> Result<Vec<Vec<Row>>, Error> {
    if run.len() == 1 {
        let rows = rows.iter().map(|row| {
            let values = (0..row.len()).map(|column| row.try_get::<_, Value>(column));
            values.collect::<Result<_, _>>().map(Row::new)
        });
        return Ok(vec![rows.collect::<Result<_, _>>()?]);
    }
    let mut parts = Vec::new();
    for row in rows {
        for (column, described) in row.columns().iter().enumerate().skip(1) {
            let value = row.try_get::<_, Value>(column)?;
            if described.name() == HERE {
                parts.push((value != Value::Null).then(Vec::new));
            } else if let Some(Some(part)) = parts.last_mut() {
                part.push(value);
            }
        }
    }
    let mut parts = parts.into_iter();
    let answer = |statement: &Statement| match returns(statement) {
        true => parts.next().flatten().map(Row::new).into_iter().collect(),
        false => Vec::new(),
    };
    Ok(run.iter().map(answer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sql::statement;

    #[test]
    fn a_run_is_one_statement_of_numbered_parts() {
        let run = [
            statement!("UPDATE a SET x = $2 WHERE id = $1 RETURNING x", 1_i64, 2_i64),
            statement!("INSERT INTO b VALUES ($1, $10)", 3_i64).along(),
            statement!("UPDATE c SET x = 0 WHERE id = $1 RETURNING id", 4_i64).along(),
        ];
        assert_eq!(runs(&run).map(<[_]>::len).collect::<Vec<_>>(), [3]);
        assert_eq!(
            &*text(&run),
            "WITH part_0 AS (UPDATE a SET x = $2 WHERE id = $1 RETURNING x), \
             part_1 AS (INSERT INTO b VALUES ($3, $12)), \
             part_2 AS (UPDATE c SET x = 0 WHERE id = $4 RETURNING id) \
             SELECT * FROM (SELECT 1 AS one) AS one \
             LEFT JOIN (SELECT 1 AS here, part_0.* FROM part_0) AS answer_0 ON TRUE \
             LEFT JOIN (SELECT 1 AS here, part_2.* FROM part_2) AS answer_2 ON TRUE"
        );
    }

    #[test]
    fn a_run_ends_where_a_statement_stands_alone_or_is_full() {
        let one = || statement!("SELECT 1");
        let along = || one().along();
        let batch = [one(), along(), one(), one(), along(), along(), along(), along(), along()];
        let lengths: Vec<usize> = runs(&batch).map(<[_]>::len).collect();
        assert_eq!(lengths, [2, 1, 4, 2]);
        assert_eq!(&*text(&batch[2..3]), "SELECT 1");
    }
}
