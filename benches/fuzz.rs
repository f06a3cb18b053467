//! A long run of one fuzz target: `cargo bench --bench fuzz -- TARGET SECONDS [SEED]`.
//!
//! The targets are those that the tests run for a moment each. A find ends the run with exit code 1
//! and shows the input, to become a fixture.
#![expect(clippy::print_stdout, reason = "a run prints its result")]

#[path = "../tests/it/fuzz/clock.rs"]
mod clock;
#[path = "../tests/it/fuzz/random.rs"]
mod random;
#[path = "../tests/it/fuzz/targets.rs"]
mod targets;

use std::process::ExitCode;
use std::time::Duration;

/// A linear scan of the longest input needs a hundredth of it.
const SLOW: Duration = Duration::from_millis(700);

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let options: Vec<String> =
        std::env::args().skip(1).filter(|option| !option.starts_with("--")).collect();
    let number = |index: usize, default: u64| {
        options.get(index).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let name = options.first().map_or("", String::as_str);
    if !targets::NAMES.contains(&name) {
        println!("targets: {}", targets::NAMES.join(", "));
        return ExitCode::from(2);
    }
    let (seconds, seed) = (number(1, 10), number(2, 1));
    match targets::run(name, Duration::from_secs(seconds), SLOW, seed) {
        Ok(ran) => {
            println!(
                "{name}: {} inputs in {seconds} s, slowest {:?}, seed {seed}",
                ran.inputs, ran.slowest
            );
            ExitCode::SUCCESS
        }
        Err(find) => {
            println!("{find}");
            ExitCode::FAILURE
        }
    }
}
