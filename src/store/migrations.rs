//! The tables' versions. A migration that was released never changes; a change is a new one.

/// A migration and the version that the tables have after it.
pub(super) struct Migration {
    pub(super) version: i64,
    /// In PostgreSQL's words.
    pub(super) text: &'static str,
}

/// All of them, in order.
pub(super) const MIGRATIONS: [Migration; 1] =
    [Migration { version: 1, text: include_str!("migrations/0001_start.sql") }];

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
        let mut live = String::with_capacity(typed.len());
        let mut rest = typed.as_str();
        while let Some((before, marked)) = rest.split_once("/*sqlite:") {
            live.push_str(before);
            let (words, after) = marked.split_once("*/").unwrap_or((marked, ""));
            live.push_str(words);
            rest = after;
        }
        live.push_str(rest);
        live
    }
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
            assert!(tables > 0);
            assert_eq!(text.matches("STRICT").count(), tables);
            assert!(!text.contains("/*"));
        }
    }
}
