//! One form of errors: `{"error":{"type","code","message","param"?,"detail"?,"request_id"}}`, and
//! `X-Request-ID` on every answer.

use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::{ALWAYS, Doors};
use crate::service::{Code, Refusal, ids};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The refusal rides along until [`name_request`] knows the request's id and writes the body.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status(self.code);
        response.extensions_mut().insert(self);
        response
    }
}

/// Gives the request an id, which its answer carries in a header and, when it is an error, in its
/// body.
pub(super) async fn name_request(
    State(doors): State<Doors>,
    request: Request,
    next: Next,
) -> Response {
    let (id, start) = (ids::uuid(), Instant::now());
    let method = request.method().clone();
    // The template, never the path: ids, names and parameters stay out of logs and metrics.
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;
    if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
        write(&mut response, &refusal, &id);
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    let (status, time) = (response.status().as_u16(), start.elapsed());
    let route = route.as_ref().map_or("unknown", MatchedPath::as_str);
    let method = known_method(&method);
    doors.service.metrics.answered(method, route, status, time);
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    // Probes come every few seconds and say nothing.
    if ALWAYS.contains(&route) {
        tracing::debug!(method, route, status, ms, request_id = id, "answered");
    } else {
        tracing::info!(method, route, status, ms, request_id = id, "answered");
    }
    response
}

fn write(response: &mut Response, refusal: &Refusal, id: &str) {
    let Refusal { code, message, param, detail } = refusal;
    let mut error = json!({
        "type": code.type_of().as_str(),
        "code": code.as_str(),
        "message": message,
    });
    if let Some(param) = param {
        error["param"] = json!(param);
    }
    if let Some(detail) = detail {
        error["detail"] = detail.as_ref().clone();
    }
    error["request_id"] = json!(id);
    *response.body_mut() = Body::from(json!({"error": error}).to_string());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = code.retry_after() {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status(*code) == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
}

/// A method that nobody registered is a stranger's text.
fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::DELETE => "DELETE",
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        Method::POST => "POST",
        Method::PUT => "PUT",
        _ => "other",
    }
}

fn status(code: Code) -> StatusCode {
    StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
