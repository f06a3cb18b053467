//! What we read of a server's answer, and no more.
//!
//! async-openai's own type requires members that llama.cpp, Ollama, vLLM and others leave out or
//! write differently (`id`, `created` as an integer of 32 bits, a known `finish_reason`). An answer
//! to us needs one choice with text; all else is optional and may be of any type. Nothing here keeps
//! a provider's error text, and nothing here reads the text that the model wrote.

use serde::Deserialize;
use serde_json::Value;

use crate::decide::verdict::{JudgeFailure, Reply, Tokens};

/// The most bytes of a model's name as the server writes it.
const LONGEST_MODEL_NAME: usize = 200;

/// A chat completion.
#[derive(Deserialize)]
pub(super) struct Completion {
    choices: Vec<Choice>,
    #[serde(default)]
    model: Value,
    #[serde(default)]
    usage: Value,
    /// llama.cpp's own figures.
    #[serde(default)]
    timings: Value,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    #[serde(default)]
    finish_reason: Value,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Value,
    #[serde(default)]
    refusal: Value,
    #[serde(default)]
    tool_calls: Value,
    #[serde(default)]
    function_call: Value,
}

impl Completion {
    /// The reply in it, or why there is none. `configured` is the model's name where the server
    /// does not say which model answered, or says it in a way that no record should keep.
    pub(super) fn into_reply(self, configured: &str) -> Result<Reply, JudgeFailure> {
        let tokens = self.tokens();
        let model = match self.model {
            Value::String(model) if is_model_name(&model) => model,
            _ => configured.to_owned(),
        };
        // We ask for one choice; among several, none is the answer.
        let Ok([choice]) = <[Choice; 1]>::try_from(self.choices) else {
            return Err(JudgeFailure::Malformed);
        };
        let text = choice.into_text()?;
        Ok(Reply { text, model, tokens })
    }

    pub(super) fn tokens(&self) -> Tokens {
        let usage = |name| self.usage.get(name).and_then(Value::as_u64);
        let cached = self
            .usage
            .get("prompt_tokens_details")
            .and_then(|details| details.get("cached_tokens"))
            .or_else(|| self.timings.get("cache_n"))
            .and_then(Value::as_u64);
        Tokens { input: usage("prompt_tokens"), output: usage("completion_tokens"), cached }
    }
}

/// Records and pages show the name, so it may not be just any text of a server's.
fn is_model_name(text: &str) -> bool {
    (1..=LONGEST_MODEL_NAME).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Choice {
    fn into_text(self) -> Result<String, JudgeFailure> {
        let finish_reason = self.finish_reason.as_str().unwrap_or_default();
        if finish_reason == "content_filter" || !is_empty(&self.message.refusal) {
            return Err(JudgeFailure::Refused);
        }
        if !is_empty(&self.message.tool_calls) || !is_empty(&self.message.function_call) {
            return Err(JudgeFailure::Malformed);
        }
        match finish_reason {
            "length" => return Err(JudgeFailure::Truncated),
            "tool_calls" | "function_call" => return Err(JudgeFailure::Malformed),
            // Servers have names of their own for an ordinary end (`eos`, `stop_sequence`), and
            // some give none.
            _ => {}
        }
        match self.message.content {
            Value::String(text) if !text.trim().is_empty() => Ok(text),
            _ => Err(JudgeFailure::Malformed),
        }
    }
}

/// Whether an optional member says nothing: servers write `null`, `""` or `[]` where they mean none.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

/// What the code of a 400 says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorKind {
    /// The prompt does not fit the model's context.
    ContextExceeded,
    /// A content filter in front of the model stopped the prompt (Azure).
    ContentFilter,
    /// Anything else.
    Other,
}

