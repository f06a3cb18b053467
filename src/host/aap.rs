//! A request of the Agent Approval Protocol: the protocol's own members, strictly, and what our
//! adapters add under `context.approver`.
//!
//! ```jsonc
//! { "tool":"orders_create", "server":"erp",   // server ?: an MCP server's alias
//!   "arguments":{},                           // the exact call
//!   "timeout":"10m",                          // how long a person may take
//!   "agent_reasoning":"…",                    // ? a claim
//!   "context":{                               // ? open, kept as it is
//!     "approver":{                            // ? ours; all of it a claim, and every member optional
//!       "mode":"ask", "turn":"t1",
//!       "conversation":{"id":"c1","format":"responses","items":[],"person_items":[]},
//!       "tool":{"description":"…","inputSchema":{},"annotations":{}}}}}
//! ```
//!
//! Arguments and context keep their own text, because they are echoed exactly.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::gateway::{MAX_ID, MODES};
use super::items::{self, Format};
use crate::decide::digest;
use crate::decide::json::{self, Json};
use crate::decide::policy::Mode;
use crate::decide::request::Item;
use crate::decide::text::needs_escape;
use crate::decide::walk::{
    Members, Problem, duplicates_of_request, index_path, unreadable, wrong_type,
};

/// A request as it came in.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The tool.
    pub tool: String,
    /// The MCP server's alias.
    pub server: Option<String>,
    /// The arguments' exact text.
    pub arguments: String,
    /// The decision window, as it was asked for.
    pub timeout: String,
    /// The same in seconds; the largest number where there is none so large.
    pub timeout_seconds: u64,
    /// What the agent says for itself.
    pub agent_reasoning: Option<String>,
    /// The context's exact text.
    pub context: Option<String>,
    /// What the context says to us.
    pub claims: Claims,
    /// A digest that white space, the order of members and the notation of numbers do not change.
    pub digest: String,
}

/// What `context.approver` claims.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    /// The mode that the conversation is in.
    pub mode: Option<Mode>,
    /// The turn.
    pub turn: Option<String>,
    /// The conversation.
    pub conversation: Option<String>,
    /// All that came before the call.
    pub items: Vec<Item>,
    /// The tool's annotations, as the agent met them.
    pub annotations: Option<Json>,
}

/// The members whose text is kept.
#[derive(Deserialize)]
struct Texts<'a> {
    #[serde(borrow)]
    arguments: &'a RawValue,
    #[serde(borrow, default)]
    context: Option<&'a RawValue>,
}

/// Reads a request.
///
/// # Errors
/// Every problem with its place.
pub fn parse(text: &str) -> Result<Submission, Vec<Problem>> {
    let whole = |text: String| vec![Problem::new("$", text)];
    let document = json::read_document(text).map_err(|error| vec![unreadable("$", &error)])?;
    let mut problems = Vec::new();
    duplicates_of_request("$", &document.value, &mut problems);
    let submission = read(&document.value, text, &mut problems);
    match submission {
        Some(submission) if problems.is_empty() => Ok(submission),
        _ if problems.is_empty() => Err(whole("the request cannot be read".to_owned())),
        _ => Err(problems),
    }
}

fn read(value: &Json, text: &str, problems: &mut Vec<Problem>) -> Option<Submission> {
    let mut members = Members::new("$", value, problems)?;
    let tool = members.required_string("tool");
    check_name(&mut members, "tool", tool);
    let server = members.string("server");
    check_name(&mut members, "server", server);
    members.required_object("arguments");
    let timeout = members.required_string("timeout");
    let timeout_seconds = timeout.and_then(parse_duration);
    if timeout.is_some() && timeout_seconds.is_none() {
        members.report("timeout", "expected a duration such as `90s`, `30m` or `24h`");
    }
    let agent_reasoning = members.string("agent_reasoning");
    let context = members.object("context");
    let context_path = members.path_of("context");
    let claims = context.and_then(|context| context.get("approver"));
    let claims = match claims {
        Some(claims) => {
            let path = crate::decide::walk::member_path(&context_path, "approver");
            read_claims(claims, &path, members.problems())
        }
        None => Some(Claims::default()),
    };
    members.finish();
    // The same text was read above, so that this cannot fail where that did not.
    let texts: Texts<'_> = serde_json::from_str(text).ok()?;
    Some(Submission {
        tool: tool?.to_owned(),
        server: server.map(str::to_owned),
        arguments: texts.arguments.get().to_owned(),
        timeout: timeout?.to_owned(),
        timeout_seconds: timeout_seconds?,
        agent_reasoning: agent_reasoning.map(str::to_owned),
        context: texts.context.map(|context| context.get().to_owned()),
        claims: claims?,
        digest: digest(&["aap-request-1", &value.canonical()]),
    })
}

