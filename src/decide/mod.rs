//! The pure core of a judgement.
pub mod json;
pub mod novelty;
pub mod policy;
pub mod prompt;
pub mod request;
pub mod text;
pub mod verdict;
pub mod walk;

/// SHA-256 over length-prefixed parts, as 64 lower-case hex digits: no two lists of parts share one.
#[must_use]
pub fn digest(parts: &[&str]) -> String {
    use sha2::{Digest, Sha256};
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
