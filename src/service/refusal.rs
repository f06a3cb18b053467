//! Why a request is refused. Nothing of it comes from an argument, a transcript, a token or a key.

use crate::decide::walk::Problem;
use crate::store::StoreError;

/// A request that is refused, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which kind, as a stable code.
    pub code: Code,
    /// One sentence for a person.
    pub message: String,
    /// The member, parameter or header that is wrong, as a JSON path or a name.
    pub param: Option<String>,
    /// Facts for a program, where the code has some.
    pub detail: Option<Box<serde_json::Value>>,
}

/// Kinds of refusals by their HTTP status, as the Agent Approval Protocol names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// 400, 405, 408, 413, 414, 415, 422, 431.
    InvalidRequest,
    /// 401.
    Authentication,
    /// 403.
    Authorization,
    /// 404.
    NotFound,
    /// 409.
    Conflict,
    /// 429.
    RateLimit,
    /// 500.
    Internal,
    /// 503.
    Dependency,
}

impl Type {
    /// The type on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::Authentication => "authentication",
            Self::Authorization => "authorization",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::RateLimit => "rate_limit",
            Self::Internal => "internal",
            Self::Dependency => "dependency",
        }
    }
}

/// Defines [`Code`] with its words and statuses in one table.
macro_rules! codes {
    ($($(#[$doc:meta])+ $name:ident = $word:literal, $status:literal;)+) => {
        /// Why a request is refused; stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code {
            $($(#[$doc])+ $name,)+
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The code on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// The HTTP status that goes with it.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)+ }
            }
        }
    };
}

codes! {
    /// A member, parameter or header is missing or malformed.
    InvalidRequest = "invalid_request", 400;
    /// `Idempotency-Key` is missing.
    MissingIdempotencyKey = "missing_idempotency_key", 400;
    /// The policy does not validate.
    InvalidHitlPolicy = "invalid_hitl_policy", 400;
    /// An author's annotations are malformed or incomplete.
    InvalidToolAnnotations = "INVALID_TOOL_ANNOTATIONS", 400;
    /// The agent version does not offer the mode; `detail` has `mode` and `offered`.
    ConversationModeNotOffered = "conversation_mode_not_offered", 400;
    /// The decision cannot be made in this way.
    InvalidApprovalDecision = "invalid_approval_decision", 400;
    /// The `hmac` is not the one that was given out with the approval.
    ApprovalHmacMismatch = "approval_hmac_mismatch", 400;
    /// In plan mode only a read may be approved.
    ConversationInPlanMode = "conversation_in_plan_mode", 400;
    /// The receiver's address is no `https` address.
    InvalidWebhookUrl = "invalid_webhook_url", 400;
    /// Only webhooks deliver.
    UnsupportedDeliveryType = "unsupported_delivery_type", 400;
    /// No token, or none that works.
    Unauthenticated = "unauthenticated", 401;
    /// The token is of another kind.
    Forbidden = "forbidden", 403;
    /// There is no such thing, or it belongs to somebody else.
    NotFound = "not_found", 404;
    /// The path exists and knows no such method.
    MethodNotAllowed = "method_not_allowed", 405;
    /// The `Idempotency-Key` was used with something else.
    IdempotencyConflict = "idempotency_conflict", 409;
    /// A call of that id has other bytes.
    CallConflict = "call_conflict", 409;
    /// The conversation was deleted.
    ConversationDeleted = "conversation_deleted", 409;
    /// Somebody decided first; `detail` has `status` and `decided_by`. Or a continuation carried the
    /// turn's decisions before; `detail` has `continuation_id`.
    ApprovalAlreadyDecided = "approval_already_decided", 409;
    /// Another key has the permission to run the call.
    AlreadyClaimed = "already_claimed", 409;
    /// Nobody approved it.
    NotApproved = "not_approved", 409;
    /// The call had to start earlier.
    ApprovalExpired = "approval_expired", 409;
    /// Policy or tool changed since; the call may not run on this approval.
    ApprovalStale = "approval_stale", 409;
    /// What is to be approved is sealed under a key that is not in the key ring; `detail` has `key_id`.
    KeyMissing = "key_missing", 409;
    /// Nobody claimed the call, so it cannot have run.
    NotClaimed = "not_claimed", 409;
    /// There is a report already.
    ExecutionAlreadyReported = "execution_already_reported", 409;
    /// The request ended before it could be cancelled.
    AlreadyTerminal = "already_terminal", 409;
    /// Another key has the permission to run the request's call.
    AlreadyConsumed = "already_consumed", 409;
    /// Nobody consumed the request, so its call cannot have run.
    NotConsumed = "not_consumed", 409;
    /// Another outcome was reported.
    OutcomeConflict = "outcome_conflict", 409;
    /// What the key made was deleted.
    InstanceDeleted = "instance_deleted", 409;
    /// A version is stored under that name, with other content.
    VersionExists = "version_exists", 409;
    /// A channel and a version may not share a name.
    NameTaken = "name_taken", 409;
    /// A working token of the kind has the name.
    TokenExists = "token_exists", 409;
    /// The body did not arrive in time.
    RequestTimeout = "request_timeout", 408;
    /// The body is larger than the limit.
    BodyTooLarge = "body_too_large", 413;
    /// The path with its parameters is longer than the limit.
    UriTooLong = "uri_too_long", 414;
    /// The header has more fields, or more bytes, than the limits.
    HeaderTooLarge = "header_too_large", 431;
    /// The body is not `application/json`.
    UnsupportedMediaType = "unsupported_media_type", 415;
    /// The receiver did not answer the challenge.
    WebhookVerificationFailed = "webhook_verification_failed", 422;
    /// Too many requests of this token; `Retry-After` says when to come again.
    RateLimited = "rate_limited", 429;
    /// A bug.
    InternalError = "internal_error", 500;
    /// The store cannot be reached; `Retry-After` says when to come again.
    StoreUnavailable = "store_unavailable", 503;
    /// The same request, or a call of it, is being judged for another; `Retry-After` says when to come
    /// again.
    JudgementInProgress = "judgement_in_progress", 503;
    /// The service is stopping; `Retry-After` says when to come again.
    Stopping = "stopping", 503;
}

impl Code {
    /// The type that goes with the status.
    #[must_use]
    pub const fn type_of(self) -> Type {
        match self.status() {
            401 => Type::Authentication,
            403 => Type::Authorization,
            404 => Type::NotFound,
            409 => Type::Conflict,
            429 => Type::RateLimit,
            503 => Type::Dependency,
            500 => Type::Internal,
            _ => Type::InvalidRequest,
        }
    }

    /// Seconds after which another try makes sense, where one does.
    #[must_use]
    pub const fn retry_after(self) -> Option<u32> {
        match self.status() {
            429 | 503 => Some(1),
            _ => None,
        }
    }
}

/// As many of a document's problems as one answer names.
const MAX_PROBLEMS: usize = 50;

impl Refusal {
    /// A refusal without a place.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), param: None, detail: None }
    }

    /// A malformed member, parameter or header.
    #[must_use]
    pub fn invalid(param: &str, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidRequest, message).at(param)
    }

    /// Nothing of that id, or nothing that the caller may see.
    #[must_use]
    pub fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("There is no such {what}."))
    }

    /// Everything wrong with a document: the first problem is the message and the param, and `detail`
    /// lists them, at most 50.
    #[must_use]
    pub fn problems(code: Code, problems: &[Problem]) -> Self {
        let message = problems.first().map_or_else(String::new, |first| match problems.len() {
            1 => format!("{}: {}", first.path, first.text),
            more => format!("{}: {} (and {} more)", first.path, first.text, more - 1),
        });
        let listed: Vec<_> = problems
            .iter()
            .take(MAX_PROBLEMS)
            .map(|problem| serde_json::json!({"param": problem.path, "message": problem.text}))
            .collect();
        Self {
            code,
            message,
            param: problems.first().map(|first| first.path.clone()),
            detail: Some(Box::new(serde_json::json!({"problems": listed}))),
        }
    }

    /// The same with a place.
    #[must_use]
    pub fn at(self, param: &str) -> Self {
        Self { param: Some(param.to_owned()), ..self }
    }

    /// The same with facts for a program.
    #[must_use]
    pub fn with(self, detail: serde_json::Value) -> Self {
        Self { detail: Some(Box::new(detail)), ..self }
    }
}

/// The error's own text goes to the log; a caller learns whether to come again.
impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        tracing::error!(%error, source, "the store failed");
        if error.is_unavailable() {
            Self::new(Code::StoreUnavailable, "The store cannot be reached. Try again.")
        } else {
            Self::new(Code::InternalError, "Something is wrong here, and it is recorded.")
        }
    }
}
