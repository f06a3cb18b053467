//! The header that makes a repeat a repeat.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::Doors;
use crate::service::{Code, Refusal};

/// Bytes of a key.
const MAX_KEY: usize = 255;
const HEADER: &str = "Idempotency-Key";

/// A request's `Idempotency-Key`: one header of 1 to 255 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(pub String);

impl FromRequestParts<Doors> for IdempotencyKey {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _doors: &Doors) -> Result<Self, Refusal> {
        let mut headers = parts.headers.get_all(HEADER).iter();
        let Some(header) = headers.next() else {
            let text = "The header `Idempotency-Key` is required.";
            return Err(Refusal::new(Code::MissingIdempotencyKey, text).at(HEADER));
        };
        let invalid = || {
            let text = format!("Expected one key of 1 to {MAX_KEY} visible ASCII characters.");
            Refusal::invalid(HEADER, text)
        };
        let visible = |key: &&str| {
            (1..=MAX_KEY).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let key = header.to_str().ok().filter(visible).ok_or_else(invalid)?;
        if headers.next().is_some() {
            return Err(invalid());
        }
        Ok(Self(key.to_owned()))
    }
}
