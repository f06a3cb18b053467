//! The service as a command meets it: JSON over HTTP, with the token from the environment.

use std::time::Duration;

use anyhow::{Context as _, bail};
use reqwest::{Method, StatusCode, Url, redirect};
use serde_json::Value;

use crate::decide::text::shown;

/// Where the service is when nobody says.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// The variable that holds the token. It has no flag: other users of a machine see flags.
const TOKEN: &str = "APPROVER_TOKEN";

/// Longer than any answer of the service takes, long polls included.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of an answer.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// The flag of every command that speaks to the service.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Address {
    /// The service's address [default: `http://127.0.0.1:8080`]. The token is read from
    /// APPROVER_TOKEN
    #[arg(long, value_name = "URL", env = "APPROVER_URL")]
    pub url: Option<String>,
}

/// A client of a running service.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: String,
}

impl Client {
    /// A client of the service at `address`, with the token of the environment.
    ///
    /// # Errors
    /// A malformed address, or no token.
    pub fn from_env(address: &Address) -> anyhow::Result<Self> {
        let token = std::env::var(TOKEN).unwrap_or_default();
        Self::new(address.url.as_deref().unwrap_or(DEFAULT_URL), token.trim())
    }

    /// A client with that token.
    ///
    /// # Errors
    /// A malformed address, or no token.
    pub fn new(url: &str, token: &str) -> anyhow::Result<Self> {
        if token.is_empty() {
            bail!("no token: set {TOKEN}");
        }
        let base = Url::parse(url).ok().filter(|url| {
            let plain = url.username().is_empty() && url.password().is_none();
            matches!(url.scheme(), "http" | "https") && url.has_host() && plain
        });
        let base = base.context("the address is not `http://HOST:PORT` or `https://HOST`")?;
        // An error means that the process has a provider already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            // The token goes to this address and no other.
            .redirect(redirect::Policy::none())
            .referer(false)
            .no_proxy()
            .timeout(TIMEOUT)
            .user_agent(concat!("approver/", env!("CARGO_PKG_VERSION")))
            .build()
            .context("no HTTP client can be made")?;
        Ok(Self { http, base, token: token.to_owned() })
    }

    /// `GET`.
    ///
    /// # Errors
    /// The service cannot be reached, or it refuses: one sentence with the code and the request's id.
    pub async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> anyhow::Result<Value> {
        self.send(Method::GET, path, query, None).await
    }

    /// `POST`; `key` is the `Idempotency-Key`, where the endpoint wants one.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn post(
        &self,
        path: &[&str],
        key: Option<&str>,
        body: &Value,
    ) -> anyhow::Result<Value> {
        self.send(Method::POST, path, &[], Some((key, body))).await
    }

    /// `PUT`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn put(&self, path: &[&str], body: &Value) -> anyhow::Result<Value> {
        self.send(Method::PUT, path, &[], Some((None, body))).await
    }

    /// `DELETE`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn delete(&self, path: &[&str]) -> anyhow::Result<Value> {
        self.send(Method::DELETE, path, &[], None).await
    }

    /// `path` is a list of segments, so that an id with a slash stays one segment.
    async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<(Option<&str>, &Value)>,
    ) -> anyhow::Result<Value> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self.http.request(method, url).bearer_auth(&self.token);
        if let Some((key, body)) = body {
            request = request.header("Content-Type", "application/json").body(body.to_string());
            if let Some(key) = key {
                request = request.header("Idempotency-Key", key);
            }
        }
        let unreachable = || format!("the service at {} cannot be reached", self.place());
        let mut response =
            request.send().await.map_err(reqwest::Error::without_url).with_context(unreachable)?;
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(part) =
            response.chunk().await.map_err(reqwest::Error::without_url).with_context(unreachable)?
        {
            if bytes.len() + part.len() > MAX_ANSWER {
                bail!("the service's answer is too large");
            }
            bytes.extend_from_slice(&part);
        }
        if status.is_success() {
            if bytes.is_empty() {
                return Ok(Value::Null);
            }
            return serde_json::from_slice(&bytes)
                .with_context(|| format!("what answers at {} is not approver", self.place()));
        }
        bail!(refusal(status, &bytes, &self.place()))
    }

    fn place(&self) -> String {
        shown(self.base.as_str())
    }
}

/// An error's envelope as one sentence.
fn refusal(status: StatusCode, bytes: &[u8], place: &str) -> String {
    let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let text = |name: &str| body["error"][name].as_str().map(shown);
    match (text("code"), text("message"), text("request_id")) {
        (Some(code), Some(message), Some(id)) => {
            let message = message.trim_end_matches('.');
            format!("{message} ({code}, request {id})")
        }
        _ => format!("what answers at {place} is not approver: status {}", status.as_u16()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_is_one_sentence() {
        let body = br#"{"error":{"type":"conflict","code":"approval_already_decided","message":"Somebody decided first.","request_id":"r-1"}}"#;
        assert_eq!(
            refusal(StatusCode::CONFLICT, body, "x"),
            "Somebody decided first (approval_already_decided, request r-1)"
        );
        assert_eq!(
            refusal(StatusCode::BAD_GATEWAY, b"<html>", "http://a/"),
            "what answers at http://a/ is not approver: status 502"
        );
    }

    #[test]
    fn addresses_and_tokens() {
        assert!(Client::new("http://127.0.0.1:1", "t").is_ok());
        for (url, token) in
            [("http://a", ""), ("ftp://a", "t"), ("127.0.0.1:8080", "t"), ("http://u:p@a", "t")]
        {
            assert!(Client::new(url, token).is_err(), "{url}");
        }
    }
}
