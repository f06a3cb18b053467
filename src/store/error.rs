//! How a store fails. Conflicts are no failures: they are values of the operations' own answers.
//!
//! A database's own message may quote a row. So none is kept: an error carries the database's code
//! and the names of ours (tables, constraints) that the failure touches, and never a value.

use std::error::Error;

/// The outside world failed, or what is stored cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached, is shutting down, is out of space, or did not answer in time.
    ///
    /// A write that fails so may have happened all the same: whoever repeats it gets the answer
    /// that says so.
    #[error("the store is not available while {doing}")]
    Unavailable {
        /// What was being done.
        doing: &'static str,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The database refused a statement, or a bug showed itself while it ran.
    #[error("the store failed while {doing}")]
    Failed {
        /// What was being done.
        doing: &'static str,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A stored row has a form that this program never writes.
    #[error("a stored {what} cannot be read")]
    Unreadable {
        /// The part that has it.
        what: &'static str,
    },
    /// The database's tables are not those that this program knows.
    #[error("the store's schema is version {found}, this program needs version {needed}")]
    Schema {
        /// The version in the database; 0 when there is none.
        found: i64,
        /// The version of this program.
        needed: i64,
    },
}

impl StoreError {
    /// Whether trying again later may help.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Unavailable { .. } => true,
            Self::Failed { .. } | Self::Unreadable { .. } | Self::Schema { .. } => false,
        }
    }

    /// The same error of a statement, with what it was run for.
    pub(super) fn doing(self, doing: &'static str) -> Self {
        match self {
            Self::Unavailable { source, .. } => Self::Unavailable { doing, source },
            Self::Failed { source, .. } => Self::Failed { doing, source },
            other @ (Self::Unreadable { .. } | Self::Schema { .. }) => other,
        }
    }
}
