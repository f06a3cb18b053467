//! The Agent Approval Protocol, under `/aap/v1`: its resources and errors, and nothing beyond them.
//!
//! | method and path | token | answer |
//! |---|---|---|
//! | `POST /requests` | instance | 201 a new request, pending or decided; 200 one of the same key, as it stands |
//! | `GET /requests/{id}?wait=` | instance | 200, once it ended or the wait (at most 30 s) is over |
//! | `DELETE /requests/{id}` | instance | 200 cancelled; 409 `already_terminal` |
//! | `POST /requests/{id}/consume` | instance | 200 for one key only; 409 for others |
//! | `POST /requests/{id}/outcome` | instance | 200, once |
//! | `POST /instances` | provisioner | 201, or 200 for the same key, with the same token |
//! | `GET`, `PATCH`, `DELETE /instances/{id}` | provisioner | 200, 200, 204 |
//!
//! Every `POST` and `PATCH` but the outcome's needs an `Idempotency-Key`.

mod instances;
mod requests;
mod wire;

use axum::Router;
use axum::extract::{FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::middleware::{self, Next};
use axum::response::Response;

use super::Doors;
use super::auth::Caller;
use super::idempotency::IdempotencyKey;
use crate::service::{Code, Refusal};
use crate::store::{Instance, Token, TokenKind};

pub(super) fn routes() -> Router<Doors> {
    let protocol = requests::routes().merge(instances::routes());
    protocol.layer(middleware::from_fn(protocols_errors))
}

/// The protocol's errors name a member without our `$` and have no `detail`.
async fn protocols_errors(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
        let plain = |param: String| match param.strip_prefix('$') {
            None => Some(param),
            Some(path) => {
                let path = path.strip_prefix('.').unwrap_or(path);
                (!path.is_empty()).then(|| path.to_owned())
            }
        };
        let param = refusal.param.and_then(plain);
        response.extensions_mut().insert(Refusal { param, detail: None, ..refusal });
    }
    response
}

/// A caller with an instance's token, and the instance.
struct OfInstance {
    caller: Caller,
    instance: Instance,
}

impl FromRequestParts<Doors> for OfInstance {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, doors: &Doors) -> Result<Self, Refusal> {
        let caller = Caller::from_request_parts(parts, doors).await?;
        let instance = doors.service.instance_of_token(&caller.token).await?;
        Ok(Self { caller, instance })
    }
}

/// A caller with a provisioner's token.
struct Provisioner(Token);

impl FromRequestParts<Doors> for Provisioner {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, doors: &Doors) -> Result<Self, Refusal> {
        let caller = Caller::from_request_parts(parts, doors).await?;
        caller.need(|kind| matches!(kind, TokenKind::Provisioner { .. }))?;
        Ok(Self(caller.token))
    }
}

/// An `Idempotency-Key`; an empty one is none.
struct Key(String);

impl FromRequestParts<Doors> for Key {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, doors: &Doors) -> Result<Self, Refusal> {
        let key = IdempotencyKey::from_request_parts(parts, doors).await;
        let empty = parts.headers.get("Idempotency-Key").is_some_and(|key| key.is_empty());
        match key {
            Ok(IdempotencyKey(key)) => Ok(Self(key)),
            Err(refusal) if empty => Err(Refusal { code: Code::MissingIdempotencyKey, ..refusal }),
            Err(refusal) => Err(refusal),
        }
    }
}

/// The path's one variable part.
struct Id(String);

impl FromRequestParts<Doors> for Id {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, doors: &Doors) -> Result<Self, Refusal> {
        let path = Path::<String>::from_request_parts(parts, doors).await;
        path.map(|Path(id)| Self(id)).map_err(|_| Refusal::not_found("path"))
    }
}
