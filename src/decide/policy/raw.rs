//! From a policy's JSON to a [`Policy`], or to every problem at once.
//!
//! Nothing is filled in that the author did not write, and nothing unknown is passed over: a
//! misspelt member would otherwise be a rule that silently does not hold.

use super::{Action, Class, Effect, Lists, Mode, Modes, Policy, Rule};
use crate::decide::json::{self, Json};
use crate::decide::text::quotable;
use crate::decide::walk::{
    Members, Problem, duplicates, index_path, member_path, quoted, wrong_type,
};

/// Most entries in one of the organisation's lists.
pub const ENTRIES_LIMIT: usize = 20;
/// Most characters (Unicode scalar values) in one entry.
pub const ENTRY_LIMIT: usize = 500;
/// Most characters (Unicode scalar values) in the three lists together.
pub const LISTS_LIMIT: usize = 4_000;

const ACTIONS: &str = "`allow`, `approve`, `block` or `deny`";

/// Reads a policy's text.
///
/// # Errors
/// All problems, as [`parse`] reports them; or that the text is not JSON, at `$`.
pub fn parse_text(text: &str) -> Result<Policy, Vec<Problem>> {
    match json::read_document(text) {
        Ok(document) => parse(&document.value),
        Err(unreadable) => Err(vec![Problem::new("$", unreadable.to_string())]),
    }
}

/// Reads a policy and reports every problem at once.
///
/// # Errors
/// All problems: repeated keys first, then member by member in the order of the reference
/// (`version`, `classes`, `tools`, `default`, `conversation_modes`, `judge`), unknown members last
/// in their object.
pub fn parse(policy: &Json) -> Result<Policy, Vec<Problem>> {
    parse_at("$", policy)
}

/// Reads the policy that stands at `path` of a larger document.
///
/// # Errors
/// As [`parse`].
pub fn parse_at(path: &str, policy: &Json) -> Result<Policy, Vec<Problem>> {
    let mut problems = Vec::new();
    duplicates(path, policy, &mut problems);
    let read = read(path, policy, &mut problems);
    match read {
        Some(policy) if problems.is_empty() => Ok(policy),
        _ => Err(problems),
    }
}

fn read(path: &str, value: &Json, problems: &mut Vec<Problem>) -> Option<Policy> {
    let mut members = Members::new(path, value, problems)?;
    match members.required("version") {
        Some(Json::Number(number)) if number != "1" => {
            members.report("version", format!("expected 1, found {}", quoted(number)));
        }
        Some(Json::Number(_)) | None => {}
        Some(other) => members.report("version", wrong_type("the number 1", other)),
    }
    let classes = read_classes(&mut members);
    let rules = read_rules(&mut members);
    let default = read_default(&mut members);
    let modes = read_modes(&mut members);
    let lists = read_lists(&mut members);
    members.finish();
    Some(Policy { classes, rules, default, modes, lists })
}

fn read_classes(policy: &mut Members<'_, '_>) -> Vec<(Class, Action)> {
    let mut actions = Vec::new();
    let path = policy.path_of("classes");
    let Some(value) = policy.optional("classes") else {
        return actions;
    };
    let Some(mut classes) = Members::new(&path, value, policy.problems()) else {
        return actions;
    };
    for class in Class::ALL {
        let Some(word) = classes.string(class.as_str()) else {
            continue;
        };
        match (class, Action::from_word(word)) {
            (Class::Write | Class::Destructive, Some(Action::Allow)) => classes.report(
                class.as_str(),
                format!(
                    "`allow` is refused for the {} class: expected `approve`, `block` or `deny`",
                    class.as_str()
                ),
            ),
            (_, Some(action)) => actions.push((class, action)),
            (_, None) => classes.report(class.as_str(), unknown_word(ACTIONS, word)),
        }
    }
    classes.finish();
    actions
}

fn read_rules(policy: &mut Members<'_, '_>) -> Vec<Rule> {
    let path = policy.path_of("tools");
    let Some(value) = policy.object("tools") else {
        return Vec::new();
    };
    let mut rules = Vec::new();
    for (pattern, effect) in value.as_object().unwrap_or_default() {
        let here = member_path(&path, pattern);
        let problems = policy.problems();
        if pattern.is_empty() {
            problems.push(Problem::new(&here, "a rule needs the name of a tool"));
        }
        let Json::String(word) = effect else {
            problems.push(Problem::new(&here, wrong_type("a string", effect)));
            continue;
        };
        let effect = Class::from_word(word)
            .map(Effect::Class)
            .or_else(|| Action::from_word(word).map(Effect::Action));
        match effect {
            Some(effect) => rules.push(Rule { pattern: pattern.clone(), effect }),
            None => {
                let expected = "a class (`read`, `write`, `destructive`) or an action (`allow`, \
                                `approve`, `block`, `deny`)";
                problems.push(Problem::new(&here, unknown_word(expected, word)));
            }
        }
    }
    rules
}

