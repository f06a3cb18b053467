//! The binary `approver`: arguments in, a command, an exit code out. All else is the library's.

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use approver::cli::{self, Cli, LogFormat};
use clap::Parser;
use tracing_subscriber::EnvFilter;

/// It keeps ten thousand waiting polls in half the memory that the system's allocator takes.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (format, default) = cli.log();
    let filter =
        EnvFilter::try_from_env("APPROVER_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    cli::report_panics_without_their_text();
    let mut output = io::BufWriter::new(io::stdout().lock());
    let result = cli::run(cli, &mut output);
    // A command's code stands before its output does: what was read of it does not change it.
    let flushed = output.flush();
    let error = match (result, flushed) {
        (Err(error), Ok(()) | Err(_)) => error,
        (Ok(_), Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => error.into(),
        (Ok(code), Ok(()) | Err(_)) => return ExitCode::from(code),
    };
    // Nobody is left to tell when the error stream is closed too.
    let _ = writeln!(io::stderr(), "error: {error:#}");
    ExitCode::from(cli::FAILURE)
}
