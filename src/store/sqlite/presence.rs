//! Which processes have the file open, by a lock on a file beside it: whoever is alone at the start
//! ends the leases of processes that are gone.
//!
//! INVARIANT: a process begins work under a lease only while it holds the lock together with the
//! others. Whoever has it alone knows that nobody is at work, and a lock ends with its process,
//! however that ends. On a file system without locks nobody is ever alone, and leases run out by
//! themselves. Were somebody at work all the same (a lock file that was removed, say), then that work
//! would not count: whoever takes over what another began leaves that one nothing to record.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::Connection;

use super::cause::sqlite_error;
use crate::store::StoreError;

/// Held as long as the process may work on the file.
#[derive(Debug)]
pub(super) struct Presence {
    /// `None` where files cannot be locked.
    _lock: Option<File>,
}

impl Presence {
    /// Enters, once whoever is alone has done its work. If nobody else has the file open, `connection`
    /// ends what was begun and never recorded.
    pub(super) fn enter(path: &Path, connection: &Connection) -> Result<Self, StoreError> {
        let Ok(lock) = open(path) else { return Ok(Self { _lock: None }) };
        if lock.try_lock().is_ok() {
            let ended = end_leases(connection);
            // What a lock turns into while it is held differs from system to system, so it is given
            // back first. Whoever is alone meanwhile finds no lease of ours: nothing has begun.
            let _given_back = lock.unlock();
            ended?;
        }
        let entered = lock.lock_shared().is_ok();
        Ok(Self { _lock: entered.then_some(lock) })
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    // One file has one lock, whatever it is called by.
    let mut name = path.canonicalize()?.into_os_string();
    name.push("-lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(name)
}

fn end_leases(connection: &Connection) -> Result<(), StoreError> {
    connection
        .execute_batch(
            "BEGIN IMMEDIATE;
             UPDATE requests SET lease_until = 0 WHERE recorded_at IS NULL AND lease_until > 0;
             UPDATE changes SET lease_until = 0 WHERE committed_at IS NULL AND lease_until > 0;
             COMMIT",
        )
        .map_err(|error| sqlite_error("ending leases of processes that are gone", &error))
}
