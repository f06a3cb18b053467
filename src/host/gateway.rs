//! The body of `POST /v1/judgements`: what a gateway sends, as values of [`crate::decide`].
//!
//! Every problem is reported at once with its JSON path. Unknown members are refused, except inside
//! items, input schemas and annotations. Nothing here decides anything.

use std::collections::BTreeSet;

use super::items::{self, Format};
use super::tool;
use crate::decide::json::Json;
use crate::decide::policy::{Mode, Modes};
use crate::decide::request::{Call, Conversation, Door, Item, Request, Tool};
use crate::decide::walk::{Members, Problem, index_path, wrong_type};

/// Calls of one request.
pub const MAX_CALLS: usize = 64;
/// Bytes of an id.
pub const MAX_ID: usize = 256;
/// Seconds that a pending approval may wait: 168 hours.
pub const MAX_PENDING_SECONDS: u64 = 168 * 3600;
/// Seconds that a call's time limit may be.
const MAX_TIMEOUT_SECONDS: u64 = 86_400;

/// Where a body is read from, which decides what it must name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A request to the service: it names a stored agent version and a turn.
    Service,
    /// A file of its own: the agent stands beside it, and there is no turn.
    File,
}

/// What a mode's name may be.
pub const MODES: &str = "expected `plan`, `ask` or `auto`";

/// A request's body, read.
#[derive(Debug, Clone)]
pub struct Body {
    /// The agent's name and version, where the body names them.
    pub agent: Option<(String, String)>,
    /// The member that the turn runs for.
    pub user: Option<String>,
    /// The conversation's id.
    pub conversation_id: String,
    /// The surface: grants hold for a conversation on it.
    pub surface: String,
    /// The turn's id, and the paused turn that it continues.
    pub turn: Option<(String, Option<String>)>,
    /// The mode that the request's own input names.
    pub mode: RequestedMode,
    /// Seconds that a pending approval waits; `None` leaves it to the service.
    pub pending_seconds: Option<u64>,
    items: Vec<Item>,
    tools: Vec<Tool>,
    calls: Vec<Call>,
}

/// What a request's own input says of the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequestedMode {
    /// Nothing: the stored mode counts, else the version's default.
    #[default]
    Unsaid,
    /// `null`: the version's default, for this request.
    Default,
    /// A mode by name.
    Named(Mode),
}

/// A mode that the agent version does not offer: nothing is put in its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the agent version does not offer the mode `{}`", mode.as_str())]
pub struct ModeNotOffered {
    /// The mode that was asked for.
    pub mode: Mode,
    /// The modes on offer.
    pub offered: Vec<Mode>,
}

impl Body {
    /// The conversation, the gateway's tools and the calls, for whoever learns the mode elsewhere.
    #[must_use]
    pub fn into_parts(self) -> (Conversation, Vec<Tool>, Vec<Call>) {
        (Conversation { items: self.items }, self.tools, self.calls)
    }

    /// The request in the mode that it names, or that is stored, or that is the default.
    ///
    /// # Errors
    /// A mode that `modes` does not offer.
    pub fn into_request(
        self,
        stored: Option<Mode>,
        modes: &Modes,
    ) -> Result<Request, ModeNotOffered> {
        let mode = match self.mode {
            RequestedMode::Named(mode) => mode,
            RequestedMode::Default => modes.default,
            RequestedMode::Unsaid => stored.unwrap_or(modes.default),
        };
        if !modes.offered.contains(&mode) {
            return Err(ModeNotOffered { mode, offered: modes.offered.clone() });
        }
        Ok(Request {
            door: Door::Gateway,
            mode,
            conversation: Conversation { items: self.items },
            tools: self.tools,
            calls: self.calls,
        })
    }
}

/// Reads the body that stands at `path`. `None` means that at least one problem was reported.
pub fn parse(value: &Json, path: &str, scope: Scope, problems: &mut Vec<Problem>) -> Option<Body> {
    let before = problems.len();
    let body = read(value, path, scope, problems);
    body.filter(|_| problems.len() == before)
}

