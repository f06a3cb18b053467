//! A judge behind any endpoint that speaks OpenAI's Chat Completions.
//!
//! async-openai has the request's types and carries the exchange; its transport stands between it
//! and the network, so that the HTTP status decides before any body is read, bodies are bounded,
//! and no provider's text gets into an error or a log. Nothing here retries ([`super::retry`]
//! does), follows a redirect, or reads what the model says.
//!
//! Proxies: the standard variables (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`) apply to
//! every endpoint but those on this machine (`localhost` and loopback addresses), which are always
//! reached directly. Nothing else configures a proxy.

use std::time::Duration;

use async_openai::config::Config as ClientConfig;
use async_openai::error::OpenAIError;
use futures::future::BoxFuture;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::time::Instant;

use super::Judge;
use super::breaker::Identity;
use super::retry::{Attempt, Setback};
use crate::decide::prompt::{Prompt, answer_schema};
use crate::decide::verdict::{JudgeFailure, Reply, Tokens};

mod answer;
mod request;
mod transport;

use answer::Completion;
use transport::Transport;

pub use async_openai::types::chat::ReasoningEffort;
pub use transport::{LARGEST_ANSWER, LARGEST_ERROR};

/// OpenAI's own endpoint.
pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";

/// How long an unused connection is kept, shorter than the idle limits of common servers and load
/// balancers (60 s and more), so that a question rarely meets a connection that just died.
const IDLE_CONNECTION: Duration = Duration::from_secs(30);

/// How the server is asked to keep to the answer's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StructuredOutput {
    /// `{"type": "json_schema"}`, strict: OpenAI, vLLM, llama.cpp, Ollama and most others.
    #[default]
    JsonSchema,
    /// `{"type": "json_object"}`: any JSON object.
    JsonObject,
    /// `{"type": "json_object", "schema": …}`: llama-cpp-python.
    JsonObjectWithSchema,
    /// Nothing is asked for; the prompt alone describes the answer.
    Text,
}

/// The request's member that limits the answer's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MaxTokensField {
    /// `max_completion_tokens` for OpenAI's and Azure's own hosts, `max_tokens` for all others.
    /// OpenAI's reasoning models reject the old name; Mistral and older vLLM and Ollama servers
    /// reject or ignore the new one; every server but OpenAI's still takes the old one.
    #[default]
    Auto,
    /// `max_tokens`.
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// What there is to know about an endpoint. Its `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The address before `/chat/completions`.
    pub base_url: String,
    /// The model's name.
    pub model: String,
    /// Sent as a bearer token; without one there is no `Authorization` header.
    pub api_key: Option<SecretString>,
    /// How the server is asked to keep to the answer's schema.
    pub structured_output: StructuredOutput,
    /// Sent only where set: reasoning models reject it.
    pub temperature: Option<f32>,
    /// Sent only where set.
    pub seed: Option<i64>,
    /// Sent only where set: other models reject it.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// The most tokens of an answer, reasoning included where the server counts it.
    pub max_output_tokens: u32,
    /// Under which name the limit is sent.
    pub max_tokens_field: MaxTokensField,
    /// Further headers; their values are kept as secrets.
    pub extra_headers: Vec<(String, SecretString)>,
    /// Sent as `prompt_cache_key` where set: an HMAC of the organisation, made by the caller.
    pub prompt_cache_key: Option<String>,
}

impl Settings {
    /// Settings of which only address and model are chosen.
    #[must_use]
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            api_key: None,
            structured_output: StructuredOutput::default(),
            temperature: None,
            seed: None,
            reasoning_effort: None,
            max_output_tokens: DEFAULT_MAX_OUTPUT_TOKENS,
            max_tokens_field: MaxTokensField::default(),
            extra_headers: Vec::new(),
            prompt_cache_key: None,
        }
    }

    /// What a circuit breaker stands for: endpoint, model and credential (the key and all extra
    /// headers), as one digest.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let mut parts = vec![self.base_url.trim_end_matches('/'), self.model.as_str()];
        parts.push(self.api_key.as_ref().map_or("", |key| key.expose_secret()));
        for (name, value) in &self.extra_headers {
            parts.push(name);
            parts.push(value.expose_secret());
        }
        Identity(crate::decide::digest(&parts))
    }
}

/// An answer in our format takes 120 to 290 tokens; one that fills its lists takes about 1,500.
pub const DEFAULT_MAX_OUTPUT_TOKENS: u32 = 2_048;

