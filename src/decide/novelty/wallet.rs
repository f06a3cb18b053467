//! Payment cards and wallets: numbers that check themselves.
//!
//! # What it finds
//! Card numbers of 15 or 16 digits with an issuer's prefix and a valid Luhn digit; Bitcoin addresses
//! (base58check, bech32), TRON addresses (base58check), and `0x` with 40 hex digits.
//!
//! # Why it matters
//! A transfer to a wallet cannot be called back, and a wallet's address has no name on it.
//!
//! # Example
//! `send BTC to bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq`.
//!
//! # What it misses
//! Addresses of chains without a checksum that is checked here; card numbers with a mistyped digit
//! outside a field for cards.

use super::bytes::{byte, byte_before, char_at, slice};
use super::outline::{Digits, Outline};
use super::place::Place;

/// One card or wallet in a text: its typed canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wallet {
    pub(super) item: String,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The shortest and longest address of the chains above.
const ADDRESS_MIN: usize = 26;
const ADDRESS_MAX: usize = 90;

/// Calls `sink` with every card and wallet in `text`.
pub(super) fn find(text: &str, outline: &Outline, place: Place, sink: &mut dyn FnMut(Wallet)) {
    cards(text, &outline.digits, place, sink);
    addresses(text, &outline.tokens, sink);
}

fn cards(text: &str, runs: &Digits, place: Place, sink: &mut dyn FnMut(Wallet)) {
    let mut from = 0;
    let mut walk = runs.walk();
    while let Some(start) = walk.next(from) {
        // Fifteen digits are not in fifteen bytes of prose.
        let near = text.as_bytes().get(start..start + 15).unwrap_or(&[]);
        if near.iter().filter(|byte| byte.is_ascii_digit()).count() < 10 {
            from = super::bytes::run_end(text, start, |c| c.is_ascii_digit()).max(start + 1);
            continue;
        }
        let mut digits = String::new();
        let mut at = start;
        let mut end = start;
        while let Some(character) = char_at(text, at) {
            if character.is_ascii_digit() {
                digits.push(character);
                at += 1;
                end = at;
            } else if matches!(character, ' ' | '-' | '\u{a0}' | '.')
                && byte(text, at + character.len_utf8()).is_ascii_digit()
                && digits.len() < 16
            {
                at += character.len_utf8();
            } else {
                break;
            }
        }
        from = end.max(start + 1);
        let glued = byte_before(text, start).is_ascii_alphanumeric()
            || matches!(byte_before(text, start), b'.' | b'_' | b'-' | b'+' | b'#' | b'/')
            || matches!(byte(text, end), b'_' | b'-')
            || byte(text, end).is_ascii_alphabetic();
        // A list of short numbers that goes on behind sixteen digits is a list.
        let goes_on = matches!(byte(text, end), b' ' | b'-' | b'.' | b',')
            && byte(text, end + 1).is_ascii_digit()
            && !byte_before(text, end.saturating_sub(2)).is_ascii_digit();
        if glued || goes_on || !is_card(&digits) {
            continue;
        }
        // A lone number in a field that names another kind of number is that.
        if !place.account
            && !place.payment
            && start == 0
            && end == text.len()
            && !text.contains([' ', '-'])
            && !place.source
            && place.identifier
        {
            continue;
        }
        sink(Wallet { item: format!("pan:{digits}"), start, end });
    }
}

fn is_card(digits: &str) -> bool {
    let prefix = |length: usize| slice(digits, 0, length).parse::<u32>().unwrap_or(0);
    let issuer = match digits.len() {
        15 => matches!(prefix(2), 34 | 37),
        16 => {
            prefix(1) == 4
                || (51..=55).contains(&prefix(2))
                || (2221..=2720).contains(&prefix(4))
                || prefix(4) == 6011
                || prefix(2) == 65
                || (644..=649).contains(&prefix(3))
                || (3528..=3589).contains(&prefix(4))
                || prefix(2) == 62
        }
        _ => false,
    };
    issuer && luhn(digits)
}

fn luhn(digits: &str) -> bool {
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(index, byte)| {
            let digit = u32::from(byte.saturating_sub(b'0'));
            match (index % 2, digit * 2) {
                (0, _) => digit,
                (_, double) if double > 9 => double - 9,
                (_, double) => double,
            }
        })
        .sum();
    sum.is_multiple_of(10)
}

fn addresses(text: &str, tokens: &[(usize, usize)], sink: &mut dyn FnMut(Wallet)) {
    for (token_start, token_end) in tokens {
        if token_end - token_start < ADDRESS_MIN {
            continue;
        }
        let mut start = *token_start;
        for run in slice(text, *token_start, *token_end).split(['+', '/', '_', '-']) {
            let end = start + run.len();
            if (ADDRESS_MIN..=ADDRESS_MAX).contains(&run.len())
                && let Some(item) = address(run)
            {
                sink(Wallet { item, start, end });
            }
            start = end + 1;
        }
    }
}

fn address(run: &str) -> Option<String> {
    if let Some(hex) = run.strip_prefix("0x").or_else(|| run.strip_prefix("0X")) {
        let fits = hex.len() == 40 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        return fits.then(|| format!("eth:0x{}", hex.to_ascii_lowercase()));
    }
    let lower = run.to_ascii_lowercase();
    if lower.starts_with("bc1") || lower.starts_with("tb1") || lower.starts_with("ltc1") {
        return bech32::segwit::decode(run).is_ok().then(|| format!("btc:{lower}"));
    }
    if matches!(byte(run, 0), b'1' | b'3' | b'T' | b'L' | b'D' | b'M') && run.len() <= 35 {
        let decoded = bs58::decode(run).with_check(None).into_vec().ok()?;
        return match (decoded.first(), decoded.len()) {
            (Some(0x41), 21) => Some(format!("tron:{run}")),
            (Some(_), 21) => Some(format!("btc:{run}")),
            _ => None,
        };
    }
    None
}
