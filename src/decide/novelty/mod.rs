//! What an argument carries that nobody asked for: STUB, interface only.

use super::json::Json;

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
pub struct Sources {}

impl Sources {
    /// `person`: texts that a person typed; `instructions`: the agent version's; `context`: the
    /// sentences of `environment` and `allow`, never of `soft_deny`.
    #[must_use]
    pub fn new(_person: &[&str], _instructions: &str, _context: &[&str]) -> Self {
        Self {}
    }
}

/// Every novel item in `arguments`, in the order of the text.
#[must_use]
pub fn scan(_arguments: &Json, _tool: ToolText<'_>, _sources: &Sources) -> Vec<Finding> {
    Vec::new()
}

impl Finding {
    /// One sentence for the person on duty: kind, argument and item, hidden characters shown.
    #[must_use]
    pub fn sentence(&self) -> String {
        String::new()
    }
}

impl Kind {
    /// The kind's name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Link => "link",
            Self::Iban => "iban",
            Self::BankAccount => "bank_account",
            Self::Encoded => "encoded",
            Self::Budget => "budget",
        }
    }
}