/// Settings of which no client can be made. It names the setting, never its value.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The address is not an absolute HTTP URL.
    #[error("`base_url` is not an http or https address")]
    BaseUrl,
    /// The key holds characters that no header may.
    #[error("`api_key` holds characters that a header cannot carry")]
    ApiKey,
    /// A header's name or value is not one.
    #[error("`extra_headers` holds an invalid name or value for `{name}`")]
    Header {
        /// The header's name as configured.
        name: String,
    },
    /// A setting cannot be written as JSON.
    #[error("the request cannot be written as JSON")]
    Body(#[source] serde_json::Error),
    /// The HTTP client could not be set up.
    #[error("the HTTP client could not be set up")]
    Client(#[source] reqwest::Error),
}

/// A judge behind an endpoint. Connections are pooled and shared by all its questions.
pub struct OpenAi {
    settings: Settings,
    limit: request::Limit,
    schema: Value,
    client: async_openai::Client<Endpoint>,
}

impl OpenAi {
    /// Sets up the client; nothing is sent yet.
    ///
    /// # Errors
    /// When a setting cannot be used.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        let url = url::Url::parse(&settings.base_url).map_err(|_error| SettingsError::BaseUrl)?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(SettingsError::BaseUrl);
        }
        // An error means that the process has a provider already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .pool_idle_timeout(IDLE_CONNECTION)
            .user_agent(concat!("approver/", env!("CARGO_PKG_VERSION")));
        if is_this_machine(&url) {
            http = http.no_proxy();
        }
        let http = http.build().map_err(SettingsError::Client)?;
        let endpoint = Endpoint::new(&settings)?;
        let client = async_openai::Client::build(http.clone(), endpoint)
            .with_http_service(Transport::new(http));
        Ok(Self {
            limit: request::Limit::of(&settings, &url),
            schema: answer_schema(),
            client,
            settings,
        })
    }

    /// The same judge with another answer schema, for tests of the wire.
    #[must_use]
    pub fn with_answer_schema(mut self, schema: Value) -> Self {
        self.schema = schema;
        self
    }

    async fn exchange(
        &self,
        body: request::Body<'_>,
        deadline: Instant,
    ) -> Result<Completion, Setback> {
        if Instant::now() >= deadline {
            return Err(JudgeFailure::Timeout.into());
        }
        let chat = self.client.chat();
        // One limit around everything: the name's look-up, the connection, headers, the body.
        match tokio::time::timeout_at(deadline, chat.create_byot(body)).await {
            Ok(outcome) => outcome.map_err(setback),
            Err(_elapsed) => Err(JudgeFailure::Timeout.into()),
        }
    }

    async fn ask_once(&self, prompt: &Prompt, deadline: Instant) -> Result<Reply, Setback> {
        let body = request::Body::judgement(&self.settings, self.limit, &self.schema, prompt);
        let completion = self.exchange(body, deadline).await?;
        Ok(completion.into_reply(&self.settings.model)?)
    }
}

impl Attempt for OpenAi {
    fn attempt<'a>(
        &'a self,
        prompt: &'a Prompt,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Reply, Setback>> {
        Box::pin(self.ask_once(prompt, deadline))
    }
}

impl Judge for OpenAi {
    fn model(&self) -> &str {
        &self.settings.model
    }

    fn ask<'a>(
        &'a self,
        prompt: &'a Prompt,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Reply, JudgeFailure>> {
        Box::pin(
            async move { self.ask_once(prompt, deadline).await.map_err(|setback| setback.failure) },
        )
    }

    fn warm_up<'a>(
        &'a self,
        prompt: &'a Prompt,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Tokens, JudgeFailure>> {
        Box::pin(async move {
            let body = request::Body::warm_up(&self.settings, self.limit, &self.schema, prompt);
            let completion =
                self.exchange(body, deadline).await.map_err(|setback| setback.failure)?;
            Ok(completion.tokens())
        })
    }
}

/// The body that a judge with these settings sends for a prompt, as JSON text: for requests that
/// somebody else carries, such as a batch.
///
/// # Errors
/// When the address is none, because the name of one member depends on it, or when a setting cannot
/// be written as JSON.
pub fn request_body(settings: &Settings, prompt: &Prompt) -> Result<String, SettingsError> {
    let url = url::Url::parse(&settings.base_url).map_err(|_error| SettingsError::BaseUrl)?;
    let schema = answer_schema();
    let limit = request::Limit::of(settings, &url);
    let body = request::Body::judgement(settings, limit, &schema, prompt);
    serde_json::to_string(&body).map_err(SettingsError::Body)
}

