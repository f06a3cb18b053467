//! The walk over a call's arguments: every text, every view, every detector, and the budgets.

use std::collections::BTreeSet;

use super::bank::{self, Number, Role};
use super::bytes::slice;
use super::encoded::{self, Encoded, Says};
use super::link::Looked;
use super::link_form::Link;
use super::place::{self, Place};
use super::sources::Known;
use super::view::{View, found};
use super::views::{self, Side};
use super::{
    Finding, Kind, Resemblance, ToolText, email, iban, invisible, link, link_form, tokens, wallet,
};
use crate::decide::json::{Json, MAX_DEPTH, pointer_to};
use crate::decide::text::head;

/// Encodings inside one another.
pub(super) const DECODE_DEPTH_MAX: usize = 4;
/// Bytes that all decoded runs of a call may have together.
pub(super) const DECODED_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Bytes that all views of a call may have together, beyond the arguments themselves.
pub(super) const VIEW_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of sources that looking up encoded runs may read.
const LOOK_UP_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Findings that are listed one by one.
const FINDINGS_MAX: usize = 2_000;
/// The longest item and the longest text as found that a finding keeps.
const ITEM_MAX: usize = 4 * 1024;
/// Findings among which a number that is told again is looked for.
const NEAR: usize = 16;

/// The longest recipient that is read without its white space.
const FOLDED_MAX: usize = 320;

/// A step from the arguments' top to a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// Which budget ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Spent {
    JsonDepth,
    Escapes,
    DecodeDepth,
    DecodedBytes,
    NestedLinks,
    Findings,
}

impl Spent {
    const fn item(self) -> &'static str {
        match self {
            Spent::JsonDepth => "json depth",
            Spent::Escapes => "escapes",
            Spent::DecodeDepth => "encoding depth",
            Spent::DecodedBytes => "decoded bytes",
            Spent::NestedLinks => "links in one link",
            Spent::Findings => "number of findings",
        }
    }
}

/// One text to scan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'t> {
    pub(super) text: &'t str,
    pub(super) place: Place,
    /// What stands in the argument, where `text` was decoded or joined from it.
    pub(super) original: Option<&'t str>,
    /// Where pieces meet, for a joined text: only items over such a boundary count.
    pub(super) seams: Option<&'t [usize]>,
    /// How many encodings were undone to get here.
    pub(super) depth: usize,
}

/// Whether a text held a complete item, known or novel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holds {
    Nothing,
    /// A part that is something on its own, and may be more with its neighbours: a bare host, a
    /// number, a novel encoded run.
    Fragment,
    Item,
}

pub(super) struct Scanner<'a> {
    tool: ToolText<'a>,
    payment: bool,
    known: &'a Known,
    pub(super) path: Vec<Step<'a>>,
    findings: Vec<Finding>,
    /// What was listed, by the number of the text that it stood in.
    listed: BTreeSet<(Kind, String, usize)>,
    /// Texts scanned so far.
    texts: usize,
    spent: BTreeSet<Spent>,
    view_bytes: usize,
    decoded_bytes: usize,
    look_up_bytes: usize,
    /// Numbers of the objects that are being walked, to be paired when the object ends.
    pub(super) numbers: Vec<Vec<Pending>>,
}

