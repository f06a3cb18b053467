//! What a tool's MCP annotations say about it, and how far they are believed.
//!
//! MCP (2025-06-18, `ToolAnnotations`) has four hints; a missing one counts as its worst: not
//! read-only, destructive, open-world. A third party wrote them, so they are read strictly: a JSON
//! boolean or nothing, and a hint that stands twice says nothing that can be relied on.

use super::{Class, ClassSource, OperatorSettings};
use crate::decide::json::Json;
use crate::decide::request::{Annotations, Origin, Tool};
use crate::decide::walk::{Problem, duplicates, member_path, quoted, wrong_type};

const READ_ONLY: &str = "readOnlyHint";
const DESTRUCTIVE: &str = "destructiveHint";
const OPEN_WORLD: &str = "openWorldHint";
const HINTS: [&str; 4] = [READ_ONLY, DESTRUCTIVE, "idempotentHint", OPEN_WORLD];
/// The hints that an author must state.
const REQUIRED: [&str; 2] = [READ_ONLY, DESTRUCTIVE];

/// The class that a tool has before any rule of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Floor {
    /// The class, if anything gives one.
    pub class: Option<Class>,
    /// What gives it; never a rule.
    pub source: ClassSource,
    /// Whether what gives it is well formed. Where it is not, the tool is no read and not declared
    /// harmless, so the approver never sees its calls.
    pub trusted: bool,
}

/// What is to be made of a tool's annotations.
enum Reading {
    /// There are none.
    Absent,
    /// They cannot be relied on: not an object, a hint that is no boolean or stands twice, or an
    /// author's tool without a hint that it must state.
    Unreliable,
    /// They say this.
    Hints(Hints),
}

struct Hints {
    read_only: Option<bool>,
    destructive: Option<bool>,
    open_world: Option<bool>,
}

/// The class floor of a tool: from its annotations when it has them, else from the catalogue.
#[must_use]
pub fn floor(tool: &Tool, settings: &OperatorSettings) -> Floor {
    let (class, source, trusted) = match read(tool) {
        Reading::Hints(hints) => match (hints.class(), settings.least_class(tool)) {
            (said, Some(least)) if said < least => (Some(least), ClassSource::Catalogue, true),
            (said, _) => (Some(said), ClassSource::Annotations, true),
        },
        Reading::Unreliable => (Some(Class::Write), ClassSource::UnreliableAnnotations, false),
        Reading::Absent => match (tool.origin, settings.catalogue_class(tool)) {
            // A server that says nothing has said what MCP's defaults say.
            (Origin::Connector, _) => {
                (Some(Class::Destructive), ClassSource::MissingAnnotations, true)
            }
            (Origin::Builtin | Origin::Catalog | Origin::Function, Some(class)) => {
                (Some(class), ClassSource::Catalogue, true)
            }
            (Origin::Builtin | Origin::Catalog | Origin::Function, None) => {
                (None, ClassSource::None, true)
            }
        },
    };
    Floor { class, source, trusted }
}

/// Whether the tool declares that it destroys nothing and reaches nothing outside: both hints
/// stated and false, in annotations that can be relied on. A missing hint declares nothing.
#[must_use]
pub fn declared_harmless(tool: &Tool) -> bool {
    match read(tool) {
        Reading::Hints(hints) => {
            hints.destructive == Some(false) && hints.open_world == Some(false)
        }
        Reading::Absent | Reading::Unreliable => false,
    }
}

/// Whether the tool says `destructiveHint: true`, in annotations of whatever form.
#[must_use]
pub fn declares_destructive(tool: &Tool) -> bool {
    match &tool.annotations {
        Annotations::Present(Json::Object(members)) => {
            members.iter().any(|(key, value)| key == DESTRUCTIVE && *value == Json::Bool(true))
        }
        Annotations::Present(_) | Annotations::Absent => false,
    }
}

/// Reports what keeps an author's tool from being saved: annotations (at `path`) that are not an
/// object, hints that are not booleans, required hints that are missing, repeated members. `null`
/// means that there are none. Each text names the tool.
pub fn annotation_problems(
    tool: Option<&str>,
    path: &str,
    annotations: &Json,
    problems: &mut Vec<Problem>,
) {
    let whose = tool.map_or_else(String::new, |name| format!("tool {}: ", quoted(name)));
    let members = match annotations {
        Json::Null => return,
        Json::Object(members) => members,
        other => {
            let text = format!("{whose}{}", wrong_type("an object", other));
            problems.push(Problem::new(path, text));
            return;
        }
    };
    for hint in HINTS {
        let stated = members.iter().find(|(key, _)| key == hint);
        let text = match stated {
            Some((_, Json::Bool(_))) => continue,
            Some((_, other)) => wrong_type("a boolean", other),
            None if REQUIRED.contains(&hint) => "required hint is missing".to_owned(),
            None => continue,
        };
        let problem = Problem::new(&member_path(path, hint), format!("{whose}{text}"));
        problems.push(problem);
    }
    let mut repeated = Vec::new();
    duplicates(path, annotations, &mut repeated);
    problems.extend(
        repeated
            .into_iter()
            .map(|problem| Problem::new(&problem.path, format!("{whose}{}", problem.text))),
    );
}

impl Hints {
    fn class(&self) -> Class {
        match (self.read_only, self.destructive) {
            (Some(true), Some(true)) => Class::Destructive,
            (Some(true), Some(false) | None) => Class::Read,
            (Some(false) | None, Some(false)) => Class::Write,
            (Some(false) | None, Some(true) | None) => Class::Destructive,
        }
    }
}

fn read(tool: &Tool) -> Reading {
    let value = match &tool.annotations {
        Annotations::Absent | Annotations::Present(Json::Null) => return Reading::Absent,
        Annotations::Present(value) => value,
    };
    let Json::Object(members) = value else {
        return Reading::Unreliable;
    };
    let well_formed = HINTS.iter().all(|hint| {
        let mut stated = members.iter().filter(|(key, _)| key == hint);
        match (stated.next(), stated.next()) {
            (None, _) => true,
            (Some((_, value)), None) => value.as_bool().is_some(),
            (Some(_), Some(_)) => false,
        }
    });
    let hint = |name: &str| value.get(name).and_then(Json::as_bool);
    // Saving such a tool is refused, so this one was stored before anybody checked.
    let incomplete =
        tool.origin == Origin::Function && REQUIRED.iter().any(|name| hint(name).is_none());
    // Two readers may take another of two members, at any depth.
    let mut repeated = Vec::new();
    duplicates("", value, &mut repeated);
    if !well_formed || incomplete || !repeated.is_empty() {
        return Reading::Unreliable;
    }
    Reading::Hints(Hints {
        read_only: hint(READ_ONLY),
        destructive: hint(DESTRUCTIVE),
        open_world: hint(OPEN_WORLD),
    })
}
