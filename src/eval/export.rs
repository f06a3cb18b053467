//! The requests that a judge would get, as OpenAI's Batch API takes them: with them any model,
//! anywhere, can be evaluated without a connection from here.
//!
//! `custom_id` is the prompt's digest, by which `--judge recorded:FILE` finds the answers again. The
//! body is the very one that the judge's client sends. Nothing here sends anything.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::case::{Answer, Case};
use super::load::FileProblem;
use super::run::Options;
use crate::decide::{Step, plan};
use crate::judge::openai::{self, Settings, SettingsError};

/// Why an export ended.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file changed while it was read.
    #[error(transparent)]
    File(#[from] FileProblem),
    /// No request can be made with these settings.
    #[error("no request can be made for this endpoint")]
    Settings(#[from] SettingsError),
    /// The requests could not be written.
    #[error("the requests could not be written")]
    Write(#[from] io::Error),
}

/// One line of a batch, in the order that its documentation shows.
#[derive(Serialize)]
struct Line<'a> {
    custom_id: &'a str,
    method: &'static str,
    url: &'static str,
    body: Box<RawValue>,
}

/// Writes a request for each call and view that a judge would be asked about, each prompt once, and
/// returns how many that were.
///
/// # Errors
/// When a case cannot be read, the settings make no request, or `out` fails.
pub fn openai_batch(
    cases: impl Iterator<Item = Result<Case, FileProblem>>,
    options: &Options,
    endpoint: &Settings,
    out: &mut dyn Write,
) -> Result<usize, ExportError> {
    let mut written = BTreeSet::new();
    for case in cases {
        let case = case?;
        // Such a call is about a judge that fails, and is never asked about.
        if matches!(case.answer.as_deref(), Some(Answer::Failure(_))) {
            continue;
        }
        let state = Arc::clone(&case.state);
        let (agent, policy, request) = case.into_request();
        for view in &options.views {
            let mut settings = options.settings.clone();
            settings.results_view = *view;
            let steps = plan(&agent, policy.as_deref(), &request, &state, &settings);
            for step in steps {
                let Step::Ask(question) = step else { continue };
                let prompt = question.prompt();
                if !written.insert(prompt.digest.clone()) {
                    continue;
                }
                let body = openai::request_body(endpoint, prompt)?;
                let line = Line {
                    custom_id: &prompt.digest,
                    method: "POST",
                    url: "/v1/chat/completions",
                    body: RawValue::from_string(body).map_err(io::Error::from)?,
                };
                serde_json::to_writer(&mut *out, &line).map_err(io::Error::from)?;
                out.write_all(b"\n")?;
            }
        }
    }
    out.flush()?;
    Ok(written.len())
}
