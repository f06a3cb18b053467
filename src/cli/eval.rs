//! `approver eval`: judges fixtures and external cases offline and reports in figures.
//!
//! It never serves anybody and records nothing but what `--save` names. Exit status: 0 when every
//! promise was kept, 1 when a call missed that must not, 2 when a file cannot be read, 130 when the
//! run was broken off.

use std::fs::OpenOptions;
use std::future::Future;
use std::io::{ErrorKind, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::decide::Settings;
use crate::decide::prompt::ResultsView;
use crate::decide::text::shown;
use crate::eval::{
    self, FileProblem, Header, JudgeKind, Options, Recording, Report, Sample, Suites, Writer,
    export, load,
};
use crate::judge::Judge;
use crate::judge::openai;
use crate::service::Timing;

/// Everything went as the files promise.
pub const OK: u8 = 0;
/// A call missed that must not.
pub const FAILED: u8 = 1;
/// A file cannot be read, and all its problems stand on standard error.
pub const UNREADABLE: u8 = 2;
/// The run was broken off, as a shell reports a program that SIGINT ended.
pub const INTERRUPTED: u8 = 130;

/// Judges fixtures and external cases, or exports what a judge would be asked.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write the requests that a judge would get, for a model somewhere else
    Export(ExportArgs),
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Fixtures (`.toml`), external cases (`.jsonl`), or folders of them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Who judges: `none`; `recorded` for the fixtures' own answers; `recorded:FILE` for a saved run
    /// or an answer file of the OpenAI Batch API; `live` for the configured judge
    #[arg(long, default_value = "none", value_name = "none|recorded[:FILE]|live")]
    judge: JudgeChoice,
    /// What the judge sees of tool results
    #[arg(long, value_enum, default_value_t = ViewChoice::Excerpt)]
    view: ViewChoice,
    /// Write the report as JSON
    #[arg(long)]
    json: bool,
    /// Save each call's answer and outcome to a new file, for `--judge recorded:FILE`
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Take the answers of a saved run of the same model and prompt, and ask for the rest alone; may
    /// be repeated
    #[arg(long, value_name = "FILE")]
    resume: Vec<PathBuf>,
    #[command(flatten)]
    sample: SampleArgs,
    /// Calls judged at once
    #[arg(long, default_value = "4", value_name = "N")]
    concurrency: NonZeroUsize,
}

#[derive(Debug, clap::Args)]
struct ExportArgs {
    /// Fixtures (`.toml`), external cases (`.jsonl`), or folders of them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The form of the requests
    #[arg(long, value_enum)]
    format: ExportFormat,
    /// The model's name; the configured judge's unless given
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// What the judge sees of tool results
    #[arg(long, value_enum, default_value_t = ViewChoice::Excerpt)]
    view: ViewChoice,
    #[command(flatten)]
    sample: SampleArgs,
}

#[derive(Debug, clap::Args)]
struct SampleArgs {
    /// Only N conversations of each suite, and the other members of their pairs; always the same
    #[arg(long, value_name = "N")]
    sample: Option<NonZeroUsize>,
    /// Which sample
    #[arg(long, default_value = "1", value_name = "SEED", requires = "sample")]
    seed: u64,
}

impl SampleArgs {
    fn sample(&self) -> Option<Sample> {
        self.sample.map(|size| Sample { size, seed: self.seed })
    }

