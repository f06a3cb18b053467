//! The request's body: async-openai's type, and the members that it cannot carry.
//!
//! The answer's schema goes out in our own order (evidence before verdict), because some servers
//! generate in schema order; nothing here sorts a key.

use async_openai::types::chat::{
    ChatCompletionRequestSystemMessage, ChatCompletionRequestUserMessage,
    CreateChatCompletionRequest, ResponseFormat, ResponseFormatJsonSchema,
};
use serde::Serialize;
use serde_json::Value;

use super::{MaxTokensField, Settings, StructuredOutput};
use crate::decide::prompt::Prompt;

/// The schema's name in the request.
const SCHEMA_NAME: &str = "judgement";

/// Under which name the limit of the answer's length is sent to this endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    MaxTokens,
    MaxCompletionTokens,
}

impl Limit {
    pub(super) fn of(settings: &Settings, url: &url::Url) -> Self {
        match settings.max_tokens_field {
            MaxTokensField::MaxTokens => Self::MaxTokens,
            MaxTokensField::MaxCompletionTokens => Self::MaxCompletionTokens,
            MaxTokensField::Auto => {
                let host = url.host_str().unwrap_or_default();
                if host == "api.openai.com" || host.ends_with(".openai.azure.com") {
                    Self::MaxCompletionTokens
                } else {
                    Self::MaxTokens
                }
            }
        }
    }
}

/// A request's body.
#[derive(Debug, Serialize)]
pub(super) struct Body<'a> {
    #[serde(flatten)]
    request: CreateChatCompletionRequest,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Format<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Format<'a> {
    Standard(ResponseFormat),
    ObjectWithSchema { r#type: &'static str, schema: &'a Value },
}

impl<'a> Body<'a> {
    /// The question itself.
    pub(super) fn judgement(
        settings: &Settings,
        limit: Limit,
        schema: &'a Value,
        prompt: &Prompt,
    ) -> Self {
        Self::new(settings, limit, schema, &prompt.system, &prompt.user, settings.max_output_tokens)
    }

    /// The question's fixed prefix, for an answer of one token. All else is as in the question, so
    /// that whatever a server puts before the messages (a schema, a template) stays the same too.
    pub(super) fn warm_up(
        settings: &Settings,
        limit: Limit,
        schema: &'a Value,
        prompt: &Prompt,
    ) -> Self {
        let fixed = prompt.user.get(..prompt.fixed_prefix).unwrap_or(&prompt.user);
        Self::new(settings, limit, schema, &prompt.system, fixed, 1)
    }

    #[expect(
        deprecated,
        reason = "`max_tokens` and `seed` are deprecated at OpenAI alone; other servers know no other name"
    )]
    fn new(
        settings: &Settings,
        limit: Limit,
        schema: &'a Value,
        system: &str,
        user: &str,
        max_output_tokens: u32,
    ) -> Self {
        let mut request = CreateChatCompletionRequest {
            messages: vec![
                ChatCompletionRequestSystemMessage::from(system).into(),
                ChatCompletionRequestUserMessage::from(user).into(),
            ],
            model: settings.model.clone(),
            temperature: settings.temperature,
            seed: settings.seed,
            reasoning_effort: settings.reasoning_effort.clone(),
            prompt_cache_key: settings.prompt_cache_key.clone(),
            ..CreateChatCompletionRequest::default()
        };
        match limit {
            Limit::MaxTokens => request.max_tokens = Some(max_output_tokens),
            Limit::MaxCompletionTokens => request.max_completion_tokens = Some(max_output_tokens),
        }
        Self { request, response_format: format(settings.structured_output, schema) }
    }
}

fn format(structured_output: StructuredOutput, schema: &Value) -> Option<Format<'_>> {
    match structured_output {
        StructuredOutput::JsonSchema => Some(Format::Standard(ResponseFormat::JsonSchema {
            json_schema: ResponseFormatJsonSchema {
                description: None,
                name: SCHEMA_NAME.to_owned(),
                schema: schema.clone(),
                strict: Some(true),
            },
        })),
        StructuredOutput::JsonObject => Some(Format::Standard(ResponseFormat::JsonObject)),
        StructuredOutput::JsonObjectWithSchema => {
            Some(Format::ObjectWithSchema { r#type: "json_object", schema })
        }
        StructuredOutput::Text => None,
    }
}
