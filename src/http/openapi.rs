//! `/openapi.json`: these doors, described. The document is kept by hand; tests hold that it has
//! every route and every code, and no others.

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;

use super::Doors;

/// The document.
pub const DOCUMENT: &str = include_str!("openapi.json");

pub(super) fn routes() -> Router<Doors> {
    Router::new().route("/openapi.json", get(document))
}

async fn document() -> ([(axum::http::HeaderName, HeaderValue); 1], &'static str) {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], DOCUMENT)
}
