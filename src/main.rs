//! The binary: arguments, a command, an exit code.
use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    let outcome = approver::cli::scan::run(std::io::stdin().lock(), std::io::stdout().lock())?;
    Ok(ExitCode::from(outcome.code()))
}
