//! Bearer tokens: made, listed, ended. A token is told once, to whoever makes it; its SHA-256 is all
//! that is stored.

use super::keys::{new_token, token_hash};
use super::names::{check_person, check_plain};
use super::{Code, Refusal, Service, ids};
use crate::store::{Created, NewToken, Store, Timestamp, Token, TokenKind};

/// The most agents and versions that one provisioner may bind.
pub const MAX_VERSIONS: usize = 100;

/// The kinds that are made here, by their words. An instance's token comes with the instance.
pub const KINDS: [&str; 5] = ["gateway", "provisioner", "operator", "policy_owner", "admin"];

/// A new token, and its text.
#[derive(Debug)]
pub struct Made {
    /// What is stored of it.
    pub token: Token,
    /// The token itself: to be shown once, and to no log.
    pub text: String,
}

/// The kind of that word. `decide` is a gateway's alone and `versions` a provisioner's, who needs
/// one at least.
///
/// # Errors
/// 400 for an unknown kind, and for what does not belong to it.
pub fn kind(
    word: &str,
    decide: bool,
    versions: Vec<(String, String)>,
) -> Result<TokenKind, Refusal> {
    if decide && word != "gateway" {
        return Err(Refusal::invalid("$.decide", "Only a gateway's token has `decide`."));
    }
    if word != "provisioner" && !versions.is_empty() {
        return Err(Refusal::invalid("$.versions", "Only a provisioner's token has `versions`."));
    }
    match word {
        "gateway" => Ok(TokenKind::Gateway { decide }),
        "provisioner" if versions.is_empty() || versions.len() > MAX_VERSIONS => {
            let text = "A provisioner needs 1 to 100 agent versions that it may bind.";
            Err(Refusal::invalid("$.versions", text))
        }
        "provisioner" => {
            for (agent, version) in &versions {
                check_plain("$.versions", agent)?;
                check_plain("$.versions", version)?;
            }
            Ok(TokenKind::Provisioner { versions })
        }
        "operator" => Ok(TokenKind::Operator),
        "policy_owner" => Ok(TokenKind::PolicyOwner),
        "admin" => Ok(TokenKind::Admin),
        _ => {
            let text = format!("A token's kind is one of {}.", KINDS.join(", "));
            Err(Refusal::invalid("$.kind", text))
        }
    }
}

/// Makes a token and stores its hash. It needs no key of the service's, so that the first token can
/// be made before the service ever ran.
///
/// # Errors
/// A bad name, a name that a working token of the kind has already, or a store that fails.
pub async fn create(
    store: &dyn Store,
    now: Timestamp,
    organisation: &str,
    name: &str,
    kind: TokenKind,
) -> Result<Made, Refusal> {
    check_plain("$.organisation", organisation)?;
    check_person("$.name", name)?;
    let text = new_token(kind.as_str()).map_err(|_| {
        Refusal::new(Code::InternalError, "The machine gives no random numbers for a token.")
    })?;
    let token = Token {
        id: ids::token(),
        organisation: organisation.to_owned(),
        name: name.to_owned(),
        kind,
        created_at: now,
        revoked_at: None,
    };
    let new = NewToken { token: token.clone(), hash: token_hash(&text) };
    match store.create_token(new).await? {
        Created::Done => Ok(Made { token, text }),
        Created::Exists => {
            let message = "A working token of this kind has the name already.";
            Err(Refusal::new(Code::TokenExists, message).at("$.name"))
        }
    }
}

/// Ends a token of the organisation: it works no more from now on, on every replica.
///
/// # Errors
/// 404 where there is no such working token, or a store that fails.
pub async fn revoke(
    store: &dyn Store,
    now: Timestamp,
    organisation: &str,
    id: &str,
) -> Result<(), Refusal> {
    if store.revoke_token(organisation, id, now).await? {
        Ok(())
    } else {
        Err(Refusal::not_found("working token"))
    }
}

impl Service {
    /// [`create`] in this service's store.
    ///
    /// # Errors
    /// As there.
    pub async fn create_token(
        &self,
        organisation: &str,
        name: &str,
        kind: TokenKind,
    ) -> Result<Made, Refusal> {
        create(self.store.as_ref(), self.now(), organisation, name, kind).await
    }

    /// [`revoke`] in this service's store.
    ///
    /// # Errors
    /// As there.
    pub async fn revoke_token(&self, organisation: &str, id: &str) -> Result<(), Refusal> {
        revoke(self.store.as_ref(), self.now(), organisation, id).await
    }
}
