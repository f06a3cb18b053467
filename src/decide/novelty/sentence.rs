//! What the person on duty reads about a finding.

use super::{Finding, Kind, Resemblance};
use crate::decide::text::{head, shown};

/// The longest item and the longest pointer shown, in bytes.
const ITEM_SHOWN: usize = 160;
const POINTER_SHOWN: usize = 120;

impl Finding {
    /// One sentence for the person on duty: kind, argument and item, hidden characters shown.
    #[must_use]
    pub fn sentence(&self) -> String {
        let place = if self.pointer.is_empty() {
            "the arguments".to_owned()
        } else {
            format!("`{}`", cut(&self.pointer, POINTER_SHOWN))
        };
        if self.kind == Kind::Budget {
            return format!(
                "A limit of the scan was reached in {place} ({}), so what lies beyond is unknown.",
                cut(&self.item, ITEM_SHOWN)
            );
        }
        let what = match self.kind {
            Kind::Email => "The e-mail address",
            Kind::Link => "The link",
            Kind::Iban => "The IBAN",
            Kind::BankAccount => "The account",
            Kind::Encoded => "The encoded or hidden text",
            Kind::Budget => "The limit",
        };
        let item = cut(&self.item, ITEM_SHOWN);
        let found = cut(&self.found, ITEM_SHOWN);
        let written = if self.found.is_empty() || self.found == self.item {
            String::new()
        } else {
            format!(", written `{found}`,")
        };
        let resembles = match &self.resembles {
            Some(Resemblance::HostKnown(host)) => {
                format!("; its host `{}` is known, this item is not", cut(host, ITEM_SHOWN))
            }
            Some(Resemblance::LookAlike(other)) => {
                format!("; it resembles `{}`, which is known", cut(other, ITEM_SHOWN))
            }
            None => String::new(),
        };
        format!("{what} `{item}` in {place}{written} stands in no trusted source{resembles}.")
    }
}

/// At most `limit` bytes, with what does not show as escapes.
fn cut(text: &str, limit: usize) -> String {
    let start = head(text, limit);
    let line = shown(start).replace('`', "'");
    if start.len() < text.len() { format!("{line}…") } else { line }
}
