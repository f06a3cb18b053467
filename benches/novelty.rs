//! What the detectors cost, next to what a single search costs, measured in the same run.
//!
//! `cargo bench --bench novelty` prints three tables: throughput on prose beside `linkify` without
//! schemes, one regular expression and `memchr`; the typical call; and adversarial texts at one size
//! and at twice that size. `cargo bench --bench novelty -- --check` also fails where a bar of the
//! design is not met; `--prose` leaves the adversarial texts out.
//!
//! It has the system's allocator, not the binary's: that one gives a large text's pages back and takes
//! them anew, which is not the detectors' work and would blur how it grows.
#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::hint::black_box;
use std::time::Duration;

use approver::decide::json::Json;
use approver::decide::novelty::{Sources, ToolText, scan};

#[path = "../tests/it/fuzz/clock.rs"]
mod clock;
#[path = "../tests/it/fuzz/shapes.rs"]
mod shapes;

use clock::now;
use shapes::{SHAPES, arguments};

const MEBIBYTE: usize = 1024 * 1024;

fn main() {
    let options: Vec<String> = std::env::args().skip(1).collect();
    let has = |option: &str| options.iter().any(|given| given == option);
    let mut failures = Vec::new();
    prose(&mut failures);
    typical(&mut failures);
    if !has("--prose") {
        adversarial(&mut failures);
    }
    for failure in &failures {
        println!("BAR MISSED: {failure}");
    }
    if has("--check") && !failures.is_empty() {
        std::process::exit(1);
    }
}

/// The shortest of several runs, after one that warms up: what the work costs when nothing else
/// runs on the machine.
fn shortest(runs: usize, mut run: impl FnMut()) -> Duration {
    run();
    (0..runs)
        .map(|_| {
            let start = now();
            run();
            now().saturating_sub(start)
        })
        .min()
        .unwrap_or_default()
}

fn mebibytes_a_second(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / MEBIBYTE as f64 / time.as_secs_f64()
}

