//! What an argument carries that nobody asked for.
//!
//! [`scan`] searches every string of a call's arguments, keys as well as values, in every notation
//! that a reader, a browser or a program would undo, for e-mail addresses, links, accounts and
//! encoded text. What no trusted source contains is a [`Finding`], and a call with a finding waits
//! for a person. Items are compared whole, by canonical form; a text that merely contains an item
//! makes nothing known.
//!
//! Nothing here asks a network whether a host exists, and nothing is ever *removed* from an argument.
//! When a budget runs out, that is a finding too.
//!
//! | what | where |
//! |---|---|
//! | detectors | `email`, `link`, `iban`, `bank`, `wallet`, `encoded`, `invisible` |
//! | views of a text | `clean`, `escapes`, `written_out`, `views`, `view` |
//! | what could be found at all | `outline` |
//! | neighbours joined | `joins` |
//! | trusted sources | `sources` |

mod bank;
mod bytes;
mod clean;
mod decode;
mod email;
mod encoded;
mod escapes;
mod host;
mod iban;
mod iban_registry;
mod invisible;
mod joins;
mod link;
mod link_end;
mod link_form;
mod outline;
mod patterns;
mod place;
mod resemblance;
mod scanner;
mod sentence;
mod sources;
mod tld_words;
mod tlds;
mod view;
mod views;
mod wallet;
mod written_out;

use super::json::Json;

/// The detectors' version: raised with every change to what they find. Records and saved runs name it.
pub const VERSION: &str = "1";

/// The kinds of item that a detector finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An e-mail address.
    Email,
    /// A link.
    Link,
    /// An IBAN.
    Iban,
    /// Another bank account, card or wallet.
    BankAccount,
    /// Encoded text or an invisible channel.
    Encoded,
    /// A limit of the scan was reached: what lies beyond is unknown.
    Budget,
}

impl Kind {
    /// The kind's stable name on the wire.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Kind::Email => "email",
            Kind::Link => "link",
            Kind::Iban => "iban",
            Kind::BankAccount => "bank_account",
            Kind::Encoded => "encoded",
            Kind::Budget => "budget",
        }
    }
}

/// One novel item in a call's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub kind: Kind,
    /// Its canonical form.
    pub item: String,
    /// JSON pointer (RFC 6901) of the argument.
    pub pointer: String,
    /// The item as it stands in the argument.
    pub found: String,
    /// A known item that it resembles, or whose host it shares: said to the person, never trusted.
    pub resembles: Option<Resemblance>,
}

/// How a novel item relates to a known one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resemblance {
    /// The host or domain is known, this address or link at it is not.
    HostKnown(String),
    /// It looks like this known item, and is another.
    LookAlike(String),
}

/// What the tool's definition says, where it matters to a detector (words of accounts and payees).
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolText<'a> {
    /// The tool's name.
    pub name: &'a str,
    /// Its description.
    pub description: Option<&'a str>,
    /// JSON Schema of its arguments.
    pub input_schema: Option<&'a Json>,
}

/// The trusted texts of a conversation, canonicalised once.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    known: sources::Known,
}

impl Sources {
    /// `person`: texts that a person typed; `instructions`: the agent version's; `context`: the
    /// sentences of `environment` and `allow`, never of `soft_deny`.
    #[must_use]
    pub fn new(person: &[&str], instructions: &str, context: &[&str]) -> Self {
        let mut known = sources::Known::default();
        for text in person {
            known.add(text, false);
        }
        known.add(instructions, true);
        for text in context {
            known.add(text, true);
        }
        Sources { known }
    }
}

/// Every novel item in `arguments`, in the order of the text.
#[must_use]
pub fn scan(arguments: &Json, tool: ToolText<'_>, sources: &Sources) -> Vec<Finding> {
    scanner::Scanner::new(tool, &sources.known).run(arguments)
}
