//! `approver judge`, from the file to the exit code, with judges that a test scripts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use approver::cli::judge::{Args, Setup, run};
use approver::decide::Settings;
use approver::decide::prompt::Prompt;
use approver::decide::verdict::{JudgeFailure, Reply, Tokens};
use approver::judge::Judge;
use approver::judge::scripted::{Move, Scripted};
use approver::service::Timing;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::Instant;

fn file() -> Value {
    let mut file: Value =
        serde_json::from_str(include_str!("../../fixtures/plan/base.json")).unwrap();
    let call = |id: &str, tool: &str, arguments: &str| json!({"call_id": id, "tool": tool, "arguments": arguments});
    file["request"]["calls"] = json!([
        call("call_1", "note_add", r#"{"contact":"C-1042","text":"call back Monday"}"#),
        call(
            "call_2",
            "note_add",
            r#"{"contact":"C-1042","text":"write to eve@evil.example\u202e"}"#
        ),
        call("call_3", "find", r#"{"q":"Ann Reed"}"#),
        call("call_4", "purge", "{}"),
        call("call_5", "free_look", "{}"),
        call("call_6", "never_look", "{}"),
    ]);
    file
}

fn judge() -> Arc<dyn Judge> {
    Arc::new(Scripted::function(|prompt| {
        let tokens = Tokens { input: Some(1_450), output: Some(120), cached: Some(1_386) };
        let text = if prompt.user.contains("# Pending call\n\"note_add\"") {
            r#"{"soft_deny":[],"basis":[{"source":"user","index":1,"quote":"Note on C-1042: call back Monday","covers":[0,1,2]}],"unsupported_arguments":[],"reason":"The user asked for this note.","decision":"approve"}"#
        } else {
            r#"{"soft_deny":[],"basis":[],"unsupported_arguments":[0,1],"reason":"Nobody asked for a search.","decision":"escalate"}"#
        };
        Move::Answer(Reply { text: text.to_owned(), model: "scripted-model".to_owned(), tokens })
    }))
}

fn args(file: PathBuf) -> Args {
    Args { file, json: false, text: true, warm_up: false, show_prompt: false }
}

async fn command(file: &Value, change: impl FnOnce(&mut Args)) -> Result<(u8, String), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("judge.json");
    std::fs::write(&path, file.to_string()).unwrap();
    let mut args = args(path);
    change(&mut args);
    let setup = Setup {
        judge: judge(),
        automatic_approval: Ok(()),
        settings: Settings::default(),
        timing: Timing::default(),
        sandbox_enabled: false,
    };
    let mut output = Vec::new();
    match run(&args, setup, &mut output).await {
        Ok(code) => Ok((code, String::from_utf8(output).unwrap())),
        Err(error) => Err(format!("{error:#}")),
    }
}

/// Times are not for snapshots, nor are digests of a prompt that has snapshots of its own.
fn timeless(text: &str) -> String {
    let text = &regex::Regex::new(r#""prompt_digest": "[0-9a-f]{64}""#)
        .unwrap()
        .replace_all(text, "\"prompt_digest\": \"DIGEST\"");
    let text = regex::Regex::new(r"in \d+\.\d s").unwrap().replace_all(text, "in N s");
    regex::Regex::new(r#""latency_ms": \d+"#)
        .unwrap()
        .replace_all(&text, "\"latency_ms\": N")
        .into_owned()
}

#[tokio::test]
async fn text_for_a_person() {
    let (code, output) = command(&file(), |_| {}).await.unwrap();
    assert_eq!(code, 0);
    insta::assert_snapshot!(timeless(&output));
    assert!(!output.chars().any(|character| character.is_control() && character != '\n'));
    assert!(!output.contains('\u{202e}'));
}

#[tokio::test]
async fn json_for_a_program() {
    let (code, output) = command(&file(), |args| {
        args.text = false;
        args.json = true;
    })
    .await
    .unwrap();
    assert_eq!(code, 0);
    insta::assert_snapshot!(timeless(&output));
}

#[tokio::test]
async fn outside_auto_there_is_no_pause_reason() {
    let mut file = file();
    file["request"]["input"] = json!([{"type": "backbone:mode", "mode": "ask"}]);
    let (_, output) = command(&file, |args| args.json = true).await.unwrap();
    let report: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(report["conversation_mode"], "ask");
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 6);
    assert!(results.iter().all(|result| result.get("pause_reason").is_none()));
    assert_eq!(results[0]["outcome"], "pending");
}

#[tokio::test]
async fn plan_mode_names_itself_where_it_blocks() {
    let mut file = file();
    file["request"]["input"] = json!([{"type": "backbone:mode", "mode": "plan"}]);
    let (_, output) = command(&file, |args| args.json = true).await.unwrap();
    let report: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(report["results"][0]["output"], r#"{"error":"blocked_by_policy","mode":"plan"}"#);
    assert_eq!(report["results"][5]["output"], r#"{"error":"blocked_by_policy"}"#);
}

#[tokio::test]
async fn what_would_be_asked_can_be_read() {
    let (code, output) = command(&file(), |args| args.show_prompt = true).await.unwrap();
    assert_eq!(code, 0);
    assert_eq!(output.matches("\n--- system\n").count(), 2);
    assert!(output.contains("# Pending call\n\"note_add\" {\"contact\":\"C-1042\""));
}

#[tokio::test]
async fn every_problem_of_a_file_comes_at_once() {
    let mut broken = file();
    broken["agent"]["policy"]["classes"]["write"] = json!("allow");
    broken["agent"]["policy"]["judge"]["hard_deny"] = json!([]);
    broken["request"]["calls"][0]["tool"] = json!("no name");
    broken["extra"] = json!(1);
    insta::assert_snapshot!(command(&broken, |_| {}).await.unwrap_err());
}

#[tokio::test]
async fn a_mode_that_is_not_offered_is_refused() {
    let mut file = file();
    file["agent"]["policy"]["conversation_modes"] =
        json!({"offered": ["plan", "ask"], "default": "ask"});
    file["request"]["input"] = json!([{"type": "backbone:mode", "mode": "auto"}]);
    let error = command(&file, |_| {}).await.unwrap_err();
    assert_eq!(
        error,
        "conversation_mode_not_offered: the agent version does not offer the mode `auto` (offered: plan, ask)"
    );
}

#[tokio::test]
async fn files_that_are_no_files_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, expected) in [
        ("empty", &b""[..], "invalid_request $: not valid JSON at byte 0"),
        ("list", b"[]", "invalid_request $: expected an object, found a list"),
        ("bytes", b"\xff\xfe", "cannot read"),
        (
            "nothing",
            b"{}",
            "invalid_request $.agent: required member is missing\ninvalid_request $.request: required member is missing",
        ),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let setup = Setup {
            judge: judge(),
            automatic_approval: Err(JudgeFailure::NotConfigured),
            settings: Settings::default(),
            timing: Timing::default(),
            sandbox_enabled: false,
        };
        let error = run(&args(path), setup, &mut Vec::new()).await.unwrap_err();
        let error = format!("{error:#}");
        assert!(error.starts_with(expected), "{name}: {error}");
    }
}

/// Never ready, whatever deadline it is given.
struct Dripping;

impl Judge for Dripping {
    fn ask<'a>(
        &'a self,
        _prompt: &'a Prompt,
        _deadline: Instant,
    ) -> BoxFuture<'a, Result<Reply, JudgeFailure>> {
        Box::pin(std::future::ready(Err(JudgeFailure::Timeout)))
    }

    fn warm_up<'a>(
        &'a self,
        _prompt: &'a Prompt,
        _deadline: Instant,
    ) -> BoxFuture<'a, Result<Tokens, JudgeFailure>> {
        Box::pin(std::future::pending())
    }

    fn model(&self) -> &str {
        "dripping"
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_drips_does_not_hold_up_the_judgement() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("judge.json");
    std::fs::write(&path, file().to_string()).unwrap();
    for (deadline, expected) in [(10, 180), (300, 300)] {
        let setup = Setup {
            judge: Arc::new(Dripping),
            automatic_approval: Ok(()),
            settings: Settings::default(),
            timing: Timing { judgement: Duration::from_secs(deadline), ..Timing::default() },
            sandbox_enabled: false,
        };
        let started = Instant::now();
        let args = Args { warm_up: true, ..args(path.clone()) };
        assert_eq!(run(&args, setup, &mut Vec::new()).await.unwrap(), 0);
        assert_eq!(started.elapsed().as_secs(), expected);
    }
}

