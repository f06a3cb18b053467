//! Bank accounts that are no IBAN.
//!
//! # What it finds
//! Numbers in a field for accounts (`account_number`, `konto`, `clabe`), or behind a label in a text
//! ("account no. …"), and the pair of a bank's number with an account's. A checksum need not hold:
//! the field says what the number is.
//!
//! # Why it matters
//! Most of the world pays to a bank's number and an account number. Both halves may be known from
//! two different payees, so they are compared as a pair.
//!
//! # Example
//! `{"sort_code": "12-34-56", "account_number": "98765432"}` is `uk:123456/98765432`.
//!
//! # What it misses
//! A number without label in a field without a name for it; labels in languages that are not in
//! the list.

use super::bytes::{byte, char_at, floor_boundary, run_end, run_start, slice};
use super::outline::Digits;
use super::patterns;
use super::place::{BankCode, Place};

/// Digits of an account number.
pub(super) const DIGITS_MIN: usize = 5;
const DIGITS_MAX: usize = 34;
/// A group of this many digits ends a number: what follows is another.
const GROUP_ENDS: usize = 8;
/// What may stand between a label and its number, in characters.
const LABEL_REACH: usize = 14;

/// One number in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) role: Role,
    /// Digits without leading zeros; an IFSC as written.
    pub(super) digits: String,
    /// Digits as written, separators dropped.
    pub(super) written: String,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Account,
    Clabe,
    Bank(BankCode),
    /// A number without a label; in sources it counts.
    Unknown,
}

/// The form in which numbers are compared: leading zeros mean nothing.
pub(super) fn comparable(digits: &str) -> String {
    let trimmed = digits.trim_start_matches('0');
    if trimmed.is_empty() { "0".to_owned() } else { trimmed.to_owned() }
}

/// The number that is the whole value of a field for accounts.
pub(super) fn field(text: &str, place: Place) -> Option<Number> {
    let role = match place.bank {
        Some(bank) => Role::Bank(bank),
        None if place.clabe => Role::Clabe,
        None if place.account => Role::Account,
        None => return None,
    };
    let trimmed = text.trim();
    let start = text.find(trimmed)?;
    let end = start + trimmed.len();
    if role == Role::Bank(BankCode::Ifsc) {
        return ifsc(trimmed).map(|code| Number {
            role,
            digits: code.clone(),
            written: code,
            start,
            end,
        });
    }
    let mut digits = String::new();
    for character in trimmed.chars() {
        if character.is_ascii_digit() {
            digits.push(character);
        } else if !(super::iban::is_separator(character)) {
            return None;
        }
    }
    let least = if matches!(role, Role::Bank(_)) { 5 } else { DIGITS_MIN };
    if !(least..=DIGITS_MAX).contains(&digits.len()) {
        return None;
    }
    Some(Number { role, digits: comparable(&digits), written: digits, start, end })
}

fn ifsc(text: &str) -> Option<String> {
    let upper = text.to_ascii_uppercase();
    let bytes = upper.as_bytes();
    let fits = bytes.len() == 11
        && bytes.get(..4)?.iter().all(u8::is_ascii_uppercase)
        && bytes.get(4) == Some(&b'0')
        && bytes.get(5..)?.iter().all(u8::is_ascii_alphanumeric);
    fits.then_some(upper)
}

/// Calls `sink` with every labelled number in `text`.
pub(super) fn labelled(text: &str, digits: &Digits, sink: &mut dyn FnMut(Number)) {
    let mut from = 0;
    let mut walk = digits.walk();
    while let Some(digit) = walk.next(from) {
        if is_lone(text, digit) {
            from = digit + DIGITS_MIN;
            continue;
        }
        from = run_end(text, digit, |c| c.is_ascii_digit());
        let start =
            run_start(text, digit, digit.saturating_sub(IFSC_BANK), |c| c.is_ascii_alphabetic());
        if start < digit {
            // Letters right before the digits: only an IFSC is written so.
            if let Some(code) = text.get(start..start + IFSC_LENGTH).and_then(ifsc)
                && label_before(text, start) == Some(Role::Bank(BankCode::Ifsc))
            {
                let end = start + IFSC_LENGTH;
                from = end.max(from);
                sink(Number {
                    role: Role::Bank(BankCode::Ifsc),
                    digits: code.clone(),
                    written: code,
                    start,
                    end,
                });
            }
            continue;
        }
        let Some(number) = chain(text, digit, Role::Unknown) else {
            continue;
        };
        if number.written.len() < DIGITS_MIN {
            continue;
        }
        from = number.end.max(from);
        // `12.345,67` is an amount, `10.2.3.4` a version or an address.
        let cents = byte(text, number.end) == b','
            && byte(text, number.end + 1).is_ascii_digit()
            && byte(text, number.end + 2).is_ascii_digit()
            && !byte(text, number.end + 3).is_ascii_digit();
        if cents || slice(text, number.start, number.end).parse::<std::net::Ipv4Addr>().is_ok() {
            continue;
        }
        match label_before(text, digit) {
            None | Some(Role::Bank(BankCode::Ifsc)) => {}
            Some(role) => sink(Number { role, ..number }),
        }
    }
}

