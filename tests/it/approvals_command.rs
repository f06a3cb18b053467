//! `approver approvals` as a process, against a running service.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use approver::decide::novelty::{Finding, Kind};
use approver::decide::reason::Reason;
use approver::decide::verdict::Tokens;
use approver::service::Limits;
use approver::service::events::Events;
use approver::store::{JudgeRecord, TokenKind};
use serde_json::{Value, json};

use crate::doors::raised::{Raise, Raised, call};
use crate::doors::world::World;
use crate::store::place::SqlitePlace;

/// ESC, a sequence that sets a terminal's title, a direction override and a line's end.
const PLANTED: &str = "\u{1b}[2J\u{1b}]0;planted\u{7}\u{202e}\n";

pub(crate) struct Desk {
    pub(crate) world: Arc<World>,
    ana: String,
    gateway: String,
    _place: SqlitePlace,
}

impl Desk {
    pub(crate) async fn open() -> Self {
        let place = SqlitePlace::new();
        let world = World::start(place.open().await).await;
        let (ana, gateway) = world.staffed().await;
        Self { world: Arc::new(world), ana, gateway, _place: place }
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_approver"));
        command
            .args(["approvals"].into_iter().chain(arguments.split_whitespace()))
            .env_clear()
            .env("APPROVER_URL", &self.world.url)
            .env("APPROVER_TOKEN", &self.ana)
            .stdin(Stdio::null());
        command
    }

    async fn run(&self, arguments: &str) -> Ran {
        run(self.command(arguments)).await
    }
}

struct Ran {
    code: Option<i32>,
    output: String,
    errors: String,
}

/// Without blocking the service that it asks.
async fn run(mut command: Command) -> Ran {
    let ran: Output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: ran.status.code(), output: text(ran.stdout), errors: text(ran.stderr) }
}

/// A call in which everything that others write would move the cursor.
fn hostile() -> Raise {
    // The controls are JSON's own escapes by then; the direction override stands as it is.
    let arguments = json!({"to": format!("eve{PLANTED}@example.net"), "amount": 1.5}).to_string();
    let sealed = json!({
        "provenance": [
            {"pointer": "/amount", "source": "user", "index": 1},
            {"pointer": "/to", "source": "result", "index": 2, "tool": format!("find{PLANTED}")},
            {"pointer": format!("/{PLANTED}"), "source": "nowhere"}],
        "evidence": [
            {"source": "user", "index": 1, "quote": format!("pay it{PLANTED}"), "covers": ["", "/amount"]}],
    });
    Raise {
        arguments,
        sealed,
        conversation: format!("conv{PLANTED}"),
        facts: |facts| {
            facts.user = Some(format!("usr{PLANTED}"));
            facts.pause_reason = Some("novel_argument".to_owned());
            facts.pause_sentence = Some(format!("Somebody new.{PLANTED}"));
            facts.findings = vec![Finding {
                kind: Kind::Email,
                item: format!("eve{PLANTED}@example.net"),
                pointer: "/to".to_owned(),
                found: format!("eve{PLANTED}@example.net"),
                resembles: None,
            }];
            facts.judged = Some(JudgeRecord {
                model: format!("small{PLANTED}"),
                reason: Some(format!("It says so.{PLANTED}")),
                prompt_digest: "d".repeat(64),
                tokens: Tokens { input: None, output: None, cached: None },
                cuts: Default::default(),
            });
        },
        ..call("call_1", "note_add")
    }
}

