//! What becomes of a call whatever the model writes.

use std::process::Command;

use approver::decide::reason::Reason;
use approver::decide::text::quotable;
use approver::decide::verdict::JudgeFailure;
use approver::decide::{Decision, Outcome};
use approver::judge::openai::{OpenAi, StructuredOutput};
use serde_json::Value;

use super::harness::{Exchange, RAMBLING_TOKENS, Server, one_note};

/// A call was asked about, and ends as an approval whose quotes stand in what the judge was shown,
/// or at a person for what the model wrote: never for the server's failure, never otherwise.
#[track_caller]
pub(super) fn check_outcome(decision: &Decision, exchange: &Exchange) {
    match &decision.outcome {
        Outcome::Approved(approval) => {
            assert!(!approval.evidence().is_empty());
            for evidence in approval.evidence() {
                let shown = quotable(&exchange.prompt.user);
                let quote = Value::from(quotable(&evidence.quote)).to_string();
                assert!(shown.contains(quote.trim_matches('"')), "{evidence:?} not in {shown}");
            }
            let reply = exchange.reply.as_ref().unwrap();
            let answer: Value = serde_json::from_str(reply.text.trim()).unwrap();
            assert_eq!(answer["decision"], "approve");
            assert_eq!(answer["soft_deny"], Value::Array(Vec::new()));
        }
        Outcome::Pending(Some(
            Reason::JudgeUnreadable
            | Reason::SoftDeny(_)
            | Reason::UnsupportedApproval(_)
            | Reason::JudgeEscalated(_),
        )) => assert!(
            matches!(exchange.reply, Ok(_) | Err(JudgeFailure::Truncated)),
            "{:?}",
            exchange.reply
        ),
        other => panic!("{other:?} after {:?}", exchange.reply),
    }
}

#[tokio::test]
async fn whatever_a_weak_model_writes_ends_with_evidence_or_at_a_person() {
    let server = Server::take().await;
    for structured_output in [StructuredOutput::JsonSchema, StructuredOutput::Text] {
        for seed in 1..=3 {
            let mut settings = server.settings(structured_output);
            // As far from the likely answer as servers go.
            settings.temperature = Some(2.0);
            settings.seed = Some(seed);
            settings.max_output_tokens = RAMBLING_TOKENS;
            let (decisions, exchanges) =
                server.judge(OpenAi::new(settings).unwrap(), &one_note()).await;
            assert_eq!((decisions.len(), exchanges.len()), (1, 1));
            check_outcome(&decisions[0], &exchanges[0]);
        }
    }
}

#[tokio::test]
async fn a_prompt_beyond_the_models_context_is_too_large() {
    let server = Server::take().await;
    let mut file = one_note();
    // Short words that differ: at least a token each.
    let words: Vec<String> = (0..server.context).map(|number| number.to_string()).collect();
    file["agent"]["instructions"] = words.join(" ").into();
    let (decisions, exchanges) =
        server.judge(server.endpoint(StructuredOutput::JsonSchema), &file).await;
    assert_eq!(exchanges[0].reply, Err(JudgeFailure::PromptTooLong));
    let Outcome::Pending(Some(reason)) = &decisions[0].outcome else {
        panic!("{:?}", decisions[0].outcome);
    };
    assert_eq!(reason.code(), "too_large");
}

#[tokio::test]
async fn the_command_judges_with_a_warm_server() {
    let server = Server::take().await;
    let output = Command::new(env!("CARGO_BIN_EXE_approver"))
        .args(["judge", "--json", "--warm-up", "examples/trial/customer-note.json"])
        .env("APPROVER_JUDGE_BASE_URL", &server.base_url)
        .env("APPROVER_JUDGE_MODEL", &server.model)
        .env("APPROVER_JUDGE_DEADLINE", "1h")
        .env("APPROVER_JUDGE_REQUEST_DEADLINE", "1h")
        .env("APPROVER_JUDGE_TEMPERATURE", "0")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["conversation_mode"], "auto");
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    assert_eq!(results[2]["pause_reason"], "destructive");
    assert_eq!(results[2]["prompt_digest"], Value::Null);
    for judged in &results[..2] {
        assert_eq!(judged["model"], server.model.as_str(), "{judged}");
        assert_eq!(judged["prompt_digest"].as_str().unwrap().len(), 64);
        // The rules alone have hundreds of tokens, and the warm-up read them.
        assert!(judged["tokens"]["cached"].as_u64().unwrap() > 500, "{judged}");
        match judged["outcome"].as_str().unwrap() {
            "approved" => assert_eq!(judged["decided_by"], "auto:approver"),
            "pending" => assert!(judged["pause_reason"].is_string(), "{judged}"),
            other => panic!("{other}"),
        }
    }
}
