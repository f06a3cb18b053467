//! The organisation's policy: what each tool call may do before anybody is asked.
//! STUB: types only.

use super::json::Json;
use super::request::{CatalogueEntry, Door, Tool};
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
        Self {
            offered: vec![Mode::Plan, Mode::Ask],
            default: Mode::Ask,
        }
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

/// What the operator of the installation set, for every organisation's policy.
#[derive(Debug, Clone)]
pub struct OperatorSettings {
    /// Built-in tools with their class floors.
    pub catalogue: Vec<CatalogueEntry>,
    /// More names that only a person may approve.
    pub human_only: Vec<String>,
    /// What happens with a tool that has no class and no rule, at the gateway's door.
    pub unclassified: Action,
    /// The same at every other door.
    pub unclassified_elsewhere: Action,
}

/// Reads a policy and reports every problem at once.
///
/// # Errors
/// All problems, in the order of the text.
pub fn parse(_policy: &Json) -> Result<Policy, Vec<Problem>> {
    Err(Vec::new())
}

/// What policy and operator say of one tool, before the conversation's mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The most restrictive class that applies, if any.
    pub class: Option<Class>,
    /// Where the class comes from.
    pub class_source: ClassSource,
    /// The most restrictive action that applies.
    pub action: Action,
    /// The rules' patterns that match, `default` and `classes.write` style names among them.
    pub matched: Vec<String>,
}

/// Where an effective class comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClassSource {
    /// The tool's annotations.
    Annotations,
    /// The operator's catalogue.
    Catalogue,
    /// A class rule of the policy (its pattern), stricter than the floor or in place of one.
    Rule(String),
    /// There is no class.
    None,
}

/// Applies policy and operator's settings to one tool.
#[must_use]
pub fn effective(
    _policy: Option<&Policy>,
    _tool: &Tool,
    _door: Door,
    _settings: &OperatorSettings,
) -> Effective {
    Effective {
        class: None,
        class_source: ClassSource::None,
        action: Action::Block,
        matched: Vec::new(),
    }
}
