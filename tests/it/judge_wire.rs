//! The bytes that go to a server.

use std::time::Duration;

use approver::decide::prompt::answer_schema;
use approver::judge::Judge;
use approver::judge::openai::{
    MaxTokensField, OpenAi, ReasoningEffort, Settings, StructuredOutput,
};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::faults::{Fault, FaultServer, Received};
use crate::judge_http::prompt;

/// A small schema whose members are in no alphabetical order.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "soft_deny": {"type": "array", "items": {"type": "integer"}, "maxItems": 20},
            "basis": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
            "reason": {"type": "string"},
            "decision": {"type": "string", "enum": ["approve", "escalate"]},
        },
        "required": ["soft_deny", "basis", "reason", "decision"],
        "additionalProperties": false,
    })
}

async fn sent_by(make: impl FnOnce(Settings) -> OpenAi) -> Received {
    let server = FaultServer::start([Fault::says("{}")]).await;
    let judge = make(Settings::new(server.base_url(), "small"));
    judge.ask(&prompt(), Instant::now() + Duration::from_secs(600)).await.unwrap();
    server.requests().remove(0)
}

async fn sent(change: impl FnOnce(&mut Settings)) -> Received {
    sent_by(|mut settings| {
        change(&mut settings);
        OpenAi::new(settings).unwrap().with_answer_schema(schema())
    })
    .await
}

#[tokio::test]
async fn a_whole_request() {
    let request = sent(|settings| {
        settings.api_key = Some(SecretString::from("sk-test"));
        settings.extra_headers = vec![("X-Team".to_owned(), SecretString::from("red"))];
        settings.temperature = Some(0.1);
        settings.seed = Some(7);
        settings.reasoning_effort = Some(ReasoningEffort::Low);
        settings.prompt_cache_key = Some("hmac".to_owned());
    })
    .await;
    assert!(request.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", request.head);
    assert_eq!(request.header("authorization"), Some("Bearer sk-test"));
    assert_eq!(request.header("x-team"), Some("red"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    insta::assert_snapshot!(request.body);
}

#[tokio::test]
async fn nothing_is_sent_that_is_not_set() {
    let request = sent(|settings| settings.structured_output = StructuredOutput::Text).await;
    assert_eq!(request.header("authorization"), None);
    insta::assert_snapshot!(request.body);
}

#[tokio::test]
async fn the_schema_keeps_its_order_in_every_format_that_carries_it() {
    let written = serde_json::to_string(&schema()).unwrap();
    let order: Vec<usize> = ["soft_deny", "basis", "reason", "decision"]
        .iter()
        .map(|name| written.find(&format!("\"{name}\":{{")).unwrap())
        .collect();
    assert!(order.is_sorted(), "{written}");

    let rows = [
        (
            StructuredOutput::JsonSchema,
            Some(format!(
                r#""response_format":{{"type":"json_schema","json_schema":{{"name":"judgement","schema":{written},"strict":true}}}}"#
            )),
        ),
        (
            StructuredOutput::JsonObjectWithSchema,
            Some(format!(r#""response_format":{{"type":"json_object","schema":{written}}}"#)),
        ),
        (
            StructuredOutput::JsonObject,
            Some(r#""response_format":{"type":"json_object"}"#.to_owned()),
        ),
        (StructuredOutput::Text, None),
    ];
    for (structured_output, expected) in rows {
        let body = sent(|settings| settings.structured_output = structured_output).await.body;
        match expected {
            Some(expected) => assert!(body.contains(&expected), "{structured_output:?}: {body}"),
            None => assert!(!body.contains("response_format"), "{body}"),
        }
    }
}

#[tokio::test]
async fn the_answers_own_schema_goes_out_as_written() {
    let body = sent_by(|settings| OpenAi::new(settings).unwrap()).await.body;
    let written = serde_json::to_string(&answer_schema()).unwrap();
    assert!(body.contains(&format!(r#""schema":{written},"strict":true"#)), "{body}");
}

#[tokio::test]
async fn the_limit_of_the_answers_length_by_name() {
    let rows = [
        (MaxTokensField::Auto, r#""max_tokens":99"#),
        (MaxTokensField::MaxTokens, r#""max_tokens":99"#),
        (MaxTokensField::MaxCompletionTokens, r#""max_completion_tokens":99"#),
    ];
    for (field, expected) in rows {
        let body = sent(|settings| {
            settings.max_tokens_field = field;
            settings.max_output_tokens = 99;
        })
        .await
        .body;
        assert!(body.contains(expected), "{field:?}: {body}");
        assert_eq!(body.matches("_tokens\":").count(), 1, "{field:?}: {body}");
    }
}

#[tokio::test]
async fn warming_up_sends_the_same_prefix_for_one_token() {
    let server = FaultServer::start([
        Fault::choice(json!({"message": {"content": "{"}, "finish_reason": "length"})),
        Fault::says("{}"),
    ])
    .await;
    let mut settings = Settings::new(server.base_url(), "small");
    settings.max_output_tokens = 99;
    let judge = OpenAi::new(settings).unwrap().with_answer_schema(schema());
    let deadline = Instant::now() + Duration::from_secs(600);
    let tokens = judge.warm_up(&prompt(), deadline).await.unwrap();
    assert_eq!(tokens.input, Some(1450));
    judge.ask(&prompt(), deadline).await.unwrap();

    let requests = server.requests();
    let [warm_up, question] = requests.as_slice() else {
        panic!("{} requests", requests.len());
    };
    let prefix = "Lists, instructions.";
    let (shared, rest) = question.body.split_at(question.body.find(prefix).unwrap() + prefix.len());
    assert!(warm_up.body.starts_with(shared), "{}", warm_up.body);
    assert!(warm_up.body.contains(r#""max_tokens":1,"#), "{}", warm_up.body);
    let format = &rest[rest.find(r#""response_format""#).unwrap()..];
    assert!(warm_up.body.ends_with(format), "{}", warm_up.body);
}