/// Whether the run of digits at `start` is too short for a number and nothing near goes on with it.
pub(super) fn is_lone(text: &str, start: usize) -> bool {
    let near = text.as_bytes().get(start..start + 2 * DIGITS_MIN).unwrap_or(&[]);
    let run = near.iter().take_while(|byte| byte.is_ascii_digit()).count();
    // No digit in the next few bytes: no group goes on, whatever separates them.
    !near.is_empty()
        && run < DIGITS_MIN
        && near.iter().skip(run).all(|byte| byte.is_ascii() && !byte.is_ascii_digit())
        && (start == 0
            || !text
                .as_bytes()
                .get(start.saturating_sub(3)..start)
                .unwrap_or(&[])
                .iter()
                .any(u8::is_ascii_digit))
}

/// Characters of an IFSC, and of its bank's letters.
const IFSC_LENGTH: usize = 11;
const IFSC_BANK: usize = 4;
/// The longest label, in bytes.
const LABEL_MAX: usize = 32;

/// What the nearest label before `at` names, where no other value stands between.
fn label_before(text: &str, at: usize) -> Option<Role> {
    let floor = floor_boundary(text, at.saturating_sub(LABEL_MAX + 4 * LABEL_REACH));
    let window = slice(text, floor, at);
    let label = patterns::LABEL.as_ref()?.find_iter(window).last()?;
    let between = slice(window, label.end(), window.len());
    let apart = between.chars().count() > LABEL_REACH
        || between.contains(['\n', ';', ',', '{', '}', '@'])
        || between.bytes().any(|byte| byte.is_ascii_digit());
    if apart {
        return None;
    }
    let name = label.as_str().to_lowercase();
    Some(if name.starts_with("routing") || name == "aba" || name == "rtn" {
        Role::Bank(BankCode::Routing)
    } else if name.starts_with("sort") {
        Role::Bank(BankCode::SortCode)
    } else if name.starts_with("blz") || name.starts_with("bankleitzahl") {
        Role::Bank(BankCode::Blz)
    } else if name == "bsb" {
        Role::Bank(BankCode::Bsb)
    } else if name == "ifsc" {
        Role::Bank(BankCode::Ifsc)
    } else if name == "clabe" {
        Role::Clabe
    } else {
        Role::Account
    })
}

/// The digits from `start` on, over single separators.
pub(super) fn chain(text: &str, start: usize, role: Role) -> Option<Number> {
    let mut written = String::new();
    let mut at = start;
    let mut end = start;
    let mut between = None;
    let mut lengths = Vec::new();
    loop {
        let group_end = run_end(text, at, |c| c.is_ascii_digit());
        let group = slice(text, at, group_end);
        if group.is_empty() {
            break;
        }
        written.push_str(group);
        lengths.push(group.len());
        end = group_end;
        let separator = char_at(text, group_end);
        let next = group_end + separator.map_or(0, char::len_utf8);
        let same = between.is_none() || between == separator;
        let goes_on =
            same && separator.is_some_and(|c| {
                matches!(c, ' ' | '-' | '.' | '/' | '\u{a0}' | '\u{2009}' | '\u{202f}')
            }) && byte(text, next).is_ascii_digit()
                && group.len() < GROUP_ENDS
                && written.len() < DIGITS_MAX;
        if !goes_on {
            break;
        }
        between = separator;
        at = next;
    }
    let is_date = matches!(lengths.as_slice(), [1 | 2, 1 | 2, 4] | [4, 1 | 2, 1 | 2])
        && matches!(between, Some('.' | '-' | '/'));
    if is_date {
        return None;
    }
    if written.is_empty() || written.len() > DIGITS_MAX {
        return None;
    }
    // `98765432abc` is an identifier, `30.5 %` an amount.
    if char_at(text, end).is_some_and(|c| c.is_ascii_alphabetic()) {
        return None;
    }
    Some(Number { role, digits: comparable(&written), written, start, end })
}

/// The item of a number, alone or with its bank's number.
pub(super) fn item(account: &Number, bank: Option<&Number>) -> String {
    match (account.role, bank.map(|bank| (bank.role, bank))) {
        (_, Some((Role::Bank(code), bank))) => {
            let written =
                if code == BankCode::SortCode { &account.written } else { &account.digits };
            format!("{}:{}/{}", code.prefix(), bank.written, written)
        }
        (Role::Clabe, _) => format!("clabe:{}", account.written),
        (Role::Bank(code), None) => format!("{}:{}", code.prefix(), account.written),
        _ if account.written.starts_with("00") && account.written.len() >= 20 => {
            format!("acct:{}", account.written)
        }
        _ => format!("acct:{}", account.digits),
    }
}
