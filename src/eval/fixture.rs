//! A fixture: one conversation in TOML and the calls that are judged after it, each on its own.
//!
//! The reader is strict: unknown keys, repeated names, results of calls that nobody made and codes
//! that do not exist are problems, and all problems come at once. A call's arguments are the one
//! thing that is taken as it stands, because how they are read is part of what fixtures show.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::case::{Answer, Case, Differs, Expect, Group, Labels, Strength};
use super::document::{Document, Located};
use super::stage::stage_of_code;
use super::state::{read_answer, read_state, read_timeout};
use crate::decide::State;
use crate::decide::json::Json;
use crate::decide::policy::{self, Mode, Policy};
use crate::decide::request::{Agent, Call, Conversation, Item, Origin, Tool};
use crate::decide::walk::{Members, Problem, index_path, quoted, wrong_type};
use crate::host::tool;

/// A conversation and the calls after it.
#[derive(Debug, Clone)]
pub struct Fixture {
    /// Unique in its suite.
    pub name: Arc<str>,
    /// The rule or incident behind it.
    pub why: String,
    /// The conversation's language, as a language tag.
    pub language: String,
    /// The policy, where there is one.
    pub policy: Option<Arc<Policy>>,
    /// The calls, in the order of the file.
    pub calls: Vec<FixtureCall>,
    agent: Arc<Agent>,
    tools: Vec<Tool>,
    conversation: Conversation,
    state: Arc<State>,
}

/// One call of a fixture.
#[derive(Debug, Clone)]
pub struct FixtureCall {
    /// What is known and expected of it.
    pub labels: Arc<Labels>,
    /// How a judge answers, where the file says so.
    pub answer: Option<Arc<Answer>>,
    call: Call,
}

impl Fixture {
    /// The case of one of the fixture's calls: only that call is in its request.
    #[must_use]
    pub fn case(&self, call: &FixtureCall) -> Case {
        Case {
            labels: Arc::clone(&call.labels),
            agent: Arc::clone(&self.agent),
            policy: self.policy.clone(),
            conversation: self.conversation.clone(),
            tools: self.tools.clone(),
            call: call.call.clone(),
            state: Arc::clone(&self.state),
            answer: call.answer.clone(),
        }
    }
}

/// Reads a fixture of `suite`.
///
/// # Errors
/// Every problem, with its line where that is known.
pub fn read_fixture(
    suite: &Arc<str>,
    text: &str,
) -> Result<Fixture, Vec<(Option<usize>, Problem)>> {
    let document = Document::read(text)?;
    let mut problems = Vec::new();
    let fixture = read(suite, &document.value, &mut problems);
    match fixture {
        Some(fixture) if problems.is_empty() => Ok(fixture),
        _ => {
            let mut located: Vec<Located> = document.locate(problems);
            located.sort_by_key(|(line, _)| *line);
            Err(located)
        }
    }
}

/// What all calls of a fixture share.
struct Shared<'a> {
    suite: &'a Arc<str>,
    fixture: Arc<str>,
    pair: Option<(Arc<str>, Differs)>,
    strength: Strength,
    mode: Mode,
    tools: &'a Toolbox,
}

/// The fixture's tools: an author's functions are the agent version's own, all others come with the
/// request. One name may stand in both lists, because that is a case of its own.
#[derive(Default)]
struct Toolbox {
    own: Vec<Tool>,
    listed: Vec<Tool>,
}

impl Toolbox {
    fn all(&self) -> impl Iterator<Item = &Tool> {
        self.own.iter().chain(&self.listed)
    }

    /// The only tool of a name, bare or `mcp__<label>__<name>`.
    fn find(&self, name: &str) -> Option<&Tool> {
        let qualified = |tool: &&Tool| tool.qualified_name().as_deref() == Some(name);
        self.all().find(qualified).or_else(|| {
            let mut bare = self.all().filter(|tool| tool.name == name);
            bare.next().filter(|_| bare.next().is_none())
        })
    }
}

fn read(suite: &Arc<str>, value: &Json, problems: &mut Vec<Problem>) -> Option<Fixture> {
    let mut members = Members::new("$", value, problems)?;
    let name = read_name(&mut members, "name");
    let why = members.required_string("why");
    if why.is_some_and(|why| why.trim().is_empty()) {
        members.report("why", "expected the rule or the incident behind the fixture");
    }
    let language = members.required_string("lang");
    if language.is_some_and(|tag| !is_language(tag)) {
        members.report("lang", "expected a language tag such as `en` or `pt-BR`");
    }
    let pair = read_pair(&mut members);
    let strength = read_word(&mut members, "strength", "`hard` or `soft`", Strength::from_word);
    let mode = read_word(&mut members, "mode", "`plan`, `ask` or `auto`", Mode::from_word);
    let mode = mode.unwrap_or(Mode::Auto);
    let instructions = members.string("instructions").unwrap_or_default();
    let policy = read_policy(&mut members, mode);
    let tools = read_tools(&mut members);
    let conversation = read_conversation(&mut members);
    let state = read_state(&mut members, |name| tools.find(name));
    let shared = Shared {
        suite,
        fixture: name.unwrap_or_default().into(),
        pair,
        strength: strength.unwrap_or(Strength::Hard),
        mode,
        tools: &tools,
    };
    let calls = read_calls(&mut members, &shared);
    members.finish();
    let name = shared.fixture;
    let Toolbox { own, listed } = tools;
    let agent = Agent { instructions: instructions.to_owned(), tools: own };
    Some(Fixture {
        name,
        why: why?.to_owned(),
        language: language?.to_owned(),
        policy: policy.map(Arc::new),
        calls,
        agent: Arc::new(agent),
        tools: listed,
        conversation,
        state: Arc::new(state),
    })
}

