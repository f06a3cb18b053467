//! One agent version: `{"instructions": string, "tools": [..], "policy": {..} or null}`, as its
//! author saves it and as it is stored.
//!
//! All three members may be absent. Every problem comes at once, each with the code that answers
//! carry. Nothing is repaired: a version with a problem is no version.

use std::fmt;

use crate::decide::json::{self, Json};
use crate::decide::policy::{self, Policy, annotation_problems};
use crate::decide::request::Agent;
use crate::decide::walk::{
    self, Members, Problem, duplicate_members, duplicates, index_path, member_path,
};
use crate::host::tool;

/// What a version is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Its author saves it: annotations must be well formed and complete.
    Save,
    /// It was stored earlier, perhaps before annotations were checked: they are kept as they are,
    /// and [`crate::decide::policy::floor`] reads malformed ones as a write that no approver sees.
    Stored,
}

/// An agent version: the agent, and the policy where it has one.
#[derive(Debug, Clone)]
pub struct AgentVersion {
    /// Instructions and tools.
    pub agent: Agent,
    /// The policy; none where the member is absent or `null`.
    pub policy: Option<Policy>,
}

/// The code under which a problem is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemCode {
    /// The policy does not validate.
    InvalidHitlPolicy,
    /// An author's annotations are malformed or incomplete.
    InvalidToolAnnotations,
    /// Anything else.
    InvalidRequest,
}

impl ProblemCode {
    /// The code on the wire; stable.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidHitlPolicy => "invalid_hitl_policy",
            Self::InvalidToolAnnotations => "INVALID_TOOL_ANNOTATIONS",
            Self::InvalidRequest => "invalid_request",
        }
    }
}

/// A problem of an agent version, with its code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentProblem {
    /// The code that the answer carries.
    pub code: ProblemCode,
    /// Where and what.
    pub problem: Problem,
}

/// `CODE PATH: text`, on one line.
impl fmt::Display for AgentProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, problem } = self;
        write!(formatter, "{} {}: {}", code.as_str(), problem.path, problem.text)
    }
}

/// Reads a version's text.
///
/// # Errors
/// All problems, as [`parse`] reports them; or that the text is not JSON, at `$`.
pub fn parse_text(text: &str, reading: Reading) -> Result<AgentVersion, Vec<AgentProblem>> {
    match json::read_document(text) {
        Ok(document) => parse(&document.value, "$", reading),
        Err(unreadable) => Err(vec![AgentProblem {
            code: ProblemCode::InvalidRequest,
            problem: walk::unreadable("$", &unreadable),
        }]),
    }
}

/// Reads the version that stands at `path`.
///
/// # Errors
/// All problems: those of the policy first, then those of annotations, then the rest.
pub fn parse(
    value: &Json,
    path: &str,
    reading: Reading,
) -> Result<AgentVersion, Vec<AgentProblem>> {
    let mut found = Found::default();
    duplicate_members(path, value, &mut found.rest);
    let version = read(value, path, reading, &mut found);
    let problems = found.into_problems();
    match version {
        Some(version) if problems.is_empty() => Ok(version),
        _ => Err(problems),
    }
}

/// Problems by their code.
#[derive(Default)]
struct Found {
    policy: Vec<Problem>,
    annotations: Vec<Problem>,
    rest: Vec<Problem>,
}

impl Found {
    fn into_problems(self) -> Vec<AgentProblem> {
        [
            (ProblemCode::InvalidHitlPolicy, self.policy),
            (ProblemCode::InvalidToolAnnotations, self.annotations),
            (ProblemCode::InvalidRequest, self.rest),
        ]
        .into_iter()
        .flat_map(|(code, problems)| {
            problems.into_iter().map(move |problem| AgentProblem { code, problem })
        })
        .collect()
    }
}

fn read(value: &Json, path: &str, reading: Reading, found: &mut Found) -> Option<AgentVersion> {
    let mut members = Members::new(path, value, &mut found.rest)?;
    let instructions = members.string("instructions").unwrap_or_default();
    let tools_path = members.path_of("tools");
    let tools = members.list("tools").unwrap_or_default();
    let policy_path = members.path_of("policy");
    let policy = members.unless_null("policy");
    members.finish();

    for (index, value) in tools.iter().enumerate() {
        let path = index_path(&tools_path, index);
        check_members(value, &path, reading, found);
    }
    let tools = tool::parse_list(tools, &tools_path, &mut found.rest);
    let policy = policy.and_then(|value| {
        policy::parse_at(&policy_path, value).map_err(|problems| found.policy = problems).ok()
    });
    Some(AgentVersion { agent: Agent { instructions: instructions.to_owned(), tools }, policy })
}

/// Reports repeated keys anywhere in one tool, and annotations that must not be saved.
fn check_members(tool: &Json, path: &str, reading: Reading, found: &mut Found) {
    duplicate_members(path, tool, &mut found.rest);
    let name = tool.get("name").and_then(Json::as_str);
    for (key, value) in tool.as_object().unwrap_or_default() {
        let here = member_path(path, key);
        match (key.as_str(), reading) {
            ("annotations", Reading::Save) => {
                annotation_problems(name, &here, value, &mut found.annotations);
            }
            ("annotations", Reading::Stored) => {}
            _ => duplicates(&here, value, &mut found.rest),
        }
    }
}
