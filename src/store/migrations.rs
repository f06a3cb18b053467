//! The tables' versions. A migration that was released never changes; a change is a new one.

/// A migration and the version that the tables have after it.
pub(super) struct Migration {
    pub(super) version: i64,
    /// In PostgreSQL's words.
    pub(super) text: &'static str,
}

/// All of them, in order.
pub(super) const MIGRATIONS: [Migration; 3] = [
    Migration { version: 1, text: include_str!("migrations/0001_start.sql") },
    Migration { version: 2, text: include_str!("migrations/0002_instances.sql") },
    Migration { version: 3, text: include_str!("migrations/0003_instance_records.sql") },
];

/// The version of this program.
pub(super) const HEAD: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// Holds the versions that were applied.
pub(super) const VERSIONS_TABLE: &str =
    "CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT NOT NULL PRIMARY KEY)";

impl Migration {
    /// The same in SQLite's words.
    pub(super) fn for_sqlite(&self) -> String {
        // Strict tables know INTEGER and BLOB alone.
        let typed = self.text.replace("BIGINT", "INTEGER").replace("BYTEA", "BLOB");
        // What is PostgreSQL's alone goes first: it may hold comments of its own.
        let shared = without_postgres(&typed);
        replace_between(&shared, "/*sqlite:", "*/", |words| words)
    }
}

/// The text without what stands between `/*postgres*/` and `/*end*/`.
pub(super) fn without_postgres(text: &str) -> String {
    replace_between(text, "/*postgres*/", "/*end*/", |_| "")
}

/// The text with everything from `open` to `close` replaced by what `keep` makes of what stands
/// between them.
fn replace_between(
    text: &str,
    open: &str,
    close: &str,
    keep: impl for<'a> Fn(&'a str) -> &'a str,
) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, opened)) = rest.split_once(open) {
        let (between, after) = opened.split_once(close).unwrap_or((opened, ""));
        replaced.push_str(before);
        replaced.push_str(keep(between));
        rest = after;
    }
    replaced.push_str(rest);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_from_one_without_a_gap() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.version, i64::try_from(index).unwrap() + 1);
        }
        assert_eq!(HEAD, i64::try_from(MIGRATIONS.len()).unwrap());
    }

    #[test]
    fn sqlite_tables_are_strict() {
        for migration in &MIGRATIONS {
            let text = migration.for_sqlite();
            let tables = text.matches("CREATE TABLE").count();
            assert_eq!(text.matches("STRICT").count(), tables);
            assert!(!text.contains("/*") && !text.contains("STORAGE"), "{text}");
        }
    }
}
