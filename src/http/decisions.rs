//! Decisions about a paused turn, as the gateway relays them.
//!
//! `POST /v1/decisions`, gateway with `decide`:
//!
//! ```jsonc
//! { "turn_id":"resp_1",                       // the paused turn
//!   "conversation_id":"conv_1","surface":"responses", // ? where several conversations have the turn
//!   "continuation_id":"resp_2",               // the turn that carries the decisions
//!   "decided_by":"ana",                       // the person
//!   "input":[                                 // every pending approval of the turn, once
//!     {"type":"backbone:approval_response","approval_id":"apreq_1","decision":"approve","hmac":"5c1a…",
//!      "reason":"…","remember":"conversation"},          // ? both
//!     {"type":"mcp_approval_response","approval_request_id":"apreq_2","approve":false,
//!      "reason":"…","remember":"conversation"},          // ? both; for connectors' calls only
//!     {"type":"backbone:mode","mode":"ask"}] } // ? plan|ask|auto|null, last wins
//! ```
//!
//! 200 `{"turn_id","continuation_id","results":[{"approval_id","call_id","status","release",
//! "start_by"?,"execution"?}]}`, by approval id. What is released the continuation runs now; it needs
//! no claim. Approvals that a person decided elsewhere meanwhile are not answered here: the gateway
//! claims those one by one.
//!
//! `POST /v1/decisions/{continuation_id}/failed` `{"turn_id","conversation_id"?,"surface"?}`: after it
//! the same answers may come under another continuation. They get `"release": false` and the recorded
//! execution, with its output, for the model.

use std::collections::BTreeSet;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};

use super::Doors;
use super::approvals::{execution, verdict};
use super::auth::Relay;
use super::body::{Answer as Body, JsonText};
use super::parameters::{NoParameters, Segments};
use super::time::rfc3339;
use crate::decide::json::Json;
use crate::decide::policy::Mode;
use crate::decide::text::needs_escape;
use crate::decide::walk::{Members, Problem, index_path, wrong_type};
use crate::host::gateway::{MAX_CALLS, MAX_ID, MODES};
use crate::service::decision::Verdict;
use crate::service::turn_decision::{Answer, TurnDecision, TurnName, TurnResult};
use crate::service::{Code, Refusal};
use crate::store::ModeChoice;

/// Answers of one turn, whose requests are several.
const MAX_ANSWERS: usize = 16 * MAX_CALLS;

pub(super) fn routes() -> Router<Doors> {
    Router::new()
        .route("/v1/decisions", post(decide))
        .route("/v1/decisions/{continuation}/failed", post(fail))
}

async fn decide(
    State(doors): State<Doors>,
    Relay(caller): Relay,
    _: NoParameters,
    body: JsonText,
) -> Result<Response, Refusal> {
    let (decision, readings) = body.walk(read)?;
    for (answer, reading) in decision.answers.iter().zip(readings) {
        reading.check(&format!("{}.remember", answer.path))?;
    }
    let (turn, continuation) = (decision.turn.turn.clone(), decision.continuation.clone());
    let results = doors.service.decide_turn(&caller.token, decision).await?;
    let results: Vec<Value> = results.iter().map(result).collect();
    let body = json!({"turn_id": turn, "continuation_id": continuation, "results": results});
    Ok(Body(body).into_response())
}

async fn fail(
    State(doors): State<Doors>,
    Relay(caller): Relay,
    Segments(continuation): Segments<String>,
    _: NoParameters,
    body: JsonText,
) -> Result<Response, Refusal> {
    let turn = body.walk(read_turn)?;
    doors.service.continuation_failed(&caller.token, &turn, &continuation).await?;
    let body = json!({"turn_id": turn.turn, "continuation_id": continuation, "status": "failed"});
    Ok(Body(body).into_response())
}

fn result(result: &TurnResult) -> Value {
    let TurnResult { view, release } = result;
    let approval = &view.approval;
    let mut value = json!({
        "approval_id": approval.facts.id,
        "call_id": approval.facts.call_id,
        "status": approval.status.as_str(),
        "release": release,
    });
    let start_by = approval.decision.as_ref().and_then(|decision| decision.start_by);
    if let Some(start_by) = start_by {
        value["start_by"] = json!(rfc3339(start_by));
    }
    if let Some(reported) = &approval.execution {
        value["execution"] = execution(reported, view.output.as_deref());
    }
    value
}

fn read(members: &mut Members<'_, '_>) -> Option<(TurnDecision, Vec<Reading>)> {
    let turn = read_turn(members);
    let continuation = read_id(members, "continuation_id", true);
    let decided_by = optional_string(members, "decided_by");
    let input = members.required_list("input").unwrap_or_default();
    let path = members.path_of("input");
    if input.len() > MAX_ANSWERS {
        members.report("input", format!("expected at most {MAX_ANSWERS} items"));
        return None;
    }
    let mut read = Input::default();
    for (index, item) in input.iter().enumerate() {
        read.item(item, &index_path(&path, index), members.problems());
    }
    let Input { answers, readings, mode, .. } = read;
    let decision = TurnDecision {
        turn: turn?,
        continuation: continuation?,
        answers,
        mode,
        decided_by: decided_by.map(str::to_owned),
    };
    Some((decision, readings))
}

fn read_turn(members: &mut Members<'_, '_>) -> Option<TurnName> {
    let turn = read_id(members, "turn_id", true);
    let conversation = read_id(members, "conversation_id", false);
    let surface = read_id(members, "surface", false);
    Some(TurnName { turn: turn?, conversation, surface })
}

