//! Approvals: one, a page of them, and what happens to one: a decision, a claim, an execution, a
//! cancellation.
//!
//! | route | who |
//! |---|---|
//! | `GET /v1/agents/{agent}/approvals`, `GET /v1/approvals` | operator, gateway |
//! | `GET /v1/approvals/{id}` | operator, gateway |
//! | `POST /v1/approvals/{id}/decision` | operator; gateway with `decide`, which names the person |
//! | `POST /v1/approvals/{id}/claim` | gateway, with `Idempotency-Key` |
//! | `POST /v1/approvals/{id}/execution` | gateway |
//! | `POST /v1/approvals/{id}/cancel` | gateway |

mod resource;

use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use super::Doors;
use super::auth::{Caller, Decider, Gateway, Watcher};
use super::body::{Answer, JsonText};
use super::decisions::{Reading, optional_string, read_remember};
use super::idempotency::IdempotencyKey;
use super::parameters::{NoParameters, Parameters, Segments};
use super::time::rfc3339;
use crate::service::Refusal;
use crate::service::approvals::{MAX_PAGE, Page, WaitForChange};
use crate::service::decision::{Decision, Verdict};
use crate::store::{Approval, ExecutionStatus, Listing, Position, Status, Timestamp};

pub(super) use resource::execution;
use resource::resource;

/// Approvals of a page, unless the caller says how many.
const PAGE: u32 = 20;

pub(super) fn routes() -> Router<Doors> {
    Router::new()
        .route("/v1/agents/{agent}/approvals", get(list_of_agent))
        .route("/v1/approvals", get(list))
        .route("/v1/approvals/{id}", get(show))
        .route("/v1/approvals/{id}/decision", post(decide))
        .route("/v1/approvals/{id}/claim", post(claim))
        .route("/v1/approvals/{id}/execution", post(report))
        .route("/v1/approvals/{id}/cancel", post(cancel))
}

async fn show(
    State(doors): State<Doors>,
    Watcher(caller): Watcher,
    Segments(id): Segments<String>,
    uri: Uri,
) -> Result<Response, Refusal> {
    let view = match Parameters::read(&uri, &["wait"])?.wait()? {
        Some(wait) => doors.service.await_decision(caller.poller(), &id, wait).await?,
        None => doors.service.approval(caller.organisation(), &id).await?,
    };
    Ok(Answer(resource(&view)).into_response())
}

async fn list_of_agent(
    State(doors): State<Doors>,
    Watcher(caller): Watcher,
    Segments(agent): Segments<String>,
    uri: Uri,
) -> Result<Response, Refusal> {
    let parameters = Parameters::read(&uri, &["status", "limit", "cursor", "wait", "state"])?;
    page(&doors, &caller, Some(agent), &parameters).await
}

async fn list(
    State(doors): State<Doors>,
    Watcher(caller): Watcher,
    uri: Uri,
) -> Result<Response, Refusal> {
    let parameters =
        Parameters::read(&uri, &["agent", "status", "limit", "cursor", "wait", "state"])?;
    let agent = parameters.text("agent").map(str::to_owned);
    page(&doors, &caller, agent, &parameters).await
}

async fn page(
    doors: &Doors,
    caller: &Caller,
    agent: Option<String>,
    parameters: &Parameters,
) -> Result<Response, Refusal> {
    const STATUS: &str = "`pending`, `approved`, `rejected`, `cancelled`, `expired` or `all`";
    let status = parameters.value("status", STATUS, |word| match word {
        "all" => Some(None),
        word => Status::from_word(word).map(Some),
    })?;
    let status = status.flatten();
    let limits = format!("a whole number from 1 to {MAX_PAGE}");
    let limit = parameters.value("limit", &limits, read_limit)?.unwrap_or(PAGE);
    let after = parameters.value("cursor", "a `next_cursor` of this listing", read_cursor)?;
    let wait = parameters.wait()?;
    let change = match (wait, parameters.text("state")) {
        (Some(wait), Some(seen)) => Some(WaitForChange { wait, seen }),
        (None, None) => None,
        (Some(_), None) => {
            let text = "A listing waits until it is another than the `state` that you have seen: \
                        name that too.";
            return Err(Refusal::invalid("state", text));
        }
        (None, Some(_)) => return Err(Refusal::invalid("state", "`state` goes with `wait`.")),
    };
    let listing = Listing { agent, status, after, limit };
    let Page { approvals, next, state } =
        doors.service.approvals(caller.poller(), &listing, change).await?;
    let approvals: Vec<Value> = approvals.iter().map(resource).collect();
    let mut body = json!({"approvals": approvals, "state": state});
    if let Some(next) = next {
        body["next_cursor"] = json!(cursor(&next));
    }
    Ok(Answer(body).into_response())
}

