//! `/metrics`: for Prometheus. It counts over all organisations, and names none.

use axum::Router;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::Doors;
use super::auth::{Caller, bearer_token};
use crate::service::{Refusal, keys};
use crate::store::TokenKind;

const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn routes() -> Router<Doors> {
    Router::new().route("/metrics", get(read))
}

async fn read(State(doors): State<Doors>, request: Request) -> Result<Response, Refusal> {
    let (mut parts, _body) = request.into_parts();
    // The token that reads metrics and nothing else, so that no scraper needs an administrator's.
    // Two digests are compared: what their comparison gives away is nothing of the token.
    let given = bearer_token(&parts).map(keys::token_hash);
    let is_scraper = given.is_some() && given == doors.settings.metrics_token;
    if !is_scraper {
        let caller = Caller::from_request_parts(&mut parts, &doors).await?;
        caller.need(|kind| matches!(kind, TokenKind::Admin))?;
    }
    let text = doors.service.metrics_text().await?;
    Ok(([(CONTENT_TYPE, HeaderValue::from_static(TEXT))], text).into_response())
}