/// Reads an answer that somebody else carried, as this judge reads its own. `model` is the model's
/// name where the answer gives none.
///
/// # Errors
/// As [`Judge::ask`].
pub fn read_answer(status: u16, body: &[u8], model: &str) -> Result<Reply, JudgeFailure> {
    let status = http::StatusCode::from_u16(status).map_err(|_error| JudgeFailure::Malformed)?;
    if !status.is_success() {
        return Err(transport::failure_of(status, body));
    }
    serde_json::from_slice::<Completion>(body)
        .map_err(|_error| JudgeFailure::Malformed)?
        .into_reply(model)
}

/// Our transport boxes its own failure; whatever else async-openai reports is sorted by its kind,
/// and its text, which may be a provider's, is dropped unread.
fn setback(error: OpenAIError) -> Setback {
    match error {
        OpenAIError::Boxed(error) => error
            .downcast_ref::<Setback>()
            .copied()
            .unwrap_or_else(|| JudgeFailure::Connection.into()),
        OpenAIError::Reqwest(_) => JudgeFailure::Connection.into(),
        OpenAIError::InvalidArgument(_) | OpenAIError::ApiError(_) => JudgeFailure::Rejected.into(),
        OpenAIError::JSONDeserialize(..)
        | OpenAIError::StreamError(_)
        | OpenAIError::FileSaveError(_)
        | OpenAIError::FileReadError(_) => JudgeFailure::Malformed.into(),
    }
}

fn is_this_machine(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Address and headers, as async-openai asks for them. Unlike its own configuration it reads no
/// environment variable, and it marks every credential so that no `Debug` of the headers shows it.
struct Endpoint {
    base_url: String,
    headers: HeaderMap,
    /// async-openai wants a key to lend out; ours is in the headers alone.
    no_key: SecretString,
}

impl Endpoint {
    fn new(settings: &Settings) -> Result<Self, SettingsError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.extra_headers {
            let invalid = || SettingsError::Header { name: name.clone() };
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_error| invalid())?;
            let mut value =
                HeaderValue::from_str(value.expose_secret()).map_err(|_error| invalid())?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        if let Some(key) = &settings.api_key {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()))
                .map_err(|_error| SettingsError::ApiKey)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(Self {
            base_url: settings.base_url.trim_end_matches('/').to_owned(),
            headers,
            no_key: SecretString::from(String::new()),
        })
    }
}

impl ClientConfig for Endpoint {
    fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }

    fn query(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn api_base(&self) -> &str {
        &self.base_url
    }

    fn api_key(&self) -> &SecretString {
        &self.no_key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let mut settings = Settings::new("https://judge.example/v1", "small");
        settings.api_key = Some(SecretString::from("sk-planted-key"));
        settings.extra_headers = vec![("x-key".to_owned(), SecretString::from("planted-header"))];
        settings
    }

    #[test]
    fn no_debug_shows_a_secret() {
        let endpoint = Endpoint::new(&settings()).unwrap();
        let shown = format!("{:?} {:?}", settings(), endpoint.headers);
        assert!(!shown.contains("planted"), "{shown}");
    }

    #[test]
    fn identity_tells_endpoint_model_and_credential_apart() {
        let base = settings();
        let mut variants = vec![base.clone(); 5];
        variants[1].base_url = "https://judge.example/v2".to_owned();
        variants[2].model = "large".to_owned();
        variants[3].api_key = None;
        variants[4].extra_headers = Vec::new();
        let identities: std::collections::BTreeSet<String> =
            variants.iter().map(|settings| settings.identity().0).collect();
        assert_eq!(identities.len(), 5);

        let mut same = base.clone();
        same.base_url.push('/');
        same.temperature = Some(1.0);
        assert_eq!(same.identity(), base.identity());
        assert!(!format!("{:?}", base.identity()).contains("planted"));
    }

    #[test]
    fn unusable_settings_are_named_without_their_value() {
        let mut bad_url = settings();
        bad_url.base_url = "ftp://planted".to_owned();
        let mut bad_key = settings();
        bad_key.api_key = Some(SecretString::from("planted\nkey"));
        let mut bad_header = settings();
        bad_header.extra_headers = vec![("x-key".to_owned(), SecretString::from("planted\n"))];
        for (settings, expected) in
            [(bad_url, "base_url"), (bad_key, "api_key"), (bad_header, "x-key")]
        {
            let error = OpenAi::new(settings).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("planted"), "{error}");
        }
    }
}
