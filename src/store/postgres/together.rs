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

/// Texts by where those of their parts stand, and whether they insist.
static TEXTS: Mutex<BTreeMap<Composition, Arc<str>>> = Mutex::new(BTreeMap::new());

type Composition = (Vec<usize>, bool);

/// Cuts a batch into runs that travel as one. What may return several rows ends its run.
pub(super) fn runs(statements: &[Statement]) -> impl Iterator<Item = &[Statement]> {
    statements
        .chunk_by(|before, next| next.along && !selects(before))
        .flat_map(|run| run.chunks(MOST))
}

/// The text of a run, its parameters numbered through.
pub(super) fn text(run: &[Statement]) -> Arc<str> {
    if let [alone] = run {
        return alone.sql.into();
    }
    kept(run, false)
}

/// The same as one transaction by itself: unless each part that returns returns a row, it divides by
/// zero, which undoes all of it.
pub(super) fn insistent_text(run: &[Statement]) -> Arc<str> {
    kept(run, true)
}

fn kept(run: &[Statement], insists: bool) -> Arc<str> {
    let places = run.iter().map(|statement| statement.sql.as_ptr() as usize).collect();
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let text = texts.entry((places, insists)).or_insert_with(|| compose(run, insists).into());
    Arc::clone(text)
}

fn compose(run: &[Statement], insists: bool) -> String {
    let (mut parts, mut joins) = (Vec::new(), String::new());
    let (mut columns, mut here) = (String::new(), Vec::new());
    let mut before = 0;
    for (index, statement) in run.iter().enumerate() {
        parts.push(format!("part_{index} AS ({})", renumbered(statement.sql, before)));
        if returns(statement) {
            columns.push_str(&format!(", answer_{index}.*"));
            joins.push_str(&format!(
                " LEFT JOIN (SELECT 1 AS {HERE}, part_{index}.* FROM part_{index}) \
                 AS answer_{index} ON TRUE"
            ));
        }
        if changes_and_returns(statement) {
            here.push(format!("COALESCE(answer_{index}.{HERE}, 0)"));
        }
        before += statement.parameters.len();
    }
    let one = match insists {
        true if !here.is_empty() => format!("1 / LEAST({})", here.join(", ")),
        true | false => "1".to_owned(),
    };
    format!("WITH {} SELECT {one}{columns} FROM (SELECT 1) AS one{joins}", parts.join(", "))
}

fn returns(statement: &Statement) -> bool {
    selects(statement) || changes_and_returns(statement)
}

fn changes_and_returns(statement: &Statement) -> bool {
    statement.sql.contains(" RETURNING ")
}

fn selects(statement: &Statement) -> bool {
    statement.sql.starts_with("SELECT ")
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
    composed_answers(run, rows)
}

/// The rows of each statement out of what [`compose`] made of them.
pub(super) fn composed_answers(
    run: &[Statement],
    rows: &[tokio_postgres::Row],
) -> Result<Vec<Vec<Row>>, Error> {
    // Each row has all parts: what returned one row is there in each again.
    let mut parts: Vec<Vec<Row>> = run.iter().map(|_| Vec::new()).collect();
    let returning: Vec<usize> = (0..run.len()).filter(|index| returns(&run[*index])).collect();
    for row in rows {
        let mut values: Vec<Option<Vec<Value>>> = Vec::with_capacity(returning.len());
        for (column, described) in row.columns().iter().enumerate().skip(1) {
            let value = row.try_get::<_, Value>(column)?;
            if described.name() == HERE {
                values.push((value != Value::Null).then(Vec::new));
            } else if let Some(Some(part)) = values.last_mut() {
                part.push(value);
            }
        }
        for (index, values) in returning.iter().zip(values) {
            if parts[*index].is_empty() || selects(&run[*index]) {
                parts[*index].extend(values.map(Row::new));
            }
        }
    }
    Ok(parts)
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
             SELECT 1, answer_0.*, answer_2.* FROM (SELECT 1) AS one \
             LEFT JOIN (SELECT 1 AS here, part_0.* FROM part_0) AS answer_0 ON TRUE \
             LEFT JOIN (SELECT 1 AS here, part_2.* FROM part_2) AS answer_2 ON TRUE"
        );
    }

    #[test]
    fn a_run_that_insists_divides_by_the_rows_that_its_changes_return() {
        let run = [
            statement!("UPDATE a SET x = 1 RETURNING x"),
            statement!("INSERT INTO b VALUES (1)").along(),
            statement!("INSERT INTO c VALUES (1) RETURNING y").along(),
            statement!("SELECT z FROM d").along(),
        ];
        let text = insistent_text(&run);
        let one = "SELECT 1 / LEAST(COALESCE(answer_0.here, 0), COALESCE(answer_2.here, 0)), \
                   answer_0.*, answer_2.*, answer_3.* FROM (SELECT 1) AS one LEFT JOIN";
        assert!(text.contains(one), "{text}");
        assert_eq!(text.matches("LEFT JOIN").count(), 3, "{text}");
        let reads = insistent_text(&run[3..]);
        assert!(reads.contains("SELECT 1, answer_0.* FROM (SELECT 1) AS one LEFT JOIN"), "{reads}");
    }

    #[test]
    fn what_may_return_several_rows_ends_its_run() {
        let change = || statement!("UPDATE a SET x = 1").along();
        let read = || statement!("SELECT x FROM a").along();
        let lengths = |batch: &[Statement]| runs(batch).map(<[_]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(&[change(), read(), read(), change(), read()]), [2, 1, 2]);
    }

    #[test]
    fn a_run_ends_where_a_statement_stands_alone_or_is_full() {
        let one = || statement!("UPDATE a SET x = 1");
        let along = || one().along();
        let batch = [one(), along(), one(), one(), along(), along(), along(), along(), along()];
        let lengths: Vec<usize> = runs(&batch).map(<[_]>::len).collect();
        assert_eq!(lengths, [2, 1, 4, 2]);
        assert_eq!(&*text(&batch[2..3]), "UPDATE a SET x = 1");
    }
}
