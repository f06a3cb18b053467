//! Fuzz targets on a stable toolchain: random and mutated inputs against one target for a while.
//!
//! `cargo run --release --manifest-path fuzz/Cargo.toml -- TARGET SECONDS [SEED]`. A panic, an input
//! that takes too long, or one that finds without bound ends the run with exit code 1 and shows the
//! input as JSON, to become a fixture. The same seed gives the same inputs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use approver::decide::json::{self, Json, Unreadable};
use approver::decide::novelty::{Sources, ToolText, scan};
use approver::decide::prompt::encode_json;
use approver::decide::text::needs_escape;
use base64::Engine as _;

/// What one input of at most [`LENGTH_MAX`] bytes may take; a linear scan needs a hundredth of it.
const TIME_MAX: Duration = Duration::from_millis(700);
/// What one input may find.
const FINDINGS_MAX: usize = 4_000;
const LENGTH_MAX: usize = 32 * 1024;

/// Pieces that the detectors look for, so that random inputs come near them.
const WORDS: &[&str] = &[
    "a@b.example",
    "https://",
    "http:",
    "://",
    "//",
    "\\\\",
    "www.",
    ".com",
    ".example",
    "@",
    ".",
    ":",
    "mailto:",
    "data:text/plain,",
    "data:;base64,",
    "javascript:",
    "tel:+49",
    "%40",
    "%2540",
    "%u0040",
    "&#64;",
    "&commat;",
    "&amp",
    ";",
    "\\u0040",
    "\\x40",
    "\\100",
    "\\/",
    "U+0040",
    "=?utf-8?B?",
    "?=",
    "=40",
    "=\r\n",
    "[.]",
    "(at)",
    " dot ",
    "hxxp",
    "DE89370400440532013000",
    "DE12 5001 ",
    "GB82WEST",
    "account ",
    "sort code ",
    "12-34-56",
    "4111 1111 1111 1111",
    "bc1q",
    "0x",
    "73656e64",
    "c2VuZA==",
    "ONSW4ZA=",
    "01110011 ",
    "115 101 ",
    "begin 644 x\n",
    "M<&%S",
    "`\nend\n",
    "\u{200b}",
    "\u{200d}",
    "\u{e0041}",
    "\u{fe0f}",
    "\u{e0100}",
    "\u{2801}",
    "\u{1f1e9}",
    "\u{1f374}",
    "\u{ff20}",
    "\u{3002}",
    "\u{301}",
    "e\u{301}",
    "\u{d55c}",
    "\u{4e2d}",
    "\u{202e}",
    "\u{0}",
    "\n",
    "\t",
    " ",
    "\"",
    "'",
    "<",
    ">",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "*",
    "|",
    "`",
    "#",
    "?",
    "&",
    "=",
    "/",
    "..",
    "xn--",
    "127.0.0.1",
    "[::1]",
];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn pick<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.below(list.len())]
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    fn text(&mut self) -> String {
        let mut text = String::new();
        let pieces = 1 + self.below(24);
        for _ in 0..pieces {
            match self.below(8) {
                0 => text.push(char::from_u32(self.next() as u32 % 0x11_0000).unwrap_or('x')),
                1 => {
                    let length = self.below(12);
                    text.extend((0..length).map(|_| char::from(32 + self.below(95) as u8)));
                }
                2 => {
                    let word = self.pick(WORDS);
                    let limit = if self.below(40) == 0 { 2_000 } else { 4 };
                    let times = 1 + self.below(limit);
                    text.push_str(&word.repeat(times));
                }
                _ => text.push_str(self.pick(WORDS)),
            }
        }
        let mut end = text.len().min(LENGTH_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text
    }

    fn value(&mut self, depth: usize) -> Json {
        const KEYS: &[&str] = &[
            "to",
            "url",
            "host",
            "path",
            "account",
            "sort_code",
            "iban",
            "user",
            "domain",
            "country",
            "bban",
            "data",
            "p1",
            "p2",
            "metric",
            "version",
            "a@b.example",
        ];
        match self.below(if depth > 4 { 2 } else { 5 }) {
            0 => Json::Number((self.next() >> self.below(60)).to_string()),
            1 | 2 => Json::String(self.text()),
            3 => Json::Array({
                let length = self.below(9);
                (0..length).map(|_| self.value(depth + 1)).collect()
            }),
            _ => Json::Object({
                let length = self.below(6);
                (0..length).map(|_| (self.pick(KEYS).to_owned(), self.value(depth + 1))).collect()
            }),
        }
    }

    /// Bytes or text in one encoding after another.
    fn encoded(&mut self) -> String {
        let mut text = if self.below(2) == 0 {
            self.text()
        } else {
            String::from_utf8_lossy(&self.bytes(40)).into_owned()
        };
        for _ in 0..1 + self.below(4) {
            let bytes = text.as_bytes();
            text = match self.below(9) {
                0 => base64::engine::general_purpose::STANDARD.encode(bytes),
                1 => base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes),
                2 => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                3 => bytes.iter().map(|byte| format!("{byte} ")).collect(),
                4 => bytes.iter().map(|byte| format!("{byte:08b}")).collect(),
                5 => bytes.iter().map(|byte| format!("%{byte:02X}")).collect(),
                6 => text.chars().map(|c| format!("&#{};", u32::from(c))).collect(),
                7 => text.chars().map(|c| format!("\\u{:04x}", u32::from(c) & 0xffff)).collect(),
                _ => {
                    let mut packed = vec![0x1f, 0x8b, 8, self.below(32) as u8, 0, 0, 0, 0, 0, 3];
                    packed.extend(miniz_oxide::deflate::compress_to_vec(bytes, 6));
                    let damage = self.below(packed.len() * 4);
                    if let Some(byte) = packed.get_mut(damage) {
                        *byte ^= 1 << (damage % 8);
                    }
                    base64::engine::general_purpose::STANDARD.encode(packed)
                }
            };
            if text.len() > LENGTH_MAX {
                break;
            }
        }
        // A damaged run must fail politely.
        if self.below(3) == 0 && !text.is_empty() {
            let at = self.below(text.len());
            if text.is_char_boundary(at) {
                text.insert_str(at, self.pick(WORDS));
            }
        }
        text
    }
}

