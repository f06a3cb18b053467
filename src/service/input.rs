//! What an approval seals: the call's arguments and what was known of them when it was raised.
//!
//! Only this module knows the form. The store keeps it without being able to read it.

use serde::Deserialize;
use serde_json::Value;

/// An opened input, as far as decisions and pages need it.
#[derive(Debug, Clone, Deserialize)]
pub struct SealedInput {
    /// The exact text of the arguments that will run.
    pub arguments: String,
    /// Where each argument was first seen.
    #[serde(default)]
    pub provenance: Value,
    /// The quotes that the judge gave, checked.
    #[serde(default)]
    pub evidence: Value,
}

impl SealedInput {
    /// Reads an opened input; `None` for what this program never seals.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}
