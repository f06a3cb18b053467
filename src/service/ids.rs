//! New ids. They are unguessable enough to name things and are no secrets: every look-up asks for the
//! organisation too.

use uuid::Uuid;

/// A new approval's id at the gateway's door. Ids that were made later sort later.
#[must_use]
pub fn approval() -> String {
    format!("apreq_{}", Uuid::now_v7().simple())
}

/// A new token's id.
#[must_use]
pub fn token() -> String {
    format!("tok_{}", Uuid::now_v7().simple())
}

/// A UUID in its usual notation, for the approval protocol and for `X-Request-ID`.
#[must_use]
pub fn uuid() -> String {
    Uuid::new_v4().hyphenated().to_string()
}

/// A new event's id.
#[must_use]
pub fn event() -> String {
    format!("evt_{}", Uuid::now_v7().simple())
}
