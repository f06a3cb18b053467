//! `approver judge FILE`: one request from a file, judged and shown; nothing is recorded.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, timeout_at};

use super::readable::{self, Shown};
use crate::decide::request::Request;
use crate::decide::text::shown;
use crate::decide::verdict::JudgeFailure;
use crate::decide::{Settings, State, Step, plan, state::Sandbox};
use crate::files;
use crate::host::agent::AgentVersion;
use crate::host::judgement_file::{self, JudgementFile};
use crate::host::report::Report;
use crate::judge::Judge;
use crate::service::{Approver, Timing};

/// Bytes of a file: as many as a request to the service may have, and its agent version beside it.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// How long a server may take to warm up, unless a judgement may take longer: the first prompt on a
/// small machine takes minutes. `--help` names it.
const WARM_UP: Duration = Duration::from_secs(180);

/// Judges the calls of one request and shows what becomes of them.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// JSON file `{"agent": {…}, "request": {…}}`, or `-` for standard input
    pub file: PathBuf,
    /// Print JSON, also on a terminal
    #[arg(long, conflicts_with = "text")]
    pub json: bool,
    /// Print text for people, also when the output is no terminal
    #[arg(long)]
    pub text: bool,
    /// Let the judge's server read the rules, lists and instructions before the deadlines start:
    /// for at most 180 s, or `judge.deadline` where that is longer
    #[arg(long)]
    pub warm_up: bool,
    /// Print what the judge would be asked, and ask nobody
    #[arg(long, conflicts_with_all = ["json", "text", "warm_up"])]
    pub show_prompt: bool,
}

/// What judging needs besides the file.
pub struct Setup {
    /// The judge; one that is not configured answers so.
    pub judge: Arc<dyn Judge>,
    /// Whether automatic approval is available, or why not.
    pub automatic_approval: Result<(), JudgeFailure>,
    /// The operator's settings.
    pub settings: Settings,
    /// Deadlines.
    pub timing: Timing,
    /// Whether the built-in `Bash` may run in its offline sandbox.
    pub sandbox_enabled: bool,
}

/// Runs the command; the exit status is 0 when every call has an outcome, else 2.
///
/// # Errors
/// A file that cannot be read, or output that cannot be written.
pub async fn run(args: &Args, setup: Setup, output: &mut dyn Write) -> anyhow::Result<u8> {
    let text = read(&args.file)?;
    let file = match judgement_file::parse(&text) {
        Ok(file) => file,
        Err(problems) => {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            anyhow::bail!("{}", lines.join("\n"));
        }
    };
    let JudgementFile { version, body } = file;
    let modes = version.policy.as_ref().map(|policy| policy.modes.clone()).unwrap_or_default();
    let request = body.into_request(None, &modes).map_err(|error| {
        let offered: Vec<&str> = error.offered.iter().map(|mode| mode.as_str()).collect();
        anyhow::anyhow!("conversation_mode_not_offered: {error} (offered: {})", offered.join(", "))
    })?;
    let state = State {
        automatic_approval: setup.automatic_approval,
        sandbox: Sandbox { enabled: setup.sandbox_enabled, ..Sandbox::default() },
        ..State::default()
    };
    if args.show_prompt {
        return show_prompts(&version, &request, &state, &setup.settings, output);
    }
    if args.warm_up {
        warm_up(&version, &request, &state, &setup).await;
    }
    let approver = Approver::new(setup.judge, setup.settings, setup.timing);
    let progress = progress("judging");
    let judged = approver.judge(&version.agent, version.policy.as_ref(), &request, &state).await;
    progress.finish_and_clear();
    let every_call = judged.len() == request.calls.len();
    let decisions = judged.into_iter().map(|judged| (judged.decision, judged.latency));
    let report = Report::new(request.mode, decisions);
    let terminal = std::io::stdout().is_terminal();
    if args.json || !(args.text || terminal) {
        serde_json::to_writer_pretty(&mut *output, &report).context("cannot write the answer")?;
        writeln!(output)?;
    } else {
        let calls: Vec<Shown> = request
            .calls
            .iter()
            .map(|call| Shown { tool: call.tool.clone(), arguments: call.arguments_text.clone() })
            .collect();
        let colour = terminal && std::env::var_os("NO_COLOR").is_none();
        output.write_all(readable::render(&report, &calls, colour).as_bytes())?;
    }
    Ok(if every_call { 0 } else { 2 })
}

fn read(file: &Path) -> anyhow::Result<String> {
    let text = if file.as_os_str() == "-" {
        files::read(std::io::stdin().lock(), MAX_FILE)
    } else {
        files::read_file(file, MAX_FILE)
    };
    text.and_then(files::without_mark)
        .with_context(|| format!("cannot read `{}`", shown(&file.to_string_lossy())))
}

fn questions(
    version: &AgentVersion,
    request: &Request,
    state: &State,
    settings: &Settings,
) -> Vec<crate::decide::Question> {
    plan(&version.agent, version.policy.as_ref(), request, state, settings)
        .into_iter()
        .filter_map(|step| match step {
            Step::Ask(question) => Some(*question),
            Step::Settled(_) => None,
        })
        .collect()
}

fn show_prompts(
    version: &AgentVersion,
    request: &Request,
    state: &State,
    settings: &Settings,
    output: &mut dyn Write,
) -> anyhow::Result<u8> {
    // What would be asked does not depend on whether somebody is there to answer.
    let state = State { automatic_approval: Ok(()), ..state.clone() };
    let questions = questions(version, request, &state, settings);
    if questions.is_empty() {
        writeln!(output, "no call of this request is a question for the judge")?;
    }
    for question in questions {
        let prompt = question.prompt();
        writeln!(output, "call {}, prompt {}", shown(question.call_id()), prompt.digest)?;
        writeln!(output, "--- system\n{}--- user\n{}", prompt.system, prompt.user)?;
    }
    Ok(0)
}

/// Warming is a favour: when it fails, the judgement itself shows why.
async fn warm_up(version: &AgentVersion, request: &Request, state: &State, setup: &Setup) {
    let questions = questions(version, request, state, &setup.settings);
    let Some(question) = questions.first() else { return };
    let progress = progress("the judge's server reads the rules");
    let deadline = Instant::now() + setup.timing.judgement.max(WARM_UP);
    // The judge holds the deadline itself; a server that drips must not depend on that.
    let warm_up = timeout_at(deadline, setup.judge.warm_up(question.prompt(), deadline));
    if !matches!(warm_up.await, Ok(Ok(_))) {
        tracing::warn!("the judge's server could not be warmed up");
    }
    progress.finish_and_clear();
}

/// Elapsed time on a terminal's error stream; nothing elsewhere.
fn progress(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