    fn of(&self, suites: Suites) -> Suites {
        match self.sample() {
            Some(sample) => suites.sample(sample),
            None => suites,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// Input of the OpenAI Batch API
    OpenaiBatch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ViewChoice {
    /// Name and size, and the characters around a pending value's first place
    Excerpt,
    /// Name and size, and the place without the characters
    Provenance,
    /// The text itself, bounded
    Text,
    /// All three, compared
    All,
}

impl ViewChoice {
    fn views(self) -> Vec<ResultsView> {
        match self {
            Self::Excerpt => vec![ResultsView::Excerpt],
            Self::Provenance => vec![ResultsView::Provenance],
            Self::Text => vec![ResultsView::Text],
            Self::All => vec![ResultsView::Excerpt, ResultsView::Provenance, ResultsView::Text],
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum JudgeChoice {
    Nobody,
    HandWritten,
    Recorded(PathBuf),
    Live,
}

impl FromStr for JudgeChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.strip_prefix("recorded:")) {
            ("none", _) => Ok(Self::Nobody),
            ("recorded", _) => Ok(Self::HandWritten),
            ("live", _) => Ok(Self::Live),
            (_, Some(file)) if !file.is_empty() => Ok(Self::Recorded(PathBuf::from(file))),
            (_, Some(_) | None) => Err("expected `none`, `recorded`, `recorded:FILE` or `live`"),
        }
    }
}

/// The judge that is configured.
#[derive(Clone)]
pub struct Backend {
    /// The judge.
    pub judge: Arc<dyn Judge>,
    /// The service's limits.
    pub timing: Timing,
    /// Its endpoint, whose requests `export` writes; its key is not used.
    pub endpoint: openai::Settings,
}

/// Where the command writes.
pub struct Streams<'a> {
    /// The report or the requests.
    pub output: &'a mut dyn Write,
    /// Problems.
    pub errors: &'a mut dyn Write,
    /// Whether a progress bar may be drawn on standard error, where that is a terminal.
    pub progress: bool,
}

/// Runs the command and returns its exit status. `settings` are the operator's, so that a run
/// decides as the installation does. `configured` is called for a live judge and for an
/// export; `None` means that no judge is configured. `interrupted` is done when the user breaks the
/// run off.
///
/// # Errors
/// When something other than the files to be judged is at fault: the configuration, `--save`, the
/// output.
pub async fn run(
    arguments: Args,
    settings: Settings,
    configured: impl FnOnce() -> anyhow::Result<Option<Backend>>,
    interrupted: impl Future<Output = ()>,
    streams: Streams<'_>,
) -> anyhow::Result<u8> {
    match arguments.command {
        Some(Command::Export(export)) => execute_export(export, settings, configured, streams),
        None => execute_run(arguments.run, settings, configured, interrupted, streams).await,
    }
}

async fn execute_run(
    arguments: RunArgs,
    settings: Settings,
    configured: impl FnOnce() -> anyhow::Result<Option<Backend>>,
    interrupted: impl Future<Output = ()>,
    streams: Streams<'_>,
) -> anyhow::Result<u8> {
    let Streams { output: out, errors, progress } = streams;
    // Problems of the cases and of the recorded answers come together.
    let (loaded, mut problems) = match load(&arguments.paths) {
        Ok(suites) => (arguments.sample.of(suites), Vec::new()),
        Err(problems) => (Suites::default(), problems),
    };
    if !arguments.resume.is_empty() && arguments.judge != JudgeChoice::Live {
        anyhow::bail!("`--resume` continues the run of a live judge\nhint: add `--judge live`");
    }
    let mut for_another_prompt = false;
    let judge = match arguments.judge {
        JudgeChoice::Nobody => JudgeKind::Nobody,
        JudgeChoice::HandWritten => JudgeKind::HandWritten,
        JudgeChoice::Recorded(file) => match Recording::read(&file) {
            Ok(recording) => {
                for_another_prompt = recording.is_of_another_prompt();
                JudgeKind::Recorded(Arc::new(recording))
            }
            Err(found) => {
                problems.extend(found);
                JudgeKind::Nobody
            }
        },
        JudgeChoice::Live => {
            let backend = configured()?.context("no judge is configured")?;
            let known = Recording::to_resume(&arguments.resume, backend.judge.model());
            let known = Arc::new(known.unwrap_or_else(|found| {
                problems.extend(found);
                Recording::default()
            }));
            JudgeKind::Live { judge: backend.judge, timing: backend.timing, known }
        }
    };
    if !problems.is_empty() {
        return report_problems(&problems, errors);
    }
    let options = Options {
        views: arguments.view.views(),
        concurrent: arguments.concurrency.get(),
        settings,
    };
    let planned = loaded.len();
    let header = Header::new(&judge, &options.views, &loaded.lists_digest())
        .of_sample(arguments.sample.sample());
    let mut saved = match &arguments.save {
        Some(file) => Some(Saving::begin(file, &header)?),
        None => None,
    };
    let bar = progress_bar(planned * options.views.len(), progress);
    let observe = |record: &_| {
        bar.inc(1);
        saved.as_mut().map_or(Ok(()), |saving| saving.record(record))
    };
    let outcomes = eval::run(loaded.cases(), &judge, &options, interrupted, observe).await;
    bar.finish_and_clear();
    if outcomes.is_err()
        && let Some(saving) = saved
    {
        saving.give_up();
    }
    let outcomes = outcomes.context("the evaluation ended early")?;
    let mut report = Report::new(header, planned, &outcomes);
    report.recorded_for_another_prompt = for_another_prompt;
    let text = if arguments.json { report.to_json()? } else { report.to_table() };
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write the report")?;
    Ok(match (report.interrupted, report.failed) {
        (true, _) => INTERRUPTED,
        (false, true) => FAILED,
        (false, false) => OK,
    })
}

fn execute_export(
    arguments: ExportArgs,
    settings: Settings,
    configured: impl FnOnce() -> anyhow::Result<Option<Backend>>,
    streams: Streams<'_>,
) -> anyhow::Result<u8> {
    let Streams { output: out, errors, progress: _ } = streams;
    let loaded = match load(&arguments.paths) {
        Ok(loaded) => arguments.sample.of(loaded),
        Err(problems) => return report_problems(&problems, errors),
    };
    let mut endpoint = match (configured()?, &arguments.model) {
        (Some(backend), _) => backend.endpoint,
        (None, Some(model)) => openai::Settings::new(openai::OPENAI_BASE_URL, model),
        (None, None) => anyhow::bail!("no judge is configured\nhint: name a model with `--model`"),
    };
    if let Some(model) = arguments.model {
        endpoint.model = model;
    }
    let options = Options { views: arguments.view.views(), settings, ..Options::default() };
    match arguments.format {
        ExportFormat::OpenaiBatch => {
            let written = export::openai_batch(loaded.cases(), &options, &endpoint, out)?;
            writeln!(errors, "{written} requests")?;
        }
    }
    Ok(OK)
}

fn report_problems(problems: &[FileProblem], errors: &mut dyn Write) -> anyhow::Result<u8> {
    for problem in problems {
        writeln!(errors, "{problem}")?;
    }
    Ok(UNREADABLE)
}

/// A run that is being saved, into a file that was made for it.
struct Saving {
    writer: Writer<std::fs::File>,
    file: PathBuf,
    holds_a_record: bool,
}

impl Saving {
    /// A saved run is what a live judge was paid for, so none is written over.
    /// A run may hold what a model said of real conversations: only its owner reads it.
    fn begin(file: &Path, header: &Header) -> anyhow::Result<Self> {
        let name = shown(&file.to_string_lossy());
        let cannot_save = || format!("cannot save to `{name}`");
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let opened = match options.open(file) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(anyhow::anyhow!("{}", already_there(file))).with_context(cannot_save);
            }
            result => result.with_context(cannot_save)?,
        };
        match Writer::begin(opened, header) {
            Ok(writer) => Ok(Self { writer, file: file.to_owned(), holds_a_record: false }),
            Err(error) => {
                remove(file);
                Err(error).with_context(cannot_save)
            }
        }
    }