fn read(value: &Json, path: &str, scope: Scope, problems: &mut Vec<Problem>) -> Option<Body> {
    let mut members = Members::new(path, value, problems)?;
    let (agent, version) = match scope {
        Scope::Service => (members.required_string("agent"), members.required_string("version")),
        Scope::File => (members.string("agent"), members.string("version")),
    };
    check_id(&mut members, "agent", agent);
    check_id(&mut members, "version", version);
    let user = members.string("user");
    check_id(&mut members, "user", user);
    let pending_for = members.string("pending_for");
    let pending_seconds = pending_for.and_then(|text| duration(&mut members, "pending_for", text));
    let turn = match scope {
        Scope::Service => members.required_object("turn"),
        Scope::File => members.object("turn"),
    };
    let turn_path = members.path_of("turn");
    let turn = turn.and_then(|turn| read_turn(turn, &turn_path, members.problems()));
    let input = members.list("input").unwrap_or_default();
    let input_path = members.path_of("input");
    let mode = read_mode(input, &input_path, members.problems());
    let tools = members.list("tools").unwrap_or_default();
    let tools_path = members.path_of("tools");
    let tools = tool::parse_list(tools, &tools_path, members.problems());
    let calls = members.required_list("calls");
    let calls_path = members.path_of("calls");
    let calls = calls.map(|calls| read_calls(calls, &calls_path, members.problems()));
    let connector = |calls: &Vec<Call>| calls.iter().any(|call| call.server_label.is_some());
    if scope == Scope::Service && user.is_none() && calls.as_ref().is_some_and(connector) {
        members.report("user", "required when a call is a connector's");
    }
    let conversation = members.required_object("conversation");
    let conversation_path = members.path_of("conversation");
    let conversation = conversation
        .and_then(|value| read_conversation(value, &conversation_path, members.problems()));
    members.finish();
    let (conversation_id, surface, items) = conversation?;
    let agent = agent.zip(version).map(|(agent, version)| (agent.to_owned(), version.to_owned()));
    Some(Body {
        agent,
        user: user.map(str::to_owned),
        conversation_id,
        surface,
        turn,
        mode,
        pending_seconds,
        items,
        tools,
        calls: calls?,
    })
}

fn read_conversation(
    value: &Json,
    path: &str,
    problems: &mut Vec<Problem>,
) -> Option<(String, String, Vec<Item>)> {
    let mut members = Members::new(path, value, problems)?;
    let id = members.required_string("id");
    check_id(&mut members, "id", id);
    let surface = members.required_string("surface");
    check_id(&mut members, "surface", surface);
    let format = match members.string("format") {
        None | Some("responses") => Format::Responses,
        Some("chat") => Format::Chat,
        Some(_) => {
            members.report("format", "expected `responses` or `chat`");
            Format::Responses
        }
    };
    let values = members.required_list("items").unwrap_or_default();
    let marks = members.required_list("person_items").unwrap_or_default();
    let marks_path = members.path_of("person_items");
    let persons = read_marks(marks, values.len(), &marks_path, members.problems());
    let items_path = members.path_of("items");
    let items = items::parse(values, format, &persons, &items_path, members.problems());
    members.finish();
    Some((id?.to_owned(), surface?.to_owned(), items))
}

/// The indexes of items that a person typed: each exists, none twice.
fn read_marks(
    marks: &[Json],
    items: usize,
    path: &str,
    problems: &mut Vec<Problem>,
) -> BTreeSet<usize> {
    let mut persons = BTreeSet::new();
    for (position, mark) in marks.iter().enumerate() {
        let text = match mark {
            Json::Number(digits) => match digits.parse::<usize>() {
                Ok(index) if index >= items => Some("there is no such item".to_owned()),
                Ok(index) if !persons.insert(index) => Some("the item stands twice".to_owned()),
                Ok(_) => None,
                Err(_) => Some("expected an item's index".to_owned()),
            },
            other => Some(wrong_type("an item's index", other)),
        };
        if let Some(text) = text {
            problems.push(Problem::new(&index_path(path, position), text));
        }
    }
    persons
}

