//! One tool's definition, as requests and stored agent versions carry it.
//!
//! Annotations are kept as met: what they mean, and whether they are well formed, is
//! [`crate::decide::policy`]'s to say. Nothing here trusts a description.

use std::collections::BTreeMap;

use crate::decide::json::Json;
use crate::decide::request::{Annotations, Origin, Tool};
use crate::decide::walk::{Members, Problem, index_path};

/// Longest name of a tool or a server label, in bytes (all of them ASCII).
pub const NAME_LIMIT: usize = 128;

/// Whether `name` is `[A-Za-z0-9_./-]{1,128}`.
#[must_use]
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_LIMIT
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'-'))
}

/// Reads the tool that stands at `path`. `None` means that at least one problem was reported.
pub fn parse(value: &Json, path: &str, problems: &mut Vec<Problem>) -> Option<Tool> {
    let before = problems.len();
    let tool = read(value, path, problems);
    tool.filter(|_| problems.len() == before)
}

/// Reads the list of tools at `path`, in which no two may share server label and name. Tools with a
/// problem are left out: the list is whole only when nothing was reported.
pub fn parse_list(values: &[Json], path: &str, problems: &mut Vec<Problem>) -> Vec<Tool> {
    let mut tools = Vec::with_capacity(values.len());
    let mut seen: BTreeMap<(Option<String>, String), usize> = BTreeMap::new();
    for (index, value) in values.iter().enumerate() {
        let here = index_path(path, index);
        let Some(tool) = parse(value, &here, problems) else {
            continue;
        };
        let key = (tool.server_label.clone(), tool.name.clone());
        if let Some(first) = seen.get(&key) {
            let text = format!("defines the same tool as `{}`", index_path(path, *first));
            problems.push(Problem::new(&here, text));
            continue;
        }
        seen.insert(key, index);
        tools.push(tool);
    }
    tools
}

fn read(value: &Json, path: &str, problems: &mut Vec<Problem>) -> Option<Tool> {
    let mut members = Members::new(path, value, problems)?;
    let name = members.required_string("name");
    check_name(&mut members, "name", name);
    let origin = members.required_string("origin");
    let origin = origin.and_then(|word| parse_origin(&mut members, word));
    let server_label = members.string("server_label");
    check_name(&mut members, "server_label", server_label);
    let labelled = members.optional("server_label").is_some();
    match (origin, labelled) {
        (Some(Origin::Connector), false) => {
            members.report("server_label", "a connector's tool needs a server label");
        }
        (Some(Origin::Builtin | Origin::Catalog | Origin::Function), true) => {
            members.report("server_label", "only a connector's tool has a server label");
        }
        (Some(_), _) | (None, _) => {}
    }
    let version = members.string("version");
    let description = members.string("description");
    let input_schema = members.object("inputSchema");
    let annotations = members.unless_null("annotations");
    let sandbox = members.boolean("sandbox").unwrap_or(false);
    if sandbox
        && (origin.is_some_and(|origin| origin != Origin::Builtin)
            || name.is_some_and(|name| name != "Bash"))
    {
        members.report("sandbox", "only the built-in `Bash` runs in a sandbox");
    }
    members.finish();
    Some(Tool {
        name: name?.to_owned(),
        origin: origin?,
        server_label: server_label.map(str::to_owned),
        version: version.map(str::to_owned),
        description: description.map(str::to_owned),
        input_schema: input_schema.cloned(),
        annotations: annotations
            .map_or(Annotations::Absent, |value| Annotations::Present(value.clone())),
        sandbox,
    })
}

pub(super) fn check_name(members: &mut Members<'_, '_>, member: &str, name: Option<&str>) {
    if name.is_some_and(|name| !is_name(name)) {
        members.report(
            member,
            "expected 1 to 128 letters, digits or characters of `_./-` (all ASCII)",
        );
    }
}

fn parse_origin(members: &mut Members<'_, '_>, word: &str) -> Option<Origin> {
    let origin = match word {
        "builtin" => Some(Origin::Builtin),
        "catalog" => Some(Origin::Catalog),
        "function" => Some(Origin::Function),
        "connector" => Some(Origin::Connector),
        _ => None,
    };
    if origin.is_none() {
        members.report("origin", "expected `builtin`, `catalog`, `function` or `connector`");
    }
    origin
}