impl ErrorKind {
    /// Looks at the error's `code` and `type`, which may be of any JSON type, and at nothing else.
    pub(super) fn of(body: &[u8]) -> Self {
        let Ok(body) = serde_json::from_slice::<Value>(body) else {
            return Self::Other;
        };
        // Most servers nest it under `error`; older vLLM servers do not.
        let error = body.get("error").unwrap_or(&body);
        let says = |name: &str, values: &[&str]| {
            error.get(name).and_then(Value::as_str).is_some_and(|value| values.contains(&value))
        };
        let too_long = ["context_length_exceeded", "exceed_context_size_error"];
        if says("code", &too_long) || says("type", &too_long) {
            Self::ContextExceeded
        } else if says("code", &["content_filter"]) {
            Self::ContentFilter
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(body: &str, expected: Result<&str, JudgeFailure>) {
        let reply = serde_json::from_str::<Completion>(body)
            .map_err(|_error| JudgeFailure::Malformed)
            .and_then(|completion| completion.into_reply("configured"));
        let text = reply.as_ref().map(|reply| reply.text.as_str());
        assert_eq!(text.map_err(|failure| *failure), expected, "{body}");
    }

    #[test]
    fn members_that_servers_leave_out_are_not_missed() {
        for body in [
            r#"{"choices":[{"message":{"content":"yes"}}]}"#,
            r#"{"choices":[{"message":{"role":"assistant","content":"yes","refusal":null,"tool_calls":[],
                "reasoning_content":"hm"},"finish_reason":"stop","logprobs":null}],"created":1e12,"id":7}"#,
            r#"{"choices":[{"message":{"content":"yes","refusal":""},"finish_reason":"eos"}],
                "usage":"none","timings":[],"model":null}"#,
        ] {
            check(body, Ok("yes"));
        }
    }

    #[test]
    fn whatever_is_not_one_text_is_no_reply() {
        use JudgeFailure::*;
        let choice = |choice: &str| format!(r#"{{"choices":[{choice}]}}"#);
        let rows = [
            (r#"{"message":{"content":"part"},"finish_reason":"length"}"#, Truncated),
            (r#"{"message":{"content":""},"finish_reason":"length"}"#, Truncated),
            (r#"{"message":{"content":"part"},"finish_reason":"content_filter"}"#, Refused),
            (r#"{"message":{"content":"yes","refusal":"no"},"finish_reason":"stop"}"#, Refused),
            (r#"{"message":{"content":"yes","refusal":{"why":"no"}}}"#, Refused),
            (r#"{"message":{"content":null,"tool_calls":[{"id":"1"}]}}"#, Malformed),
            (r#"{"message":{"content":"yes","tool_calls":[{"id":"1"}]}}"#, Malformed),
            (r#"{"message":{"content":"yes","function_call":{"name":"f"}}}"#, Malformed),
            (r#"{"message":{"content":"yes"},"finish_reason":"tool_calls"}"#, Malformed),
            (r#"{"message":{"content":null},"finish_reason":"stop"}"#, Malformed),
            (r#"{"message":{"content":" \n"},"finish_reason":"stop"}"#, Malformed),
            (r#"{"message":{"content":[{"type":"text","text":"yes"}]}}"#, Malformed),
            (r#"{"message":{}}"#, Malformed),
            (r#"{"message":null}"#, Malformed),
            (r#"{"delta":{"content":"yes"}}"#, Malformed),
            ("", Malformed),
            (r#"{"message":{"content":"yes"}},{"message":{"content":"no"}}"#, Malformed),
        ];
        for (body, expected) in rows {
            check(&choice(body), Err(expected));
        }
        for body in ["{}", "[]", "null", r#"{"choices":null}"#, r#"{"choices":{}}"#] {
            check(body, Err(Malformed));
        }
    }

    #[test]
    fn the_servers_name_for_the_model_is_used_where_it_is_a_name() {
        let long = "m".repeat(LONGEST_MODEL_NAME + 1);
        let rows = [
            (json!("gpt-5-2026-01-01"), "gpt-5-2026-01-01"),
            (json!("org/Model_1.5:Q4"), "org/Model_1.5:Q4"),
            (json!(""), "configured"),
            (json!(null), "configured"),
            (json!(7), "configured"),
            (json!("two words"), "configured"),
            (json!("red\u{1b}[31m"), "configured"),
            (json!("m\u{202e}"), "configured"),
            (json!(long), "configured"),
        ];
        for (model, expected) in rows {
            let body = json!({"model": model, "choices": [{"message": {"content": "yes"}}]});
            let completion: Completion = serde_json::from_value(body).unwrap();
            assert_eq!(completion.into_reply("configured").unwrap().model, expected, "{model}");
        }
    }

    #[test]
    fn tokens_from_every_server() {
        let tokens = |figures: &str| {
            let body = format!(r#"{{"choices":[],{figures}}}"#);
            serde_json::from_str::<Completion>(&body).unwrap().tokens()
        };
        let usage = |details: &str| {
            format!(r#""usage":{{"prompt_tokens":9,"completion_tokens":4{details}}}"#)
        };
        let expected = |cached| Tokens { input: Some(9), output: Some(4), cached };
        assert_eq!(
            tokens(&usage(r#","prompt_tokens_details":{"cached_tokens":7}"#)),
            expected(Some(7))
        );
        assert_eq!(
            tokens(&format!(r#"{},"timings":{{"cache_n":6}}"#, usage(""))),
            expected(Some(6))
        );
        assert_eq!(tokens(&usage(r#","prompt_tokens_details":null"#)), expected(None));
        assert_eq!(
            tokens(r#""usage":{"prompt_tokens":-1,"completion_tokens":"4"}"#),
            Tokens::default()
        );
    }

    #[test]
    fn an_errors_code_may_be_of_any_type() {
        use ErrorKind::*;
        let rows = [
            (r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#, ContextExceeded),
            (r#"{"error":{"type":"exceed_context_size_error","code":400}}"#, ContextExceeded),
            (r#"{"type":"context_length_exceeded","code":400}"#, ContextExceeded),
            (r#"{"error":{"code":"content_filter","status":400}}"#, ContentFilter),
            (r#"{"error":{"code":400,"type":"BadRequestError"}}"#, Other),
            (r#"{"error":"context_length_exceeded"}"#, Other),
            (r#"{"error":{"message":"context_length_exceeded"}}"#, Other),
            ("context_length_exceeded", Other),
            ("", Other),
        ];
        for (body, expected) in rows {
            assert_eq!(ErrorKind::of(body.as_bytes()), expected, "{body}");
        }
    }
}
