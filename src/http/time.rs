//! Times on the wire: RFC 3339 in UTC, with `Z` and never an offset.

use crate::store::Timestamp;

/// `2026-12-01T10:05:00Z`; milliseconds stand after the seconds where there are some.
#[must_use]
pub fn rfc3339(time: Timestamp) -> String {
    time.rfc3339()
}
