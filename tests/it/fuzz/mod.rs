//! Short runs of the fuzz targets, from a new seed each time; a find prints it.

mod clock;
mod random;
mod shapes;
mod targets;

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use approver::decide::json::Json;
use targets::{Input, NAMES, check, run};

const TIME: Duration = Duration::from_secs(2);
/// Without optimisation, and with other tests on the same processors.
const SLOW: Duration = Duration::from_secs(30);

#[track_caller]
#[expect(clippy::print_stdout, reason = "the seed, should the run end without a word of its own")]
fn run_shortly(name: &str) {
    let seed = RandomState::new().hash_one(name);
    println!("{name}: seed {seed}");
    if let Err(find) = run(name, TIME, SLOW, seed) {
        panic!("{find}");
    }
}

#[test]
fn the_whole_scan() {
    run_shortly("scan");
}

#[test]
fn the_decoders() {
    run_shortly("decoders");
}

#[test]
fn what_sources_make_known() {
    run_shortly("sources");
}

#[test]
fn damaged_json() {
    run_shortly("json");
}

#[test]
fn the_encoder_of_prompts() {
    run_shortly("encoder");
}

#[test]
fn what_was_made_to_be_expensive() {
    for (name, shape) in shapes::SHAPES {
        let arguments = shape(16 * 1024);
        let person = match arguments.get("body") {
            Some(Json::String(text)) => vec![text.clone()],
            _ => Vec::new(),
        };
        if let Err(find) = check("scan", &Input { arguments, person }, SLOW) {
            panic!("{name}: {find}");
        }
    }
}

/// So that no target is left out of the runs above.
#[test]
fn every_target_is_run() {
    assert_eq!(NAMES, ["scan", "decoders", "sources", "json", "encoder"]);
}
