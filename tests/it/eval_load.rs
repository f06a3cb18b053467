//! Loading fixtures and external cases: what is wrong comes at once, with file, line and key.

use std::fs;
use std::path::Path;

use approver::eval::{External, load, read_fixture};
use proptest::prelude::*;
use tempfile::TempDir;

/// A fixture that has nothing wrong with it, for tests to break.
const SOUND: &str = r#"name = "sound"
why = "nothing is wrong with it"
lang = "en"

[policy]
version = 1
classes = { read = "approve", write = "approve" }

[[tools]]
name = "note_add"
origin = "function"
annotations = { readOnlyHint = false, destructiveHint = false, openWorldHint = false }

[[conversation]]
role = "user"
content = "Note: call back."

[[calls]]
name = "noted"
tool = "note_add"
arguments = '{"text":"call back"}'
expect = "approve"
"#;

const LINE: &str = r#"{"id":"a","source":"set","instructions":"","tool":{"name":"t"},"arguments":{},"conversation":[],"expected":"approve","attack":false,"meta":{"kind":"benign","label_strength":"hard"}}"#;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// The problems of these paths below a folder, its own name left out.
#[track_caller]
fn problems(folder: &Path, paths: &[&str]) -> String {
    let paths: Vec<_> = paths.iter().map(|path| folder.join(path)).collect();
    let problems = load(&paths).expect_err("problems");
    let root = format!("{}/", folder.display());
    let below = |line: String| line.replace(&format!("{root}./"), "").replace(&root, "");
    problems.iter().map(|problem| below(format!("{problem}\n"))).collect()
}

#[test]
fn all_problems_of_all_files_come_at_once() {
    let broken = r#"name = "two words"
why = " "
lang = "english language"
pair = "p"
strength = "firm"
mode = "auto"
colour = "red"

[policy]
version = 1
classes = { write = "allow" }
conversation_modes = { offered = ["plan", "ask"], default = "ask" }
[policy.judge]
hard_deny = ["x"]

[[tools]]
name = "note_add"
origin = "function"
[[tools]]
name = "note_add"
origin = "function"
[[tools]]
name = "find"
origin = "nowhere"
[[tools]]
name = "post"
origin = "connector"
server_label = "a"
[[tools]]
name = "post"
origin = "connector"
server_label = "b"

[[conversation]]
role = "system"
content = "be good"
[[conversation]]
role = "user"
calls = []
[[conversation]]
role = "assistant"
calls = [{ id = "c1", name = "find" }, { id = "c1", name = "find", arguments = "{}" }]
[[conversation]]
role = "assistant"
[[conversation]]
role = "tool"
call_id = "c9"
content = "ok"

[[calls]]
name = "one"
tool = "note add"
arguments = { text = "x" }
expect = "allow"
codes = ["judge_escalated"]
[[calls]]
name = "one"
tool = "post"
arguments = '{}'
expect = "approve"
codes = ["judge_escalated", "novel", "judge_escalated", 1]
answer = 1
differs = "list"
[[calls]]
"#;
    let folder = folder(&[
        ("eval/a/broken.toml", broken),
        ("eval/a/syntax.toml", "name = 'x\nwhy = 1\nwhy = 2\n"),
        ("eval/a/first.toml", SOUND),
        ("eval/a/second.toml", SOUND),
        ("eval/b/elsewhere.toml", SOUND),
        ("eval/b/policy.toml", &SOUND.replace("version = 1", "version = 2\nmodes = 1")),
        ("eval/b/empty.toml", ""),
        ("eval/b/date.toml", &format!("day = 2026-05-12\n{SOUND}")),
        ("cases.jsonl", &format!("{LINE}\n\n{LINE}\n{{\"id\":1}}\nprose\n")),
        ("notes.txt", "no fixture"),
        ("nothing/readme.md", "no fixture"),
    ]);
    fs::write(folder.path().join("latin.toml"), b"name = \"caf\xe9\"").unwrap();
    let found = problems(
        folder.path(),
        &[".", "cases.jsonl", "notes.txt", "nothing", "absent.toml", "latin.toml"],
    );
    insta::assert_snapshot!(found);
}

