//! `POST /v1/judgements`: a gateway's calls, and what becomes of each.

mod answer;

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::post;

use self::answer::Results;
use super::Doors;
use super::auth::Gateway;
use super::body::{Answer, JsonText, invalid};
use super::idempotency::IdempotencyKey;
use super::parameters::NoParameters;
use crate::decide::digest;
use crate::decide::request::Door;
use crate::decide::walk::duplicates_of_request;
use crate::host::gateway::{self, Body, RequestedMode, Scope};
use crate::service::judgement::JudgementRequest;
use crate::service::names::check_member;
use crate::service::{Code, Refusal, aap};
use crate::store::{Idempotency, ModeChoice};

/// The endpoint's name in what makes a repeat a repeat.
const ENDPOINT: &str = "judgements";
/// Bytes of a body above which it is read on a thread that may take its time.
const LARGE: usize = 64 * 1024;

pub(super) fn routes() -> Router<Doors> {
    Router::new().route("/v1/judgements", post(judge))
}

async fn judge(
    State(doors): State<Doors>,
    Gateway(caller): Gateway,
    _: NoParameters,
    IdempotencyKey(key): IdempotencyKey,
    text: JsonText,
) -> Result<Answer<Results>, Refusal> {
    let bytes = text.0.len();
    let (body, digest) = if bytes > LARGE {
        let reading = tokio::task::spawn_blocking(move || read(&text));
        reading.await.map_err(|_panic| {
            Refusal::new(Code::InternalError, "Something is wrong here, and it is recorded.")
        })??
    } else {
        read(&text)?
    };
    let caller = caller.token;
    let endpoint = ENDPOINT.to_owned();
    let idempotency = Idempotency { caller: caller.id, endpoint, key, digest };
    let request = request(caller.organisation, idempotency, body, bytes)?;
    let judgement = doors.service.judge(request).await?;
    Ok(Answer(Results::new(judgement)))
}

/// The body, and a digest that white space and the order of members do not change.
fn read(text: &JsonText) -> Result<(Body, String), Refusal> {
    let value = text.read()?;
    let mut problems = Vec::new();
    duplicates_of_request("$", &value, &mut problems);
    match gateway::parse(&value, "$", Scope::Service, &mut problems) {
        Some(body) if problems.is_empty() => {
            Ok((body, digest(&["judgement-body-1", &value.canonical()])))
        }
        _ => Err(invalid(&problems)),
    }
}

fn request(
    organisation: String,
    idempotency: Idempotency,
    mut body: Body,
    bytes: usize,
) -> Result<JudgementRequest, Refusal> {
    if body.surface == aap::SURFACE {
        let text = "This surface is that of the approval protocol's own conversations.";
        return Err(Refusal::invalid("$.conversation.surface", text));
    }
    let (Some((agent, version)), Some((turn, continues))) = (body.agent.take(), body.turn.take())
    else {
        return Err(Refusal::invalid("$", "The body names no agent version or no turn."));
    };
    let mode = match body.mode {
        RequestedMode::Unsaid => ModeChoice::Unsaid,
        RequestedMode::Default => ModeChoice::Default,
        RequestedMode::Named(mode) => ModeChoice::Named(mode),
    };
    if let Some(user) = &body.user {
        check_member("$.user", user)?;
    }
    let pending_for = body.pending_seconds.map(Duration::from_secs);
    let (user, surface) = (body.user.take(), std::mem::take(&mut body.surface));
    let conversation_id = std::mem::take(&mut body.conversation_id);
    let (conversation, tools, calls) = body.into_parts();
    Ok(JudgementRequest {
        organisation,
        idempotency,
        door: Door::Gateway,
        instance: None,
        agent,
        version,
        user,
        surface,
        conversation_id,
        turn,
        continues,
        mode,
        pending_for,
        conversation,
        tools,
        calls,
        stricter: None,
        echo: None,
        bytes,
    })
}
