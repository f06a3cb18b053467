//! Bodies in and out: JSON, read strictly (no duplicate keys, bounded depth, numbers kept as
//! written).

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::time::timeout;

use super::limits::body_too_large;
use super::{Doors, Settings};
use crate::decide::json::{self, Json};
use crate::decide::walk::{Members, Problem, duplicates_of_request, unreadable};
use crate::service::{Code, Refusal};

/// A body's text, which is JSON by its own word.
#[derive(Debug, Clone)]
pub struct JsonText(pub String);

impl FromRequest<Doors> for JsonText {
    type Rejection = Refusal;

    async fn from_request(request: Request, doors: &Doors) -> Result<Self, Refusal> {
        let media = request.headers().get(CONTENT_TYPE).and_then(|media| media.to_str().ok());
        let media = media.map(|media| media.split(';').next().unwrap_or_default().trim());
        if !media.is_some_and(|media| media.eq_ignore_ascii_case("application/json")) {
            let text = "The body must be `Content-Type: application/json`.";
            return Err(Refusal::new(Code::UnsupportedMediaType, text).at("Content-Type"));
        }
        let Settings { max_body, body_timeout, .. } = *doors.settings;
        let arrived = timeout(body_timeout, Bytes::from_request(request, doors)).await;
        let arrived = arrived.map_err(|_elapsed| {
            Refusal::new(Code::RequestTimeout, "The body did not arrive in time.")
        })?;
        let bytes = arrived.map_err(|rejection| {
            if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
                body_too_large(max_body)
            } else {
                Refusal::invalid("$", "The body did not arrive in full.")
            }
        })?;
        String::from_utf8(bytes.into())
            .map(Self)
            .map_err(|_| Refusal::invalid("$", "The body is not UTF-8."))
    }
}

impl JsonText {
    /// The document.
    ///
    /// # Errors
    /// 400 for what is not JSON, is nested too deep, or has a key twice.
    pub fn read(&self) -> Result<Json, Refusal> {
        let document = json::read_document(&self.0);
        Ok(document.map_err(|error| invalid(&[unreadable("$", &error)]))?.value)
    }

    /// The document, walked by `walk`, which reports what is wrong; repeated keys are reported too.
    ///
    /// # Errors
    /// 400 with every problem.
    pub fn walk<T>(
        &self,
        walk: impl FnOnce(&mut Members<'_, '_>) -> Option<T>,
    ) -> Result<T, Refusal> {
        let value = self.read()?;
        let mut problems = Vec::new();
        duplicates_of_request("$", &value, &mut problems);
        let walked = match Members::new("$", &value, &mut problems) {
            Some(mut members) => walk(&mut members),
            None => None,
        };
        match walked {
            Some(walked) if problems.is_empty() => Ok(walked),
            _ => Err(invalid(&problems)),
        }
    }
}

/// 400 `invalid_request` with every problem.
#[must_use]
pub fn invalid(problems: &[Problem]) -> Refusal {
    Refusal::problems(Code::InvalidRequest, problems)
}

/// An answer in JSON.
#[derive(Debug, Clone)]
pub struct Answer<T>(pub T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(bytes) => {
                let json = HeaderValue::from_static("application/json");
                ([(CONTENT_TYPE, json)], bytes).into_response()
            }
            Err(_) => Refusal::new(Code::InternalError, "The answer could not be written.")
                .into_response(),
        }
    }
}
