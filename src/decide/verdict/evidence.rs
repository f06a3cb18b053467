//! Whether the evidence that a judge quotes is really there. Looked up in code, never believed.

use std::collections::BTreeSet;

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

/// The texts that may authorise, in the form in which quotes are compared; gathered once a request.
#[derive(Debug, Clone)]
pub struct Sources {
    persons: Vec<Message>,
    instructions: String,
    allow: Vec<String>,
    soft_deny: Vec<String>,
}

#[derive(Debug, Clone)]
struct Message {
    whole: String,
    own: Vec<String>,
}

impl Sources {
    /// Gathers the person's messages (without what they pasted), the instructions and the lists.
    #[must_use]
    pub fn new(persons: &[&str], agent: &Agent, lists: &Lists) -> Self {
        let message = |text: &&str| Message {
            whole: quotable(text),
            own: own_words(text).iter().map(|run| quotable(run)).collect(),
        };
        Self {
            persons: persons.iter().map(message).collect(),
            instructions: quotable(&agent.instructions),
            allow: lists.allow.iter().map(|entry| quotable(entry)).collect(),
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

    /// The source's whole text and the runs in which a quote may stand.
    fn look_up(&self, source: Source, index: usize) -> Option<(&str, Vec<&str>)> {
        let position = index.checked_sub(1)?;
        match source {
            Source::User => {
                let message = self.persons.get(position)?;
                Some((&message.whole, message.own.iter().map(String::as_str).collect()))
            }
            Source::Instructions => Some((&self.instructions, vec![&self.instructions])),
            Source::Allow => {
                let entry = self.allow.get(position)?;
                Some((entry, vec![entry]))
            }
        }
    }

    fn check_quote(&self, basis: &Basis) -> Result<(), Unsupported> {
        let quote = quotable(&basis.quote);
        let length = quote.chars().count();
        if length > MAX_QUOTE {
            return Err(Unsupported::QuoteTooLong);
        }
        let Some((whole, runs)) = self.look_up(basis.source, basis.index) else {
            return Err(Unsupported::QuoteAbsent);
        };
        if length == 0 || !whole.contains(&quote) {
            return Err(Unsupported::QuoteAbsent);
        }
        let letters = quote.chars().filter(|character| character.is_alphanumeric()).count();
        let short = length < MIN_QUOTE || letters < MIN_LETTERS;
        if short && whole.chars().count() > length {
            return Err(Unsupported::QuoteTooShort);
        }
        if runs.iter().any(|run| run.contains(&quote)) {
            Ok(())
        } else {
            Err(Unsupported::QuotePasted)
        }
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
