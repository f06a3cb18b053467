//! How large a request may be before anybody looks at what it says.
//!
//! HTTP's own limits are set above these ([`super::server`]), so that what is only somewhat too large
//! gets an error of our form. What is beyond those is answered by the HTTP library, bare.

use axum::extract::{Request, State};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::{Doors, linger};
use crate::service::{Code, Refusal};

/// Bytes of a request's target: its path and parameters.
pub const MAX_TARGET: usize = 8 * 1024;
/// Bytes of a header field beyond its name and value: colon, space, and the line's end.
const FIELD_OVERHEAD: usize = 4;

/// How large a request's header may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderLimits {
    /// Header fields; 100 unless configured.
    pub fields: usize,
    /// Bytes of the header fields together; 64 KiB unless configured.
    pub bytes: usize,
}

impl Default for HeaderLimits {
    fn default() -> Self {
        Self { fields: 100, bytes: 64 * 1024 }
    }
}

/// Lets pass what is small enough, without reading a body: one that does not say how long it is is
/// measured as it comes ([`super::body`]).
pub(super) async fn check(State(doors): State<Doors>, request: Request, next: Next) -> Response {
    let settings = &doors.settings;
    let request = linger::to_the_end(request, 2 * settings.max_body);
    let checked = check_target(request.uri())
        .and_then(|()| check_headers(request.headers(), settings.headers))
        .and_then(|()| check_length(request.headers(), settings.max_body));
    match checked {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

fn check_target(uri: &Uri) -> Result<(), Refusal> {
    let target = uri.path_and_query().map_or(0, |target| target.as_str().len());
    if target <= MAX_TARGET {
        return Ok(());
    }
    let text = format!("A path with its parameters has at most {MAX_TARGET} bytes.");
    Err(Refusal::new(Code::UriTooLong, text))
}

fn check_headers(headers: &HeaderMap, limits: HeaderLimits) -> Result<(), Refusal> {
    let HeaderLimits { fields, bytes } = limits;
    if headers.len() > fields {
        let text = format!("A request has at most {fields} fields in its header.");
        return Err(Refusal::new(Code::HeaderTooLarge, text));
    }
    let size = |(name, value): (&HeaderName, &HeaderValue)| {
        name.as_str().len() + value.len() + FIELD_OVERHEAD
    };
    if headers.iter().map(size).sum::<usize>() > bytes {
        let text = format!("A request's header fields have at most {bytes} bytes.");
        return Err(Refusal::new(Code::HeaderTooLarge, text));
    }
    Ok(())
}

fn check_length(headers: &HeaderMap, max_body: usize) -> Result<(), Refusal> {
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length: Option<u64> = length.and_then(|length| length.parse().ok());
    // A length that is no number, or more than one, is refused by HTTP itself.
    let too_long = |length| usize::try_from(length).map_or(true, |length| length > max_body);
    if length.is_some_and(too_long) { Err(body_too_large(max_body)) } else { Ok(()) }
}

/// 413 for a body over the limit.
pub(super) fn body_too_large(max_body: usize) -> Refusal {
    Refusal::new(Code::BodyTooLarge, format!("A body has at most {max_body} bytes."))
}
