//! Fuzz targets: what must hold for every input, however damaged.
//!
//! No input makes a target panic, take longer than a linear scan could, or find without bound. The
//! tests run each for a moment from a new seed; `cargo bench --bench fuzz` runs one for as long as
//! you like. The same seed gives the same inputs, and what was found once is a fixture.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use approver::decide::json::{self, Json, Unreadable};
use approver::decide::novelty::{Sources, ToolText, scan};
use approver::decide::prompt::encode_json;
use approver::decide::text::needs_escape;

use super::clock::now;
use super::random::Random;

/// What one input may find.
const FINDINGS_MAX: usize = 4_000;

/// The names of all targets.
pub(crate) const NAMES: [&str; 5] = ["scan", "decoders", "sources", "json", "encoder"];

/// One input of a target.
pub(crate) struct Input {
    pub(crate) arguments: Json,
    pub(crate) person: Vec<String>,
}

/// What a run without a find comes to.
pub(crate) struct Ran {
    pub(crate) inputs: u64,
    pub(crate) slowest: Duration,
}

/// Runs a target for `time`; an error is a find, with the input that led to it. `slow` is what one
/// input may take.
pub(crate) fn run(name: &str, time: Duration, slow: Duration, seed: u64) -> Result<Ran, String> {
    let mut random = Random::new(seed);
    let mut ran = Ran { inputs: 0, slowest: Duration::ZERO };
    let end = Instant::now() + time;
    while Instant::now() < end {
        let input = make(name, &mut random);
        let took = check(name, &input, slow)
            .map_err(|find| format!("{find} after {} inputs (seed {seed})", ran.inputs))?;
        ran.inputs += 1;
        ran.slowest = ran.slowest.max(took);
    }
    Ok(ran)
}

/// Runs one input.
pub(crate) fn check(name: &str, input: &Input, slow: Duration) -> Result<Duration, String> {
    let start = now();
    let outcome = catch_unwind(AssertUnwindSafe(|| match name {
        "encoder" => encode_and_read(&input.arguments),
        _ => look(input),
    }));
    let took = now().saturating_sub(start);
    let complaint = match outcome {
        Err(_) => "panicked".to_owned(),
        Ok(found) if found > FINDINGS_MAX => format!("found {found} items"),
        Ok(_) if took > slow => format!("took {took:?}"),
        Ok(_) => return Ok(took),
    };
    let person = Json::Array(input.person.iter().cloned().map(Json::String).collect());
    Err(format!("{name} {complaint}\narguments: {}\nperson: {person}\n", input.arguments))
}

fn make(name: &str, random: &mut Random) -> Input {
    let alone = |arguments| Input { arguments, person: Vec::new() };
    match name {
        "scan" => {
            Input { arguments: random.value(0), person: (0..2).map(|_| random.text()).collect() }
        }
        "decoders" => {
            alone(Json::Object(vec![("data".to_owned(), Json::String(random.encoded()))]))
        }
        "sources" => {
            let text = random.encoded();
            Input { arguments: Json::String(text.clone()), person: vec![random.text(), text] }
        }
        // Damaged JSON must be refused politely; what is still read, the detectors get.
        "json" => {
            let text = random.value(0).to_string();
            let cut = random.below(text.len());
            let damaged: String = text.chars().take(cut).chain(random.text().chars()).collect();
            alone(json::read(&damaged).unwrap_or(Json::Null))
        }
        _ => alone(random.value(0)),
    }
}

fn look(input: &Input) -> usize {
    let person: Vec<&str> = input.person.iter().map(String::as_str).collect();
    let sources = Sources::new(&person, "", &person);
    let findings = scan(&input.arguments, ToolText::default(), &sources);
    findings.iter().map(|finding| finding.sentence().len()).max();
    findings.len()
}

/// What the prompt's encoder wrote is one line in which nothing is hidden and no control token
/// opens, and a JSON parser gives the value back.
fn encode_and_read(value: &Json) -> usize {
    let encoded = encode_json(value);
    assert!(!encoded.chars().any(needs_escape), "a hidden character");
    assert!(!encoded.contains('<'), "a control token");
    // Two members of one name are no call's arguments.
    match json::read(&encoded) {
        Ok(read) => assert_eq!(read, *value),
        Err(unreadable) => assert!(matches!(unreadable, Unreadable::DuplicateKey { .. })),
    }
    0
}
