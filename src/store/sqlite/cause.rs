//! Why SQLite failed, by code alone.

use rusqlite::ErrorCode;

use crate::store::StoreError;

/// A failure by SQLite's code. Its own message may quote a row, so it is not kept.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("SQLite: {text} (code {code})")]
pub(super) struct SqliteCause {
    code: i32,
    text: &'static str,
}

impl SqliteCause {
    pub(super) const GONE: Self = Self { code: 0, text: "the connection is gone" };
    pub(super) const PANIC: Self = Self { code: 0, text: "a bug ended the operation" };
}

pub(super) fn sqlite_error(doing: &'static str, error: &rusqlite::Error) -> StoreError {
    let Some(failure) = error.sqlite_error() else {
        let text = "a value or a statement has the wrong form";
        return failed(doing, SqliteCause { code: 0, text });
    };
    let code = failure.extended_code;
    let cause = SqliteCause { code, text: rusqlite::ffi::code_to_str(code) };
    match failure.code {
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::OutOfMemory
        | ErrorCode::ReadOnly
        | ErrorCode::OperationAborted
        | ErrorCode::OperationInterrupted
        | ErrorCode::SystemIoFailure
        | ErrorCode::DatabaseCorrupt
        | ErrorCode::DiskFull
        | ErrorCode::CannotOpen
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::PermissionDenied
        | ErrorCode::NotADatabase => unavailable(doing, cause),
        // The rest says that a statement is wrong. The list is SQLite's, and may grow.
        _ => failed(doing, cause),
    }
}

pub(super) fn unavailable(
    doing: &'static str,
    source: impl std::error::Error + Send + Sync + 'static,
) -> StoreError {
    StoreError::Unavailable { doing, source: Box::new(source) }
}

pub(super) fn failed(
    doing: &'static str,
    source: impl std::error::Error + Send + Sync + 'static,
) -> StoreError {
    StoreError::Failed { doing, source: Box::new(source) }
}
