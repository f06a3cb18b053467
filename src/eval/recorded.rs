//! Answers that were given before, by the digest of the question: our own saved runs, and the
//! answer file of OpenAI's Batch API.
//!
//! An answer counts only for the very prompt that it was given to. Where a saved run answers one
//! prompt several times, each call gets its own answer back; else the first counts. Nothing here
//! asks anybody.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::case::Labels;
use super::load::{FileProblem, lines};
use super::save::{FORMAT, FORMAT_VERSION, Header, Line, failure_of_word};
use crate::decide::prompt;
use crate::decide::verdict::{JudgeFailure, Reply, Tokens};
use crate::decide::walk::quoted;
use crate::judge::openai;

/// The model's name for an answer that stands in a fixture.
pub(super) const HAND_WRITTEN: &str = "hand-written";
/// The model's name where a file gives none.
const UNNAMED: &str = "unnamed";

/// Recorded answers.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    answers: BTreeMap<String, Vec<Given>>,
    header: Option<Header>,
}

type Entry = (Result<Reply, JudgeFailure>, Option<Duration>);

/// An answer, and the call that it was given about where the file says so.
#[derive(Debug, Clone)]
struct Given {
    about: Option<[String; 3]>,
    entry: Entry,
}

impl Recording {
    /// Reads a saved run or a Batch API answer file, told apart by the first line.
    ///
    /// # Errors
    /// Every line that is neither.
    pub fn read(file: &Path) -> Result<Self, Vec<FileProblem>> {
        let mut recording = Self::default();
        let mut problems = Vec::new();
        let mut first = true;
        for entry in lines(file) {
            let (number, line) = match entry {
                Ok(entry) => entry,
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            };
            let read = if first { recording.first(&line) } else { recording.line(&line) };
            first = false;
            if let Err(text) = read {
                let (file, key) = (file.to_owned(), "$".to_owned());
                problems.push(FileProblem { file, line: Some(number), key, text });
            }
        }
        if first && problems.is_empty() {
            let (file, key) = (file.to_owned(), "$".to_owned());
            let text = "holds no recorded answer".to_owned();
            problems.push(FileProblem { file, line: None, key, text });
        }
        if problems.is_empty() { Ok(recording) } else { Err(problems) }
    }

    /// What earlier runs can give to a new run of `model`: their answers. Their failures are not
    /// taken over, so that the new run asks once more.
    ///
    /// # Errors
    /// As [`Self::read`], and every file that is no live run of this model with the present prompt.
    pub fn to_resume(files: &[PathBuf], model: &str) -> Result<Self, Vec<FileProblem>> {
        let mut all = Self::default();
        let mut problems = Vec::new();
        for file in files {
            match Self::read(file) {
                Ok(one) => match one.hinders_resuming(model) {
                    Some(text) => {
                        let (file, key) = (file.clone(), "$".to_owned());
                        problems.push(FileProblem { file, line: Some(1), key, text });
                    }
                    None => all.take_answers(one),
                },
                Err(found) => problems.extend(found),
            }
        }
        if problems.is_empty() { Ok(all) } else { Err(problems) }
    }

    fn hinders_resuming(&self, model: &str) -> Option<String> {
        let Some(header) = &self.header else {
            return Some("is no saved run".to_owned());
        };
        if header.judge != "live" {
            return Some("is not the run of a live judge".to_owned());
        }
        if self.is_of_another_prompt() {
            return Some("was made with another version of the prompt".to_owned());
        }
        let by = header.model.as_deref().unwrap_or(UNNAMED);
        (by != model).then(|| format!("is a run of {}, not of {}", quoted(by), quoted(model)))
    }

    fn take_answers(&mut self, other: Self) {
        for (digest, mut given) in other.answers {
            given.retain(|one| one.entry.0.is_ok());
            if !given.is_empty() {
                self.answers.entry(digest).or_default().extend(given);
            }
        }
    }

    /// The answer to a prompt about a call, and how long it took where that is known.
    pub(super) fn answer(&self, digest: &str, labels: &Labels) -> Option<Entry> {
        let about = [&*labels.suite, &*labels.fixture, &*labels.call];
        let answers = self.answers.get(digest)?;
        let own = answers.iter().find(|given| given.about.as_ref().is_some_and(|of| *of == about));
        own.or_else(|| answers.first()).map(|given| given.entry.clone())
    }