/// One target: makes an input and runs it; answers the input for a report.
type Target = fn(&mut Random) -> Input;

struct Input {
    arguments: Json,
    person: Vec<String>,
}

fn target(name: &str) -> Option<Target> {
    match name {
        "scan" => Some(|random| Input {
            arguments: random.value(0),
            person: (0..2).map(|_| random.text()).collect(),
        }),
        "decoders" => Some(|random| Input {
            arguments: Json::Object(vec![("data".to_owned(), Json::String(random.encoded()))]),
            person: Vec::new(),
        }),
        "sources" => Some(|random| {
            let text = random.encoded();
            Input { arguments: Json::String(text.clone()), person: vec![random.text(), text] }
        }),
        // What one JSON reader takes apart, the detectors get: damaged JSON must be refused politely.
        "json" => Some(|random| {
            let text = random.value(0).to_string();
            let cut = random.below(text.len());
            let damaged: String = text.chars().take(cut).chain(random.text().chars()).collect();
            Input { arguments: json::read(&damaged).unwrap_or(Json::Null), person: Vec::new() }
        }),
        "encoder" => Some(|random| Input { arguments: random.value(0), person: Vec::new() }),
        _ => None,
    }
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

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let seconds: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(10);
    let seed: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let Some(make) = target(&name) else {
        eprintln!("targets: scan, decoders, sources, json, encoder");
        return ExitCode::from(2);
    };
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut runs = 0_u64;
    let mut slowest = Duration::ZERO;
    while Instant::now() < end {
        let input = make(&mut random);
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if name == "encoder" {
                return encode_and_read(&input.arguments);
            }
            let person: Vec<&str> = input.person.iter().map(String::as_str).collect();
            let sources = Sources::new(&person, "", &person);
            let findings = scan(&input.arguments, ToolText::default(), &sources);
            findings.iter().map(|finding| finding.sentence().len()).max();
            findings.len()
        }));
        let took = start.elapsed();
        slowest = slowest.max(took);
        runs += 1;
        let complaint = match outcome {
            Err(_) => Some("panicked".to_owned()),
            Ok(found) if found > FINDINGS_MAX => Some(format!("found {found} items")),
            Ok(_) if took > TIME_MAX => Some(format!("took {took:?}")),
            Ok(_) => None,
        };
        if let Some(complaint) = complaint {
            println!("{name} {complaint} after {runs} inputs (seed {seed})");
            println!("arguments: {}", input.arguments);
            println!(
                "person: {}",
                Json::Array(input.person.into_iter().map(Json::String).collect())
            );
            return ExitCode::FAILURE;
        }
    }
    println!("{name}: {runs} inputs in {seconds} s, slowest {slowest:?}, seed {seed}");
    ExitCode::SUCCESS
}
