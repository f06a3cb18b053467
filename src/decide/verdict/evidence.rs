//! Whether the evidence that a judge quotes is really there. Looked up in code, never believed.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use super::answer::{Answer, Basis, Counts, Source};
use super::pasted::own_words;
use crate::decide::eligibility::EligibleClass;
use crate::decide::policy::Lists;
use crate::decide::prompt::MAX_QUOTE;
use crate::decide::reason::{ListEntry, Unsupported};
use crate::decide::request::Agent;
use crate::decide::text::quotable;

/// Characters (Unicode scalar values) below which a quote means nothing, unless it is its whole
/// source.
const MIN_QUOTE: usize = 8;

/// Letters and digits below which a quote means nothing, unless it is its whole source: a row of
/// dashes says nothing.
const MIN_LETTERS: usize = 4;

/// Bytes of a text above which its forms are made at once, where the request is planned: whoever
/// reads an answer must not be held up by them.
const LARGE: usize = 16 * 1024;

/// The texts that may authorise, gathered once a request. The form in which quotes are compared is
/// made of those alone that a judge quotes.
#[derive(Debug, Clone)]
pub struct Sources {
    persons: Vec<Text>,
    instructions: Text,
    allow: Vec<Text>,
    soft_deny: Vec<String>,
}

#[derive(Debug, Clone)]
struct Text {
    text: String,
    /// Whether what is pasted in it does not count.
    person: bool,
    forms: OnceLock<Forms>,
}

/// A text as quotes are compared with it.
#[derive(Debug, Clone)]
struct Forms {
    whole: String,
    /// The runs in which a quote may stand; none where all of the text may be quoted.
    own: Option<Vec<String>>,
}

impl Text {
    fn new(text: &str, person: bool) -> Self {
        let made = Self { text: text.to_owned(), person, forms: OnceLock::new() };
        if text.len() > LARGE {
            made.forms();
        }
        made
    }

    fn forms(&self) -> &Forms {
        self.forms.get_or_init(|| {
            let own = || own_words(&self.text).iter().map(|run| quotable(run)).collect();
            Forms { whole: quotable(&self.text), own: self.person.then(own) }
        })
    }
}

impl Forms {
    /// Whether a quote that the text has stands where it counts.
    fn counts(&self, quote: &str) -> bool {
        self.own.as_ref().is_none_or(|runs| runs.iter().any(|run| run.contains(quote)))
    }
}

impl Sources {
    /// Gathers the person's messages (without what they pasted), the instructions and the lists.
    #[must_use]
    pub fn new(persons: &[&str], agent: &Agent, lists: &Lists) -> Self {
        Self {
            persons: persons.iter().map(|text| Text::new(text, true)).collect(),
            instructions: Text::new(&agent.instructions, false),
            allow: lists.allow.iter().map(|entry| Text::new(entry, false)).collect(),
            soft_deny: lists.soft_deny.clone(),
        }
    }

    pub(super) fn counts(&self, leaves: usize) -> Counts {
        Counts {
            persons: self.persons.len(),
            allow: self.allow.len(),
            soft_deny: self.soft_deny.len(),
            leaves,
        }
    }

    /// The entries of `soft_deny` with these numbers.
    pub(super) fn soft_deny(&self, numbers: &[usize]) -> Vec<ListEntry> {
        numbers
            .iter()
            .filter_map(|number| {
                let text = self.soft_deny.get(number.checked_sub(1)?)?.clone();
                Some(ListEntry { number: *number, text })
            })
            .collect()
    }

    fn look_up(&self, source: Source, index: usize) -> Option<&Forms> {
        let position = index.checked_sub(1)?;
        let text = match source {
            Source::User => self.persons.get(position)?,
            Source::Instructions => &self.instructions,
            Source::Allow => self.allow.get(position)?,
        };
        Some(text.forms())
    }

    fn check_quote(&self, basis: &Basis) -> Result<(), Unsupported> {
        let quote = quotable(&basis.quote);
        let length = quote.chars().count();
        if length > MAX_QUOTE {
            return Err(Unsupported::QuoteTooLong);
        }
        let Some(source) = self.look_up(basis.source, basis.index) else {
            return Err(Unsupported::QuoteAbsent);
        };
        if length == 0 || !source.whole.contains(&quote) {
            return Err(Unsupported::QuoteAbsent);
        }
        let letters = quote.chars().filter(|character| character.is_alphanumeric()).count();
        let short = length < MIN_QUOTE || letters < MIN_LETTERS;
        if short && source.whole.chars().count() > length {
            return Err(Unsupported::QuoteTooShort);
        }
        if source.counts(&quote) { Ok(()) } else { Err(Unsupported::QuotePasted) }
    }
}

/// Proof that an approving answer's evidence held.
///
/// INVARIANT: only [`check`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supported {
    evidence: Vec<Evidence>,
}

impl Supported {
    /// The quotes that were found, and what they cover.
    #[must_use]
    pub fn evidence(&self) -> &[Evidence] {
        &self.evidence
    }
}

/// A quote that was found in its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// What kind of source it stands in.
    pub source: Source,
    /// The source's number, from 1.
    pub index: usize,
    /// The judge's quote, in the form in which it was compared.
    pub quote: String,
    /// JSON pointers (RFC 6901) of what it supports; the empty pointer is the call as such.
    pub covers: Vec<String>,
}

/// Checks the evidence of an answer that says approve.
pub(super) fn check(
    answer: &Answer,
    class: EligibleClass,
    sources: &Sources,
    pointers: &[String],
) -> Result<Supported, Unsupported> {
    for basis in &answer.basis {
        sources.check_quote(basis)?;
    }
    let covered: BTreeSet<usize> =
        answer.basis.iter().flat_map(|basis| basis.covers.iter().copied()).collect();
    let may_ask = |basis: &&Basis| match (basis.source, class) {
        (Source::User | Source::Allow, EligibleClass::Read | EligibleClass::Write)
        | (Source::Instructions, EligibleClass::Read) => true,
        (Source::Instructions, EligibleClass::Write) => false,
    };
    if !answer.basis.iter().filter(may_ask).any(|basis| basis.covers.contains(&0)) {
        return Err(Unsupported::CallUncovered);
    }
    if answer.unsupported.contains(&0) {
        return Err(Unsupported::CallUnsupported);
    }
    if class == EligibleClass::Write {
        check_leaves(&covered, &answer.unsupported, pointers)?;
    }
    let evidence = answer.basis.iter().map(|basis| evidence(basis, pointers)).collect();
    Ok(Supported { evidence })
}

/// Each leaf of a write stands in exactly one of the covers and the unsupported, and none in these.
fn check_leaves(
    covered: &BTreeSet<usize>,
    unsupported: &BTreeSet<usize>,
    pointers: &[String],
) -> Result<(), Unsupported> {
    for (index, pointer) in pointers.iter().enumerate() {
        let number = index + 1;
        match (covered.contains(&number), unsupported.contains(&number)) {
            (true, false) => {}
            (true, true) => return Err(Unsupported::Contradiction(pointer.clone())),
            (false, true) => return Err(Unsupported::ArgumentUnsupported(pointer.clone())),
            (false, false) => return Err(Unsupported::ArgumentUncovered(pointer.clone())),
        }
    }
    Ok(())
}

fn evidence(basis: &Basis, pointers: &[String]) -> Evidence {
    let covers = basis
        .covers
        .iter()
        .filter_map(|number| match number.checked_sub(1) {
            None => Some(String::new()),
            Some(index) => pointers.get(index).cloned(),
        })
        .collect();
    Evidence { source: basis.source, index: basis.index, quote: quotable(&basis.quote), covers }
}