/// A name that a page can show: other providers' tools may be called anything.
fn check_name(members: &mut Members<'_, '_>, member: &str, name: Option<&str>) {
    let fits = |name: &str| (1..=MAX_ID).contains(&name.len()) && !name.chars().any(needs_escape);
    if name.is_some_and(|name| !fits(name)) {
        members.report(member, format!("expected 1 to {MAX_ID} bytes without control characters"));
    }
}

/// Seconds of a duration: a whole number from 1 and `s`, `m` or `h`, however large.
#[must_use]
pub fn parse_duration(text: &str) -> Option<u64> {
    let unit = match text.chars().next_back()? {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        _ => return None,
    };
    let digits = text.get(..text.len() - 1)?;
    let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !whole || digits.starts_with('0') {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX).saturating_mul(unit))
}

fn read_claims(value: &Json, path: &str, problems: &mut Vec<Problem>) -> Option<Claims> {
    let mut members = Members::new(path, value, problems)?;
    let mode = match members.string("mode") {
        None => None,
        Some(word) => {
            let mode = Mode::from_word(word);
            if mode.is_none() {
                members.report("mode", MODES);
            }
            mode
        }
    };
    let turn = members.string("turn");
    check_name(&mut members, "turn", turn);
    let conversation = members.object("conversation");
    let conversation_path = members.path_of("conversation");
    let conversation = conversation
        .and_then(|value| read_conversation(value, &conversation_path, members.problems()));
    let tool = members.object("tool");
    let tool_path = members.path_of("tool");
    let annotations =
        tool.and_then(|value| read_tool(value, &tool_path, members.problems())).flatten();
    members.finish();
    let (conversation, items) = conversation.unwrap_or_default();
    Some(Claims { mode, turn: turn.map(str::to_owned), conversation, items, annotations })
}

fn read_conversation(
    value: &Json,
    path: &str,
    problems: &mut Vec<Problem>,
) -> Option<(Option<String>, Vec<Item>)> {
    let mut members = Members::new(path, value, problems)?;
    let id = members.string("id");
    check_name(&mut members, "id", id);
    let format = match members.string("format") {
        None | Some("responses") => Format::Responses,
        Some("chat") => Format::Chat,
        Some(_) => {
            members.report("format", "expected `responses` or `chat`");
            Format::Responses
        }
    };
    let values = members.list("items").unwrap_or_default();
    let items_path = members.path_of("items");
    let marks = members.list("person_items").unwrap_or_default();
    let marks_path = members.path_of("person_items");
    let persons = read_marks(marks, values.len(), &marks_path, members.problems());
    let items = items::parse(values, format, &persons, &items_path, members.problems());
    members.finish();
    Some((id.map(str::to_owned), items))
}

fn read_marks(
    marks: &[Json],
    items: usize,
    path: &str,
    problems: &mut Vec<Problem>,
) -> BTreeSet<usize> {
    let mut persons = BTreeSet::new();
    for (position, mark) in marks.iter().enumerate() {
        let index = match mark {
            Json::Number(text) => text.parse::<usize>().ok().filter(|index| *index < items),
            _ => None,
        };
        match index {
            Some(index) => drop(persons.insert(index)),
            None => {
                let text = "expected the index of an item".to_owned();
                problems.push(Problem::new(&index_path(path, position), text));
            }
        }
    }
    persons
}

