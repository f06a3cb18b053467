//! The trusted texts of a conversation: what their items are, once for all arguments.
//!
//! An item is known when its canonical form *equals* one of these; a text that merely contains it
//! makes nothing known. Only encoded runs are looked up in the text itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::OnceLock;

use memchr::memmem;

use super::bank::{self, Number, Role};
use super::bytes::{byte, byte_before, char_at, run_end, slice};
use super::link_form::Link;
use super::outline::Digits;
use super::place::Place;
use super::view::View;
use super::views::{self, Seen, Side};
use super::{email, iban, link, wallet, written_out};
use crate::decide::text::is_invisible;

/// What the views of one source may cost, in bytes beyond the source itself; escapes past it make
/// nothing known.
const SOURCE_VIEW_BYTES: usize = 4 * 1024 * 1024;
/// Neighbouring groups of digits that are joined to one number.
const JOINED_GROUPS: usize = 8;
/// The longest number of joined groups.
const JOINED_DIGITS: usize = 34;

/// Everything that the sources make known.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) emails: BTreeSet<String>,
    pub(super) email_domains: BTreeSet<String>,
    email_wildcards: BTreeSet<String>,
    /// Paths with query and fragment, by authority.
    pub(super) links: BTreeMap<String, BTreeSet<String>>,
    /// Links as written, for those that parsers read differently.
    links_verbatim: BTreeSet<String>,
    /// Path prefixes that sentences with `*` approve, by authority.
    link_wildcards: BTreeMap<String, BTreeSet<String>>,
    pub(super) ibans: BTreeSet<String>,
    pub(super) wallets: BTreeSet<String>,
    numbers: BTreeSet<String>,
    pairs: BTreeSet<(String, String)>,
    /// Numbers of each text, for IBANs given by their national parts.
    numbers_by_text: Vec<BTreeSet<String>>,
    texts: Vec<String>,
    squeezed: OnceLock<Squeezed>,
}

/// The texts without white space, as they stand and folded, for looking up encoded runs.
#[derive(Debug, Clone)]
struct Squeezed {
    exact: Vec<String>,
    folded: Vec<String>,
}

impl Known {
    pub(super) fn add(&mut self, text: &str, wildcards: bool) {
        let place = Place { source: true, wildcards, ..Place::default() };
        let mut bytes = SOURCE_VIEW_BYTES;
        let mut numbers = BTreeSet::new();
        for seen in views::all(text, Side::Source, &mut bytes).seen {
            self.add_view(&seen, place, &mut numbers);
        }
        self.add_written_out(text);
        self.numbers.extend(numbers.iter().cloned());
        self.numbers_by_text.push(numbers);
        self.texts.push(text.to_owned());
    }

    fn add_view(&mut self, seen: &Seen<'_>, place: Place, numbers: &mut BTreeSet<String>) {
        let Seen { view, outline, .. } = seen;
        let digits = &outline.digits;
        let text: &str = &view.text;
        email::find(text, place, &mut |found| {
            if !view.hides(found.start, found.end) {
                self.add_email(found.address);
            }
        });
        // The shape of a source never runs a budget out: what was not read makes nothing known.
        let _ = link::find(text, place, &mut |found| {
            if !view.hides(found.start, found.end) {
                let starred = byte(text, found.end) == b'*' && byte_before(text, found.end) == b'/';
                self.add_link(
                    &found,
                    slice(text, found.start, found.end),
                    starred && place.wildcards,
                );
            }
        });
        if place.wildcards {
            email::wildcards(text, &mut |domain| {
                self.email_wildcards.insert(domain);
            });
        }
        if digits.is_empty() {
            return;
        }
        iban::find(text, digits, Place { payment: false, ..place }, &mut |found| {
            if !view.hides(found.start, found.end) {
                self.add_iban(found.number);
            }
        });
        iban::shapes(text, digits, &mut |number| {
            self.ibans.insert(number);
        });
        wallet::find(text, outline, place, &mut |found| {
            if !view.hides(found.start, found.end) {
                self.wallets.insert(found.item);
            }
        });
        let mut labelled = Vec::new();
        bank::labelled(text, digits, &mut |number| labelled.push(number));
        digit_runs(text, digits, numbers);
        let chains = digit_chains(text, digits);
        for number in &labelled {
            numbers.insert(number.digits.clone());
        }
        self.add_pairs(&labelled, chains);
    }

    fn add_email(&mut self, address: String) {
        if let Some((_, domain)) = address.rsplit_once('@') {
            let domain = domain.strip_prefix("www.").unwrap_or(domain);
            self.email_domains.insert(domain.to_owned());
        }
        self.emails.insert(address);
    }

