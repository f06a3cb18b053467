//! The layer between async-openai and the network: one exchange, sorted by its HTTP status.
//!
//! async-openai would parse an error's body, keep its text in the error and log whatever it cannot
//! parse. So nothing reaches it but a body that is known to read as a [`Completion`]; all else ends
//! here as a [`Setback`], which has no room for text. Bodies are read up to a bound and no further.

use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use futures::future::BoxFuture;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode};

use super::answer::{Completion, ErrorKind};
use crate::decide::verdict::JudgeFailure;
use crate::judge::retry::Setback;

/// The most bytes of an answer's body. An answer in our format is a few kilobytes; a reasoning
/// model's visible thoughts may add some hundred.
pub const LARGEST_ANSWER: usize = 1024 * 1024;

/// The most bytes of an error's body that are looked at, for its code.
pub const LARGEST_ERROR: usize = 64 * 1024;

/// OpenAI and Azure send the pause in milliseconds as well.
const RETRY_AFTER_MS: &str = "retry-after-ms";

#[derive(Clone)]
pub(super) struct Transport {
    client: reqwest::Client,
}

impl Transport {
    pub(super) fn new(client: reqwest::Client) -> Self {
        Self { client }
    }

    async fn exchange(self, factory: HttpRequestFactory) -> Result<Response, Setback> {
        // The address and the headers were checked when the judge was made.
        let request = factory.build().await.map_err(|_error| JudgeFailure::Rejected)?;
        let response =
            self.client.execute(request).await.map_err(|_error| JudgeFailure::Connection)?;
        let status = response.status();
        if !status.is_success() {
            return Err(failed(status, response).await);
        }
        let body = read(response, LARGEST_ANSWER).await?;
        if serde_json::from_slice::<Completion>(&body).is_err() {
            return Err(JudgeFailure::Malformed.into());
        }
        Ok(Response::from(http::Response::new(body)))
    }
}

impl tower::Service<HttpRequestFactory> for Transport {
    type Response = Response;
    type Error = OpenAIError;
    type Future = BoxFuture<'static, Result<Response, OpenAIError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, factory: HttpRequestFactory) -> Self::Future {
        let exchange = self.clone().exchange(factory);
        Box::pin(
            async move { exchange.await.map_err(|setback| OpenAIError::Boxed(Box::new(setback))) },
        )
    }
}

/// Reads a whole body of at most `bound` bytes. Past the bound nothing more is read; dropping the
/// response closes its connection.
async fn read(mut response: Response, bound: usize) -> Result<Vec<u8>, JudgeFailure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_error| JudgeFailure::Connection)? {
        if body.len().saturating_add(chunk.len()) > bound {
            return Err(JudgeFailure::Malformed);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Sorts an answer that is no success. Only a 400 has its body looked at, for a code that says that
/// the prompt is too long or was filtered; every other status speaks for itself.
async fn failed(status: StatusCode, response: Response) -> Setback {
    let retry_after = retry_after(response.headers(), SystemTime::now());
    let body = match status {
        StatusCode::BAD_REQUEST => read(response, LARGEST_ERROR).await.unwrap_or_default(),
        _other => Vec::new(),
    };
    Setback { failure: failure_of(status, &body), retry_after }
}

/// What a status that is no success says; `body` counts for a 400 alone.
pub(super) fn failure_of(status: StatusCode, body: &[u8]) -> JudgeFailure {
    match status {
        StatusCode::BAD_REQUEST => match ErrorKind::of(body) {
            ErrorKind::ContextExceeded => JudgeFailure::PromptTooLong,
            ErrorKind::ContentFilter => JudgeFailure::Refused,
            ErrorKind::Other => JudgeFailure::Rejected,
        },
        StatusCode::REQUEST_TIMEOUT => JudgeFailure::Timeout,
        StatusCode::TOO_MANY_REQUESTS => JudgeFailure::RateLimited,
        status if status.is_server_error() => JudgeFailure::ServerError,
        // Redirects are not followed: they would carry the prompt to an address nobody configured.
        _other => JudgeFailure::Rejected,
    }
}

/// How long the server asks us to wait: milliseconds, seconds or a date. What is none of them, or a
/// date in the past, asks for nothing.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(milliseconds) = text(RETRY_AFTER_MS).and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(milliseconds));
    }
    let text = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    httpdate::parse_http_date(text).ok()?.duration_since(now).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_in_every_form() {
        let now = httpdate::parse_http_date("Fri, 06 Nov 2026 08:00:00 GMT").unwrap();
        type Headers = &'static [(&'static str, &'static str)];
        let rows: [(Headers, Option<Duration>); 9] = [
            (&[], None),
            (&[("retry-after", "2")], Some(Duration::from_secs(2))),
            (&[("retry-after", " 0 ")], Some(Duration::ZERO)),
            (&[("retry-after", "2"), ("retry-after-ms", "150")], Some(Duration::from_millis(150))),
            (&[("retry-after", "Fri, 06 Nov 2026 08:00:07 GMT")], Some(Duration::from_secs(7))),
            (&[("retry-after", "Fri, 06 Nov 2026 07:00:00 GMT")], None),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "18446744073709551615")], Some(Duration::from_secs(u64::MAX))),
        ];
        for (headers, expected) in rows {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(*name, value.parse().unwrap());
            }
            assert_eq!(retry_after(&map, now), expected, "{headers:?}");
        }
    }
}