/// English-like sentences from a fixed generator: words, commas, stops, a number now and then.
fn prose_text(length: usize) -> String {
    const WORDS: &[&str] = &[
        "the",
        "meeting",
        "we",
        "agreed",
        "on",
        "a",
        "new",
        "plan",
        "for",
        "shipping",
        "orders",
        "to",
        "customers",
        "in",
        "several",
        "regions",
        "while",
        "keeping",
        "costs",
        "down",
        "and",
        "quality",
        "high",
        "please",
        "review",
        "document",
        "before",
        "Friday",
        "because",
        "finance",
        "needs",
        "numbers",
        "from",
        "every",
        "team",
        "information",
        "about",
        "international",
        "development",
        "responsibility",
        "is",
        "it",
        "that",
        "this",
        "with",
        "which",
        "understanding",
        "management",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut text = String::with_capacity(length + 32);
    let mut words = 0;
    while text.len() < length {
        let roll = next();
        text.push_str(WORDS[(roll % WORDS.len() as u64) as usize]);
        words += 1;
        if roll % 89 == 0 {
            text.push_str(&format!(" {}", roll % 2000));
        }
        text.push_str(match (words % 13, roll % 7) {
            (0, 0) => ".\n\n",
            (0, _) => ". ",
            (6, 0..=2) => ", ",
            _ => " ",
        });
    }
    text.truncate(length);
    text
}

fn prose(failures: &mut Vec<String>) {
    let text = prose_text(MEBIBYTE);
    let call = arguments(&text);
    let nothing = Sources::default();
    let mut finder = linkify::LinkFinder::new();
    finder.url_must_have_scheme(false);
    let pattern = regex::Regex::new(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}").unwrap();
    let found = scan(&call, ToolText::default(), &nothing);
    let rows = [
        (
            "memchr '@'",
            shortest(21, || {
                black_box(memchr::memchr_iter(b'@', black_box(text.as_bytes())).count());
            }),
        ),
        (
            "one regex (e-mail)",
            shortest(11, || {
                black_box(pattern.find_iter(black_box(&text)).count());
            }),
        ),
        (
            "linkify, scheme-less",
            shortest(11, || {
                black_box(finder.links(black_box(&text)).count());
            }),
        ),
        (
            "all detectors, as argument",
            shortest(11, || {
                black_box(scan(black_box(&call), ToolText::default(), &nothing));
            }),
        ),
        (
            "all detectors, as source",
            shortest(11, || {
                black_box(Sources::new(&[black_box(&text)], "", &[]));
            }),
        ),
    ];
    let linkify = rows[2].1;
    println!("1 MiB of prose ({} findings); speed as a share of linkify's", found.len());
    for (name, time) in &rows {
        println!(
            "  {name:<28} {:>9.0} MiB/s {:>9.2} ms {:>9.2}",
            mebibytes_a_second(text.len(), *time),
            time.as_secs_f64() * 1e3,
            linkify.as_secs_f64() / time.as_secs_f64()
        );
    }
    for (name, time) in &rows[3..] {
        if *time > linkify * 4 {
            failures.push(format!("{name}: slower than a quarter of linkify"));
        }
    }
}

/// 4 KB of arguments against a conversation of twenty messages.
fn typical(failures: &mut Vec<String>) {
    let body = format!(
        "Hi Alice,\n\n{}\nDetails: https://wiki.contoso.example/runbooks/deploy\n\nBest, Bob (bob@contoso.example)",
        prose_text(3_700)
    );
    let call = Json::Object(vec![
        ("to".to_owned(), Json::Array(vec![Json::String("alice@contoso.example".to_owned())])),
        ("subject".to_owned(), Json::String("Re: invoice 2026-01".to_owned())),
        ("body".to_owned(), Json::String(body)),
    ]);
    let messages: Vec<String> = (0..20)
        .map(|index| {
            format!(
                "{} alice@contoso.example https://wiki.contoso.example/runbooks/deploy {index}",
                prose_text(400)
            )
        })
        .collect();
    let person: Vec<&str> = messages.iter().map(String::as_str).collect();
    let instructions = prose_text(2_000);
    let whole = shortest(101, || {
        let sources =
            Sources::new(&person, &instructions, &["Staff may mail bob@contoso.example."]);
        black_box(scan(&call, ToolText::default(), &sources));
    });
    let sources = Sources::new(&person, &instructions, &["Staff may mail bob@contoso.example."]);
    let alone = shortest(101, || {
        black_box(scan(&call, ToolText::default(), &sources));
    });
    println!("4 KB of arguments, 20 messages");
    println!(
        "  sources and scan {:>8.3} ms; scan alone {:>8.3} ms",
        whole.as_secs_f64() * 1e3,
        alone.as_secs_f64() * 1e3
    );
    if whole > Duration::from_micros(500) {
        failures.push("the typical call takes more than 0.5 ms".to_owned());
    }
}

fn adversarial(failures: &mut Vec<String>) {
    println!("adversarial, as argument and as source: 1 MiB, 2 MiB, ratio");
    let nothing = Sources::default();
    for (name, shape) in SHAPES {
        let half = shape(MEBIBYTE);
        let whole = shape(2 * MEBIBYTE);
        let small = shortest(7, || {
            black_box(scan(&half, ToolText::default(), &nothing));
        });
        let large = shortest(7, || {
            black_box(scan(&whole, ToolText::default(), &nothing));
        });
        report(name, "argument", small, large, failures);
        if let (Some(Json::String(half)), Some(Json::String(whole))) =
            (half.get("body"), whole.get("body"))
        {
            let small = shortest(5, || {
                black_box(Sources::new(&[half], "", &[]));
            });
            let large = shortest(5, || {
                black_box(Sources::new(&[whole], "", &[]));
            });
            report(name, "source", small, large, failures);
        }
    }
}

fn report(name: &str, side: &str, small: Duration, large: Duration, failures: &mut Vec<String>) {
    let ratio = large.as_secs_f64() / small.as_secs_f64();
    let slow = small > Duration::from_millis(500);
    // Below five milliseconds the ratio is noise of the machine.
    let steep = ratio > 2.3 && large > Duration::from_millis(5);
    println!(
        "  {name:<28} {side:<9} {:>8.2} ms {:>8.2} ms {ratio:>6.2}{}",
        small.as_secs_f64() * 1e3,
        large.as_secs_f64() * 1e3,
        if slow || steep { "  <--" } else { "" }
    );
    if slow {
        failures.push(format!("{name} as {side}: 1 MiB takes more than 0.5 s"));
    }
    if steep {
        failures.push(format!("{name} as {side}: twice the size costs {ratio:.2} times"));
    }
}