    fn add_link(&mut self, link: &Link, written: &str, starred: bool) {
        self.links_verbatim.insert(written.to_owned());
        if link.doubtful {
            return;
        }
        if starred && link.tail.is_empty() {
            // `https://host/prefix/*`: what lies below, not the wildcard itself.
            self.link_wildcards
                .entry(link.authority())
                .or_default()
                .insert(format!("{}/", link.path));
            return;
        }
        self.links
            .entry(link.authority())
            .or_default()
            .insert(format!("{}{}", link.path, link.tail));
    }

    fn add_iban(&mut self, number: String) {
        let parts = iban::national_parts(&number);
        if let [bank, account] = parts.as_slice() {
            self.pairs.insert((bank.clone(), account.clone()));
        }
        if let Some(account) = parts.last() {
            self.numbers.insert(account.clone());
        }
        let national = number.get(4..).unwrap_or("");
        if national.bytes().all(|byte| byte.is_ascii_digit()) {
            self.numbers.insert(bank::comparable(national));
        }
        self.ibans.insert(number);
    }

    /// Pairs a bank's number with the account's next to it; each number is used once, so that two
    /// payees do not lend each other a half.
    fn add_pairs(&mut self, labelled: &[Number], chains: Vec<Number>) {
        let has_both = labelled.iter().any(|number| matches!(number.role, Role::Bank(_)))
            && labelled.iter().any(|number| !matches!(number.role, Role::Bank(_)));
        let numbers: Vec<&Number> =
            if has_both { labelled.iter().collect() } else { chains.iter().collect() };
        let mut index = 0;
        while let (Some(first), Some(second)) = (numbers.get(index), numbers.get(index + 1)) {
            let first_is_bank = matches!(first.role, Role::Bank(_));
            let second_is_bank = matches!(second.role, Role::Bank(_));
            if has_both && first_is_bank == second_is_bank {
                index += 1;
                continue;
            }
            if !second_is_bank {
                self.pairs.insert((first.digits.clone(), second.digits.clone()));
            }
            if !first_is_bank {
                self.pairs.insert((second.digits.clone(), first.digits.clone()));
            }
            index += 2;
        }
    }

    /// "alice (at) contoso (dot) com": how people write an address that they do want used, unless
    /// the text defangs links, which says the opposite.
    fn add_written_out(&mut self, text: &str) {
        if !written_out::is_written_out(text) || written_out::is_defanged(text) {
            return;
        }
        let raw = View::raw(text);
        let cleaned = super::clean::clean(&raw).unwrap_or(raw);
        let place = Place { source: true, ..Place::default() };
        let refanged = written_out::refang(&cleaned).map(|unescaped| unescaped.view);
        let spoken = written_out::spoken(refanged.as_ref().unwrap_or(&cleaned))
            .map(|unescaped| unescaped.view);
        for view in refanged.iter().chain(spoken.iter()) {
            email::find(&view.text, place, &mut |found| {
                if !view.hides(found.start, found.end) {
                    self.add_email(found.address);
                }
            });
        }
    }

    pub(super) fn has_email(&self, address: &str) -> bool {
        self.emails.contains(address)
            || address.rsplit_once('@').is_some_and(|(local, domain)| {
                !local.contains(['@', '%', '!']) && self.email_wildcards.contains(domain)
            })
    }

    pub(super) fn has_link(&self, link: &Link, written: &str) -> bool {
        if link.doubtful {
            return self.links_verbatim.contains(written);
        }
        let authority = link.authority();
        let target = format!("{}{}", link.path, link.tail);
        if let Some(targets) = self.links.get(&authority)
            && (targets.contains(&target)
                || (link.tail.is_empty() && has_below(targets, &link.path)))
        {
            return true;
        }
        if link.tail.is_empty()
            && let Some(prefixes) = self.link_wildcards.get(&authority)
        {
            let below = format!("{}/", link.path);
            // `%2F` and dots in an escape are read differently behind the host.
            if !link.path.contains('%') && prefixes.iter().any(|prefix| below.starts_with(prefix)) {
                return true;
            }
        }
        let phone = matches!(link.prefix.as_str(), "tel:" | "sms:" | "callto:" | "fax:");
        if phone && link.tail.is_empty() {
            let digits: String = link.host.chars().filter(char::is_ascii_digit).collect();
            return self.numbers.contains(&bank::comparable(&digits));
        }
        let root = link.prefix.is_empty()
            && link.port.is_empty()
            && link.path.is_empty()
            && link.tail.is_empty();
        root && self.email_domains.contains(&link.host)
    }

    pub(super) fn has_host(&self, link: &Link) -> bool {
        self.links.contains_key(&link.authority()) || self.email_domains.contains(&link.host)
    }

    pub(super) fn has_iban(&self, number: &str) -> bool {
        if self.ibans.contains(number) {
            return true;
        }
        let parts = iban::national_parts(number);
        !parts.is_empty()
            && self
                .numbers_by_text
                .iter()
                .any(|numbers| parts.iter().all(|part| numbers.contains(part)))
    }

