//! The file of `approver judge`: an agent version and one request, side by side.
//! `{"agent": {"instructions", "tools", "policy"}, "request": {…}}`

use crate::decide::json;
use crate::decide::walk::{Members, Problem, duplicate_members, duplicates_of_request, unreadable};
use crate::host::agent::{self, AgentProblem, AgentVersion, ProblemCode, Reading};
use crate::host::gateway::{self, Body, Scope};

/// What a file holds.
#[derive(Debug, Clone)]
pub struct JudgementFile {
    /// The agent version, as it would be stored.
    pub version: AgentVersion,
    /// The request's body.
    pub body: Body,
}

/// Reads a file's text.
///
/// # Errors
/// All problems at once, each with its code and JSON path.
pub fn parse(text: &str) -> Result<JudgementFile, Vec<AgentProblem>> {
    let document =
        json::read_document(text).map_err(|error| vec![invalid(unreadable("$", &error))])?;
    let mut rest = Vec::new();
    let mut problems = Vec::new();
    let mut version = None;
    duplicate_members("$", &document.value, &mut rest);
    let (agent, request) = match Members::new("$", &document.value, &mut rest) {
        Some(mut members) => {
            let halves = (members.required_object("agent"), members.required_object("request"));
            members.finish();
            halves
        }
        None => (None, None),
    };
    match agent.map(|agent| agent::parse(agent, "$.agent", Reading::Stored)) {
        Some(Ok(read)) => version = Some(read),
        Some(Err(found)) => problems.extend(found),
        None => {}
    }
    let body = request.and_then(|request| {
        duplicates_of_request("$.request", request, &mut rest);
        gateway::parse(request, "$.request", Scope::File, &mut rest)
    });
    problems.extend(rest.into_iter().map(invalid));
    match (version, body) {
        (Some(version), Some(body)) if problems.is_empty() => Ok(JudgementFile { version, body }),
        _ => Err(problems),
    }
}

fn invalid(problem: Problem) -> AgentProblem {
    AgentProblem { code: ProblemCode::InvalidRequest, problem }
}
