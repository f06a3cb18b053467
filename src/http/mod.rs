//! The doors over HTTP, one resource a file: who asks, what is asked, which answer.
//!
//! A handler reads its request ([`body`], [`auth`]), calls the [`Service`], and writes its answer or
//! a [`Refusal`], which [`envelope`] shows. Nothing here decides anything.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;

use self::limits::HeaderLimits;
use crate::service::{Code, Refusal, Service};

mod aap;
mod agents;
mod approvals;
pub mod auth;
mod automatic_approval;
pub mod body;
mod conversations;
mod decisions;
mod envelope;
mod health;
pub mod idempotency;
mod instances;
mod judgements;
pub mod limits;
mod linger;
mod metrics;
pub mod openapi;
pub mod parameters;
pub mod server;
pub mod time;
mod tokens;

/// What every handler has.
#[derive(Clone)]
pub struct Doors {
    /// The service behind the doors.
    pub service: Arc<Service>,
    /// What the doors themselves keep to.
    pub settings: Arc<Settings>,
}

/// What the doors themselves keep to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a request's body; 8 MiB unless configured.
    pub max_body: usize,
    /// A request's header.
    pub headers: HeaderLimits,
    /// For a request's body to arrive; 30 s unless configured.
    pub body_timeout: Duration,
    /// SHA-256 of the token that reads metrics and nothing else, where there is one.
    pub metrics_token: Option<[u8; 32]>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_body: 8 * 1024 * 1024,
            headers: HeaderLimits::default(),
            body_timeout: Duration::from_secs(30),
            metrics_token: None,
        }
    }
}

/// All routes, with what holds for each of them: a request id, one form of errors, limits of size,
/// contained panics, and nothing new once the service is stopping.
pub fn router(doors: Doors) -> Router {
    let limit = DefaultBodyLimit::max(doors.settings.max_body);
    let admit = middleware::from_fn_with_state(doors.clone(), admit);
    let check_size = middleware::from_fn_with_state(doors.clone(), limits::check);
    let name_request = middleware::from_fn_with_state(doors.clone(), envelope::name_request);
    Router::new()
        .merge(agents::routes())
        .merge(automatic_approval::routes())
        .merge(conversations::routes())
        .merge(approvals::routes())
        .merge(decisions::routes())
        .merge(health::routes())
        .merge(judgements::routes())
        .merge(aap::routes())
        .merge(instances::routes())
        .merge(metrics::routes())
        .merge(openapi::routes())
        .merge(tokens::routes())
        .fallback(async || Refusal::not_found("path"))
        .method_not_allowed_fallback(async || {
            Refusal::new(Code::MethodNotAllowed, "This path knows no such method.")
        })
        .with_state(doors)
        .layer(limit)
        .layer(admit)
        .layer(middleware::from_fn(contain_panics))
        .layer(check_size)
        .layer(name_request)
}

/// What a stopping service still answers: whoever watches it must see that it stops.
const ALWAYS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Counts what runs, so that a stop waits for it, and lets nothing new begin then.
async fn admit(State(doors): State<Doors>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    if route.is_some_and(|route| ALWAYS.contains(&route)) {
        return next.run(request).await;
    }
    match doors.service.running.begin() {
        Ok(_work) => next.run(request).await,
        Err(stopping) => stopping.into_response(),
    }
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