    pub(super) fn has_number(&self, digits: &str) -> bool {
        self.numbers.contains(digits)
    }

    pub(super) fn has_pair(&self, bank: &str, account: &str) -> bool {
        self.pairs.contains(&(bank::comparable(bank), account.to_owned()))
            || self.pairs.contains(&(bank.to_owned(), account.to_owned()))
    }

    /// Whether `run`, without its white space, stands in a source.
    pub(super) fn has_run(&self, run: &str, budget: &mut usize) -> bool {
        !run.is_empty() && look_up(&self.squeezed().exact, run, budget)
    }

    /// Whether `text`, without its white space and folded, stands in a source.
    pub(super) fn has_text(&self, text: &str, budget: &mut usize) -> bool {
        let folded = fold(text);
        !folded.is_empty() && look_up(&self.squeezed().folded, &folded, budget)
    }

    fn squeezed(&self) -> &Squeezed {
        self.squeezed.get_or_init(|| Squeezed {
            exact: self
                .texts
                .iter()
                .map(|text| text.chars().filter(|c| !c.is_whitespace()).collect())
                .collect(),
            folded: self.texts.iter().map(|text| fold(text)).collect(),
        })
    }
}

/// Lower case, without white space and what is invisible.
fn fold(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_whitespace() && !is_invisible(*c))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Searches the texts within a budget of bytes; past it nothing is known.
fn look_up(texts: &[String], needle: &str, budget: &mut usize) -> bool {
    let finder = memmem::Finder::new(needle.as_bytes());
    for text in texts {
        let Some(left) = budget.checked_sub(text.len()) else {
            return false;
        };
        *budget = left;
        if finder.find(text.as_bytes()).is_some() {
            return true;
        }
    }
    false
}

/// Whether some target begins with the whole segments of `path`.
fn has_below(targets: &BTreeSet<String>, path: &str) -> bool {
    ['/', '?', '#'].iter().any(|next| {
        let prefix = format!("{path}{next}");
        targets
            .range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded))
            .next()
            .is_some_and(|target| target.starts_with(&prefix))
    })
}

/// The numbers of a text, for pairing a bank's with an account's.
fn digit_chains(text: &str, digits: &Digits) -> Vec<Number> {
    let mut chains = Vec::new();
    let mut from = 0;
    let mut walk = digits.walk();
    while let Some(start) = walk.next(from) {
        if bank::is_lone(text, start) {
            from = start + bank::DIGITS_MIN;
            continue;
        }
        from = run_end(text, start, |c| c.is_ascii_digit());
        if let Some(number) = bank::chain(text, start, Role::Unknown)
            && number.written.len() >= bank::DIGITS_MIN
            && !byte_before(text, start).is_ascii_alphabetic()
        {
            // Where a chain stops, the next number may begin.
            from = number.end.max(from);
            chains.push(number);
        }
    }
    chains
}

/// Every run of digits, and neighbouring groups joined. Each group is read once.
fn digit_runs(text: &str, digits: &Digits, numbers: &mut BTreeSet<String>) {
    let mut groups: Vec<(usize, usize)> = Vec::new();
    let mut from = 0;
    let mut walk = digits.walk();
    while let Some(start) = walk.next(from) {
        if bank::is_lone(text, start) {
            from = start + bank::DIGITS_MIN;
            continue;
        }
        groups.clear();
        let mut at = start;
        loop {
            let end = run_end(text, at, |c| c.is_ascii_digit());
            groups.push((at, end));
            from = end;
            let mut next = end;
            let mut separators = 0;
            while let Some(character) = char_at(text, next) {
                if separators >= 3
                    || !(iban::is_separator(character) || matches!(character, '(' | ')'))
                {
                    break;
                }
                separators += 1;
                next += character.len_utf8();
            }
            if next == end || !byte(text, next).is_ascii_digit() {
                break;
            }
            at = next;
        }
        for first in 0..groups.len() {
            let mut joined = String::new();
            for (group_start, group_end) in groups.iter().skip(first).take(JOINED_GROUPS) {
                if joined.len() + (group_end - group_start) > JOINED_DIGITS {
                    break;
                }
                joined.push_str(slice(text, *group_start, *group_end));
                if joined.len() >= bank::DIGITS_MIN {
                    numbers.insert(bank::comparable(&joined));
                }
            }
        }
        // One digit each: `9 8 7 6 …` as a whole, however many groups.
        let single = |(from, to): &(usize, usize)| to - from == 1;
        if (JOINED_GROUPS + 1..=JOINED_DIGITS).contains(&groups.len()) && groups.iter().all(single)
        {
            let joined: String = groups.iter().map(|(from, to)| slice(text, *from, *to)).collect();
            numbers.insert(bank::comparable(&joined));
        }
    }
}
