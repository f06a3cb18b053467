//! The doors over HTTP, one resource a file: who asks, what is asked, which answer.
//!
//! A handler reads its request ([`body`], [`auth`]), calls the [`Service`], and writes its answer or
//! a [`Refusal`], which [`envelope`] shows. Nothing here decides anything.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};

use crate::service::{Code, Refusal, Service};

pub mod auth;
pub mod body;
mod envelope;
mod health;

/// What every handler has.
#[derive(Clone)]
pub struct Doors {
    /// The service behind the doors.
    pub service: Arc<Service>,
}

/// All routes, with what holds for each of them: a request id, one form of errors, contained panics.
pub fn router(doors: Doors) -> Router {
    Router::new()
        .merge(health::routes())
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
    // In a task of its own a panic ends there; a caller who hangs up stops nothing that has begun.
    match tokio::spawn(next.run(request)).await {
        Ok(response) => response,
        Err(_panic) => {
            Refusal::new(Code::InternalError, "Something is wrong here, and it is recorded.")
                .into_response()
        }
    }
}
