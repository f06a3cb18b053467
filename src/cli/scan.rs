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
        let name = file.display();
        let ended = if file.as_os_str() == "-" {
            run(std::io::stdin().lock(), &mut *output)?
        } else {
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

/// Scans every line of `input` and writes one line of JSON each to `output`.
///
/// # Errors
/// Only when `input` or `output` themselves fail; a line that cannot be read is an answer.
pub fn run(mut input: impl BufRead, output: impl Write) -> anyhow::Result<Outcome> {
    let mut output = std::io::BufWriter::new(output);
    let mut outcome = Outcome::AllRead;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = std::io::Read::take(&mut input, LINE_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        if line.last() != Some(&b'\n') && read as u64 == LINE_MAX {
            // The rest of an overlong line is no line of its own.
            skip_line(&mut input)?;
            outcome = Outcome::SomeUnreadable;
            writeln!(output, "{}", json!({"id": null, "error": "line is too long"}))?;
            continue;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match answer(&line) {
            Ok(answer) => writeln!(output, "{answer}")?,
            Err(Unreadable { id, error }) => {
                outcome = Outcome::SomeUnreadable;
                writeln!(output, "{}", json!({"id": id, "error": error}))?;
            }
        }
    }
    output.flush()?;
    Ok(outcome)
}

fn skip_line(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                input.consume(at + 1);
                return Ok(());
            }
            None => {
                let length = buffer.len();
                input.consume(length);
            }
        }
    }
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