/// A number in a field, waiting for the other half of its pair.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    number: Number,
    pointer: String,
    found: String,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(tool: ToolText<'a>, known: &'a Known) -> Self {
        let payment = place::speaks_of_payment(tool.name)
            || tool.description.is_some_and(place::speaks_of_payment);
        Scanner {
            tool,
            payment,
            known,
            path: Vec::new(),
            findings: Vec::new(),
            listed: BTreeSet::new(),
            texts: 0,
            spent: BTreeSet::new(),
            view_bytes: VIEW_BYTES_MAX,
            decoded_bytes: DECODED_BYTES_MAX,
            look_up_bytes: LOOK_UP_BYTES_MAX,
            numbers: Vec::new(),
        }
    }

    pub(super) fn run(mut self, arguments: &'a Json) -> Vec<Finding> {
        self.numbers.push(Vec::new());
        self.value(arguments);
        self.settle_numbers();
        self.drop_shadowed();
        self.findings
    }

    /// Scans a value and what is below it.
    pub(super) fn value(&mut self, value: &'a Json) -> Holds {
        match value {
            Json::Null | Json::Bool(_) => Holds::Nothing,
            Json::String(text) => self.leaf(text),
            Json::Number(number) => self.leaf(&plain_number(number)),
            Json::Array(_) | Json::Object(_) if self.path.len() >= MAX_DEPTH => {
                self.spend(Spent::JsonDepth);
                Holds::Nothing
            }
            Json::Array(items) => self.array(items),
            Json::Object(members) => self.object(members),
        }
    }

    fn leaf(&mut self, text: &str) -> Holds {
        if text.len() < 2 {
            return Holds::Nothing;
        }
        let place = self.place();
        self.text(Text { text, place, original: None, seams: None, depth: 0 })
    }

    /// Scans a member's name.
    pub(super) fn key(&mut self, key: &'a str) -> Holds {
        if key.len() < 5 || is_plain_name(key) {
            return Holds::Nothing;
        }
        let mut place = self.place();
        place.is_key = true;
        self.path.push(Step::Key(key));
        let holds = self.text(Text { text: key, place, original: None, seams: None, depth: 0 });
        self.path.pop();
        holds
    }

    /// What the keys on the path say.
    pub(super) fn place(&self) -> Place {
        let keys = self.path.iter().filter_map(|step| match step {
            Step::Key(key) => Some(*key),
            Step::Index(_) => None,
        });
        let mut place = Place::of_keys(keys.clone(), self.payment);
        if !place.payment && self.tool.input_schema.is_some() {
            let keys: Vec<&str> = keys.collect();
            place.payment = place::parameter_description(self.tool.input_schema, &keys)
                .is_some_and(place::speaks_of_payment);
        }
        place
    }

    /// Scans one text in all its views.
    pub(super) fn text(&mut self, text: Text<'_>) -> Holds {
        let mut holds = Holds::Nothing;
        let original = text.original.unwrap_or(text.text);
        if text.depth == 0 {
            self.texts += 1;
        }
        if text.seams.is_none() {
            let mut channels = Vec::new();
            invisible::find(text.text, &mut |channel| channels.push(channel));
            for channel in channels {
                holds = Holds::Item;
                if self.known.has_run(&channel.run, &mut self.look_up_bytes) {
                    continue;
                }
                self.push(Kind::Encoded, channel.item.clone(), &channel.run, None);
                self.decoded(&channel.item, &channel.run, text);
            }
        }
        let views = views::all(text.text, Side::Argument, &mut self.view_bytes);
        if views.exhausted {
            self.spend(Spent::Escapes);
        }
        let mut links_told = BTreeSet::new();
        for seen in &views.seen {
            holds = holds.max(self.view(&seen.view, original, text, &mut links_told));
            for (start, end) in &seen.spelled {
                let says = slice(&seen.view.text, *start, *end);
                if text.seams.is_none() && !self.known.has_text(says, &mut self.look_up_bytes) {
                    self.push(
                        Kind::Encoded,
                        says.to_owned(),
                        shown(text, original, &seen.view, *start, *end),
                        None,
                    );
                }
            }
        }
        if text.seams.is_none() && text.place.recipient && text.text.contains('@') {
            holds = holds.max(self.folded(text, original));
        }
        if text.seams.is_none()
            && text.text.contains(['\t', '\n', '\r'])
            && !text.text.trim().contains(' ')
        {
            holds = holds.max(self.without_breaks(text, original));
        }
        holds
    }

    /// Mail programs drop white space around `@` and dots. Only where nothing else is left.
    fn folded(&mut self, text: Text<'_>, original: &str) -> Holds {
        let trimmed = text.text.trim();
        if trimmed.len() > FOLDED_MAX || !trimmed.contains(char::is_whitespace) {
            return Holds::Nothing;
        }
        let mut folded = String::with_capacity(trimmed.len());
        for word in trimmed.split_whitespace() {
            let joins =
                folded.is_empty() || folded.ends_with(['.', '@']) || word.starts_with(['.', '@']);
            if !joins {
                return Holds::Nothing;
            }
            folded.push_str(word);
        }
        let mut emails = Vec::new();
        email::find(&folded, text.place, &mut |email| emails.push(email));
        let mut holds = Holds::Nothing;
        for email in emails {
            holds = Holds::Item;
            if !self.known.has_email(&email.address) {
                let resembles = self.resembling_email(&email.address, false);
                self.push(Kind::Email, email.address, original, resembles);
            }
        }
        holds
    }

    /// Browsers drop tabs and line breaks inside a link. A list of links on lines is not that.
    fn without_breaks(&mut self, text: Text<'_>, original: &str) -> Holds {
        let mut plain = false;
        let _ = link::find(text.text, text.place, &mut |link| plain |= link::is_plain(&link));
        if plain {
            return Holds::Nothing;
        }
        let mut dropped = String::with_capacity(text.text.len());
        let mut seams = Vec::new();
        for character in text.text.trim().chars() {
            if matches!(character, '\t' | '\n' | '\r') {
                seams.push(dropped.len());
            } else {
                dropped.push(character);
            }
        }
        let view = View::raw(&dropped);
        let mut found = Vec::new();
        let _ = link::find(&dropped, text.place, &mut |link| found.push(link));
        let mut holds = Holds::Nothing;
        for link in found {
            let after = seams.partition_point(|seam| *seam <= link.start);
            let over = seams.get(after).is_some_and(|seam| *seam < link.end);
            if over && link::is_plain(&link) {
                holds = Holds::Item;
                let whole = Text { original: Some(original), ..text };
                self.link(&link, &view, original, whole, &mut BTreeSet::new());
            }
        }
        holds
    }

    fn view(
        &mut self,
        view: &View<'_>,
        original: &str,
        text: Text<'_>,
        links_told: &mut BTreeSet<usize>,
    ) -> Holds {
        let mut holds = Holds::Nothing;
        let place = text.place;
        let shows: &str = &view.text;
        let counts = |start: usize, end: usize| {
            text.seams.is_none_or(|seams| {
                let after = seams.partition_point(|seam| *seam <= start);
                seams.get(after).is_some_and(|seam| *seam < end)
            })
        };

        let tokens = tokens::find(shows);
        let mut emails = Vec::new();
        email::find(shows, place, &mut |email| emails.push(email));
        let addresses: Vec<(usize, usize)> =
            emails.iter().map(|email| (email.start, email.end)).collect();
        for email in emails {
            if !counts(email.start, email.end) {
                continue;
            }
            holds = Holds::Item;
            let hides = view.hides(email.start, email.end);
            if !hides && self.known.has_email(&email.address) {
                continue;
            }
            let resembles = self.resembling_email(&email.address, hides);
            let found = shown(text, original, view, email.start, email.end);
            self.push(Kind::Email, email.address, found, resembles);
        }

        let mut links = Vec::new();
        if link::find(shows, place, &mut |link| links.push(link)) == Looked::BudgetSpent {
            self.spend(Spent::NestedLinks);
        }
        for link in links {
            // The domain of an address is no link of its own.
            let after = addresses.partition_point(|(_, end)| *end < link.end);
            let inside = addresses.get(after).is_some_and(|(start, _)| *start < link.start);
            if inside && !link.scheme_written {
                continue;
            }
            if !counts(link.start, link.end)
                || (text.seams.is_some() && !link.scheme_written && link.path.is_empty())
            {
                continue;
            }
            let bare = !link.scheme_written && link.path.is_empty() && link.tail.is_empty();
            let part = bare || (link.scheme_written && !link::is_plain(&link));
            holds = holds.max(if part { Holds::Fragment } else { Holds::Item });
            self.link(&link, view, original, text, links_told);
        }

        if super::bytes::next_digit(shows.as_bytes(), 0).is_some() {
            holds = holds.max(self.accounts(view, &tokens, original, text, &counts));
        }

        let mut runs = Vec::new();
        encoded::find(shows, &tokens, &mut |run| runs.push(run));
        for run in runs {
            if !counts(run.start, run.end) {
                continue;
            }
            let found = shown(text, original, view, run.start, run.end);
            holds = holds.max(self.encoded(&run, found, text));
        }
        holds
    }

    fn link(
        &mut self,
        link: &Link,
        view: &View<'_>,
        original: &str,
        text: Text<'_>,
        links_told: &mut BTreeSet<usize>,
    ) {
        let hides = view.hides(link.start, link.end);
        let written = slice(&view.text, link.start, link.end);
        if !hides && self.known.has_link(link, written) {
            return;
        }
        // Escaped for JSON or HTML: the decoded view has the link that a reader gets.
        if text.original.is_none() && link_form::is_escaped(written) {
            return;
        }
        let (start, _) = view.original(link.start, link.end);
        // The same link in another view says nothing new.
        if text.original.is_none() && links_told.contains(&start) {
            return;
        }
        links_told.insert(start);
        let resembles = self.resembling_link(link, hides);
        self.push(
            Kind::Link,
            link.item(),
            shown(text, original, view, link.start, link.end),
            resembles,
        );
    }

    fn accounts(
        &mut self,
        view: &View<'_>,
        tokens: &[(usize, usize)],
        original: &str,
        text: Text<'_>,
        counts: &dyn Fn(usize, usize) -> bool,
    ) -> Holds {
        let mut holds = Holds::Nothing;
        let shows: &str = &view.text;
        let place = text.place;
        let mut ibans = Vec::new();
        iban::find(shows, place, &mut |iban| ibans.push(iban));
        let mut whole = false;
        for iban in ibans {
            // A joined text has the shape of a number too easily.
            if !counts(iban.start, iban.end) || (text.seams.is_some() && !iban.valid) {
                continue;
            }
            holds = holds.max(if iban.valid { Holds::Item } else { Holds::Fragment });
            whole = true;
            let hides = view.hides(iban.start, iban.end);
            if !hides && self.known.has_iban(&iban.number) {
                continue;
            }
            let kind = if iban.valid { Kind::Iban } else { Kind::BankAccount };
            let resembles = self.resembling_number(&iban.number, hides);
            self.push(
                kind,
                iban.number,
                shown(text, original, view, iban.start, iban.end),
                resembles,
            );
        }
        let mut wallets = Vec::new();
        wallet::find(shows, tokens, place, &mut |wallet| wallets.push(wallet));
        for wallet in wallets {
            if !counts(wallet.start, wallet.end) {
                continue;
            }
            holds = Holds::Item;
            whole |= wallet.start == 0;
            let hides = view.hides(wallet.start, wallet.end);
            if !hides && self.known.wallets.contains(&wallet.item) {
                continue;
            }
            self.push(
                Kind::BankAccount,
                wallet.item,
                shown(text, original, view, wallet.start, wallet.end),
                None,
            );
        }
        if whole {
            return holds;
        }
        if let Some(number) =
            bank::field(shows, place).filter(|number| counts(number.start, number.end))
        {
            let pending = Pending { pointer: self.pointer(), found: original.to_owned(), number };
            if let Some(numbers) = self.numbers.last_mut()
                && !numbers.iter().any(|other| {
                    other.pointer == pending.pointer && other.number.digits == pending.number.digits
                })
            {
                numbers.push(pending);
            }
            return holds.max(Holds::Fragment);
        }
        let mut labelled = Vec::new();
        bank::labelled(shows, &mut |number| labelled.push(number));
        labelled.retain(|number| counts(number.start, number.end));
        if !labelled.is_empty() {
            holds = Holds::Item;
            let pointer = self.pointer();
            let pending: Vec<Pending> = labelled
                .into_iter()
                .map(|number| Pending {
                    pointer: pointer.clone(),
                    found: shown(text, original, view, number.start, number.end).to_owned(),
                    number,
                })
                .collect();
            self.pair(&pending);
        }
        holds
    }

    /// Pairs each account with the bank's number next to it and reports what is novel.
    fn pair(&mut self, pending: &[Pending]) {
        let mut index = 0;
        while let Some(first) = pending.get(index) {
            index += 1;
            let second = pending.get(index);
            let is_bank = |pending: &Pending| matches!(pending.number.role, Role::Bank(_));
            match second {
                Some(second) if is_bank(first) && !is_bank(second) => {
                    index += 1;
                    self.account(second, Some(first));
                }
                Some(second)
                    if !is_bank(first) && is_bank(second) && first.number.role == Role::Account =>
                {
                    index += 1;
                    self.account(first, Some(second));
                }
                _ => self.account(first, None),
            }
        }
    }

    /// Pairs the numbers of the object that ends.
    pub(super) fn settle_numbers(&mut self) {
        let Some(pending) = self.numbers.pop() else {
            return;
        };
        let (banks, accounts): (Vec<Pending>, Vec<Pending>) =
            pending.into_iter().partition(|pending| matches!(pending.number.role, Role::Bank(_)));
        if accounts.is_empty() {
            for bank in &banks {
                self.account(bank, None);
            }
        }
        for account in &accounts {
            if banks.is_empty() {
                self.account(account, None);
            }
            for bank in &banks {
                self.account(account, Some(bank));
            }
        }
    }

    fn account(&mut self, account: &Pending, bank: Option<&Pending>) {
        let known = match bank {
            Some(bank) => self.known.has_pair(&bank.number.digits, &account.number.digits),
            None => self.known.has_number(&account.number.digits),
        };
        if known {
            return;
        }
        let item = bank::item(&account.number, bank.map(|bank| &bank.number));
        self.push_at(Kind::BankAccount, item, account.pointer.clone(), &account.found);
    }

    fn encoded(&mut self, run: &Encoded, found: &str, text: Text<'_>) -> Holds {
        if self.known.has_run(&run.run, &mut self.look_up_bytes) {
            return Holds::Item;
        }
        match &run.says {
            Says::Maybe(says) => return self.decoded(says, found, text),
            Says::Bytes(count) => self.push(Kind::Encoded, format!("bytes:{count}"), found, None),
            Says::Text(says) => {
                if text.depth >= DECODE_DEPTH_MAX {
                    self.spend(Spent::DecodeDepth);
                    self.push(Kind::Encoded, says.clone(), found, None);
                    return Holds::Fragment;
                }
                let known = self.known.has_text(says, &mut self.look_up_bytes);
                if !known && !is_one_run(says) {
                    self.push(Kind::Encoded, says.clone(), found, None);
                }
                self.decoded(says, found, text);
                if known {
                    return Holds::Item;
                }
            }
        }
        Holds::Fragment
    }

    /// Scans what a run or a channel says.
    fn decoded(&mut self, says: &str, found: &str, text: Text<'_>) -> Holds {
        let Some(left) = self.decoded_bytes.checked_sub(says.len()) else {
            self.spend(Spent::DecodedBytes);
            return Holds::Nothing;
        };
        self.decoded_bytes = left;
        if text.depth >= DECODE_DEPTH_MAX {
            self.spend(Spent::DecodeDepth);
            return Holds::Nothing;
        }
        let place = Place { is_key: false, identifier: false, ..text.place };
        let depth = text.depth + 1;
        self.text(Text { text: says, place, original: Some(found), seams: None, depth })
    }

    fn resembling_email(&self, address: &str, hides: bool) -> Option<Resemblance> {
        if hides && self.known.has_email(address) {
            return Some(Resemblance::LookAlike(address.to_owned()));
        }
        super::resemblance::email(self.known, address)
    }

    fn resembling_link(&self, link: &Link, hides: bool) -> Option<Resemblance> {
        if hides && self.known.has_link(link, "") {
            return Some(Resemblance::LookAlike(link.item()));
        }
        super::resemblance::link(self.known, link)
    }

    fn resembling_number(&self, number: &str, hides: bool) -> Option<Resemblance> {
        if hides && self.known.has_iban(number) {
            return Some(Resemblance::LookAlike(number.to_owned()));
        }
        super::resemblance::iban(self.known, number)
    }

    fn pointer(&self) -> String {
        self.path.iter().fold(String::new(), |pointer, step| match step {
            Step::Key(key) => pointer_to(&pointer, key),
            Step::Index(index) => format!("{pointer}/{index}"),
        })
    }

    pub(super) fn spend(&mut self, spent: Spent) {
        if self.spent.insert(spent) {
            let pointer = self.pointer();
            self.findings.push(Finding {
                kind: Kind::Budget,
                item: spent.item().to_owned(),
                pointer,
                found: String::new(),
                resembles: None,
            });
        }
    }

    pub(super) fn push(
        &mut self,
        kind: Kind,
        item: String,
        found: &str,
        resembles: Option<Resemblance>,
    ) {
        if self.is_full() || !self.list(kind, &item) {
            return;
        }
        let pointer = self.pointer();
        self.add(kind, &item, pointer, found, resembles);
    }

    fn push_at(&mut self, kind: Kind, item: String, pointer: String, found: &str) {
        let told = |finding: &Finding| {
            finding.kind == kind && finding.item == item && finding.pointer == pointer
        };
        if self.is_full() || self.findings.iter().rev().take(NEAR).any(told) {
            return;
        }
        self.add(kind, &item, pointer, found, None);
    }

    fn is_full(&mut self) -> bool {
        let full = self.findings.len() >= FINDINGS_MAX;
        if full {
            self.spend(Spent::Findings);
        }
        full
    }

    /// Whether the item is new for this text.
    fn list(&mut self, kind: Kind, item: &str) -> bool {
        self.listed.insert((kind, head(item, ITEM_MAX).to_owned(), self.texts))
    }

    fn add(
        &mut self,
        kind: Kind,
        item: &str,
        pointer: String,
        found: &str,
        resembles: Option<Resemblance>,
    ) {
        self.findings.push(Finding {
            kind,
            item: head(item, ITEM_MAX).to_owned(),
            pointer,
            found: head(found, ITEM_MAX).to_owned(),
            resembles,
        });
    }

    /// `git@host:path` is a link; the address in front of it is no second finding.
    fn drop_shadowed(&mut self) {
        let remotes: Vec<(String, String)> = self
            .findings
            .iter()
            .filter(|finding| finding.kind == Kind::Link)
            .filter_map(|finding| {
                let address = finding.item.strip_prefix("ssh://")?.split('/').next()?;
                Some((finding.pointer.clone(), address.to_owned()))
            })
            .collect();
        self.findings.retain(|finding| {
            finding.kind != Kind::Email
                || !remotes.iter().any(|(pointer, address)| {
                    *pointer == finding.pointer && *address == finding.item
                })
        });
    }
}

