//! Asking a running service, with errors in one sentence.

use std::time::Duration;

use anyhow::Context;
use reqwest::header::{ACCEPT, RETRY_AFTER};
use reqwest::{Method, Response, Url};
use serde_json::Value;

use crate::decide::text::{head, shown};

/// For one request: longer than the service lets one wait.
const TIMEOUT: Duration = Duration::from_secs(45);
/// Bytes of an answer.
const MAX_ANSWER: usize = 64 * 1024 * 1024;
/// Bytes of the service's sentence on one line.
const MAX_SENTENCE: usize = 600;
/// The longest pause that a service may ask for.
const MAX_PAUSE: u64 = 60;

/// The flag of every command that asks a service.
#[derive(Debug, Clone, clap::Args)]
pub struct Server {
    /// The service's address; the token comes from APPROVER_TOKEN
    #[arg(long, env = "APPROVER_URL", value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub url: String,
}

/// A service, and who asks.
pub(in crate::cli) struct Client {
    http: reqwest::Client,
    base: Url,
    token: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum Failure {
    /// The service says no.
    #[error("{sentence}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The service's message with its code and the request's id.
        sentence: String,
    },
    /// The service has no time or is down.
    #[error("{sentence}")]
    Busy {
        /// The service's message with its code and the request's id.
        sentence: String,
        /// When to come again.
        after: Option<Duration>,
    },
    /// There is no service.
    #[error("the service at {0} does not answer")]
    Unreachable(String),
    /// Something else answers.
    #[error("what answers at {0} is no approver")]
    Foreign(String),
}

impl Failure {
    /// Whether trying again may help.
    pub(in crate::cli) const fn may_pass(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Unreachable(_) => true,
            Self::Refused { .. } | Self::Foreign(_) => false,
        }
    }

    /// When the service wants to be asked again.
    pub(in crate::cli) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { after, .. } => *after,
            Self::Refused { .. } | Self::Unreachable(_) | Self::Foreign(_) => None,
        }
    }
}

impl Client {
    /// A client for the service at `url`.
    ///
    /// # Errors
    /// An address that is none, or to which no token should be sent.
    fn new(url: &str, token: &str) -> anyhow::Result<Self> {
        let base = Url::parse(url).ok().filter(|url| url.has_host());
        let base =
            base.context("`--url` (or APPROVER_URL) is no address\nhint: `http://127.0.0.1:8080`")?;
        let plain = base.username().is_empty() && base.password().is_none();
        if !plain || base.query().is_some() || base.fragment().is_some() {
            anyhow::bail!("`--url` (or APPROVER_URL) holds more than a host, a port and a path");
        }
        let local = match base.host() {
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        if base.scheme() != "https" && !(base.scheme() == "http" && local) {
            anyhow::bail!(
                "the token would be sent in the clear\nhint: use https, or http on this machine"
            );
        }
        // An error means that the process has a provider already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .connect_timeout(Duration::from_secs(10))
            .redirect(reqwest::redirect::Policy::none());
        if local {
            http = http.no_proxy();
        }
        let http = http.build().context("the HTTP client cannot be made")?;
        Ok(Self { http, base, token: token.to_owned() })
    }

    /// A client with the token of the environment: a flag would stand in everybody's list of
    /// processes.
    ///
    /// # Errors
    /// As [`Client::new`], and where there is no token; `hint` says what a token is needed for.
    pub(in crate::cli) fn with_token(
        server: &Server,
        token: Option<&str>,
        hint: &str,
    ) -> anyhow::Result<Self> {
        let token = token.filter(|token| !token.is_empty());
        let token = token.with_context(|| format!("APPROVER_TOKEN is not set\nhint: {hint}"))?;
        Self::new(&server.url, token)
    }

    /// Reads what stands at a path of these parts.
    pub(in crate::cli) async fn get(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Value, Failure> {
        let mut url = self.url(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.send(self.http.request(Method::GET, url)).await
    }

    /// Sends `body` to a path of these parts.
    pub(in crate::cli) async fn post(&self, path: &[&str], body: &Value) -> Result<Value, Failure> {
        let request = self.http.request(Method::POST, self.url(path));
        self.send(request.header("content-type", "application/json").body(body.to_string())).await
    }

    /// Puts `body` at a path of these parts.
    pub(in crate::cli) async fn put(&self, path: &[&str], body: &Value) -> Result<Value, Failure> {
        let request = self.http.request(Method::PUT, self.url(path));
        self.send(request.header("content-type", "application/json").body(body.to_string())).await
    }

    /// Changes what stands at a path of these parts.
    pub(in crate::cli) async fn patch(
        &self,
        path: &[&str],
        body: &Value,
    ) -> Result<Value, Failure> {
        let request = self.http.request(Method::PATCH, self.url(path));
        self.send(request.header("content-type", "application/json").body(body.to_string())).await
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        // An address with a host has a path.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    fn place(&self) -> String {
        shown(self.base.as_str())
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Value, Failure> {
        let request = request.bearer_auth(&self.token).header(ACCEPT, "application/json");
        // The error's own text may hold the whole address; ours is enough.
        let unreachable = |_| Failure::Unreachable(self.place());
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|after| after.to_str().ok()?.parse::<u64>().ok())
            .map(|seconds| Duration::from_secs(seconds.min(MAX_PAUSE)));
        let body = self.body(response).await?;
        if status.is_success() {
            return body.ok_or_else(|| Failure::Foreign(self.place()));
        }
        let sentence = body.as_ref().and_then(sentence);
        let busy = status.is_server_error() || status.as_u16() == 429;
        match sentence {
            Some(sentence) if busy => Err(Failure::Busy { sentence, after }),
            Some(sentence) => Err(Failure::Refused { status: status.as_u16(), sentence }),
            // A gateway on the way, whose server is down.
            None if busy => Err(Failure::Unreachable(self.place())),
            None => Err(Failure::Foreign(self.place())),
        }
    }

    async fn body(&self, mut response: Response) -> Result<Option<Value>, Failure> {
        let mut bytes = Vec::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|_| Failure::Unreachable(self.place()))?
        {
            if bytes.len() + chunk.len() > MAX_ANSWER {
                return Err(Failure::Foreign(self.place()));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(serde_json::from_slice(&bytes).ok())
    }
}

/// The service's error in one sentence.
fn sentence(body: &Value) -> Option<String> {
    let error = body.get("error")?;
    let text = |name: &str| error.get(name).and_then(Value::as_str).map(shown);
    let (message, code) = (text("message")?, text("code")?);
    let message = head(message.trim_end_matches('.'), MAX_SENTENCE);
    let param = text("param").map(|param| format!(" at {param}")).unwrap_or_default();
    let request = text("request_id").unwrap_or_default();
    Some(format!("{message} ({code}{param}, request {request})"))
}