/// The items of a continuation's input that we read: all of them, since nothing else may stand here.
#[derive(Default)]
struct Input {
    answers: Vec<Answer>,
    readings: Vec<Reading>,
    seen: BTreeSet<String>,
    mode: ModeChoice,
}

impl Input {
    fn item(&mut self, item: &Json, path: &str, problems: &mut Vec<Problem>) {
        let Some(mut members) = Members::new(path, item, problems) else { return };
        match members.required_string("type") {
            Some("backbone:approval_response") => self.response(&mut members, path),
            Some("mcp_approval_response") => self.mcp_response(&mut members, path),
            Some("backbone:mode") => self.mode(&mut members),
            Some(_) => members.report(
                "type",
                "expected `backbone:approval_response`, `mcp_approval_response` or `backbone:mode`",
            ),
            None => {}
        }
    }

    fn response(&mut self, members: &mut Members<'_, '_>, path: &str) {
        let approval = read_id(members, "approval_id", true);
        let word = members.required_string("decision");
        let hmac = members.required_string("hmac");
        let reason = optional_string(members, "reason");
        let remember = read_remember(members);
        let Some(word) = word else { return };
        let reading = Reading::of_word(members, "decision", word, remember);
        if let (Some(approval), Some(hmac), Some(reading)) = (approval, hmac, reading) {
            self.answer(members, "approval_id", path, approval, Some(hmac), reason, reading);
        }
    }

    fn mcp_response(&mut self, members: &mut Members<'_, '_>, path: &str) {
        let approval = read_id(members, "approval_request_id", true);
        let approve = members.required_boolean("approve");
        let reason = optional_string(members, "reason");
        let remember = read_remember(members);
        // Clients send an id of the item itself, which names nothing of ours.
        members.optional("id");
        if let (Some(approval), Some(approve)) = (approval, approve) {
            let verdict =
                if approve { Verdict::Approve { remember: false } } else { Verdict::Reject };
            let reading = Reading::with(verdict, remember);
            self.answer(members, "approval_request_id", path, approval, None, reason, reading);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "two kinds of items end here, member by member")]
    fn answer(
        &mut self,
        members: &mut Members<'_, '_>,
        name: &'static str,
        path: &str,
        approval: String,
        hmac: Option<&str>,
        reason: Option<&str>,
        (verdict, reading): (Verdict, Reading),
    ) {
        if !self.seen.insert(approval.clone()) {
            members.report(name, "another item answers the same approval");
        }
        self.readings.push(reading);
        self.answers.push(Answer {
            path: path.to_owned(),
            approval,
            verdict,
            hmac: hmac.map(str::to_owned),
            reason: reason.map(str::to_owned),
        });
    }

    fn mode(&mut self, members: &mut Members<'_, '_>) {
        match members.required("mode") {
            Some(Json::Null) => self.mode = ModeChoice::Default,
            Some(Json::String(word)) => match Mode::from_word(word) {
                Some(mode) => self.mode = ModeChoice::Named(mode),
                None => members.report("mode", MODES),
            },
            Some(other) => members.report("mode", wrong_type("a mode's name or null", other)),
            None => {}
        }
    }
}

/// What `remember` says: known to be well formed, and not yet to go with the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    remembers_a_reject: bool,
}

impl Reading {
    /// A decision by its word, with what is to be remembered.
    pub(super) fn of_word(
        members: &mut Members<'_, '_>,
        name: &'static str,
        word: &str,
        remember: bool,
    ) -> Option<(Verdict, Self)> {
        let verdict = verdict(word);
        if verdict.is_none() {
            members.report(name, "expected `approve` or `reject`");
        }
        Some(Self::with(verdict?, remember))
    }

    fn with(verdict: Verdict, remember: bool) -> (Verdict, Self) {
        match verdict {
            Verdict::Approve { .. } => {
                (Verdict::Approve { remember }, Self { remembers_a_reject: false })
            }
            Verdict::Reject => (Verdict::Reject, Self { remembers_a_reject: remember }),
        }
    }

    /// # Errors
    /// 400 `invalid_approval_decision` for a reject that is to be remembered.
    pub(super) fn check(self, param: &str) -> Result<(), Refusal> {
        if self.remembers_a_reject {
            let text = "Only an approval can be remembered.";
            return Err(Refusal::new(Code::InvalidApprovalDecision, text).at(param));
        }
        Ok(())
    }
}

/// Whether the decision is to be remembered: for the conversation, or not at all.
pub(super) fn read_remember(members: &mut Members<'_, '_>) -> bool {
    match optional_string(members, "remember") {
        None => false,
        Some("conversation") => true,
        Some(_) => {
            members.report("remember", "expected `conversation`");
            false
        }
    }
}

/// A string that may be absent or `null`.
pub(super) fn optional_string<'json>(
    members: &mut Members<'json, '_>,
    name: &'static str,
) -> Option<&'json str> {
    members.unless_null(name)?;
    members.string(name)
}

fn read_id(members: &mut Members<'_, '_>, name: &'static str, required: bool) -> Option<String> {
    let id = if required { members.required_string(name) } else { optional_string(members, name) };
    let id = id?;
    let fits = !id.is_empty() && id.len() <= MAX_ID && !id.chars().any(needs_escape);
    if !fits {
        members.report(name, format!("expected 1 to {MAX_ID} bytes without control characters"));
    }
    fits.then(|| id.to_owned())
}
