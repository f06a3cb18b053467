//! One form of errors: `{"error":{"type","code","message","param"?,"detail"?,"request_id"}}`, and
//! `X-Request-ID` on every answer.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;

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
pub(super) async fn name_request(request: Request, next: Next) -> Response {
    let id = ids::uuid();
    let mut response = next.run(request).await;
    if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
        write(&mut response, &refusal, &id);
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(X_REQUEST_ID, id);
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

fn status(code: Code) -> StatusCode {
    StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
