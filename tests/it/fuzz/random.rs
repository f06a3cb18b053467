//! Random inputs that come near what the detectors look for.

use approver::decide::json::Json;
use base64::Engine as _;

/// The longest text of an input, in bytes.
pub(crate) const LENGTH_MAX: usize = 32 * 1024;

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

/// A generator whose seed says everything that it makes.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn pick<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.below(list.len())]
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    pub(crate) fn text(&mut self) -> String {
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

    pub(crate) fn value(&mut self, depth: usize) -> Json {
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
    pub(crate) fn encoded(&mut self) -> String {
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
