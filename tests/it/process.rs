//! The program as a process: exit codes when nobody reads its output, and files that never end.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// One promise that the code alone breaks: the hard call should run, and waits at a gate.
const MISSED: &str = r#"name = "missed"
why = "a hard call that ends otherwise"
lang = "en"

[policy]
version = 1
classes = { write = "approve" }

[[tools]]
name = "note_send"
origin = "function"
annotations = { readOnlyHint = false, destructiveHint = false, openWorldHint = true }

[[conversation]]
role = "user"
content = "Send it."

[[calls]]
name = "sent"
tool = "note_send"
arguments = '{}'
expect = "approve"
"#;

fn files() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut judged: serde_json::Value =
        serde_json::from_str(include_str!("../../fixtures/plan/base.json")).unwrap();
    judged["request"]["calls"] =
        serde_json::json!([{"call_id": "a", "tool": "find", "arguments": "{}"}]);
    let judged = judged.to_string();
    for (name, text) in [
        ("missed.toml", MISSED),
        ("broken.toml", "name = 1"),
        ("wrong.json", r#"{"version":2}"#),
        ("right.json", r#"{"version":1}"#),
        ("judged.json", &judged),
        ("lines.jsonl", "{\"id\":\"a\",\"arguments\":{},\"sources\":{}}\n"),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The program in a folder, with an environment of its own.
fn approver(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_approver"));
    command.args(arguments.split(' ')).current_dir(folder).env_clear().stdin(Stdio::null());
    command
}

fn output(folder: &Path, arguments: &str) -> Output {
    approver(folder, arguments).output().unwrap()
}

/// A pipe whose reader is gone.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn a_code_does_not_depend_on_who_reads_the_output() {
    let folder = files();
    for (arguments, code) in [
        ("eval missed.toml", 1),
        ("eval missed.toml --json", 1),
        ("eval broken.toml", 2),
        ("policy check wrong.json", 1),
        ("policy show wrong.json", 1),
        ("policy check right.json", 0),
        ("policy show right.json --json --tool a", 0),
        ("judge judged.json --json", 0),
        ("judge judged.json --text", 0),
        ("judge judged.json --show-prompt", 0),
        ("scan lines.jsonl", 0),
        ("config", 0),
        ("config --json", 0),
    ] {
        let read = output(folder.path(), arguments);
        let errors = String::from_utf8_lossy(&read.stderr);
        assert_eq!(read.status.code(), Some(code), "{arguments}: {errors}");

        let unread = approver(folder.path(), arguments).stdout(closed()).output().unwrap();
        assert_eq!(unread.status.code(), Some(code), "{arguments}, closed");
        assert_eq!(unread.stderr, read.stderr, "{arguments}, closed");

        let status =
            approver(folder.path(), arguments).stdout(closed()).stderr(closed()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments}, both closed");
    }
}

#[test]
fn an_output_that_is_full_is_an_error() {
    let folder = files();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let failed = approver(folder.path(), "config").stdout(full).output().unwrap();
    assert_eq!(failed.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&failed.stderr).starts_with("error: "));
}

#[test]
fn only_regular_files_are_read() {
    let folder = files();
    let pipe = folder.path().join("pipe.jsonl");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // By its name alone the device is a fixture, or a file of cases.
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("zero.toml")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("zero.jsonl")).unwrap();
    for (arguments, file) in [
        ("eval zero.toml", "zero.toml"),
        ("eval zero.jsonl", "zero.jsonl"),
        ("eval pipe.jsonl", "pipe.jsonl"),
        ("eval missed.toml --judge recorded:pipe.jsonl", "pipe.jsonl"),
        ("eval missed.toml --judge recorded:/dev/zero", "/dev/zero"),
        ("policy check /dev/zero", "/dev/zero"),
        ("policy check pipe.jsonl", "pipe.jsonl"),
        ("judge pipe.jsonl", "pipe.jsonl"),
        ("config --config /dev/zero", "/dev/zero"),
        ("config --config pipe.jsonl", "pipe.jsonl"),
    ] {
        let refused = output(folder.path(), arguments);
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments}: {errors}");
        assert!(errors.contains(file), "{arguments}: {errors}");
        assert!(errors.contains("not a regular file"), "{arguments}: {errors}");
    }
    // What a folder holds beside its files is passed over or refused, and never waited for.
    let whole = output(folder.path(), "eval .");
    let errors = String::from_utf8_lossy(&whole.stderr);
    assert_eq!(whole.status.code(), Some(2));
    // Two names of one file are one file, so one of the two stands for the device.
    for name in ["zero.jsonl", "pipe.jsonl"] {
        assert!(
            errors.contains(&format!("{name}: cannot be read: not a regular file")),
            "{errors}"
        );
    }
}

