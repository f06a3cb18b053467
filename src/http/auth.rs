//! Who asks: a bearer token, known by its SHA-256.

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;

use super::Doors;
use crate::service::{Code, Poller, Refusal, keys};
use crate::store::{Token, TokenKind};

/// Bytes of a token that may be one of ours.
const MAX_TOKEN: usize = 256;

/// Whoever sent the request, with a token that works.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The token.
    pub token: Token,
    /// SHA-256 of its bytes, by which it is looked up again.
    hash: [u8; 32],
}

impl Caller {
    /// The organisation whose rows the caller may see.
    #[must_use]
    pub fn organisation(&self) -> &str {
        &self.token.organisation
    }

    /// The caller as one who waits for a change, and is looked up again before it is answered.
    #[must_use]
    pub fn poller(&self) -> Poller<'_> {
        Poller { token: &self.token, hash: self.hash }
    }

    /// Lets callers pass whose token is of a kind that `may` names.
    ///
    /// # Errors
    /// 403 for every other kind.
    pub fn need(&self, may: impl FnOnce(&TokenKind) -> bool) -> Result<(), Refusal> {
        if may(&self.token.kind) {
            return Ok(());
        }
        let kind = self.token.kind.as_str();
        Err(Refusal::new(Code::Forbidden, format!("A token of kind `{kind}` may not do this.")))
    }
}

impl FromRequestParts<Doors> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, doors: &Doors) -> Result<Self, Refusal> {
        let hash = bearer_token(parts).map(keys::token_hash);
        let token = match hash {
            Some(hash) => doors.service.store.token_by_hash(hash).await?,
            None => None,
        };
        token.zip(hash).map(|(token, hash)| Self { token, hash }).ok_or_else(|| {
            Refusal::new(
                Code::Unauthenticated,
                "A bearer token that works is required: `Authorization: Bearer …`.",
            )
        })
    }
}

/// The bearer token of a request, where it has one that may be one of ours.
pub(super) fn bearer_token(parts: &Parts) -> Option<&str> {
    let header = parts.headers.get(AUTHORIZATION).and_then(|header| header.to_str().ok());
    header.and_then(bearer).filter(|token| token.len() <= MAX_TOKEN)
}

/// A caller with a token of kind `gateway`; every other kind is refused before the body is read.
#[derive(Debug, Clone)]
pub struct Gateway(pub Caller);

impl FromRequestParts<Doors> for Gateway {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, doors: &Doors) -> Result<Self, Refusal> {
        let caller = Caller::from_request_parts(parts, doors).await?;
        caller.need(|kind| matches!(kind, TokenKind::Gateway { .. }))?;
        Ok(Self(caller))
    }
}

/// The token of a `Bearer` header; the scheme's case does not count (RFC 9110, 11.1).
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
