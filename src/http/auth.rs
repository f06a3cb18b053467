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
    pub fn need(&self, may: impl Fn(&TokenKind) -> bool) -> Result<(), Refusal> {
        let kind = &self.token.kind;
        if may(kind) {
            return Ok(());
        }
        let text = match kind {
            TokenKind::Gateway { decide: false } if may(&TokenKind::Gateway { decide: true }) => {
                "This gateway's token may not decide.".to_owned()
            }
            kind => format!("A token of kind `{}` may not do this.", kind.as_str()),
        };
        Err(Refusal::new(Code::Forbidden, text))
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

/// Defines callers by their right, in one table. Each is the first argument of the handlers that need
/// it, so that nothing else of a request is read for somebody who may not do it.
macro_rules! callers {
    ($($(#[$doc:meta])+ $name:ident: $kinds:pat,)+) => {
        $(
            $(#[$doc])+
            #[derive(Debug, Clone)]
            pub struct $name(pub Caller);

            impl FromRequestParts<Doors> for $name {
                type Rejection = Refusal;

                async fn from_request_parts(
                    parts: &mut Parts,
                    doors: &Doors,
                ) -> Result<Self, Refusal> {
                    let caller = Caller::from_request_parts(parts, doors).await?;
                    caller.need(|kind| matches!(kind, $kinds))?;
                    Ok(Self(caller))
                }
            }
        )+
    };
}

callers! {
    /// Whoever hands out rights and switches things.
    Admin: TokenKind::Admin,
    /// Whoever writes agent versions and moves channels.
    PolicyOwner: TokenKind::PolicyOwner,
    /// A gateway.
    Gateway: TokenKind::Gateway { .. },
    /// A gateway that may relay a person's decisions.
    Relay: TokenKind::Gateway { decide: true },
    /// Whoever may decide: a person, or a gateway that names one.
    Decider: TokenKind::Operator | TokenKind::Gateway { decide: true },
    /// Whoever may see calls: people on duty, and gateways.
    Watcher: TokenKind::Operator | TokenKind::Gateway { .. },
    /// Whoever may see the instances of the approval protocol.
    Overseer: TokenKind::Admin | TokenKind::Operator,
    /// Whoever may see agents: everybody of the organisation but the agents' own processes and those
    /// who make them.
    Reader: TokenKind::Gateway { .. }
        | TokenKind::Operator
        | TokenKind::PolicyOwner
        | TokenKind::Admin,
}

/// The token of a `Bearer` header; the scheme's case does not count (RFC 9110, 11.1).
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
