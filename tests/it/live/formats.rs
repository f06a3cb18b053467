//! The ways of asking for structured output, on a server that honours them.

use approver::decide::Decision;
use approver::judge::openai::{OpenAi, StructuredOutput};
use serde_json::{Map, Value};

use super::harness::{ANSWER_TOKENS, Exchange, RAMBLING_TOKENS, Server, one_note};
use super::outcomes::check_outcome;

const MEMBERS: [&str; 5] = ["soft_deny", "basis", "unsupported_arguments", "reason", "decision"];
const BASIS_MEMBERS: [&str; 4] = ["source", "index", "quote", "covers"];

async fn ask(structured_output: StructuredOutput) -> (Decision, Exchange) {
    let server = Server::take().await;
    let mut settings = server.settings(structured_output);
    settings.max_output_tokens = match structured_output {
        StructuredOutput::JsonSchema | StructuredOutput::JsonObjectWithSchema => ANSWER_TOKENS,
        StructuredOutput::JsonObject | StructuredOutput::Text => RAMBLING_TOKENS,
    };
    let (mut decisions, mut exchanges) =
        server.judge(OpenAi::new(settings).unwrap(), &one_note()).await;
    assert_eq!((decisions.len(), exchanges.len()), (1, 1));
    (decisions.remove(0), exchanges.remove(0))
}

fn members(value: &Value) -> (&Map<String, Value>, Vec<&str>) {
    let object = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
    (object, object.keys().map(String::as_str).collect())
}

/// The members that the schema asks for and no others, in its order: evidence before verdict.
#[track_caller]
fn check_order(exchange: &Exchange) {
    let reply = exchange.reply.as_ref().unwrap();
    let answer: Value =
        serde_json::from_str(&reply.text).unwrap_or_else(|error| panic!("{error}: {}", reply.text));
    let (object, names) = members(&answer);
    assert_eq!(names, MEMBERS, "{}", reply.text);
    for basis in object["basis"].as_array().unwrap() {
        assert_eq!(members(basis).1, BASIS_MEMBERS, "{}", reply.text);
    }
    assert!(["approve", "escalate"].contains(&object["decision"].as_str().unwrap()));
}

#[tokio::test]
async fn a_schema_is_followed_in_our_order_and_usage_is_counted() {
    let (decision, exchange) = ask(StructuredOutput::JsonSchema).await;
    check_order(&exchange);
    check_outcome(&decision, &exchange);
    let tokens = decision.asked.as_ref().unwrap().tokens;
    let input = tokens.input.unwrap();
    // No tokenizer needs more tokens than there are bytes, or fewer than one for 16 of them.
    let bytes = (exchange.prompt.system.len() + exchange.prompt.user.len()) as u64;
    assert!((bytes / 16..bytes).contains(&input), "{input} tokens for {bytes} bytes");
    assert!((1..=u64::from(ANSWER_TOKENS)).contains(&tokens.output.unwrap()), "{tokens:?}");
    assert!(tokens.cached.unwrap() < input, "{tokens:?}");
}

#[tokio::test]
async fn a_schema_beside_json_mode_is_followed_in_our_order() {
    let (decision, exchange) = ask(StructuredOutput::JsonObjectWithSchema).await;
    check_order(&exchange);
    check_outcome(&decision, &exchange);
}

#[tokio::test]
async fn json_mode_without_a_schema() {
    let (decision, exchange) = ask(StructuredOutput::JsonObject).await;
    if let Ok(reply) = &exchange.reply {
        let answer: Value = serde_json::from_str(&reply.text)
            .unwrap_or_else(|error| panic!("{error}: {}", reply.text));
        assert!(answer.is_object(), "{answer}");
    }
    check_outcome(&decision, &exchange);
}

#[tokio::test]
async fn plain_text() {
    let (decision, exchange) = ask(StructuredOutput::Text).await;
    check_outcome(&decision, &exchange);
}
