//! STUB

/// What a judge is sent: two messages and the schema of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The system message: the rules of judging. The same for every call.
    pub system: String,
    /// The user message: lists, instructions, conversation, tool, facts, call, in that order.
    pub user: String,
    /// Bytes at the start of `user` that stay the same for the agent version: the lists and the
    /// instructions.
    pub fixed_prefix: usize,
    /// SHA-256 over everything that is sent, 64 lower-case hex digits.
    pub digest: String,
}

/// JSON Schema of the answer, evidence before verdict; the order of its members matters to servers
/// that generate in schema order.
#[must_use]
pub fn answer_schema() -> serde_json::Value {
    serde_json::json!({})
}
