//! View V4: neighbours that make an item only together.
//!
//! Pieces are joined only where none of them holds a complete item, and only items over a seam
//! count: two known recipients next to each other are two known recipients. Members of an object
//! are joined in the order of their keys and of the text, a few of them in every order.

use std::collections::BTreeMap;

use super::bytes::{floor_boundary, slice};
use super::place::words;
use super::scanner::{Holds, Scanner, Spent, Step, Text};
use crate::decide::json::Json;

/// The longest piece and the longest joined text.
const PIECE_MAX: usize = 256;
const JOINED_MAX: usize = 16 * 1024;
/// Bytes that two stretches of a long row share.
const OVERLAP: usize = 1024;
/// Neighbours that are joined without the rest of their row.
const WINDOW_MAX: usize = 4;
/// Members that are looked through for halves of an address.
const HALVES_MAX: usize = 256;
/// Members of which every order is tried.
const ORDERED_MAX: usize = 4;

impl<'a> Scanner<'a> {
    pub(super) fn array(&mut self, items: &'a [Json]) -> Holds {
        let mut holds = Holds::Nothing;
        let mut run: Vec<&'a str> = Vec::new();
        let mut owned: Vec<String> = Vec::new();
        let mut numbers = !items.is_empty();
        let pending = self.numbers.last().map_or(0, Vec::len);
        // Groups of five digits or fewer are groups of one number.
        let groups = items.len() > 1
            && items.iter().all(|item| {
                matches!(item, Json::String(text) | Json::Number(text)
                    if text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit()))
            });
        let mut columns = BTreeMap::new();
        for (index, item) in items.iter().enumerate() {
            self.path.push(Step::Index(index));
            let held = self.value(item);
            self.path.pop();
            if matches!(item, Json::Object(_)) {
                self.add_to_columns(&mut columns);
            }
            holds = holds.max(held);
            numbers &= matches!(item, Json::Number(_));
            match item {
                Json::String(text) if held < Holds::Item => self.piece(&mut run, text),
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
        self.columns(&columns);
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

    /// Adds the members of an object in a list to the columns of that list.
    fn add_to_columns(&mut self, columns: &mut BTreeMap<&'a str, Vec<&'a str>>) {
        for (key, text) in std::mem::take(&mut self.members) {
            let mut column = columns.remove(key).unwrap_or_default();
            self.path.push(Step::Key(key));
            match text {
                Some(text) => self.piece(&mut column, text),
                None => {
                    self.join(&column);
                    column.clear();
                }
            }
            self.path.pop();
            columns.insert(key, column);
        }
    }

    /// The same member of every object in a list: `[{"c": "d"}, {"c": "r"}, …]`.
    fn columns(&mut self, columns: &BTreeMap<&'a str, Vec<&'a str>>) {
        for (key, column) in columns {
            self.path.push(Step::Key(key));
            self.join(column);
            self.path.pop();
        }
    }

    /// Adds a piece to a row. Of a long one only the ends can belong to an item over a seam.
    fn piece(&mut self, row: &mut Vec<&'a str>, text: &'a str) {
        if text.len() <= PIECE_MAX {
            row.push(text);
            return;
        }
        row.push(slice(text, 0, floor_boundary(text, PIECE_MAX)));
        self.join(row);
        row.clear();
        row.push(slice(text, floor_boundary(text, text.len() - PIECE_MAX), text.len()));
    }

    /// Scans pieces written one after the other: the whole row, then each few neighbours, as what
    /// stands around an item may hide it.
    fn join(&mut self, pieces: &[&str]) {
        if pieces.len() < 2 {
            return;
        }
        self.joined.clear();
        self.row(pieces);
        if pieces.len() > 2 {
            self.windows(pieces);
        }
    }

    /// Members in the order of the text. Only addresses and links count: for numbers the order of
    /// the keys is enough, and any order makes one by chance.
    fn in_order(&mut self, pieces: &[&str]) {
        self.joined.clear();
        self.window = true;
        self.row(pieces);
        self.windows(pieces);
    }

    /// Every two to [`WINDOW_MAX`] neighbours, the larger windows first.
    fn windows(&mut self, pieces: &[&str]) {
        self.window = true;
        for size in (2..=WINDOW_MAX.min(pieces.len().saturating_sub(1))).rev() {
            for window in pieces.windows(size) {
                let has = |sign: &[char]| window.iter().any(|piece| piece.contains(sign));
                if has(&['@', '/']) && has(&['.', '\u{3002}', '%', '&', '\\', '(', '[']) {
                    let length = window.iter().map(|piece| piece.len()).sum();
                    let Some(left) = self.window_bytes.checked_sub(length) else {
                        self.spend(Spent::Neighbours);
                        self.window = false;
                        return;
                    };
                    self.window_bytes = left;
                    self.joined_text(window);
                }
            }
        }
        self.window = false;
    }

    /// The whole row, in stretches that overlap by more than an item is long.
    fn row(&mut self, pieces: &[&str]) {
        let mut from = 0;
        while from < pieces.len() {
            let mut length = 0;
            let mut to = from;
            while let Some(piece) = pieces.get(to)
                && (length + piece.len() <= JOINED_MAX || to < from + 2)
            {
                length += piece.len();
                to += 1;
            }
            self.joined_text(pieces.get(from..to).unwrap_or(&[]));
            if to >= pieces.len() {
                break;
            }
            let mut next = to;
            let mut overlap = 0;
            while next > from + 1 && overlap < OVERLAP {
                next -= 1;
                overlap += pieces.get(next).map_or(0, |piece| piece.len());
            }
            from = next;
        }
    }

    fn joined_text(&mut self, pieces: &[&str]) {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        if pieces.len() < 2 || length < 6 {
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
        let mut row: Vec<&'a str> = Vec::new();
        let mut texts: Vec<(&'a str, Option<&'a str>)> = Vec::new();
        for (key, value) in members {
            holds = holds.max(self.key(key));
            self.path.push(Step::Key(key));
            let held = self.value(value);
            self.path.pop();
            holds = holds.max(held);
            if let Json::String(text) = value {
                texts.push((key, (held < Holds::Item).then_some(text)));
            }
            if let Json::String(text) = value
                && held < Holds::Item
                && !text.is_empty()
                && !text.contains(' ')
            {
                self.piece(&mut row, text);
                if text.len() <= PIECE_MAX {
                    pieces.push((key, text));
                }
            }
        }
        self.settle_numbers();
        self.halves(members, holds);
        // Up to a few members every order is tried below; the order of the text is one of them.
        if row.len() > ORDERED_MAX || pieces.len() != row.len() {
            self.in_order(&row);
        }
        self.siblings(&mut pieces);
        self.members = texts;
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
            } else if has(&[
                "user",
                "username",
                "name",
                "mailbox",
                "account",
                "login",
                "recipient",
                "alias",
                "handle",
                "nick",
                "mail",
                "benutzer",
                "benutzername",
                "usuario",
                "utilisateur",
                "utente",
            ]) && !has(&["domain", "host"])
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
                // `user` and `host` are also a login; then the server is known, or novel by itself.
                let login = *only_host && !surely_local && self.knows_host(domain);
                if !local_fits || named || login {
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