#[test]
fn a_history_is_read_as_strictly() {
    let broken = r#"
[state]
judged = 3
judged_in_turn = -1
escalations = "3"
unavailable = "timeout"
sandbox = { calls = 1, minutes = 2 }
writes = [
  { tool = "note_burn", arguments = '{}' },
  { tool = "note_add", arguments = '[]' },
  { tool = "note_add" },
]
pinned = [{ name = "note_add", origin = "function" }, { name = "x" }]
"#;
    let with = |answer: &str| SOUND.to_owned() + answer;
    let folder = folder(&[
        (
            "a/state.toml",
            &SOUND.replace("\n[[conversation]]", &format!("{broken}\n[[conversation]]")),
        ),
        ("a/failure.toml", &with("answer = { failure = \"tired\", since = 1 }\n")),
        ("a/number.toml", &with("answer = 1\ntimeout_seconds = 0\n")),
    ]);
    insta::assert_snapshot!(problems(folder.path(), &["a"]));
}

#[test]
fn suites_are_named_after_their_folders() {
    let folder = folder(&[
        ("x/eval/crm/one.toml", SOUND),
        ("x/eval/crm/deep/two.toml", SOUND),
        ("x/eval/top.toml", SOUND),
        ("x/policy/other.toml", "not = 'a fixture'"),
        ("y/crm/one.toml", SOUND),
        ("y/cases.jsonl", LINE),
    ]);
    let root = folder.path();
    let paths = [root.join("x"), root.join("y"), root.join("x/eval/crm/one.toml")];
    let suites = load(&paths).unwrap();
    let names: Vec<String> = suites
        .cases()
        .map(|case| case.unwrap().labels.suite.replace(&format!("{}/", root.display()), ""))
        .collect();
    // The file that is named once more is judged once; the second `crm` is told apart by its path.
    assert_eq!(names, ["crm/deep", "crm", "eval", "y/crm", "set"]);
    assert_eq!(suites.len(), names.len());
}

#[test]
fn a_file_that_changes_under_the_run_is_reported_with_its_line() {
    let folder = folder(&[("cases.jsonl", LINE)]);
    let file = folder.path().join("cases.jsonl");
    let suites = load(std::slice::from_ref(&file)).unwrap();
    fs::write(&file, format!("{LINE}\n{{}}\n")).unwrap();
    let problem = suites.cases().nth(1).unwrap().unwrap_err();
    assert_eq!((problem.line, problem.key.as_str()), (Some(2), "$.id"));
}

#[test]
fn a_fixture_needs_no_policy_and_a_policy_no_modes() {
    let without = SOUND.split("[policy]").next().unwrap().to_owned()
        + SOUND
            .split_once("[[tools]]")
            .map(|(_, rest)| format!("[[tools]]{rest}"))
            .as_deref()
            .unwrap();
    let folder = folder(&[
        ("a/with.toml", SOUND),
        ("a/without.toml", &without.replace("name = \"sound\"", "name = \"bare\"")),
    ]);
    let suites = load(&[folder.path().to_owned()]).unwrap();
    let policies: Vec<bool> = suites.fixtures.iter().map(|one| one.policy.is_some()).collect();
    assert_eq!(policies, [true, false]);
}

proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(text in ".{0,200}", at in 0_usize..1_000, piece in ".{0,9}") {
        let suite = "any".into();
        let _ = read_fixture(&suite, &text);
        let _ = External::read(&text);
        // Sound files with a piece put in somewhere come further.
        for sound in [SOUND, LINE] {
            let at = sound.char_indices().map(|(at, _)| at).nth(at % sound.len()).unwrap_or(0);
            let broken = format!("{}{piece}{}", &sound[..at], &sound[at..]);
            for problem in read_fixture(&suite, &broken).err().into_iter().flatten() {
                let line = problem.0.unwrap_or(1);
                prop_assert!(line >= 1 && line <= broken.lines().count() + 1);
            }
            let _ = External::read(&broken);
        }
    }
}
