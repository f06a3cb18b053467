//! The walk over a call's arguments: every text, every view, every detector, and the budgets.

mod accounts;
mod decoded;
mod findings;
mod white_space;

use std::collections::BTreeSet;

use accounts::Pending;

use super::bytes::slice;
use super::encoded;
use super::link::Looked;
use super::link_form::Link;
use super::place::{self, Place};
use super::sources::Known;
use super::view::{View, found};
use super::views::{self, Seen, Side};
use super::{Finding, Kind, ToolText, email, invisible, link, link_form};
use crate::decide::json::{Json, MAX_DEPTH};
use crate::decide::text::head;

/// Encodings inside one another.
pub(super) const DECODE_DEPTH_MAX: usize = 4;
/// Bytes that all decoded runs of a call may have together.
pub(super) const DECODED_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Bytes that all views of a call may have together, beyond the arguments themselves.
pub(super) const VIEW_BYTES_MAX: usize = 6 * 1024 * 1024;
/// Bytes of neighbours that are joined a few at a time.
pub(super) const WINDOW_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of sources that looking up encoded runs may read.
const LOOK_UP_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Findings that are listed one by one.
const FINDINGS_MAX: usize = 200;
/// The longest pointer that a finding keeps; a longer one names the value above that fits.
const POINTER_MAX: usize = 1024;
/// Items of one row of joined neighbours that are remembered.
const JOINED_ITEMS_MAX: usize = 64;
/// The longest item and the longest text as found that a finding keeps.
const ITEM_MAX: usize = 4 * 1024;
/// Findings among which a number that is told again is looked for.
const NEAR: usize = 16;

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
    Neighbours,
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
            Spent::Neighbours => "joined neighbours",
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
    pub(super) window_bytes: usize,
    /// Only a few neighbours are joined: their ends may cut an item.
    pub(super) window: bool,
    /// Known addresses and links that the row of neighbours being joined showed so far.
    pub(super) joined: Vec<String>,
    /// The texts of the object that was walked last, `None` for one that holds a complete item.
    pub(super) members: Vec<(&'a str, Option<&'a str>)>,
    /// Numbers of the objects that are being walked, to be paired when the object ends.
    pub(super) numbers: Vec<Vec<Pending>>,
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
            window_bytes: WINDOW_BYTES_MAX,
            window: false,
            joined: Vec::new(),
            members: Vec::new(),
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
        // Joined neighbours say the same thing in several windows.
        if text.depth == 0 && text.seams.is_none() {
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
        let better = self.decoded_links(&views.seen, text);
        for seen in &views.seen {
            holds = holds.max(self.view(seen, original, text, &better, &mut links_told));
            for (start, end) in &seen.spelled {
                let says = slice(&seen.view.text, *start, *end);
                let run: String =
                    shown(text, text.text, &seen.view, *start, *end).split_whitespace().collect();
                if text.seams.is_none()
                    && !self.known.has_run(&run, &mut self.look_up_bytes)
                    && !self.known.has_text(says, &mut self.look_up_bytes)
                {
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

    /// Where the decoded views have novel links beyond doubt, in bytes of the text as it stands.
    fn decoded_links(&self, views: &[Seen<'_>], text: Text<'_>) -> Vec<usize> {
        let mut starts = Vec::new();
        for seen in views.iter().skip(1) {
            let shows: &str = &seen.view.text;
            let _ = link::find(shows, text.place, &mut |link| {
                let written = slice(shows, link.start, link.end);
                if link.scheme_written
                    && !link.doubtful
                    && link::is_plain(&link)
                    && !self.known.has_link(&link, written)
                {
                    starts.push(seen.view.original(link.start, link.end).0);
                }
            });
        }
        starts
    }

    fn view(
        &mut self,
        seen: &Seen<'_>,
        original: &str,
        text: Text<'_>,
        better: &[usize],
        links_told: &mut BTreeSet<usize>,
    ) -> Holds {
        let Seen { view, outline, .. } = seen;
        let mut holds = Holds::Nothing;
        let place = text.place;
        let shows: &str = &view.text;
        let counts = |start: usize, end: usize| {
            text.seams.is_none_or(|seams| {
                let after = seams.partition_point(|seam| *seam <= start);
                seams.get(after).is_some_and(|seam| *seam < end)
            })
        };

        let mut emails = Vec::new();
        email::find(shows, place, &mut |email| emails.push(email));
        let addresses: Vec<(usize, usize)> =
            emails.iter().map(|email| (email.start, email.end)).collect();
        for email in emails {
            let known = text.seams.is_some() && self.known.has_email(&email.address);
            if !counts(email.start, email.end)
                || self.is_cut((email.start, email.end), shows, text, &email.address, known)
            {
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
            let known = text.seams.is_some()
                && self.known.has_link(&link, slice(shows, link.start, link.end));
            if self.is_cut((link.start, link.end), shows, text, &link.item(), known) {
                continue;
            }
            let bare = !link.scheme_written && link.path.is_empty() && link.tail.is_empty();
            let part = bare || (link.scheme_written && !link::is_plain(&link));
            holds = holds.max(if part { Holds::Fragment } else { Holds::Item });
            // What the escapes hide is told in its own view, by its own name.
            let (start, _) = view.original(link.start, link.end);
            let user = slice(shows, link.start, link.end).contains('@');
            let hidden = !link::is_plain(&link) || (link.doubtful && !user);
            if hidden && better.contains(&start) {
                continue;
            }
            self.link(&link, view, original, text, links_told);
        }

        if self.window {
            return holds;
        }
        if !outline.digits.is_empty() {
            holds = holds.max(self.accounts(seen, original, text, &counts));
        }

        let mut runs = Vec::new();
        encoded::find(shows, outline, &mut |run| runs.push(run));
        for run in runs {
            if !counts(run.start, run.end) {
                continue;
            }
            let found = shown(text, original, view, run.start, run.end);
            holds = holds.max(self.encoded(&run, found, text));
        }
        holds
    }

    /// Whether the ends of a window of neighbours cut the item out of a known one that the row or a
    /// larger window showed. Known items of joined texts are remembered for the windows that follow.
    fn is_cut(
        &mut self,
        (start, end): (usize, usize),
        shows: &str,
        text: Text<'_>,
        item: &str,
        known: bool,
    ) -> bool {
        if text.seams.is_none() {
            return false;
        }
        if self.window && (start == 0 || end == shows.len()) {
            let part = |whole: &String| {
                whole.len() > item.len() && (whole.ends_with(item) || whole.starts_with(item))
            };
            if self.joined.iter().any(part) {
                return true;
            }
        }
        if known && self.joined.len() < JOINED_ITEMS_MAX {
            self.joined.push(head(item, ITEM_MAX).to_owned());
        }
        false
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