    /// How many prompts are answered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether no prompt is answered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Whether the answers were given to a prompt of another text than the present one, so that
    /// none of them can count; a Batch API file does not say.
    #[must_use]
    pub fn is_of_another_prompt(&self) -> bool {
        self.header.as_ref().is_some_and(|header| header.prompt_digest != prompt::text_digest())
    }

    fn first(&mut self, line: &str) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Format {
            format: String,
            version: u32,
        }
        let Ok(format) = serde_json::from_str::<Format>(line) else {
            return self.batch_line(line);
        };
        if format.format != FORMAT || format.version != FORMAT_VERSION {
            let (name, version) = (quoted(&format.format), format.version);
            return Err(format!(
                "expected the format `{FORMAT}`, version {FORMAT_VERSION}, found {name}, version {version}"
            ));
        }
        let header = serde_json::from_str(line)
            .map_err(|error| describe("not the header of a saved run", &error))?;
        self.header = Some(header);
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if self.header.is_some() { self.saved_line(line) } else { self.batch_line(line) }
    }

    fn saved_line(&mut self, line: &str) -> Result<(), String> {
        let line: Line = serde_json::from_str(line)
            .map_err(|error| describe("not a line of a saved run", &error))?;
        // Calls that came to no question, or got no answer, have nothing to be played back.
        let Some(digest) = line.prompt_digest else {
            return Ok(());
        };
        let reply = match (line.answer, line.failure) {
            (Some(text), None) => {
                let tokens = Tokens {
                    input: line.tokens_in,
                    output: line.tokens_out,
                    cached: line.tokens_cached,
                };
                let model = line.model.unwrap_or_else(|| UNNAMED.to_owned());
                Ok(Reply { text, model, tokens })
            }
            (None, Some(word)) => match failure_of_word(&word) {
                Some(failure) => Err(failure),
                None => return Err(format!("there is no failure {}", quoted(&word))),
            },
            (None, None) => return Ok(()),
            (Some(_), Some(_)) => return Err("has an answer and a failure".to_owned()),
        };
        let latency = line.latency_ms.map(|milliseconds| {
            Duration::try_from_secs_f64(milliseconds / 1_000.0)
                .map_err(|_error| "a latency is a positive number of milliseconds".to_owned())
        });
        let latency = latency.transpose()?;
        let about = Some([line.suite, line.fixture, line.call]);
        self.answers.entry(digest).or_default().push(Given { about, entry: (reply, latency) });
        Ok(())
    }

    fn batch_line(&mut self, line: &str) -> Result<(), String> {
        let line: BatchLine<'_> = serde_json::from_str(line).map_err(|error| {
            describe("neither a saved run nor an answer file of the Batch API", &error)
        })?;
        let reply = match (line.response, line.error) {
            // A request that was never carried out has an error in place of a response.
            (_, Some(error)) => Err(match error.code.as_deref() {
                Some("batch_expired" | "request_timeout") => JudgeFailure::Timeout,
                Some(_) | None => JudgeFailure::ServerError,
            }),
            (Some(response), None) => {
                let body = response.body.map_or("", RawValue::get);
                openai::read_answer(response.status_code, body.as_bytes(), UNNAMED)
            }
            (None, None) => Err(JudgeFailure::Malformed),
        };
        let given = Given { about: None, entry: (reply, None) };
        self.answers.entry(line.custom_id).or_default().push(given);
        Ok(())
    }
}

/// A line of the Batch API's answer file or error file; its own id is of no use to us.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchLine<'a> {
    #[serde(default, rename = "id")]
    _id: IgnoredAny,
    custom_id: String,
    #[serde(borrow)]
    response: Option<BatchResponse<'a>>,
    #[serde(default)]
    error: Option<BatchError>,
}

#[derive(Deserialize)]
struct BatchResponse<'a> {
    status_code: u16,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct BatchError {
    code: Option<String>,
}

/// An error of the JSON reader without the text that it quotes: a file of answers is confidential.
fn describe(what: &str, error: &serde_json::Error) -> String {
    let why = match error.classify() {
        serde_json::error::Category::Io | serde_json::error::Category::Eof => "it ends too soon",
        serde_json::error::Category::Syntax => "it is not valid JSON",
        serde_json::error::Category::Data => "a member is missing, unknown or of another type",
    };
    format!("{what}: {why} (column {})", error.column())
}
