//! The command line: one command a file.
//!
//! Exit codes: 0 when the command did what it says; 2 when it could not; what 1 means, a command
//! says itself.

mod agent_files;
pub mod approvals;
pub mod auto;
pub mod client;
pub mod config;
pub mod eval;
pub mod instances;
pub mod judge;
mod keys_file;
mod pipe;
pub mod policy;
pub mod readable;
pub mod scan;
pub mod serve;
pub mod token;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use clap::{Parser, Subcommand, ValueEnum};

use crate::config::serve::{StoreConfig, StoreUrl};
use crate::config::{Config, Flags, load};
use crate::decide::verdict::JudgeFailure;
use crate::judge::breaker::Breakers;
use crate::store::{Postgres, PostgresSettings, Sqlite, SqliteSettings, Store};
use pipe::UntilClosed;
use token::check_organisation;

/// Exit code of a command that could not do what it says.
pub const FAILURE: u8 = 2;

/// The organisation where nobody names one.
const DEFAULT_ORGANISATION: &str = "default";

/// How long work that waits for a disk may hold up the end of the service.
const LAST_WORK: Duration = Duration::from_secs(5);

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Automatic approver for AI agents' tool calls: approves what is safe to approve, and asks a
/// person for the rest.
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Judge the calls of one request from a file; nothing is recorded
    Judge {
        /// The command's own arguments.
        #[command(flatten)]
        args: judge::Args,
        /// Where settings come from.
        #[command(flatten)]
        flags: Flags,
    },
    /// Check a policy, or show what it makes of each tool
    Policy {
        /// What to do with it.
        #[command(subcommand)]
        command: policy::Command,
        /// Where settings come from.
        #[command(flatten)]
        flags: Flags,
    },
    /// Search the arguments of tool calls for items that nobody mentioned: JSON lines in and out
    Scan(scan::Args),
    /// Judge fixtures and external cases offline, and report in figures
    Eval {
        /// The command's own arguments.
        #[command(flatten)]
        args: eval::Args,
        /// Where settings come from.
        #[command(flatten)]
        flags: Flags,
    },
    /// Run the service until a signal ends it
    Serve {
        /// The command's own arguments.
        #[command(flatten)]
        args: serve::Args,
        /// Where settings come from.
        #[command(flatten)]
        flags: Flags,
    },
    /// Make, list and end bearer tokens, straight in the configured store
    Token {
        /// What to do with tokens.
        #[command(subcommand)]
        command: token::Command,
        /// Where settings come from.
        #[command(flatten)]
        flags: Flags,
    },
    /// Switch automatic approval on a running service: the first button of an incident
    Auto {
        /// What to do with the switch.
        #[command(subcommand)]
        command: auto::Command,
    },
    /// Look at instances of the approval protocol on a running service, and set their mode and trust
    Instances {
        /// What to do with instances.
        #[command(subcommand)]
        command: instances::Command,
    },
    /// Look at approvals of a running service, and decide them
    Approvals(approvals::Args),
    /// Print every setting with its origin, secrets masked
    Config(config::Args),
}

impl Cli {
    /// How log lines are written, and what is logged when APPROVER_LOG does not say.
    #[must_use]
    pub fn log(&self) -> (LogFormat, &'static str) {
        match &self.command {
            Command::Serve { args, .. } => (args.log, "info"),
            _ => (LogFormat::Text, "warn"),
        }
    }
}