fn read_limit(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|limit| plain && (1..=MAX_PAGE).contains(limit))
}

/// A cursor is a place in the listing; its form is nobody's but ours.
fn cursor(position: &Position) -> String {
    let Position { created_at, id } = position;
    URL_SAFE_NO_PAD.encode(format!("{}:{id}", created_at.unix_millis()))
}

fn read_cursor(text: &str) -> Option<Position> {
    let plain = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    let (millis, id) = plain.split_once(':')?;
    let created_at = Timestamp::from_unix_millis(millis.parse().ok()?);
    Some(Position { created_at, id: id.to_owned() })
}

async fn decide(
    State(doors): State<Doors>,
    Decider(caller): Decider,
    Segments(id): Segments<String>,
    _: NoParameters,
    body: JsonText,
) -> Result<Response, Refusal> {
    let (decision, reading) = body.walk(|members| {
        let word = members.required_string("decision");
        let hmac = members.required_string("hmac");
        let reason = optional_string(members, "reason");
        let decided_by = optional_string(members, "decided_by");
        let remember = read_remember(members);
        let (verdict, reading) = Reading::of_word(members, "decision", word?, remember)?;
        let decision = Decision {
            verdict,
            hmac: hmac?.to_owned(),
            reason: reason.map(str::to_owned),
            decided_by: decided_by.map(str::to_owned),
        };
        Some((decision, reading))
    })?;
    reading.check("$.remember")?;
    let approval = doors.service.decide(&caller.token, &id, decision).await?;
    Ok(Answer(decided(&approval)).into_response())
}

/// What a decision answers. It releases nothing.
fn decided(approval: &Approval) -> Value {
    let mut body = standing(approval);
    let start_by = approval.decision.as_ref().and_then(|decision| decision.start_by);
    if let Some(start_by) = start_by {
        body.insert("start_by".to_owned(), json!(rfc3339(start_by)));
    }
    body.into()
}

fn standing(approval: &Approval) -> Map<String, Value> {
    Map::from_iter([
        ("approval_id".to_owned(), json!(approval.facts.id)),
        ("status".to_owned(), json!(approval.status.as_str())),
    ])
}

async fn claim(
    State(doors): State<Doors>,
    Gateway(caller): Gateway,
    Segments(id): Segments<String>,
    _: NoParameters,
    IdempotencyKey(key): IdempotencyKey,
) -> Result<Response, Refusal> {
    let approval = doors.service.claim(&caller.token, &id, &key).await?;
    let start_by = approval.decision.and_then(|decision| decision.start_by).map(rfc3339);
    Ok(Answer(json!({"release": true, "start_by": start_by})).into_response())
}

async fn report(
    State(doors): State<Doors>,
    Gateway(caller): Gateway,
    Segments(id): Segments<String>,
    _: NoParameters,
    body: JsonText,
) -> Result<Response, Refusal> {
    let (status, output) = body.walk(|members| {
        let word = members.required_string("status");
        let output = optional_string(members, "output");
        let status = word.and_then(|word| {
            let status = ExecutionStatus::from_word(word);
            if status.is_none() {
                members.report("status", "expected `OK`, `FAILED` or `TIMEOUT`");
            }
            status
        });
        Some((status?, output.map(str::to_owned)))
    })?;
    let output = output.as_deref();
    let approval = doors.service.report_execution(&caller.token, &id, status, output).await?;
    let mut body = standing(&approval);
    if let Some(reported) = &approval.execution {
        body.insert("execution".to_owned(), execution(reported, None));
    }
    Ok(Answer(body).into_response())
}

async fn cancel(
    State(doors): State<Doors>,
    Gateway(caller): Gateway,
    Segments(id): Segments<String>,
    _: NoParameters,
) -> Result<Response, Refusal> {
    let approval = doors.service.cancel(&caller.token, &id).await?;
    Ok(Answer(standing(&approval)).into_response())
}

/// A verdict from the word that people use for it.
pub(super) fn verdict(word: &str) -> Option<Verdict> {
    match word {
        "approve" => Some(Verdict::Approve { remember: false }),
        "reject" => Some(Verdict::Reject),
        _ => None,
    }
}