#[track_caller]
fn check_clean(text: &str) {
    for planted in ['\u{1b}', '\u{7}', '\u{202e}'] {
        assert!(!text.contains(planted), "{text:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_wrote_is_shown_and_never_run() {
    let desk = Desk::open().await;
    let raised = desk.world.raise(hostile()).await;
    let listed = desk.run("list").await;
    let shown = desk.run(&format!("show {}", raised.id)).await;
    let reason = format!("seen{PLANTED}");
    let mut reject = desk.command(&format!("reject {} --yes --reason", raised.id));
    reject.arg(&reason);
    let rejected = run(reject).await;
    let ended = desk.run(&format!("show {}", raised.id)).await;
    let mut all = String::new();
    for (name, ran) in
        [("list", listed), ("show", shown), ("reject", rejected), ("show again", ended)]
    {
        assert_eq!((ran.code, ran.errors.as_str()), (Some(0), ""), "{name}");
        check_clean(&ran.output);
        all.push_str(&format!("$ {name}\n{}", ran.output.replace(&raised.id, "apreq_1")));
    }
    assert!(all.contains("\\u{1b}[2J"), "{all}");
    insta::assert_snapshot!(all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_decides_at_the_terminal() {
    let desk = Desk::open().await;
    let Desk { world, ana, .. } = &desk;
    let first = world.waiting().await;
    // Nobody can be asked here, so nothing is decided without `--yes`.
    let asked = desk.run(&format!("approve {}", first.id)).await;
    assert_eq!((asked.code, asked.output.as_str()), (Some(2), ""));
    assert!(asked.errors.contains("--yes"), "{}", asked.errors);
    assert_eq!(world.status(&first).await, "pending");

    let approve = format!("approve {} --yes --remember --reason fine", first.id);
    let ran = desk.run(&approve).await;
    assert_eq!((ran.code, ran.errors.as_str()), (Some(0), ""));
    assert_eq!(ran.output, format!("{} approved, must start by 2027-01-15T08:05:00Z\n", first.id));
    let body = world.get(&first.path(""), ana).await.expect(200);
    assert_eq!(body["decision"]["decided_by"], "ana");
    assert_eq!(body["decision"]["reason"], "fine");

    // The server's refusal is one sentence with its code and the request's id.
    let again = desk.run(&approve).await;
    assert_eq!((again.code, again.output.as_str()), (Some(1), ""));
    let sentence = "refused: `ana` approved it first (approval_already_decided, request ";
    assert!(again.errors.starts_with(sentence), "{}", again.errors);
    assert_eq!(again.errors.lines().count(), 1);
    let purge = world.raise(call("call_2", "purge")).await;
    let ran = desk.run(&format!("approve {} --yes --remember", purge.id)).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.errors.contains("invalid_approval_decision"), "{}", ran.errors);

    let second = world.raise(call("call_3", "note_add")).await;
    let ran = desk.run(&format!("reject {} --yes --json", second.id)).await;
    let answer: Value = serde_json::from_str(&ran.output).unwrap();
    assert_eq!(answer, json!({"approval_id": second.id, "status": "rejected"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_is_a_sentence_for_people() {
    let desk = Desk::open().await;
    let raise = Raise {
        facts: |facts| facts.pause_reason = Some("destructive".to_owned()),
        ..call("call_1", "purge")
    };
    let raised = desk.world.raise(raise).await;
    let sentence = Reason::Destructive.sentence();
    let listed = desk.run("list").await.output;
    assert!(listed.contains(&format!("  destructive: {sentence}\n")), "{listed}");
    let shown = desk.run(&format!("show {}", raised.id)).await.output;
    assert!(shown.contains(&format!("because      {sentence}\n")), "{shown}");
}

/// Whom the commands ask has one name.
#[test]
fn help_speaks_of_one_service() {
    for arguments in [
        "approvals",
        "approvals list",
        "approvals show",
        "approvals watch",
        "approvals approve",
        "approvals reject",
        "auto",
        "auto on",
        "auto off",
        "auto status",
        "instances",
        "instances list",
        "instances show",
        "instances set",
        "token",
        "token create",
        "",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_approver"));
        let help = command.args(arguments.split_whitespace()).arg("--help").output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        assert!(help.contains("Usage: approver"), "{arguments}: {help}");
        assert!(!help.contains("server"), "{arguments}: {help}");
    }
}

/// A key that was taken out of the ring too early leaves the way to a no.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_key_a_call_is_rejected_and_not_approved() {
    let desk = Desk::open().await;
    let raised = desk.world.waiting().await;
    let other = desk.world.under_keys(&["k2"], Limits::default(), Events::to_log()).await;
    let there = async |arguments: &str| {
        let mut command = desk.command(arguments);
        command.env("APPROVER_URL", &other.url);
        run(command).await
    };
    for arguments in ["list".to_owned(), format!("show {}", raised.id)] {
        let shown = there(&arguments).await;
        assert_eq!(shown.code, Some(0), "{}", shown.errors);
        assert!(shown.output.contains("sealed under the key `k1`"), "{}", shown.output);
    }
    let approved = there(&format!("approve {} --yes", raised.id)).await;
    assert_eq!((approved.code, approved.output.as_str()), (Some(1), ""));
    for part in ["refused: ", "`k1`", "Put the key back", "(key_missing, request "] {
        assert!(approved.errors.contains(part), "{}", approved.errors);
    }
    let rejected = there(&format!("reject {} --yes", raised.id)).await;
    assert_eq!((rejected.code, rejected.errors.as_str()), (Some(0), ""));
    assert_eq!(desk.world.status(&raised).await, "rejected");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_of_a_status_and_an_agent() {
    let desk = Desk::open().await;
    let Desk { world, ana, .. } = &desk;
    let raised = [world.waiting().await, world.raise(call("call_2", "find")).await];
    world.decide(&raised[0], ana, &raised[0].reject()).await.expect(200);
    let ids = async |arguments: &str| {
        let ran = desk.run(arguments).await;
        assert_eq!((ran.code, ran.errors.as_str()), (Some(0), ""), "{arguments}");
        let page: Value = serde_json::from_str(&ran.output).unwrap();
        let approvals = page["approvals"].as_array().unwrap().iter();
        approvals.map(|approval| approval["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let [rejected, waiting] = raised.map(|raised: Raised| raised.id);
    assert_eq!(ids("list --json").await, [waiting.as_str()]);
    assert_eq!(ids("list --json --status rejected").await, [rejected.as_str()]);
    let all = ids("list --json --status all --agent erp-assistant").await;
    assert_eq!(all, [waiting.as_str(), rejected.as_str()]);
    let first = desk.run("list --status all --limit 1").await;
    let cursor = first.output.lines().last().unwrap().strip_prefix("more: --cursor ").unwrap();
    let rest = ids(&format!("list --json --status all --limit 1 --cursor {cursor}")).await;
    assert_eq!(rest, [rejected.as_str()]);
    assert_eq!(desk.run("list --status cancelled").await.output, "nothing\n");
    // A word that no approval has is refused here: nobody is asked.
    let nobody = run({
        let mut command = desk.command("list --status foo");
        command.env("APPROVER_URL", "http://127.0.0.1:1");
        command
    })
    .await;
    assert_eq!(nobody.code, Some(2));
    let words = "pending, approved, rejected, cancelled, expired, all";
    assert!(nobody.errors.contains(words), "{}", nobody.errors);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_follows_what_comes_and_goes() {
    let desk = Desk::open().await;
    let Desk { world, ana, gateway, .. } = &desk;
    let before = world.waiting().await;
    let mut command = desk.command("watch --count 3");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // A child that hangs ends with the test's own limit, and is not left behind.
    let (sender, mut shown) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Some(Ok(line)) = lines.next() {
            let _ = sender.send(line);
        }
    });
    let mut until = async |begins: String| {
        let found = async {
            while let Some(line) = shown.recv().await {
                check_clean(&line);
                if line.starts_with(&begins) {
                    return true;
                }
            }
            false
        };
        let found = tokio::time::timeout(Duration::from_secs(30), found).await;
        assert_eq!(found, Ok(true), "{begins}");
    };
    until(format!("{} pending", before.id)).await;
    let second = world.raise(call("call_2", "note_add")).await;
    until(format!("{} pending", second.id)).await;
    world.decide(&before, ana, &before.approve()).await.expect(200);
    until(format!("{} approved by ana: note_add (write)", before.id)).await;
    world.post(&second.path("/cancel"), gateway, &json!({})).await.expect(200);
    until(format!("{} cancelled: note_add (write)", second.id)).await;
    let third = world.raise(call("call_3", "find")).await;
    until(format!("{} pending", third.id)).await;
    let ended = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert_eq!(ended.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whom_it_asks_and_as_whom() {
    let desk = Desk::open().await;
    let raised = desk.world.waiting().await;
    let show = format!("show {}", raised.id);
    let with = async |change: &dyn Fn(&mut Command)| {
        let mut command = desk.command(&show);
        change(&mut command);
        let ran = run(command).await;
        assert_eq!((ran.code, ran.output.as_str()), (Some(2), ""), "{}", ran.errors);
        assert!(!ran.errors.contains(&desk.ana), "{}", ran.errors);
        ran.errors
    };
    let nobody = |command: &mut Command| {
        command.env_remove("APPROVER_TOKEN");
    };
    assert!(with(&nobody).await.contains("APPROVER_TOKEN is not set"));
    let wrong = |command: &mut Command| {
        command.env("APPROVER_TOKEN", "no-token-of-ours");
    };
    assert!(with(&wrong).await.contains("(unauthenticated, request "));
    for (url, expected) in [
        ("http://127.0.0.1:9", "does not answer"),
        ("http://approver.example.com", "in the clear"),
        ("ftp://127.0.0.1", "in the clear"),
        ("https://user:pass@approver.example.com", "more than a host"),
        ("nowhere", "is no address"),
    ] {
        let elsewhere = |command: &mut Command| {
            command.env("APPROVER_URL", url);
        };
        let errors = with(&elsewhere).await;
        assert!(errors.contains(expected), "{url}: {errors}");
    }
    let owner = desk.world.token("owner", TokenKind::PolicyOwner).await;
    let forbidden = |command: &mut Command| {
        command.env("APPROVER_TOKEN", &owner);
    };
    assert!(with(&forbidden).await.contains("(forbidden, request "));
    // A flag for the token would stand in everybody's list of processes.
    let flag = desk.run(&format!("{show} --token x")).await;
    assert_eq!(flag.code, Some(2));
    assert!(flag.errors.contains("unexpected argument"), "{}", flag.errors);
}