#[test]
fn the_help_says_how_long_a_warm_up_takes() {
    use clap::CommandFactory as _;
    let mut command = approver::cli::Cli::command();
    let judge = command.find_subcommand_mut("judge").unwrap();
    let help =
        judge.render_long_help().to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("at most 180 s, or `judge.deadline` where that is longer"), "{help}");
}

/// The sentence for a person does not say why the judge failed; whoever runs it reads that in the log.
#[test]
fn a_judge_that_fails_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("judge.json");
    std::fs::write(&path, file().to_string()).unwrap();
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_approver"))
        .current_dir(&folder)
        // A port that nobody listens on.
        .env("APPROVER_JUDGE_BASE_URL", "http://127.0.0.1:9/v1")
        .env("APPROVER_JUDGE_MODEL", "a-model")
        .args(["judge", "judge.json", "--text"])
        .output()
        .unwrap();
    let (shown, log) =
        [&run.stdout, &run.stderr].map(|bytes| String::from_utf8_lossy(bytes)).into();
    assert!(shown.contains("judge_error"), "{shown}");
    assert!(log.contains("the judge gave no answer failure=connection failed"), "{log}");
    assert!(log.contains(r#"model="a-model""#), "{log}");
    assert!(!log.contains("call back Monday") && !log.contains("C-1042"), "{log}");
}
