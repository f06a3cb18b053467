//! Which calls a machine may look at at all.
//!
//! One gate a file, in the order in which they are asked; the first that closes names the reason.
//! Nothing here reads an argument, a conversation or a list: the tool and the policy alone decide.

mod builtin_write;
mod destructive;
mod human_only;
mod not_declared_harmless;
mod unclassified;

use super::policy::{Class, Effective, OperatorSettings};
use super::reason::Reason;
use super::request::Tool;

/// What a gate looks at.
pub(crate) struct Subject<'a> {
    pub(crate) tool: &'a Tool,
    pub(crate) effective: &'a Effective,
    pub(crate) settings: &'a OperatorSettings,
}

/// A gate: `Some` closes.
type Gate = fn(&Subject<'_>) -> Option<Reason>;

/// The gates in their order.
const GATES: [Gate; 5] = [
    destructive::check,
    human_only::check,
    builtin_write::check,
    unclassified::check,
    not_declared_harmless::check,
];

/// Proof that every gate is open for a call of this tool.
///
/// INVARIANT: only [`check`] makes one, so a call that no machine may judge cannot be asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eligible {
    class: EligibleClass,
}

/// The classes that a machine may judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EligibleClass {
    /// Changes nothing.
    Read,
    /// Changes something, and is declared harmless.
    Write,
}

impl Eligible {
    /// The call's class.
    #[must_use]
    pub fn class(&self) -> EligibleClass {
        self.class
    }
}

/// Asks every gate about a tool.
///
/// # Errors
/// The reason of the first gate that is closed.
pub fn check(
    tool: &Tool,
    effective: &Effective,
    settings: &OperatorSettings,
) -> Result<Eligible, Reason> {
    let subject = Subject { tool, effective, settings };
    if let Some(reason) = GATES.iter().find_map(|gate| gate(&subject)) {
        return Err(reason);
    }
    match effective.class {
        Some(Class::Read) => Ok(Eligible { class: EligibleClass::Read }),
        Some(Class::Write) => Ok(Eligible { class: EligibleClass::Write }),
        // The gates closed before; naming the reason again keeps this function total.
        Some(Class::Destructive) => Err(Reason::Destructive),
        None => Err(Reason::Unclassified),
    }
}
