//! The server's prefix cache, by its own figures and its own tokenizer.

use approver::judge::openai::StructuredOutput;
use serde_json::{Value, json};

use super::harness::{Exchange, Server, another_note, one_note};

/// Tokens at the end of the unchanged prefix that a server may read again.
const READ_AGAIN: usize = 64;

/// The prompt's tokens as the model sees them, its chat template applied.
async fn tokens(server: &Server, exchange: &Exchange) -> Vec<Value> {
    let prompt = &exchange.prompt;
    let messages = json!({"messages": [
        {"role": "system", "content": prompt.system},
        {"role": "user", "content": prompt.user},
    ]});
    let text = server.post("/apply-template", &messages).await["prompt"].clone();
    let request = json!({"content": text, "add_special": true, "parse_special": true});
    let answer = server.post("/tokenize", &request).await;
    answer["tokens"].as_array().unwrap().clone()
}

fn common<T: PartialEq>(left: &[T], right: &[T]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "a figure of the README is read here")]
async fn a_growing_conversation_reuses_its_whole_unchanged_prefix() {
    let server = Server::take().await;
    // The answer is of no interest here: as short as a schema can make it. It is unreadable to us.
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let endpoint =
        || server.endpoint(StructuredOutput::JsonSchema).with_answer_schema(schema.clone());
    let (_, first) = server.judge(endpoint(), &one_note()).await;
    let (decisions, second) = server.judge(endpoint(), &another_note()).await;

    // The prompts share everything up to the first one's tail.
    let tail = first[0].prompt.user.find("# Tool of the pending call").unwrap();
    let shared = common(first[0].prompt.user.as_bytes(), second[0].prompt.user.as_bytes());
    assert!(shared >= tail, "{shared} bytes in common, {tail} before the tail");

    let (first, second) = (tokens(&server, &first[0]).await, tokens(&server, &second[0]).await);
    let unchanged = common(&first, &second);
    let used = decisions[0].asked.as_ref().unwrap().tokens;
    assert_eq!(used.input, Some(second.len() as u64), "our count and the server's");
    let cached = usize::try_from(used.cached.unwrap()).unwrap();
    println!("{cached} of {unchanged} unchanged tokens came from the server's cache");
    assert!(
        (unchanged - READ_AGAIN..=unchanged).contains(&cached),
        "{cached} of {unchanged} unchanged tokens were cached"
    );
}