fn read_default(policy: &mut Members<'_, '_>) -> Option<Action> {
    let word = policy.string("default")?;
    let action = Action::from_word(word);
    if action.is_none() {
        policy.report("default", unknown_word(ACTIONS, word));
    }
    action
}

fn read_modes(policy: &mut Members<'_, '_>) -> Modes {
    let path = policy.path_of("conversation_modes");
    let Some(value) = policy.optional("conversation_modes") else {
        return Modes::default();
    };
    let Some(mut members) = Members::new(&path, value, policy.problems()) else {
        return Modes::default();
    };
    let before = members.problems().len();
    let offered = match members.list("offered") {
        Some(list) => read_offered(list, &mut members),
        None => Modes::default().offered,
    };
    let offered_is_sound = members.problems().len() == before;
    let word = members.string("default");
    let default = word.map_or(Some(Mode::Ask), Mode::from_word);
    match (word, default) {
        (Some(word), None) => {
            members.report("default", unknown_word("`plan`, `ask` or `auto`", word))
        }
        // Where the list itself has problems, whether it offers the default is not known yet.
        (_, Some(mode)) if offered_is_sound && !offered.contains(&mode) => {
            let text = match word {
                Some(word) => format!("the default mode {} is not offered", quoted(word)),
                None => "the default mode is `ask` where none is named, and `ask` is not offered"
                    .to_owned(),
            };
            members.report("default", text);
        }
        (_, Some(_)) | (None, None) => {}
    }
    members.finish();
    Modes { offered, default: default.unwrap_or(Mode::Ask) }
}

fn read_offered(list: &[Json], members: &mut Members<'_, '_>) -> Vec<Mode> {
    let path = members.path_of("offered");
    let before = members.problems().len();
    let mut offered = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let text = match value {
            Json::String(word) => match Mode::from_word(word) {
                Some(mode) if offered.contains(&mode) => {
                    format!("{} is offered twice", quoted(word))
                }
                Some(mode) => {
                    offered.push(mode);
                    continue;
                }
                None => unknown_word("`plan`, `ask` or `auto`", word),
            },
            other => wrong_type("a string", other),
        };
        let problem = Problem::new(&index_path(&path, index), text);
        members.problems().push(problem);
    }
    // An entry that could not be read may be the one that seems to be missing.
    if members.problems().len() > before {
        return offered;
    }
    if !offered.contains(&Mode::Plan) {
        members.report("offered", "`plan` must be offered");
    }
    if offered.contains(&Mode::Auto) && !offered.contains(&Mode::Ask) {
        members.report("offered", "`auto` must not be offered without `ask`");
    }
    offered
}

fn read_lists(policy: &mut Members<'_, '_>) -> Lists {
    let path = policy.path_of("judge");
    let Some(value) = policy.optional("judge") else {
        return Lists::default();
    };
    let Some(mut judge) = Members::new(&path, value, policy.problems()) else {
        return Lists::default();
    };
    let mut total = 0;
    let lists = Lists {
        environment: read_list("environment", &mut judge, &mut total),
        allow: read_list("allow", &mut judge, &mut total),
        soft_deny: read_list("soft_deny", &mut judge, &mut total),
    };
    if judge.optional("hard_deny").is_some() {
        judge.report(
            "hard_deny",
            "there is no such list, for a model does not enforce refusals: use the destructive \
             class or a `deny` rule in `tools`",
        );
    }
    judge.finish();
    lists
}

/// Reads one list; `total` counts the characters of this list and those before it.
fn read_list(name: &'static str, judge: &mut Members<'_, '_>, total: &mut usize) -> Vec<String> {
    let path = judge.path_of(name);
    let Some(list) = judge.list(name) else {
        return Vec::new();
    };
    let mut entries = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let here = index_path(&path, index);
        let problems = judge.problems();
        let mut report = |text: String| problems.push(Problem::new(&here, text));
        if index == ENTRIES_LIMIT {
            report(format!(
                "a list holds at most {ENTRIES_LIMIT} entries, this one has {}",
                list.len()
            ));
        }
        let Json::String(entry) = value else {
            report(wrong_type("a string", value));
            continue;
        };
        let characters = entry.chars().count();
        if quotable(entry).is_empty() {
            report("the entry is blank".to_owned());
        }
        if characters > ENTRY_LIMIT {
            report(format!(
                "an entry holds at most {ENTRY_LIMIT} characters, this one has {characters}"
            ));
        }
        let before = *total;
        *total += characters;
        // Once, at the entry that crosses the line.
        if before <= LISTS_LIMIT && *total > LISTS_LIMIT {
            report(format!(
                "the three lists hold at most {LISTS_LIMIT} characters together, with this entry \
                 they have {total}"
            ));
        }
        entries.push(entry.clone());
    }
    entries
}

fn unknown_word(expected: &str, found: &str) -> String {
    if found == "auto" {
        return format!("`auto` is a conversation mode and nothing else: expected {expected}");
    }
    format!("expected {expected}, found {}", quoted(found))
}