    fn record(&mut self, record: &eval::Record) -> std::io::Result<()> {
        self.writer.record(record)?;
        self.holds_a_record = true;
        Ok(())
    }

    /// The run failed. What was paid for stays; a file with nothing but its header would only be in
    /// the way of the next run.
    fn give_up(self) {
        let Self { writer, file, holds_a_record } = self;
        drop(writer);
        if !holds_a_record {
            remove(&file);
        }
    }
}

fn already_there(file: &Path) -> &'static str {
    let is_regular = std::fs::metadata(file).is_ok_and(|found| found.is_file());
    if is_regular {
        "the file exists, and no saved run is written over"
    } else {
        "it exists and is not a regular file; a run is saved to a new file"
    }
}

/// The run's own failure is what the person hears of; a file that stays behind is the lesser harm.
fn remove(file: &Path) {
    if let Err(error) = std::fs::remove_file(file) {
        tracing::warn!(kind = %error.kind(), "the file of a failed run could not be removed");
    }
}

fn progress_bar(calls: usize, shown: bool) -> ProgressBar {
    if !shown {
        return ProgressBar::hidden();
    }
    // Where standard error is no terminal, indicatif draws nothing.
    let bar = ProgressBar::with_draw_target(Some(calls as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} calls, {eta} left");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saving(file: &Path) -> Saving {
        let options = Options::default();
        Saving::begin(file, &Header::new(&JudgeKind::Nobody, &options.views, "")).unwrap()
    }

    #[test]
    fn a_failed_run_leaves_no_empty_file_and_keeps_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.jsonl");
        saving(&file).give_up();
        assert!(!file.exists());
        let mut with_a_record = saving(&file);
        with_a_record.holds_a_record = true;
        with_a_record.give_up();
        assert!(file.exists());
    }
}