/// The text to show for `start..end` of a view.
fn shown<'o>(
    text: Text<'_>,
    original: &'o str,
    view: &View<'_>,
    start: usize,
    end: usize,
) -> &'o str {
    if text.original.is_some() { original } else { found(original, view, start, end) }
}

/// Whether a decoded text is nothing but one more encoded run: then only that is told.
fn is_one_run(says: &str) -> bool {
    let mut whole = false;
    encoded::find(says, &tokens::find(says), &mut |run| {
        whole |= matches!(run.says, Says::Text(_)) && (run.end - run.start) * 10 >= says.len() * 9;
    });
    whole
}

/// A short name of letters and underscores holds nothing.
fn is_plain_name(key: &str) -> bool {
    key.len() <= 24 && key.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_')
}

/// A number as its digits: `9876543210.0` and `9.87654321e9` are `9876543210`.
fn plain_number(number: &str) -> String {
    const EXPANDED_MAX: i64 = 64;
    let (sign, unsigned) = match number.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", number),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent = exponent.parse::<i64>().unwrap_or(i64::MAX);
    if !(-EXPANDED_MAX..=EXPANDED_MAX).contains(&exponent) {
        return number.to_owned();
    }
    let mut digits = format!("{whole}{fraction}");
    let point = i64::try_from(whole.len()).unwrap_or(0) + exponent;
    if point <= 0 {
        return number.to_owned();
    }
    let point = usize::try_from(point).unwrap_or(0);
    while digits.len() < point {
        digits.push('0');
    }
    let (whole, fraction) = digits.split_at_checked(point).unwrap_or((&digits, ""));
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}
