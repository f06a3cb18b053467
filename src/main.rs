//! The binary `approver`: arguments in, a command, an exit code out. All else is the library's.

use std::io::{self, Write};
use std::process::ExitCode;

use approver::cli::{self, Cli};
use clap::Parser;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = Cli::parse();
    tracing_subscriber::fmt()
        .with_env_filter(
            EnvFilter::try_from_env("APPROVER_LOG").unwrap_or_else(|_| EnvFilter::new("warn")),
        )
        .with_writer(io::stderr)
        .init();
    cli::report_panics_without_their_text();
    let mut output = io::BufWriter::new(io::stdout().lock());
    let result = cli::run(cli, &mut output).and_then(|code| {
        output.flush()?;
        Ok(code)
    });
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell when the error stream is closed too.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(cli::FAILURE)
        }
    }
}

/// Whoever read the output has enough of it (`approver … | head`): no error of ours.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