/// Sparse files: their length is real, and nothing of it is stored.
#[test]
fn files_that_are_too_long_are_refused_by_name() {
    let folder = files();
    for (name, length) in [
        ("long.toml", 17 << 20),
        ("long.json", 17 << 20),
        ("long.jsonl", (1 << 30) + 1),
        ("line.jsonl", 65 << 20),
    ] {
        std::fs::File::create(folder.path().join(name)).unwrap().set_len(length).unwrap();
    }
    for (arguments, file) in [
        ("eval long.toml", "long.toml"),
        ("eval long.jsonl", "long.jsonl"),
        ("eval line.jsonl", "line.jsonl"),
        ("eval missed.toml --judge recorded:long.jsonl", "long.jsonl"),
        ("policy check long.json", "long.json"),
        ("judge long.json", "long.json"),
        ("config --config long.toml", "long.toml"),
    ] {
        let refused = output(folder.path(), arguments);
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments}: {errors}");
        assert!(errors.contains(file) && errors.contains("more than"), "{arguments}: {errors}");
    }
}

#[test]
fn a_byte_order_mark_is_called_by_its_name() {
    let folder = files();
    for name in ["right.json", "judged.json", "lines.jsonl"] {
        let file = folder.path().join(name);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("\u{feff}{text}")).unwrap();
    }
    for arguments in [
        "policy check right.json",
        "policy show right.json",
        "judge judged.json",
        "scan lines.jsonl",
        "eval lines.jsonl",
        "eval missed.toml --judge recorded:lines.jsonl",
    ] {
        let refused = output(folder.path(), arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments}");
        let text = [refused.stdout, refused.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("byte order mark"), "{arguments}: {text}");
    }
}

#[test]
fn a_run_is_saved_to_a_new_file_alone() {
    let folder = files();
    for (file, why) in
        [("/dev/full", "not a regular file"), ("right.json", "the file exists"), ("no/where", "")]
    {
        let refused = output(folder.path(), &format!("eval missed.toml --save {file}"));
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{errors}");
        let start = format!("error: cannot save to `{file}`: ");
        assert!(errors.starts_with(&start) && errors.contains(why), "{errors}");
        assert!(errors.len() > start.len() + 1);
    }
}

#[test]
fn a_file_that_was_only_found_is_told_from_one_that_was_named() {
    let folder = files();
    let text =
        "[judge]\nbase_url = \"http://localhost:9/v1\"\n[operator]\nsandbox_enabled = true\n";
    std::fs::write(folder.path().join("approver.toml"), text).unwrap();
    let found = output(folder.path(), "config");
    let errors = String::from_utf8_lossy(&found.stderr);
    assert_eq!(found.status.code(), Some(2));
    for key in ["`judge.base_url`", "`operator.sandbox_enabled`", "`--config`"] {
        assert!(errors.contains(key), "{errors}");
    }
    assert_eq!(output(folder.path(), "config --config approver.toml").status.code(), Some(0));
}

/// ESC, an OSC sequence that sets a terminal's title, and a direction override.
const PLANTED: &str = "\u{1b}[2J\u{1b}]0;planted\u{7}\u{202e}";

