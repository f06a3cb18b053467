//! What policy and operator say of one tool, before the conversation's mode.
//!
//! Of all that applies the most restrictive counts; the order of rules and how specific they are
//! never matter.

use std::collections::BTreeSet;

use super::annotations::floor;
use super::pattern::matches;
use super::{Action, Class, Effect, OperatorSettings, Policy, Rule};
use crate::decide::request::{Door, Tool};

/// What policy and operator say of one tool, before the conversation's mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The most restrictive class that applies, if any.
    pub class: Option<Class>,
    /// Where that class comes from.
    pub class_source: ClassSource,
    /// Every class that applies, from the floor and from rules, the least restrictive first.
    pub classes: Vec<Class>,
    /// The most restrictive action that applies.
    pub action: Action,
    /// What applied, by its place in the policy: `tools.<pattern>` for each matching rule in the
    /// policy's order, `classes.<class>`, `default`; `operator.unclassified` where the operator's
    /// setting was asked, and `builtin.unnamed_class` where a class counts as `approve` because no
    /// policy names its action.
    pub matched: Vec<String>,
}

/// Where an effective class comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClassSource {
    /// The tool's annotations.
    Annotations,
    /// Annotations that cannot be relied on: malformed, or an author's without a required hint.
    UnreliableAnnotations,
    /// MCP's own defaults, for a connector's tool without annotations.
    MissingAnnotations,
    /// The operator's catalogue.
    Catalogue,
    /// A class rule of the policy (its pattern), stricter than the floor or in place of one.
    Rule(String),
    /// There is no class.
    None,
}

impl ClassSource {
    /// The source's name in answers; a rule's pattern is not part of it.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Annotations => "annotations",
            Self::UnreliableAnnotations => "unreliable_annotations",
            Self::MissingAnnotations => "missing_annotations",
            Self::Catalogue => "catalogue",
            Self::Rule(_) => "rule",
            Self::None => "none",
        }
    }
}

/// Applies policy and operator's settings to one tool.
#[must_use]
pub fn effective(
    policy: Option<&Policy>,
    tool: &Tool,
    door: Door,
    settings: &OperatorSettings,
) -> Effective {
    let floor = floor(tool, settings);
    let rules = matching_rules(policy, tool);
    let mut matched: Vec<_> = rules.iter().map(|rule| format!("tools.{}", rule.pattern)).collect();

    let mut class = floor.class;
    let mut class_source = floor.source;
    let mut classes: BTreeSet<Class> = floor.class.into_iter().collect();
    let mut actions: Vec<Action> = Vec::new();
    for rule in rules {
        match rule.effect {
            Effect::Class(ruled) => {
                classes.insert(ruled);
                if class < Some(ruled) {
                    class = Some(ruled);
                    class_source = ClassSource::Rule(rule.pattern.clone());
                }
            }
            Effect::Action(action) => actions.push(action),
        }
    }

    if classes.is_empty() {
        if actions.is_empty()
            && let Some(default) = policy.and_then(|policy| policy.default)
        {
            matched.push("default".to_owned());
            actions.push(default);
        }
        matched.push("operator.unclassified".to_owned());
        actions.push(settings.unclassified_at(door));
    }
    let mut unnamed = false;
    for class in &classes {
        match policy.and_then(|policy| policy.class_action(*class)) {
            Some(action) => {
                matched.push(format!("classes.{}", class.as_str()));
                actions.push(action);
            }
            None => {
                unnamed = true;
                actions.push(Action::Approve);
            }
        }
    }
    if unnamed {
        matched.push("builtin.unnamed_class".to_owned());
    }
    Effective {
        class,
        class_source,
        classes: classes.into_iter().collect(),
        // There always is one; if there were not, blocking would be the safe reading.
        action: actions.into_iter().max().unwrap_or(Action::Block),
        matched,
    }
}

fn matching_rules<'policy>(policy: Option<&'policy Policy>, tool: &Tool) -> Vec<&'policy Rule> {
    let qualified = tool.qualified_name();
    policy
        .into_iter()
        .flat_map(|policy| &policy.rules)
        .filter(|rule| {
            // A class that is meant for a server's tool is not an author's to take by its name.
            let claimed = qualified.is_none()
                && rule.pattern.starts_with("mcp__")
                && matches!(rule.effect, Effect::Class(_));
            (!claimed && matches(&rule.pattern, &tool.name))
                || qualified.as_deref().is_some_and(|name| matches(&rule.pattern, name))
        })
        .collect()
}