/// Runs a command and answers its exit code, which does not depend on how much of the output
/// somebody reads.
///
/// # Errors
/// What kept the command from doing what it says.
pub fn run(cli: Cli, output: &mut dyn Write) -> anyhow::Result<u8> {
    let open = &mut UntilClosed::new(&mut *output);
    match cli.command {
        Command::Judge { args, flags } => {
            let setup = judge_setup(&load(&flags)?)?;
            runtime()?.block_on(judge::run(&args, setup, open))
        }
        Command::Policy { command, flags } => {
            let operator = load(&flags)?.settings().operator;
            let mut input = io::stdin().lock();
            let mut errors = UntilClosed::new(io::stderr().lock());
            Ok(policy::run(&command, &operator, &mut input, open, &mut errors)?)
        }
        // Its input may have no end, so it ends with its reader, and knows how.
        Command::Scan(args) => Ok(scan::run_files(&args, output)?.code()),
        Command::Eval { args, flags } => {
            let configured = || eval_backend(&load(&flags)?);
            // A handler that cannot be installed leaves the signal's default: the run just ends.
            let interrupted = async {
                if tokio::signal::ctrl_c().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            // Not locked: logs of other threads go there too.
            let mut errors = UntilClosed::new(io::stderr());
            let streams = eval::Streams { output: open, errors: &mut errors, progress: true };
            let settings = load(&flags)?.settings();
            runtime()?.block_on(eval::run(args, settings, configured, interrupted, streams))
        }
        Command::Serve { args, flags } => {
            let config = load(&flags)?;
            let runtime = runtime()?;
            let served = runtime.block_on(serve::run(&args, &config, open));
            runtime.shutdown_timeout(LAST_WORK);
            served
        }
        Command::Token { command, flags } => {
            let config = load(&flags)?;
            let mut errors = UntilClosed::new(io::stderr());
            runtime()?.block_on(token::run(&command, &config, open, &mut errors))
        }
        Command::Auto { command } => {
            let token = std::env::var("APPROVER_TOKEN").ok();
            runtime()?.block_on(auto::run(&command, token.as_deref(), open))
        }
        Command::Instances { command } => {
            let token = std::env::var("APPROVER_TOKEN").ok();
            runtime()?.block_on(instances::run(&command, token.as_deref(), open))
        }
        Command::Approvals(args) => {
            let token = std::env::var("APPROVER_TOKEN").ok();
            let mut input = io::BufReader::new(io::stdin());
            runtime()?.block_on(approvals::run(args, token, &mut input, open))
        }
        Command::Config(args) => config::run(&args, open).map(|()| 0),
    }
}

/// The store of the settings, its tables brought up to date.
async fn open_store(config: &StoreConfig) -> anyhow::Result<Arc<dyn Store>> {
    match &config.url.value {
        StoreUrl::Sqlite(path) => {
            let mut settings = SqliteSettings::new(path);
            settings.readers = config.connections.value.unwrap_or(settings.readers);
            let opened = Sqlite::open(settings).await;
            let name = crate::decide::text::shown(&path.to_string_lossy());
            Ok(Arc::new(opened.with_context(|| format!("cannot open the store in `{name}`"))?))
        }
        StoreUrl::Postgres(url) => {
            let mut settings = PostgresSettings::new(url.clone());
            settings.connections = config.connections.value.unwrap_or(settings.connections);
            settings.root_certificates.clone_from(&config.root_certificates.value);
            let opened = Postgres::open(settings).await;
            Ok(Arc::new(opened.context("cannot open the store on PostgreSQL")?))
        }
    }
}

/// A judge from the settings, and whether there is one.
fn judge_setup(config: &Config) -> anyhow::Result<judge::Setup> {
    let endpoint = config.judge_settings();
    let automatic_approval = match endpoint {
        Some(_) => Ok(()),
        None => Err(JudgeFailure::NotConfigured),
    };
    Ok(judge::Setup {
        judge: crate::judge::build(endpoint, &Breakers::new())?,
        automatic_approval,
        settings: config.settings(),
        timing: config.timing(),
        sandbox_enabled: config.operator.sandbox_enabled.value,
    })
}

/// The configured judge for an evaluation, if there is one.
fn eval_backend(config: &Config) -> anyhow::Result<Option<eval::Backend>> {
    let Some(endpoint) = config.judge_settings() else {
        return Ok(None);
    };
    let judge = crate::judge::build(Some(endpoint.clone()), &Breakers::new())?;
    Ok(Some(eval::Backend { judge, timing: config.timing(), endpoint }))
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

/// Lets a panic be reported by its place alone: its text may hold what an argument held.
pub fn report_panics_without_their_text() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "internal error");
    }));
}