#[test]
fn nothing_that_was_planted_moves_the_terminal() {
    let folder = files();
    let root = folder.path();
    let named = |name: &str| format!("{PLANTED}{name}");
    let settings = [
        ("[judge]\nmodel = \"PLANTED\"", 0),
        ("[judge]\nbase_url = \"https://a.example/PLANTED\"", 0),
        ("[judge]\ndeadline = \"PLANTED\"", 2),
        ("[judge]\nstructured_output = \"PLANTED\"", 2),
        ("[judge]\nextra_headers = { \"PLANTED\" = \"a\" }", 2),
        ("[judge]\n\"PLANTED\" = 1", 2),
        ("[\"PLANTED\"]\na = 1", 2),
        ("\"PLANTED\" = 1", 2),
        ("[operator]\nhuman_only = [\"PLANTED\"]", 2),
        ("[operator]\ncatalogue = [{ name = \"PLANTED\", class = \"read\" }]", 2),
        ("[operator]\ncatalogue = [{ name = \"a\", class = \"PLANTED\" }]", 2),
        ("[operator]\nunclassified = \"PLANTED\"", 2),
        ("PLANTED", 2),
    ];
    // As TOML's escapes in strings and keys, so that the file itself can be read.
    let escaped = PLANTED.replace('\u{1b}', "\\u001b").replace('\u{7}', "\\u0007");
    let file = root.join(named("a.toml"));
    for (text, code) in settings {
        std::fs::write(&file, text.replace("PLANTED", &escaped)).unwrap();
        let shown = approver(root, "config --config").arg(named("a.toml")).output().unwrap();
        check_clean(text, &shown, code);
    }
    for (variable, value) in [
        (format!("APPROVER_JUDGE_{PLANTED}"), "1".to_owned()),
        ("APPROVER_JUDGE_DEADLINE".to_owned(), PLANTED.to_owned()),
    ] {
        let shown = approver(root, "config").env(&variable, value).output().unwrap();
        check_clean(&variable, &shown, 2);
    }
    let set = format!("judge.{PLANTED}=1");
    check_clean("--set", &approver(root, "config --set").arg(set).output().unwrap(), 2);

    // Names of files, and keys in them.
    std::fs::write(root.join(named("b.toml")), format!("\"{escaped}\" = 1\nname = 1")).unwrap();
    std::fs::write(root.join(named("b.jsonl")), format!("{{\"{escaped}\":1}}\nprose")).unwrap();
    std::fs::write(root.join(named("b.json")), format!("{{\"{escaped}\":\"{escaped}\"}}")).unwrap();
    let policy =
        format!("{{\"policy\":{{\"version\":1,\"tools\":{{\"{escaped}\":\"{escaped}\"}}}}}}");
    std::fs::write(root.join(named("c.json")), format!("{{\"agent\":{policy}}}")).unwrap();
    std::fs::write(root.join(named("d.json")), policy).unwrap();
    for (arguments, file) in [
        ("eval", named("b.toml")),
        ("eval", named("b.jsonl")),
        ("eval", named("missing.toml")),
        ("eval", named("other")),
        ("eval missed.toml --judge", format!("recorded:{}", named("b.jsonl"))),
        ("eval missed.toml --judge", format!("recorded:{}", named("missing"))),
        ("eval missed.toml --save", named("b.json")),
        ("eval missed.toml --save", named("no/where")),
        ("judge", named("c.json")),
        ("judge", named("missing")),
        ("policy check", named("missing")),
        ("policy show", named("missing")),
        ("config --config", named("missing")),
        ("scan", named("missing")),
    ] {
        let shown = approver(root, arguments).arg(&file).output().unwrap();
        check_clean(arguments, &shown, 2);
    }
    let shown = approver(root, "policy check").arg(named("d.json")).output().unwrap();
    check_clean("policy check", &shown, 1);
}

#[track_caller]
fn check_clean(what: &str, shown: &Output, code: i32) {
    let text = [&shown.stdout[..], &shown.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert_eq!(shown.status.code(), Some(code), "{what:?}: {text:?}");
    assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{what:?}: {text:?}");
    // Else nothing of it was shown, and the test says nothing.
    assert!(text.contains("u{1b}"), "{what:?}: {text:?}");
}
