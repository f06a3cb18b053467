//! From the judge's reply to a verdict: STUB, types only.

/// What a judge wrote, unread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The answer's text, verbatim.
    pub text: String,
    /// The model that answered, by its own name.
    pub model: String,
    /// What the answer cost.
    pub tokens: Tokens,
}

/// Tokens as the server counted them; `None` where it did not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Tokens of the prompt, cached ones included.
    pub input: Option<u64>,
    /// Tokens of the answer.
    pub output: Option<u64>,
    /// Tokens of the prompt that the server took from its prefix cache.
    pub cached: Option<u64>,
}

/// Why there is no reply. Nothing of a provider's text is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum JudgeFailure {
    /// No judge is configured.
    #[error("no judge is configured")]
    NotConfigured,
    /// Somebody switched automatic approval off.
    #[error("automatic approval is switched off")]
    SwitchedOff,
    /// The circuit breaker is open after repeated failures.
    #[error("the circuit breaker is open")]
    BreakerOpen,
    /// No whole answer before the deadline, or the server's own time-out (408).
    #[error("no answer in time")]
    Timeout,
    /// The connection could not be made, or broke before the answer was whole.
    #[error("connection failed")]
    Connection,
    /// The server answered 5xx.
    #[error("server error")]
    ServerError,
    /// The server refused the request (another 4xx): wrong address, model, key or parameters.
    #[error("request rejected")]
    Rejected,
    /// The server answered 429.
    #[error("rate limited")]
    RateLimited,
    /// The model or a content filter declined to answer.
    #[error("the model refused")]
    Refused,
    /// The prompt does not fit the model's context.
    #[error("the prompt is too long for the model")]
    PromptTooLong,
    /// The answer was cut at its length limit.
    #[error("answer cut by length")]
    Truncated,
    /// What came is not a chat completion with text: no choices, no content, a tool call, not JSON,
    /// or larger than an answer may be.
    #[error("malformed answer")]
    Malformed,
}
