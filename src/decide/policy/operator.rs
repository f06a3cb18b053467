//! What the operator of an installation sets, above every organisation's policy.
//!
//! A policy may be stricter than this and never looser.

use super::{Action, Class};
use crate::decide::request::{CatalogueEntry, Door, Origin, Tool};

/// Names that only a person may ever approve, whatever the settings say.
pub const ALWAYS_HUMAN_ONLY: [&str; 2] = ["Deliver", "SkillsApply"];

/// Built-in tools that change things, whatever the settings say: without this, a forgotten entry
/// in the configured catalogue would make a shell an unclassified tool, which by default runs.
const ALWAYS_WRITE: [&str; 3] = ["Bash", "Deliver", "SkillsApply"];

/// What the operator of the installation set, for every organisation's policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorSettings {
    /// Built-in tools with their class floors, by bare name. `Bash`, `Deliver` and `SkillsApply`
    /// are writes at least, listed or not.
    pub catalogue: Vec<CatalogueEntry>,
    /// More names that only a person may approve, besides [`ALWAYS_HUMAN_ONLY`] and the
    /// catalogue's: bare or `mcp__<label>__<name>`, letter for letter.
    pub human_only: Vec<String>,
    /// What happens with a tool that has no class and no rule, at the gateway's door.
    pub unclassified: Action,
    /// The same at every other door.
    pub unclassified_elsewhere: Action,
}

impl Default for OperatorSettings {
    fn default() -> Self {
        Self {
            catalogue: Vec::new(),
            human_only: Vec::new(),
            unclassified: Action::Allow,
            unclassified_elsewhere: Action::Approve,
        }
    }
}

impl OperatorSettings {
    /// What happens at `door` with a tool that has no class.
    #[must_use]
    pub const fn unclassified_at(&self, door: Door) -> Action {
        match door {
            Door::Gateway => self.unclassified,
            Door::Aap | Door::Proxy | Door::Hook => self.unclassified_elsewhere,
        }
    }

    /// Whether only a person may approve this tool. The name alone counts, whoever defines the
    /// tool: an author's `Deliver` is no less a delivery.
    #[must_use]
    pub fn is_human_only(&self, tool: &Tool) -> bool {
        let qualified = tool.qualified_name();
        let is_named =
            |name: &str| name == tool.name || qualified.as_deref().is_some_and(|own| own == name);
        ALWAYS_HUMAN_ONLY.iter().any(|name| is_named(name))
            || self.human_only.iter().any(|name| is_named(name))
            || self.catalogue.iter().any(|entry| entry.human_only && is_named(&entry.name))
    }

    /// The class that the catalogue gives a tool; connectors and authors do not get to use its
    /// names.
    pub(super) fn catalogue_class(&self, tool: &Tool) -> Option<Class> {
        match tool.origin {
            Origin::Builtin | Origin::Catalog => {}
            Origin::Function | Origin::Connector => return None,
        }
        self.catalogue
            .iter()
            .filter(|entry| entry.name == tool.name)
            .map(|entry| entry.class)
            .chain(self.least_class(tool))
            .max()
    }

    /// What a built-in tool is at least, whatever its annotations say: a shell that calls itself
    /// read-only is none.
    pub(super) fn least_class(&self, tool: &Tool) -> Option<Class> {
        let builtin = match tool.origin {
            Origin::Builtin | Origin::Catalog => true,
            Origin::Function | Origin::Connector => false,
        };
        (builtin && ALWAYS_WRITE.contains(&tool.name.as_str())).then_some(Class::Write)
    }
}
