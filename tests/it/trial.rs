//! The conversations of `examples/trial`: what code alone settles in them, and that their questions
//! stay small enough for a model on two cores.

use approver::decide::{State, Step, plan};
use approver::host::judgement_file;

/// Bytes of a question: about 2,000 tokens.
const LARGEST_QUESTION: usize = 8_000;

/// `judged` stands for a call that the judge is asked about.
#[track_caller]
fn check(file: &str, text: &str, expected: &[&str]) {
    let file =
        judgement_file::parse(text).unwrap_or_else(|problems| panic!("{file}: {problems:?}"));
    let policy = file.version.policy.as_ref();
    let modes = policy.map(|policy| policy.modes.clone()).unwrap_or_default();
    let request = file.body.into_request(None, &modes).unwrap();
    let settings = approver::decide::Settings::default();
    let steps = plan(&file.version.agent, policy, &request, &State::default(), &settings);
    let found: Vec<&str> = steps
        .iter()
        .map(|step| match step {
            Step::Settled(decision) => match &decision.outcome {
                approver::decide::Outcome::Pending(Some(reason)) => reason.code(),
                other => panic!("{other:?}"),
            },
            Step::Ask(question) => {
                let prompt = question.prompt();
                let size = prompt.system.len() + prompt.user.len();
                assert!(size <= LARGEST_QUESTION, "a question of {size} bytes");
                "judged"
            }
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn what_code_alone_settles() {
    check(
        "customer-note",
        include_str!("../../examples/trial/customer-note.json"),
        &["judged", "judged", "destructive"],
    );
    check(
        "customer-mail",
        include_str!("../../examples/trial/customer-mail.json"),
        &["judged", "judged", "novel_argument"],
    );
}
