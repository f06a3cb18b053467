//! The organisation's policy: what each tool call may do before anybody is asked.
//!
//! [`parse`] reads a policy and reports every problem at once; [`effective()`] says what policy and
//! operator make of one tool; [`rule`] adds the conversation's mode. All of it only ever tightens:
//! more rules, more classes and stricter settings never make a call freer.
//!
//! Nothing here sees arguments or conversations: this is about tools, not about calls.

mod annotations;
mod digest;
mod effective;
mod operator;
mod pattern;
mod raw;
mod verdict;

pub use self::annotations::{
    Floor, annotation_problems, declared_harmless, declares_destructive, floor,
};
pub use self::effective::{ClassSource, Effective, effective};
pub use self::operator::{ALWAYS_HUMAN_ONLY, OperatorSettings};
pub use self::pattern::matches;
pub use self::raw::{ENTRIES_LIMIT, ENTRY_LIMIT, LISTS_LIMIT, parse, parse_at, parse_text};
pub use self::verdict::{Open, Ruling, Verdict, is_sandboxed_bash, needs_person, rule};
pub use super::walk::Problem;

/// A tool's class; later ones are more restrictive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Changes nothing.
    Read,
    /// Changes something that can be undone.
    Write,
    /// May destroy.
    Destructive,
}

impl Class {
    /// Every class, the least restrictive first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Destructive];

    /// The class's name in policies and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Destructive => "destructive",
        }
    }

    /// The class of that name.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == word)
    }
}

/// What happens with a call; later ones are more restrictive. `deny` is another word for `block`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// It runs.
    Allow,
    /// It needs approval.
    Approve,
    /// It never runs.
    Block,
}

impl Action {
    /// The action's name in policies and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Approve => "approve",
            Self::Block => "block",
        }
    }

    /// The action of that name; `deny` reads as `block`.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "allow" => Some(Self::Allow),
            "approve" => Some(Self::Approve),
            "block" | "deny" => Some(Self::Block),
            _ => None,
        }
    }
}

/// A conversation's mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Look only.
    Plan,
    /// A person decides what needs approval.
    Ask,
    /// The approver decides what it may.
    Auto,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Plan, Self::Ask, Self::Auto];

    /// The mode's name in policies, requests and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Ask => "ask",
            Self::Auto => "auto",
        }
    }

    /// The mode of that name.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

/// A valid policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// The action of each class that the policy names.
    pub classes: Vec<(Class, Action)>,
    /// Rules by tool name, in the policy's order.
    pub rules: Vec<Rule>,
    /// The explicit default for tools without a class and a rule.
    pub default: Option<Action>,
    /// The modes on offer.
    pub modes: Modes,
    /// The organisation's own sentences.
    pub lists: Lists,
}

impl Policy {
    /// The action of a class, where the policy names it.
    #[must_use]
    pub fn class_action(&self, class: Class) -> Option<Action> {
        self.classes.iter().filter(|(named, _)| *named == class).map(|(_, action)| *action).max()
    }
}

/// One `tools` rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// A name in which `*` stands for any characters.
    pub pattern: String,
    /// What it says of the tools that match.
    pub effect: Effect,
}

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The tool is at least of this class.
    Class(Class),
    /// The call gets at least this action.
    Action(Action),
}

/// The modes that an agent version offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modes {
    /// Always with plan; with ask whenever auto is.
    pub offered: Vec<Mode>,
    /// One of the offered.
    pub default: Mode,
}

impl Default for Modes {
    fn default() -> Self {
        Self { offered: vec![Mode::Plan, Mode::Ask], default: Mode::Ask }
    }
}

impl Modes {
    /// Whether a conversation may run in `mode`.
    #[must_use]
    pub fn offers(&self, mode: Mode) -> bool {
        self.offered.contains(&mode)
    }
}

/// The organisation's sentences for the judge.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lists {
    /// Background, never permission.
    pub environment: Vec<String>,
    /// What is routine here.
    pub allow: Vec<String>,
    /// What goes to a person even when the user asked for it.
    pub soft_deny: Vec<String>,
}
