//! What a fixture says of the time before its calls: the table `[state]`, and a judge that fails.
//!
//! Without the table a conversation is new. Nothing is checked against the conversation: a count of
//! calls that nobody sees there may well have happened.

use super::case::Answer;
use super::save::failure_of_word;
use crate::decide::json::Json;
use crate::decide::request::{Origin, Tool};
use crate::decide::state::{Sandbox, ToolIdentity};
use crate::decide::verdict::JudgeFailure;
use crate::decide::walk::{Members, Problem, index_path, quoted, wrong_type};
use crate::decide::{State, call_digest};
use crate::host::tool;

/// The most that a count may be.
const MAX_COUNT: u64 = 1_000_000;
/// The longest time limit of the built-in `Bash`, as a gateway may send it.
const MAX_TIMEOUT_SECONDS: u64 = 86_400;

/// Reads `[state]`. `find` is the tool that a name stands for.
pub(super) fn read_state<'t>(
    members: &mut Members<'_, '_>,
    find: impl Fn(&str) -> Option<&'t Tool>,
) -> State {
    let mut state = State::default();
    let path = members.path_of("state");
    let Some(value) = members.object("state") else {
        return state;
    };
    let Some(mut members) = Members::new(&path, value, members.problems()) else {
        return state;
    };
    state.judged_in_turn = count(&mut members, "judged_in_turn");
    state.escalations = count(&mut members, "escalations");
    state.sandbox = read_sandbox(&mut members);
    state.turn_writes = read_writes(&mut members, find);
    state.pinned = read_pinned(&mut members);
    if let Some(why) = read_unavailable(&mut members) {
        state.automatic_approval = Err(why);
    }
    members.finish();
    state
}

/// Reads a call's `answer`: a text, or a failure by its name.
pub(super) fn read_answer(call: &mut Members<'_, '_>) -> Option<Answer> {
    let path = call.path_of("answer");
    match call.optional("answer")? {
        Json::String(text) => Some(Answer::Text(text.clone())),
        value @ Json::Object(_) => {
            let mut answer = Members::new(&path, value, call.problems())?;
            let word = answer.required_string("failure")?;
            let failure = failure_of_word(word);
            if failure.is_none() {
                answer.report("failure", format!("there is no failure {}", quoted(word)));
            }
            answer.finish();
            failure.map(Answer::Failure)
        }
        other => {
            call.report("answer", wrong_type("an answer's text or `{ failure = … }`", other));
            None
        }
    }
}

/// Reads a call's time limit.
pub(super) fn read_timeout(call: &mut Members<'_, '_>) -> Option<u32> {
    let seconds = call.integer("timeout_seconds", 1..=MAX_TIMEOUT_SECONDS)?;
    u32::try_from(seconds).ok()
}

fn count(members: &mut Members<'_, '_>, name: &'static str) -> u32 {
    let count = members.integer(name, 0..=MAX_COUNT).unwrap_or_default();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A fixture that speaks of the sandbox's use has one.
fn read_sandbox(members: &mut Members<'_, '_>) -> Sandbox {
    let path = members.path_of("sandbox");
    let Some(value) = members.object("sandbox") else {
        return Sandbox::default();
    };
    let Some(mut sandbox) = Members::new(&path, value, members.problems()) else {
        return Sandbox::default();
    };
    let calls = count(&mut sandbox, "calls");
    let seconds = count(&mut sandbox, "seconds");
    sandbox.finish();
    Sandbox { enabled: true, calls, seconds }
}

/// The writes of the turn, as the keys by which a repetition is known.
fn read_writes<'t>(
    members: &mut Members<'_, '_>,
    find: impl Fn(&str) -> Option<&'t Tool>,
) -> Vec<String> {
    let values = members.list("writes").unwrap_or_default();
    let path = members.path_of("writes");
    let mut writes = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let here = index_path(&path, index);
        let Some(mut write) = Members::new(&here, value, members.problems()) else {
            continue;
        };
        let tool = write.required_string("tool").and_then(|name| {
            let tool = find(name);
            if tool.is_none() {
                write.report("tool", format!("there is no tool {}", quoted(name)));
            }
            tool
        });
        let arguments = write.required_string("arguments").and_then(|text| {
            let read = crate::decide::json::read(text).ok().filter(|one| one.as_object().is_some());
            if read.is_none() {
                write.report("arguments", "expected the text of a JSON object");
            }
            read
        });
        if let (Some(tool), Some(arguments)) = (tool, arguments) {
            writes.push(call_digest(tool, &arguments));
        }
        write.finish();
    }
    writes
}

/// The definitions that the conversation knows. An agent's own tools are never pinned: its version
/// is what defines them.
fn read_pinned(members: &mut Members<'_, '_>) -> Vec<ToolIdentity> {
    let values = members.list("pinned").unwrap_or_default();
    let path = members.path_of("pinned");
    let mut pinned = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let here = index_path(&path, index);
        let Some(tool) = tool::parse(value, &here, members.problems()) else {
            continue;
        };
        if tool.origin == Origin::Function {
            let text = "an agent's own tool is never pinned";
            members.problems().push(Problem::new(&here, text));
        }
        pinned.push(ToolIdentity::of(&tool));
    }
    pinned
}

fn read_unavailable(members: &mut Members<'_, '_>) -> Option<JudgeFailure> {
    let word = members.string("unavailable")?;
    match failure_of_word(word) {
        Some(
            why @ (JudgeFailure::NotConfigured
            | JudgeFailure::SwitchedOff
            | JudgeFailure::BreakerOpen),
        ) => Some(why),
        Some(_) | None => {
            let expected = "expected `not_configured`, `switched_off` or `breaker_open`";
            members.report("unavailable", format!("{expected}, found {}", quoted(word)));
            None
        }
    }
}
