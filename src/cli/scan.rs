//! `approver scan`: the deterministic detectors over JSON lines.
//!
//! One case a line in, one answer a line out. It reads no policy and asks no model.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::json;

use crate::decide::json::{self, Json};
use crate::decide::novelty::{self, Sources, ToolText};
use crate::decide::text::shown;
use crate::files::{FileError, LineRead, begins_with_mark, next_line};

/// Searches the arguments of tool calls, one case a line.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files of JSON lines; none, or `-`, is standard input
    pub files: Vec<PathBuf>,
}

/// Scans every file in turn.
///
/// # Errors
/// A file that cannot be read, or output that cannot be written.
pub fn run_files(args: &Args, output: &mut dyn Write) -> anyhow::Result<Outcome> {
    let standard_input = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &standard_input[..] } else { &args.files };
    let mut outcome = Outcome::AllRead;
    for file in files {
        let ended = if file.as_os_str() == "-" {
            run(std::io::stdin().lock(), &mut *output)?
        } else {
            let name = shown(&file.to_string_lossy());
            let opened = File::open(file).with_context(|| format!("cannot read `{name}`"))?;
            run(BufReader::new(opened), &mut *output)?
        };
        if ended == Outcome::SomeUnreadable {
            outcome = ended;
        }
    }
    Ok(outcome)
}

/// How a run ended, for the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Every line was read; findings do not count as failures.
    AllRead,
    /// At least one line could not be read.
    SomeUnreadable,
}

impl Outcome {
    /// The process's exit code: 0, or 2 when a line could not be read.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Outcome::AllRead => 0,
            Outcome::SomeUnreadable => 2,
        }
    }
}

/// The longest line that is read; a longer one is answered with an error.
const LINE_MAX: u64 = 64 * 1024 * 1024;

/// Scans every line of `input` and writes one line of JSON each to `output`, until the one ends or
/// the other is closed by its reader.
///
/// # Errors
/// Only when `input` or `output` themselves fail; a line that cannot be read is an answer.
pub fn run(mut input: impl BufRead, output: impl Write) -> anyhow::Result<Outcome> {
    let mut output = std::io::BufWriter::new(output);
    let mut outcome = Outcome::AllRead;
    let mut line = Vec::new();
    let mut is_first = true;
    loop {
        let answer = match next_line(&mut input, LINE_MAX, &mut line)? {
            LineRead::End => break,
            LineRead::Line if line.iter().all(u8::is_ascii_whitespace) => continue,
            LineRead::Line if is_first && begins_with_mark(&String::from_utf8_lossy(&line)) => {
                Err(Unreadable { id: None, error: FileError::ByteOrderMark.to_string() })
            }
            LineRead::Line => answer(&line),
            LineRead::TooLong => Err(Unreadable { id: None, error: "line is too long".to_owned() }),
        };
        is_first = false;
        let answer = answer.unwrap_or_else(|Unreadable { id, error }| {
            outcome = Outcome::SomeUnreadable;
            json!({"id": id, "error": error})
        });
        match writeln!(output, "{answer}") {
            Err(error) if is_closed(&error) => return Ok(outcome),
            result => result?,
        }
    }
    match output.flush() {
        Err(error) if is_closed(&error) => Ok(outcome),
        result => Ok(result.map(|()| outcome)?),
    }
}

/// Whoever read the answers has enough of them.
fn is_closed(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe
}

struct Unreadable {
    id: Option<String>,
    error: String,
}

fn answer(line: &[u8]) -> Result<serde_json::Value, Unreadable> {
    let nameless = |error: String| Unreadable { id: None, error };
    let text = std::str::from_utf8(line).map_err(|_| nameless("not UTF-8".to_owned()))?;
    let case = json::read(text.trim()).map_err(|error| nameless(error.to_string()))?;
    let id = case
        .get("id")
        .and_then(Json::as_str)
        .map(str::to_owned)
        .ok_or_else(|| nameless("`id` is missing or no string".to_owned()))?;
    let failed = |error: &str| Unreadable { id: Some(id.clone()), error: error.to_owned() };
    let arguments = case.get("arguments").ok_or_else(|| failed("`arguments` is missing"))?;
    let sources = match case.get("sources") {
        Some(sources @ Json::Object(_)) => sources,
        Some(_) => return Err(failed("`sources` is no object")),
        None => return Err(failed("`sources` is missing")),
    };
    let person =
        texts(sources.get("user")).ok_or_else(|| failed("`sources.user` is no list of strings"))?;
    let context = texts(sources.get("context"))
        .ok_or_else(|| failed("`sources.context` is no list of strings"))?;
    let instructions = match sources.get("instructions") {
        None | Some(Json::Null) => "",
        Some(Json::String(text)) => text,
        Some(_) => return Err(failed("`sources.instructions` is no string")),
    };
    let known = Sources::new(&person, instructions, &context);
    let tool = case.get("tool");
    let field = |name: &str| tool.and_then(|tool| tool.get(name));
    let findings = novelty::scan(
        arguments,
        ToolText {
            name: field("name").and_then(Json::as_str).unwrap_or(""),
            description: field("description").and_then(Json::as_str),
            input_schema: field("inputSchema"),
        },
        &known,
    );
    let novel: Vec<serde_json::Value> = findings
        .iter()
        .map(|finding| {
            json!({
                "kind": finding.kind.code(),
                "item": finding.item,
                "pointer": finding.pointer,
                "found": finding.found,
            })
        })
        .collect();
    Ok(json!({"id": id, "novel": novel}))
}

/// The strings of a list; a missing list is empty.
fn texts(list: Option<&Json>) -> Option<Vec<&str>> {
    match list {
        None | Some(Json::Null) => Some(Vec::new()),
        Some(Json::Array(items)) => items.iter().map(Json::as_str).collect(),
        Some(_) => None,
    }
}
