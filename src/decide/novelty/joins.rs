//! View V4: neighbours that make an item only together.
//!
//! Pieces are joined only where none of them holds a complete item, and only items over a seam
//! count: two known recipients next to each other are two known recipients. Members of an object
//! have no order, so their joins do not depend on it.

use super::place::words;
use super::scanner::{Holds, Scanner, Spent, Step, Text};
use crate::decide::json::Json;

/// The longest piece and the longest joined text.
const PIECE_MAX: usize = 256;
const JOINED_MAX: usize = 16 * 1024;
/// Members that are looked through for halves of an address.
const HALVES_MAX: usize = 256;
/// Members of which every order is tried.
const ORDERED_MAX: usize = 4;

impl<'a> Scanner<'a> {
    pub(super) fn array(&mut self, items: &'a [Json]) -> Holds {
        let mut holds = Holds::Nothing;
        let mut run: Vec<&str> = Vec::new();
        let mut owned: Vec<String> = Vec::new();
        let mut numbers = !items.is_empty();
        let pending = self.numbers.last().map_or(0, Vec::len);
        // Groups of five digits or fewer are groups of one number.
        let groups = items.len() > 1
            && items.iter().all(|item| {
                matches!(item, Json::String(text) | Json::Number(text)
                    if text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit()))
            });
        for (index, item) in items.iter().enumerate() {
            self.path.push(Step::Index(index));
            let held = self.value(item);
            self.path.pop();
            holds = holds.max(held);
            numbers &= matches!(item, Json::Number(_));
            match item {
                Json::String(text) if held < Holds::Item && text.len() <= PIECE_MAX => {
                    run.push(text)
                }
                Json::Number(number) => owned.push(number.clone()),
                _ => {
                    self.join(&run);
                    run.clear();
                }
            }
        }
        if groups && let Some(numbers) = self.numbers.last_mut() {
            numbers.truncate(pending);
        }
        self.join(&run);
        if numbers {
            let digits: Vec<&str> = owned.iter().map(String::as_str).collect();
            if groups {
                self.join(&digits);
            }
            self.codes(&digits);
        }
        let codes: Vec<&str> = items.iter().filter_map(Json::as_str).collect();
        if codes.len() == items.len()
            && codes.iter().all(|code| code.bytes().all(|byte| byte.is_ascii_digit()))
        {
            self.codes(&codes);
        }
        self.columns(items);
        holds
    }

    /// Numbers that may be the codes of characters.
    fn codes(&mut self, numbers: &[&str]) {
        if numbers.len() < 8 || numbers.iter().any(|number| number.len() > 3) {
            return;
        }
        let list = numbers.join(" ");
        let place = self.place();
        self.text(Text { text: &list, place, original: Some(&list), seams: Some(&[1]), depth: 0 });
    }

    /// The same member of every object in a list: `[{"c": "d"}, {"c": "r"}, …]`.
    fn columns(&mut self, items: &'a [Json]) {
        let Some(Json::Object(first)) = items.first() else {
            return;
        };
        if items.len() < 2 || first.len() > PIECE_MAX {
            return;
        }
        for (key, _) in first {
            let column: Vec<&str> =
                items.iter().filter_map(|item| item.get(key).and_then(Json::as_str)).collect();
            if column.len() > 1 && column.iter().all(|piece| piece.len() <= 16) {
                self.path.push(Step::Key(key));
                self.join(&column);
                self.path.pop();
            }
        }
    }

    /// Scans pieces written one after the other.
    fn join(&mut self, pieces: &[&str]) {
        if pieces.len() < 2 {
            return;
        }
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        if length > JOINED_MAX {
            // So many short strings are data; an item that spans two of them is looked for in
            // neighbours alone.
            let half = pieces.len() / 2;
            if let Some((left, right)) = pieces.split_at_checked(half) {
                self.join(left);
                self.join(right);
            }
            return;
        }
        if length < 6 {
            return;
        }
        let mut text = String::with_capacity(length);
        let mut seams = Vec::with_capacity(pieces.len());
        for piece in pieces {
            if !text.is_empty() {
                seams.push(text.len());
            }
            text.push_str(piece);
        }
        let place = self.place();
        self.text(Text {
            text: &text,
            place,
            original: Some(&text),
            seams: Some(&seams),
            depth: 0,
        });
    }

    pub(super) fn object(&mut self, members: &'a [(String, Json)]) -> Holds {
        let mut holds = Holds::Nothing;
        self.numbers.push(Vec::new());
        let mut pieces: Vec<(&'a str, &'a str)> = Vec::new();
        for (key, value) in members {
            holds = holds.max(self.key(key));
            self.path.push(Step::Key(key));
            let held = self.value(value);
            self.path.pop();
            holds = holds.max(held);
            if let Json::String(text) = value
                && held < Holds::Item
                && !text.is_empty()
                && text.len() <= PIECE_MAX
                && !text.contains(' ')
            {
                pieces.push((key, text));
            }
        }
        self.settle_numbers();
        self.halves(members, holds);
        self.siblings(&mut pieces);
        holds
    }

    /// Short members without an item of their own, joined.
    fn siblings(&mut self, pieces: &mut Vec<(&'a str, &'a str)>) {
        if pieces.len() < 2 {
            return;
        }
        pieces.sort_by(|left, right| natural(left.0, right.0));
        let texts: Vec<&str> = pieces.iter().map(|(_, text)| *text).collect();
        if pieces.len() <= ORDERED_MAX {
            let mut order: Vec<&str> = Vec::new();
            self.orders(&texts, &mut order);
            return;
        }
        self.join(&texts);
        // A country code, check digits and the rest of an account number among other members.
        let by_word = |list: &[&str]| {
            pieces
                .iter()
                .find(|(key, _)| words(key).iter().any(|word| list.contains(&word.as_str())))
                .map(|(_, text)| *text)
        };
        if let (Some(country), Some(rest)) =
            (by_word(&["country"]), by_word(&["bban", "account", "rest", "number"]))
        {
            let check = by_word(&["check", "checksum", "checkdigits", "digits"]).unwrap_or("");
            self.join(&[country, check, rest]);
        }
    }

    /// Every order of at most [`ORDERED_MAX`] pieces; the depth of the recursion is their number.
    fn orders(&mut self, left: &[&'a str], order: &mut Vec<&'a str>) {
        if left.is_empty() {
            self.join(&order.clone());
            return;
        }
        for (index, piece) in left.iter().enumerate() {
            let mut rest = left.to_vec();
            rest.remove(index);
            order.push(piece);
            self.orders(&rest, order);
            order.pop();
        }
    }

    /// Members that name the halves of an address: local part and domain, host and path.
    fn halves(&mut self, members: &'a [(String, Json)], holds: Holds) {
        if members.len() < 2 {
            return;
        }
        let mut locals = Vec::new();
        let mut domains = Vec::new();
        let mut hosts = Vec::new();
        let mut paths = Vec::new();
        let mut schemes = Vec::new();
        let mut ports = Vec::new();
        let mut sorted: Vec<&'a (String, Json)> = members.iter().take(HALVES_MAX).collect();
        sorted.sort_by(|left, right| left.0.cmp(&right.0));
        for (key, value) in sorted {
            let text: &'a str = match value {
                Json::String(text) | Json::Number(text)
                    if text.len() <= PIECE_MAX && !text.is_empty() && !text.contains(' ') =>
                {
                    text
                }
                _ => continue,
            };
            let words = words(key);
            let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
            if has(&["local", "localpart"]) {
                locals.push((text, true));
            } else if has(&["user", "username", "name", "mailbox", "account", "login", "recipient"])
                && !has(&["domain", "host"])
            {
                locals.push((text, false));
            }
            if has(&["domain"]) {
                domains.push((text, false));
            } else if has(&["host", "hostname", "server"]) {
                domains.push((text, true));
            }
            if has(&["host", "hostname", "domain", "server", "base", "origin", "baseurl"]) {
                hosts.push(text);
            }
            if has(&["path", "endpoint", "route", "uri", "resource", "pathname"])
                && !has(&["base", "host"])
            {
                paths.push(text);
            }
            if has(&["scheme", "protocol", "proto"]) {
                schemes.push(text);
            }
            if has(&["port"]) {
                ports.push(text);
            }
        }
        let (Some(host), Some(path)) = (hosts.first(), paths.first()) else {
            self.addresses(&locals, &domains, holds);
            return;
        };
        let port = ports.first().map(|port| format!(":{port}")).unwrap_or_default();
        let scheme = match schemes.first() {
            Some(scheme) if !host.contains("://") => {
                format!("{}://", scheme.trim_end_matches([':', '/']))
            }
            _ if host.contains("://") => String::new(),
            _ => "https://".to_owned(),
        };
        let base = host.trim_end_matches('/');
        let path = path.trim_start_matches('/');
        let dotted = base.contains('.') || base.contains("://") || base.contains("localhost");
        if dotted && !path.contains("://") {
            let text = format!("{scheme}{base}{port}/{path}");
            let seams = [text.len().saturating_sub(path.len() + 1)];
            self.whole(&text, &seams);
        }
        self.addresses(&locals, &domains, holds);
    }

    fn addresses(&mut self, locals: &[(&'a str, bool)], domains: &[(&'a str, bool)], holds: Holds) {
        for (local, surely_local) in locals.iter().take(ORDERED_MAX) {
            for (domain, only_host) in domains.iter().take(ORDERED_MAX) {
                let local_fits = !local.is_empty() && !local.contains(['@', '/', ':']);
                // A name beside a complete address is that person's name.
                let named = !surely_local && holds == Holds::Item;
                if !local_fits || named || (*only_host && !surely_local) {
                    continue;
                }
                let text = format!("{local}@{}", domain.trim_start_matches('@'));
                self.whole(&text, &[local.len(), local.len() + 1]);
            }
        }
    }

    fn whole(&mut self, text: &str, seams: &[usize]) {
        let place = self.place();
        if self.path.len() >= crate::decide::json::MAX_DEPTH {
            self.spend(Spent::JsonDepth);
        }
        self.text(Text { text, place, original: Some(text), seams: Some(seams), depth: 0 });
    }
}

/// Keys in the order people mean: `p2` before `p10`.
fn natural(left: &str, right: &str) -> std::cmp::Ordering {
    let split = |key: &str| {
        let stem = key.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = key.get(stem.len()..).and_then(|digits| digits.parse::<u64>().ok());
        (stem.to_owned(), number)
    };
    split(left).cmp(&split(right)).then_with(|| left.cmp(right))
}