fn read_turn(
    value: &Json,
    path: &str,
    problems: &mut Vec<Problem>,
) -> Option<(String, Option<String>)> {
    let mut members = Members::new(path, value, problems)?;
    let id = members.required_string("id");
    check_id(&mut members, "id", id);
    let continues = members.string("continues");
    check_id(&mut members, "continues", continues);
    members.finish();
    Some((id?.to_owned(), continues.map(str::to_owned)))
}

/// The last `backbone:mode` item counts; items of other kinds are not ours to read.
fn read_mode(input: &[Json], path: &str, problems: &mut Vec<Problem>) -> RequestedMode {
    let mut requested = RequestedMode::Unsaid;
    for (index, item) in input.iter().enumerate() {
        if item.get("type").and_then(Json::as_str) != Some("backbone:mode") {
            continue;
        }
        let Some(mut members) = Members::new(&index_path(path, index), item, problems) else {
            continue;
        };
        members.optional("type");
        match members.required("mode") {
            Some(Json::Null) => requested = RequestedMode::Default,
            Some(Json::String(word)) => match Mode::from_word(word) {
                Some(mode) => requested = RequestedMode::Named(mode),
                None => members.report("mode", MODES),
            },
            Some(other) => members.report("mode", wrong_type("a mode's name or null", other)),
            None => {}
        }
    }
    requested
}

fn read_calls(values: &[Json], path: &str, problems: &mut Vec<Problem>) -> Vec<Call> {
    if values.is_empty() || values.len() > MAX_CALLS {
        let found = values.len();
        problems
            .push(Problem::new(path, format!("expected 1 to {MAX_CALLS} calls, found {found}")));
    }
    let mut ids = BTreeSet::new();
    let mut calls = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let here = index_path(path, index);
        let Some(mut members) = Members::new(&here, value, problems) else {
            continue;
        };
        let call_id = members.required_string("call_id");
        check_id(&mut members, "call_id", call_id);
        if call_id.is_some_and(|id| !ids.insert(id)) {
            members.report("call_id", "another call of this request has the same id");
        }
        let name = members.required_string("tool");
        tool::check_name(&mut members, "tool", name);
        let label = members.string("server_label");
        tool::check_name(&mut members, "server_label", label);
        let arguments = members.required_string("arguments");
        let timeout = members.integer("timeout_seconds", 1..=MAX_TIMEOUT_SECONDS);
        members.finish();
        if let (Some(call_id), Some(name), Some(arguments)) = (call_id, name, arguments) {
            let timeout_seconds = timeout.and_then(|seconds| u32::try_from(seconds).ok());
            calls.push(Call { timeout_seconds, ..Call::new(call_id, name, label, arguments) });
        }
    }
    calls
}

/// An id is 1 to [`MAX_ID`] bytes of visible text.
fn check_id(members: &mut Members<'_, '_>, member: &str, id: Option<&str>) {
    let fits = |id: &str| {
        !id.is_empty() && id.len() <= MAX_ID && !id.chars().any(crate::decide::text::needs_escape)
    };
    if id.is_some_and(|id| !fits(id)) {
        members.report(member, format!("expected 1 to {MAX_ID} bytes without control characters"));
    }
}

/// A duration such as `90s`, `30m` or `24h`, in seconds.
fn duration(members: &mut Members<'_, '_>, member: &str, text: &str) -> Option<u64> {
    let seconds = parse_duration(text).filter(|seconds| *seconds <= MAX_PENDING_SECONDS);
    if seconds.is_none() {
        let text = "expected a duration such as `90s`, `30m` or `24h`, at most `168h`";
        members.report(member, text);
    }
    seconds
}

/// Seconds of a duration in the protocol's form: a whole number from 1 and `s`, `m` or `h`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<u64> {
    let unit = text.chars().next_back()?;
    let factor = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        _ => return None,
    };
    let digits = text.strip_suffix(unit)?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    let number: u64 = digits.parse().ok().filter(|_| plain)?;
    number.checked_mul(factor)
}
