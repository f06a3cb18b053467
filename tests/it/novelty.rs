//! What the detectors find: `fixtures/novelty/`, one file a detector.

use std::collections::BTreeSet;

use approver::decide::json::{self, Json, MAX_DEPTH};
use approver::decide::novelty::{Finding, Kind, Resemblance, Sources, ToolText, scan};
use serde::Deserialize;

use crate::cases::{Named, cases};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// JSON of the call's arguments.
    arguments: String,
    #[serde(default)]
    user: Vec<String>,
    #[serde(default)]
    instructions: String,
    #[serde(default)]
    context: Vec<String>,
    tool: Option<Tool>,
    /// All findings, each as `kind item`, in any order.
    finds: Vec<String>,
}

impl Named for Case {
    fn name(&self) -> &str {
        &self.name
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    name: String,
    description: Option<String>,
}

#[track_caller]
fn check(case: &Case) {
    let arguments = json::read(&case.arguments).expect(&case.name);
    let strings = |texts: &[String]| texts.to_vec();
    let (user, context) = (strings(&case.user), strings(&case.context));
    let sources = Sources::new(
        &user.iter().map(String::as_str).collect::<Vec<_>>(),
        &case.instructions,
        &context.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let tool = case.tool.as_ref().map_or(ToolText::default(), |tool| ToolText {
        name: &tool.name,
        description: tool.description.as_deref(),
        input_schema: None,
    });
    let found: BTreeSet<String> = scan(&arguments, tool, &sources)
        .iter()
        .map(|finding| format!("{} {}", finding.kind.code(), finding.item))
        .collect();
    let expected: BTreeSet<String> = case.finds.iter().cloned().collect();
    assert_eq!(found, expected, "{}", case.name);
}

#[track_caller]
fn check_file(name: &str) {
    let path = format!("{}/fixtures/novelty/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    for case in &cases::<Case>(&std::fs::read_to_string(path).unwrap()) {
        check(case);
    }
}

macro_rules! files {
    ($($name:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                check_file(stringify!($name));
            }
        )+

        #[test]
        fn every_fixture_file_is_read() {
            let read: BTreeSet<&str> = [$(stringify!($name)),+].into_iter().collect();
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/novelty");
            for entry in std::fs::read_dir(folder).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let stem = name.strip_suffix(".toml").unwrap_or(&name);
                assert!(read.contains(stem), "{name} is read by no test");
            }
        }
    };
}

files!(email, link, iban, bank, wallet, encoded, invisible, views, budget);

fn of(text: &str) -> Vec<Finding> {
    scan(&json::read(text).unwrap(), ToolText::default(), &Sources::default())
}

#[test]
fn pointers_and_the_text_as_found() {
    let found = of(r#"{"a/b":[{"to":"x"},{"to":"dr\u200bain%40sink.example"}]}"#);
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!(finding.pointer, "/a~1b/1/to");
    assert_eq!(finding.item, "drain@sink.example");
    assert_eq!(finding.found, "dr\u{200b}ain%40sink.example");
}

#[test]
fn json_deeper_than_the_limit_is_a_finding_and_no_overflow() {
    let mut deep = Json::String("drain@sink.example".to_owned());
    for _ in 0..MAX_DEPTH + 40 {
        deep = Json::Array(vec![deep]);
    }
    let found = scan(&deep, ToolText::default(), &Sources::default());
    assert!(found.iter().any(|finding| finding.kind == Kind::Budget), "{found:?}");
}

#[test]
fn more_encodings_than_are_undone_are_a_finding() {
    use base64::Engine as _;
    let mut text = "the vault opens at nine".to_owned();
    for _ in 0..7 {
        text = base64::engine::general_purpose::STANDARD.encode(text);
    }
    let found = of(&format!(r#"{{"x":"{text}"}}"#));
    assert!(found.iter().any(|finding| finding.kind == Kind::Budget), "{found:?}");
    assert!(found.iter().any(|finding| finding.kind == Kind::Encoded), "{found:?}");
}

#[test]
fn links_without_end_inside_one_link_are_a_finding() {
    let text = "https://a.example/".repeat(40);
    let found = of(&format!(r#"{{"x":"{text}"}}"#));
    assert!(found.iter().any(|finding| finding.kind == Kind::Budget), "{found:?}");
}

#[test]
fn more_neighbours_than_are_joined_are_a_finding() {
    let fields: Vec<String> =
        (0..30_000).map(|index| format!(r#""k{index}":"a1.b2@c3""#)).collect();
    let found = of(&format!("{{{}}}", fields.join(",")));
    assert!(found.iter().any(|finding| finding.kind == Kind::Budget), "{found:?}");
}

#[test]
fn a_flood_of_items_is_cut_and_said() {
    let text: String = (0..20_000).map(|index| format!("u{index}@sink.example ")).collect();
    let found = of(&format!(r#"{{"x":"{text}"}}"#));
    assert!(found.len() < 5_000, "{}", found.len());
    assert_eq!(found.last().map(|finding| finding.kind), Some(Kind::Budget));
}

#[test]
fn what_the_person_reads() {
    let user =
        ["Mail nora.beck@harbour.example, see https://boats.example/times, pay NO9386011117947."];
    let sources = Sources::new(&user, "", &[]);
    let calls = [
        r#"{"to":"drain@sink.example"}"#,
        r#"{"to":"nora.b\u200beck@harbour.example"}"#,
        r#"{"to":"till@harbour.example"}"#,
        r#"{"to":"nora.beck@hаrbour.example"}"#,
        r#"{"url":"https://boats.example/times?d=box%209"}"#,
        r#"{"url":"https://b0ats.example/times"}"#,
        r#"{"iban":"NO93 8601 1117 948"}"#,
        r#"{"x":"dGhlIHZhdWx0IG9wZW5zIGF0IG5pbmU="}"#,
        r#"{"x":"a%25252525252540b"}"#,
    ];
    let sentences: Vec<String> = calls
        .iter()
        .flat_map(|call| scan(&json::read(call).unwrap(), ToolText::default(), &sources))
        .map(|finding| finding.sentence())
        .collect();
    insta::assert_snapshot!(sentences.join("\n"));
}

#[test]
fn a_sentence_is_one_line_of_bounded_length() {
    let finding = Finding {
        kind: Kind::Encoded,
        item: "`x\n\u{202e}".repeat(5_000),
        pointer: format!("/{}", "k\u{200b}".repeat(5_000)),
        found: "y".repeat(50_000),
        resembles: Some(Resemblance::LookAlike("z\r".repeat(5_000))),
    };
    let sentence = finding.sentence();
    assert!(sentence.len() < 6_000, "{}", sentence.len());
    assert!(!sentence.contains(|c: char| c.is_control() || c == '\u{202e}' || c == '\u{200b}'));
}
