//! The doors over HTTP, one resource a file: who asks, what is asked, which answer.
//!
//! A handler reads its request ([`body`], [`auth`]), calls the [`Service`], and writes its answer or
//! a [`Refusal`], which [`envelope`] shows. Nothing here decides anything.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;

use crate::service::{Code, Refusal, Service};

mod aap;
mod approvals;
pub mod auth;
pub mod body;
mod conversations;
mod decisions;
mod envelope;
mod health;
pub mod idempotency;
mod instances;
mod judgements;
mod query;
pub mod time;

/// What every handler has.
#[derive(Clone)]
pub struct Doors {
    /// The service behind the doors.
    pub service: Arc<Service>,
}

/// All routes, with what holds for each of them: a request id, one form of errors, contained panics.
pub fn router(doors: Doors) -> Router {
    Router::new()
        .merge(approvals::routes())
        .merge(decisions::routes())
        .merge(health::routes())
        .merge(judgements::routes())
        .merge(conversations::routes())
        .merge(aap::routes())
        .merge(instances::routes())
        .fallback(async || Refusal::not_found("path"))
        .method_not_allowed_fallback(async || {
            Refusal::new(Code::MethodNotAllowed, "This path knows no such method.")
        })
        .with_state(doors)
        .layer(middleware::from_fn(contain_panics))
        .layer(middleware::from_fn(envelope::name_request))
}

/// A bug costs its own request.
async fn contain_panics(request: Request, next: Next) -> Response {
    let response = if request.method().is_safe() {
        // What only reads ends with its caller: nobody waits for a change for somebody who left.
        AssertUnwindSafe(next.run(request)).catch_unwind().await.ok()
    } else {
        // In a task of its own a panic ends there; a caller who hangs up stops nothing that has
        // begun.
        tokio::spawn(next.run(request)).await.ok()
    };
    response.unwrap_or_else(|| {
        Refusal::new(Code::InternalError, "Something is wrong here, and it is recorded.")
            .into_response()
    })
}
