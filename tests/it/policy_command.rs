//! `approver policy check` and `approver policy show`, from the arguments to the exit code.

use std::path::Path;

use approver::cli::policy::{Command, run};
use approver::decide::policy::OperatorSettings;
use clap::Parser;

const AGENT: &str = include_str!("../../fixtures/policy/agent.json");

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

struct Answer {
    code: u8,
    output: String,
    errors: String,
}

#[track_caller]
fn check(arguments: &str, input: &str) -> Answer {
    let words = std::iter::once("policy").chain(arguments.split_whitespace());
    let command = Arguments::try_parse_from(words).unwrap().command;
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let settings = OperatorSettings::default();
    let code = run(&command, &settings, &mut input.as_bytes(), &mut output, &mut errors).unwrap();
    Answer {
        code,
        output: String::from_utf8(output).unwrap(),
        errors: String::from_utf8(errors).unwrap(),
    }
}

#[test]
fn a_valid_file_says_so_in_one_line() {
    let mended = AGENT.replace(r#"{"readOnlyHint": true}"#, "null");
    let answer = check("check -", &mended);
    assert_eq!((answer.code, answer.errors.as_str()), (0, ""));
    insta::assert_snapshot!(answer.output);

    let answer = check("check -", r#"{"version":1,"tools":{"a":"deny"}}"#);
    assert_eq!((answer.code, answer.errors.as_str()), (0, ""));
    insta::assert_snapshot!(answer.output);

    let answer = check("check -", r#"{"instructions":""}"#);
    assert_eq!((answer.code, answer.errors.as_str()), (0, ""));
    insta::assert_snapshot!(answer.output);
}

#[test]
fn problems_come_one_a_line() {
    // What was stored before annotations were checked can be shown, and not saved again.
    let answer = check("check -", AGENT);
    assert_eq!((answer.code, answer.errors.as_str()), (1, ""));
    insta::assert_snapshot!(answer.output);

    let answer = check("check -", r#"{"classes":{"write":"allow"},"tools":{"a b":"x\ny"}}"#);
    assert_eq!((answer.code, answer.errors.as_str()), (1, ""));
    insta::assert_snapshot!(answer.output);

    let answer = check(
        "check -",
        r#"{"tools":[{"name":"a","annotations":{}}],"policy":{"version":2,"judge":{"allow":[""]}}}"#,
    );
    assert_eq!((answer.code, answer.errors.as_str()), (1, ""));
    insta::assert_snapshot!(answer.output);

    let answer = check("check -", "not json");
    assert_eq!((answer.code, answer.errors.as_str()), (1, ""));
    insta::assert_snapshot!(answer.output);

    let answer = check("show -", r#"{"version":2}"#);
    assert_eq!((answer.code, answer.output.as_str()), (1, ""));
    insta::assert_snapshot!(answer.errors);
}

#[test]
fn a_file_that_cannot_be_read_is_no_problem_of_the_policy() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.json");
    for command in ["check", "show"] {
        let answer = check(&format!("{command} {}", missing.display()), "");
        assert_eq!((answer.code, answer.output.as_str()), (2, ""));
        let expected = format!("error: cannot read `{}`: ", missing.display());
        assert!(answer.errors.starts_with(&expected), "{}", answer.errors);
    }
    let binary = folder.path().join("binary.json");
    std::fs::write(&binary, [0xff, 0xfe]).unwrap();
    let answer = check(&format!("check {}", binary.display()), "");
    assert_eq!(answer.code, 2);
}

#[test]
fn a_file_is_read_by_its_name() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/policy/agent.json");
    let by_name = check(&format!("show {} --json", file.display()), "");
    let from_input = check("show - --json", AGENT);
    assert_eq!((by_name.code, by_name.output), (0, from_input.output));
}

#[test]
fn the_table_shows_each_tool_in_a_mode() {
    for mode in ["plan", "ask", "auto"] {
        let answer = check(&format!("show - --mode {mode}"), AGENT);
        assert_eq!((answer.code, answer.errors.as_str()), (0, ""));
        insta::assert_snapshot!(format!("table_{mode}"), answer.output);
    }
    let answer = check("show -", AGENT);
    assert!(answer.output.starts_with("mode ask (default), offered: plan ask auto\n"));
    let answer = check("show - --door hook --tool unclassified", r#"{"version":1}"#);
    insta::assert_snapshot!("table_at_another_door", answer.output);
    let answer = check("show -", r#"{"version":1}"#);
    insta::assert_snapshot!("table_without_tools", answer.output);
}

#[test]
fn the_json_is_stable() {
    let answer = check("show - --mode auto --json --tool mcp__erp__orders_create", AGENT);
    assert_eq!((answer.code, answer.errors.as_str()), (0, ""));
    insta::assert_snapshot!("json_of_a_connector", answer.output);
    let answer = check("show - --mode auto --json --tool mcp__crm__note__add", AGENT);
    insta::assert_snapshot!("json_of_a_tool_that_is_not_defined", answer.output);
}

#[test]
fn a_mode_that_is_not_offered_is_refused() {
    let answer = check("show - --mode auto", r#"{"version":1}"#);
    assert_eq!((answer.code, answer.output.as_str()), (1, ""));
    assert_eq!(
        answer.errors,
        "error: conversation_mode_not_offered: mode `auto` is not offered (offered: plan ask)\n"
    );
    let answer = check("show - --mode auto", r#"{"policy":null}"#);
    assert_eq!(answer.code, 1);
}

#[test]
fn arguments_are_checked() {
    for wrong in ["show", "check", "show - --mode yolo", "show - --door back", "show - --tool a$b"]
    {
        let words = std::iter::once("policy").chain(wrong.split_whitespace());
        assert!(Arguments::try_parse_from(words).is_err(), "{wrong}");
    }
}

#[test]
fn what_a_policy_says_cannot_write_to_the_terminal() {
    let policy = "{\"version\":1,\"tools\":{\"*\\u001b[2J\\u202e*\":\"read\",\"*\":\"read\"}}";
    let answer = check("show - --tool a", policy);
    assert_eq!(answer.code, 0);
    assert!(!answer.output.contains(['\u{1b}', '\u{202e}']));
    let policy = "{\"version\":1,\"tools\":{\"\\u001b[2J\":\"x\\u001b[2J\"}}";
    let answer = check("check -", policy);
    assert_eq!(answer.code, 1);
    assert!(!answer.output.contains('\u{1b}'));
}
