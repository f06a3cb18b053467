//! `/v1/agents/{agent}/versions…` and `…/channels…`.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Doors;
use super::auth::{PolicyOwner, Reader};
use super::body::{Answer, JsonText};
use super::parameters::{NoParameters, Parameters, Segments};
use super::time::rfc3339;
use crate::decide::policy::Mode;
use crate::host::effective_policy::may_be_named;
use crate::service::{Code, Put, Refusal};
use crate::store::{Channel, StoredVersion};

pub(super) fn routes() -> Router<Doors> {
    Router::new()
        .route("/v1/agents/{agent}/versions", get(list))
        .route("/v1/agents/{agent}/versions/{version}", get(read).put(store))
        .route("/v1/agents/{agent}/versions/{version}/policy", get(policy))
        .route("/v1/agents/{agent}/channels", get(channels))
        .route("/v1/agents/{agent}/channels/{name}", put(move_channel))
}

async fn store(
    State(doors): State<Doors>,
    PolicyOwner(caller): PolicyOwner,
    Segments((agent, version)): Segments<(String, String)>,
    _: NoParameters,
    body: JsonText,
) -> Result<Response, Refusal> {
    let (organisation, by) = (caller.organisation(), &caller.token.name);
    let (put, stored) =
        doors.service.put_version(organisation, &agent, &version, &body.0, by).await?;
    let status = match put {
        Put::New => StatusCode::CREATED,
        Put::Same => StatusCode::OK,
    };
    Ok((status, Answer(summary(&stored))).into_response())
}

async fn list(
    State(doors): State<Doors>,
    Reader(caller): Reader,
    Segments(agent): Segments<String>,
    _: NoParameters,
) -> Result<Response, Refusal> {
    let versions = doors.service.agent_versions(caller.organisation(), &agent).await?;
    let versions: Vec<Value> = versions.iter().map(summary).collect();
    Ok(Answer(json!({"data": versions})).into_response())
}

/// A version with its content, byte for byte as it was stored.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    summary: Value,
    content: &'a RawValue,
}

async fn read(
    State(doors): State<Doors>,
    Reader(caller): Reader,
    Segments((agent, version)): Segments<(String, String)>,
    _: NoParameters,
) -> Result<Response, Refusal> {
    let stored = doors.service.stored_version(caller.organisation(), &agent, &version).await?;
    let content = serde_json::from_str(&stored.content).map_err(|_| {
        Refusal::new(Code::InternalError, "The stored agent version cannot be read.")
    })?;
    Ok(Answer(Whole { summary: summary(&stored), content }).into_response())
}

async fn policy(
    State(doors): State<Doors>,
    Reader(caller): Reader,
    Segments((agent, version)): Segments<(String, String)>,
    uri: Uri,
) -> Result<Response, Refusal> {
    let parameters = Parameters::read(&uri, &["mode", "tool"])?;
    let mode = parameters.value("mode", "`plan`, `ask` or `auto`", Mode::from_word)?;
    let tool = parameters.text("tool");
    if !tool.is_none_or(may_be_named) {
        return Err(Refusal::invalid("tool", "No tool can have this name."));
    }
    let organisation = caller.organisation();
    let answer = doors.service.effective_policy(organisation, &agent, &version, mode, tool).await?;
    Ok(Answer(answer).into_response())
}

async fn channels(
    State(doors): State<Doors>,
    Reader(caller): Reader,
    Segments(agent): Segments<String>,
    _: NoParameters,
) -> Result<Response, Refusal> {
    let channels = doors.service.channels(caller.organisation(), &agent).await?;
    let channels: Vec<Value> = channels.iter().map(channel).collect();
    Ok(Answer(json!({"data": channels})).into_response())
}

async fn move_channel(
    State(doors): State<Doors>,
    PolicyOwner(caller): PolicyOwner,
    Segments((agent, name)): Segments<(String, String)>,
    _: NoParameters,
    body: JsonText,
) -> Result<Response, Refusal> {
    let version = body.walk(|members| members.required_string("version").map(str::to_owned))?;
    let (organisation, by) = (caller.organisation(), &caller.token.name);
    let moved = doors.service.move_channel(organisation, &agent, &name, &version, by).await?;
    Ok(Answer(channel(&moved)).into_response())
}

fn summary(stored: &StoredVersion) -> Value {
    json!({
        "agent": stored.agent,
        "version": stored.version,
        "digest": stored.digest,
        "created_by": stored.by,
        "created_at": rfc3339(stored.created_at),
    })
}

fn channel(channel: &Channel) -> Value {
    json!({
        "name": channel.name,
        "version": channel.version,
        "moved_by": channel.by,
        "moved_at": rfc3339(channel.moved_at),
    })
}
