//! What is sealed under which key: for rotating keys. Nothing is opened here.

use super::Sealed;

/// How much is sealed under a key, in every organisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUse {
    /// The key's id.
    pub key_id: String,
    /// Inputs of approvals that wait.
    pub pending: u64,
    /// Signing secrets of instances.
    pub signing_secrets: u64,
}

/// Looks for signing secrets that are sealed under another key.
#[derive(Debug, Clone)]
pub struct SealedOtherwise {
    /// Than this.
    pub key_id: String,
    /// Those after this instance's id: the last of the page before.
    pub after: Option<String>,
    /// At most this many.
    pub limit: u32,
}

/// An instance's signing secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningSecret {
    /// Who owns the instance.
    pub organisation: String,
    /// The instance.
    pub instance: String,
    /// Its secret.
    pub sealed: Sealed,
}

/// Puts a secret that was sealed anew in the place of the one that was read.
#[derive(Debug, Clone)]
pub struct Reseal {
    /// What was read.
    pub before: SigningSecret,
    /// The same secret under another key.
    pub sealed: Sealed,
}