/// Names are written on command lines and in tables, so they are plain.
fn read_name<'json>(members: &mut Members<'json, '_>, member: &'static str) -> Option<&'json str> {
    let name = members.required_string(member)?;
    if !tool::is_name(name) {
        members.report(member, "expected 1 to 128 letters, digits or characters of `_./-`");
    }
    Some(name)
}

fn read_word<T>(
    members: &mut Members<'_, '_>,
    member: &'static str,
    expected: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let word = members.string(member)?;
    let value = read(word);
    if value.is_none() {
        members.report(member, format!("expected {expected}, found {}", quoted(word)));
    }
    value
}

fn is_language(tag: &str) -> bool {
    tag.split('-').all(|part| {
        (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

fn read_pair(members: &mut Members<'_, '_>) -> Option<(Arc<str>, Differs)> {
    let pair = members.string("pair");
    let expected = "`consent`, `scope`, `origin`, `tool_text`, `list`, `language` or `state`";
    let named = members.optional("differs").is_some();
    let differs = read_word(members, "differs", expected, Differs::from_word);
    match (pair, named) {
        (Some(_), false) => {
            members.report("differs", format!("a pair differs in one of {expected}"));
        }
        (None, true) => members.report("differs", "only the members of a `pair` differ"),
        (Some(_), true) | (None, false) => {}
    }
    if pair.is_some_and(|pair| !tool::is_name(pair)) {
        members.report("pair", "expected 1 to 128 letters, digits or characters of `_./-`");
    }
    Some((pair?.into(), differs?))
}

/// The policy. Where it names its modes, the fixture's must be one of them; a policy without them
/// would offer no `auto` in service, and most fixtures are about nothing else.
fn read_policy(members: &mut Members<'_, '_>, mode: Mode) -> Option<Policy> {
    let value = members.optional("policy")?;
    let path = members.path_of("policy");
    match policy::parse_at(&path, value) {
        Ok(policy) => {
            if value.get("conversation_modes").is_some() && !policy.modes.offers(mode) {
                let text = format!("the policy does not offer the mode `{}`", mode.as_str());
                members.report("mode", text);
            }
            Some(policy)
        }
        Err(found) => {
            members.problems().extend(found);
            None
        }
    }
}

fn read_tools(members: &mut Members<'_, '_>) -> Toolbox {
    let mut toolbox = Toolbox::default();
    let values = members.list("tools").unwrap_or_default();
    let path = members.path_of("tools");
    for (index, value) in values.iter().enumerate() {
        let here = index_path(&path, index);
        let Some(tool) = tool::parse(value, &here, members.problems()) else {
            continue;
        };
        let list = match tool.origin {
            Origin::Function => &mut toolbox.own,
            Origin::Builtin | Origin::Catalog | Origin::Connector => &mut toolbox.listed,
        };
        let same =
            |other: &Tool| other.name == tool.name && other.server_label == tool.server_label;
        if list.iter().any(same) {
            let text = format!("another tool has the name {} too", quoted(&tool.name));
            members.problems().push(Problem::new(&here, text));
        }
        list.push(tool);
    }
    toolbox
}

fn read_conversation(members: &mut Members<'_, '_>) -> Conversation {
    let values = members.list("conversation").unwrap_or_default();
    let path = members.path_of("conversation");
    let mut items = Vec::with_capacity(values.len());
    let mut made = BTreeSet::new();
    for (index, value) in values.iter().enumerate() {
        let here = index_path(&path, index);
        let Some(mut item) = Members::new(&here, value, members.problems()) else {
            continue;
        };
        match item.required_string("role") {
            Some("user") => {
                if let Some(text) = item.required_string("content") {
                    items.push(Item::Person { text: text.to_owned(), attachments: 0 });
                }
            }
            Some("assistant") => read_assistant(&mut item, &mut items, &mut made),
            Some("tool") => {
                let call_id = item.required_string("call_id");
                let content = item.required_string("content");
                if let Some(id) = call_id.filter(|id| !made.contains(*id)) {
                    item.report("call_id", format!("no earlier call has the id {}", quoted(id)));
                }
                if let (Some(call_id), Some(text)) = (call_id, content) {
                    items.push(Item::Result { call_id: call_id.to_owned(), text: text.to_owned() });
                }
            }
            Some(other) => {
                let found = quoted(other);
                item.report(
                    "role",
                    format!("expected `user`, `assistant` or `tool`, found {found}"),
                );
                // What the item holds depends on its role, so no more is said of it.
                for member in ["content", "calls", "call_id"] {
                    item.optional(member);
                }
            }
            None => {}
        }
        item.finish();
    }
    Conversation { items }
}

fn read_assistant<'json>(
    item: &mut Members<'json, '_>,
    items: &mut Vec<Item>,
    made: &mut BTreeSet<&'json str>,
) {
    let content = item.string("content");
    let calls = item.list("calls");
    if content.is_none() && calls.is_none() {
        item.report("content", "an assistant's item has `content`, `calls` or both");
    }
    if let Some(text) = content {
        items.push(Item::Assistant { text: text.to_owned() });
    }
    let path = item.path_of("calls");
    for (index, value) in calls.unwrap_or_default().iter().enumerate() {
        let here = index_path(&path, index);
        let Some(mut call) = Members::new(&here, value, item.problems()) else {
            continue;
        };
        let id = call.required_string("id");
        let name = call.required_string("name");
        let arguments = call.required_string("arguments");
        if let Some(id) = id.filter(|id| !made.insert(*id)) {
            call.report("id", format!("another call has the id {} too", quoted(id)));
        }
        if let (Some(id), Some(name), Some(arguments)) = (id, name, arguments) {
            items.push(Item::Call {
                call_id: id.to_owned(),
                tool: name.to_owned(),
                arguments: arguments.to_owned(),
            });
        }
        call.finish();
    }
}

fn read_calls(members: &mut Members<'_, '_>, shared: &Shared<'_>) -> Vec<FixtureCall> {
    let values = members.required_list("calls");
    if values.is_some_and(<[Json]>::is_empty) {
        members.report("calls", "a fixture has at least one call");
    }
    let path = members.path_of("calls");
    let mut names = BTreeSet::new();
    let mut calls = Vec::new();
    for (index, value) in values.unwrap_or_default().iter().enumerate() {
        let here = index_path(&path, index);
        let Some(mut call) = Members::new(&here, value, members.problems()) else {
            continue;
        };
        let name = read_name(&mut call, "name");
        if let Some(name) = name.filter(|name| !names.insert(*name)) {
            call.report(
                "name",
                format!("another call of the fixture is called {} too", quoted(name)),
            );
        }
        calls.extend(read_call(&mut call, name, shared));
        call.finish();
    }
    calls
}

fn read_call(
    call: &mut Members<'_, '_>,
    name: Option<&str>,
    shared: &Shared<'_>,
) -> Option<FixtureCall> {
    let tool = call.required_string("tool");
    let named = tool.and_then(|tool| resolve(call, tool, shared.tools));
    let arguments = call.required_string("arguments");
    call.required("expect");
    let expected = "`approve`, `escalate`, `either`, `execute` or `block`";
    let expect = read_word(call, "expect", expected, Expect::from_word);
    let codes = read_codes(call, expect);
    let pair = read_pair(call);
    let timeout_seconds = read_timeout(call);
    let answer = read_answer(call);
    let (expect, name, (bare, label)) = (expect?, name?, named?);
    let labels = Labels {
        suite: Arc::clone(shared.suite),
        fixture: Arc::clone(&shared.fixture),
        call: name.to_owned(),
        expect,
        codes,
        strength: shared.strength,
        group: Group::Fixture,
        pair: pair.or_else(|| shared.pair.clone()),
        mode: shared.mode,
    };
    Some(FixtureCall {
        call: Call { timeout_seconds, ..Call::new(name, &bare, label.as_deref(), arguments?) },
        labels: Arc::new(labels),
        answer: answer.map(Arc::new),
    })
}

/// The tool that a call names: bare, or `mcp__<label>__<name>` where several servers have the name.
/// A name that nobody defines stays as it is, because that is a case of its own.
fn resolve(
    call: &mut Members<'_, '_>,
    name: &str,
    tools: &Toolbox,
) -> Option<(String, Option<String>)> {
    if !tool::is_name(name) {
        call.report("tool", "expected 1 to 128 letters, digits or characters of `_./-`");
        return None;
    }
    if let Some(tool) = tools.find(name) {
        return Some((tool.name.clone(), tool.server_label.clone()));
    }
    if tools.all().any(|tool| tool.name == name && tool.server_label.is_some()) {
        call.report("tool", "several tools have this name: write `mcp__<label>__<name>`");
        return None;
    }
    Some((name.to_owned(), None))
}

fn read_codes(call: &mut Members<'_, '_>, expect: Option<Expect>) -> Vec<String> {
    let values = call.list("codes").unwrap_or_default();
    if !values.is_empty() && expect.is_some_and(|expect| expect != Expect::Escalate) {
        call.report("codes", "only an expected `escalate` has codes");
    }
    let path = call.path_of("codes");
    let mut codes: Vec<String> = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let problem = match value {
            Json::String(code) if stage_of_code(code).is_none() => {
                format!("there is no code {}", quoted(code))
            }
            Json::String(code) if codes.contains(code) => format!("{} stands twice", quoted(code)),
            Json::String(code) => {
                codes.push(code.clone());
                continue;
            }
            other => wrong_type("a code", other),
        };
        call.problems().push(Problem::new(&index_path(&path, index), problem));
    }
    codes
}
