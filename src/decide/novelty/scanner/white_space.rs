//! Values that are one item once their white space is dropped.

use std::collections::BTreeSet;

use super::super::view::View;
use super::super::{Kind, email, link};
use super::{Holds, Scanner, Text};

/// The longest recipient that is read without its white space.
const FOLDED_MAX: usize = 320;

impl Scanner<'_> {
    /// Mail programs drop white space around `@` and dots. Only where nothing else is left.
    pub(super) fn folded(&mut self, text: Text<'_>, original: &str) -> Holds {
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

    /// Browsers drop tabs and line breaks inside a link. A list of links on lines is not that, and a
    /// link on a line of its own only in a field that is not for one link.
    pub(super) fn without_breaks(&mut self, text: Text<'_>, original: &str) -> Holds {
        let mut plain = false;
        let _ = link::find(text.text, text.place, &mut |link| plain |= link::is_plain(&link));
        let one_link = text.place.only_host && text.text.matches("://").count() == 1;
        if plain && !one_link {
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
            let runs = matches!(link.prefix.as_str(), "javascript:" | "vbscript:" | "data:");
            if over && (runs || link::is_plain(&link)) {
                holds = Holds::Item;
                let whole = Text { original: Some(original), ..text };
                self.link(&link, &view, original, whole, &mut BTreeSet::new());
            }
        }
        holds
    }
}