/// The annotations, which a tool's author may write as `null`.
fn read_tool(value: &Json, path: &str, problems: &mut Vec<Problem>) -> Option<Option<Json>> {
    let mut members = Members::new(path, value, problems)?;
    members.string("description");
    members.object("inputSchema");
    let annotations = members.unless_null("annotations");
    if let Some(other) = annotations
        && other.as_object().is_none()
    {
        members.report("annotations", wrong_type("an object", other));
    }
    members.finish();
    Some(annotations.cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_problem(text: &str, path: &str) {
        let problems = parse(text).unwrap_err();
        assert_eq!(problems[0].path, path, "{problems:?}");
    }

    #[test]
    fn texts_are_kept_as_they_came() {
        let text = r#"{ "context" : {"b": 1.50, "a":[ ]}, "timeout":"90s", "tool":"ä b",
            "arguments": {"id":9007199254740993 , "x":null} }"#;
        let read = parse(text).unwrap();
        assert_eq!(read.arguments, r#"{"id":9007199254740993 , "x":null}"#);
        assert_eq!(read.context.as_deref(), Some(r#"{"b": 1.50, "a":[ ]}"#));
        assert_eq!((read.tool.as_str(), read.timeout_seconds), ("ä b", 90));
        let same = r#"{"tool":"ä b","timeout":"90s","context":{"a":[],"b":1.5},
            "arguments":{"x":null,"id":9007199254740993}}"#;
        assert_eq!(parse(same).unwrap().digest, read.digest);
        let other = same.replace("9007199254740993", "9007199254740992");
        assert_ne!(parse(&other).unwrap().digest, read.digest);
    }

    #[test]
    fn durations_have_no_largest_and_no_zero() {
        for (text, seconds) in [
            ("1s", Some(1)),
            ("90m", Some(5_400)),
            ("168h", Some(604_800)),
            ("99999999999999999999999h", Some(u64::MAX)),
            ("0s", None),
            ("01s", None),
            ("s", None),
            ("1d", None),
            ("1h30m", None),
            ("-1s", None),
            ("+1s", None),
            ("1 s", None),
            ("1S", None),
            ("", None),
        ] {
            assert_eq!(parse_duration(text), seconds, "{text}");
        }
    }

    #[test]
    fn problems_name_their_place() {
        let request = |more: &str| format!("{{\"tool\":\"t\",\"timeout\":\"1s\"{more}}}");
        check_problem("[]", "$");
        check_problem("{", "$");
        check_problem(&request(""), "$.arguments");
        check_problem(&request(",\"arguments\":[]"), "$.arguments");
        check_problem(&request(",\"arguments\":{\"a\":1,\"a\":1}"), "$.arguments");
        check_problem(&request(",\"arguments\":{},\"server\":null"), "$.server");
        check_problem(&request(",\"arguments\":{},\"server\":\"\""), "$.server");
        check_problem(&request(",\"arguments\":{},\"context\":null"), "$.context");
        check_problem(&request(",\"arguments\":{},\"agent_reasoning\":1"), "$.agent_reasoning");
        check_problem(&request(",\"arguments\":{},\"user\":\"u\""), "$.user");
        let claims = |text: &str| {
            request(&format!(",\"arguments\":{{}},\"context\":{{\"approver\":{text}}}"))
        };
        check_problem(&claims("1"), "$.context.approver");
        check_problem(&claims("{\"class\":\"read\"}"), "$.context.approver.class");
        check_problem(&claims("{\"mode\":\"free\"}"), "$.context.approver.mode");
        check_problem(
            &claims("{\"tool\":{\"annotations\":[]}}"),
            "$.context.approver.tool.annotations",
        );
        check_problem(
            &claims("{\"tool\":{\"origin\":\"builtin\"}}"),
            "$.context.approver.tool.origin",
        );
        check_problem(
            &claims("{\"conversation\":{\"person_items\":[0]}}"),
            "$.context.approver.conversation.person_items[0]",
        );
    }
}
