//! `/v1/automatic-approval`: the switch.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};

use super::Doors;
use super::auth::Admin;
use super::body::{Answer, JsonText};
use super::parameters::NoParameters;
use super::time::rfc3339;
use crate::host::effective_policy::AutomaticApprovalAnswer;
use crate::service::{Refusal, Service};
use crate::store::Switch;

pub(super) fn routes() -> Router<Doors> {
    Router::new().route("/v1/automatic-approval", get(read).put(switch))
}

async fn read(
    State(doors): State<Doors>,
    Admin(caller): Admin,
    _: NoParameters,
) -> Result<Response, Refusal> {
    let switches = doors.service.store.switches(caller.organisation()).await?;
    Ok(shown(&doors.service, &switches))
}

async fn switch(
    State(doors): State<Doors>,
    Admin(caller): Admin,
    _: NoParameters,
    body: JsonText,
) -> Result<Response, Refusal> {
    let (enabled, agent) = body.walk(|members| {
        let enabled = members.required_boolean("enabled");
        let agent = members.string("agent").map(str::to_owned);
        Some((enabled?, agent))
    })?;
    let (organisation, by) = (caller.organisation(), &caller.token.name);
    let switches =
        doors.service.set_automatic_approval(organisation, agent.as_deref(), enabled, by).await?;
    Ok(shown(&doors.service, &switches))
}

/// The organisation as a whole, and every agent that has a switch of its own.
fn shown(service: &Service, switches: &[Switch]) -> Response {
    let AutomaticApprovalAnswer { available, reason } =
        AutomaticApprovalAnswer::of(service.available(switches, None));
    let agents: Vec<Value> = switches
        .iter()
        .filter_map(|switch| {
            let agent = switch.agent.as_deref()?;
            let of_agent = AutomaticApprovalAnswer::of(service.available(switches, Some(agent)));
            let mut shown = changed(switch);
            shown["agent"] = json!(agent);
            shown["available"] = json!(of_agent.available);
            shown["reason"] = json!(of_agent.reason);
            Some(shown)
        })
        .collect();
    let whole = switches.iter().find(|switch| switch.agent.is_none());
    let mut answer = whole
        .map_or_else(|| json!({"enabled": true, "changed_by": null, "changed_at": null}), changed);
    answer["available"] = json!(available);
    answer["reason"] = json!(reason);
    answer["agents"] = json!(agents);
    Answer(answer).into_response()
}

fn changed(switch: &Switch) -> Value {
    json!({
        "enabled": switch.enabled,
        "changed_by": switch.by,
        "changed_at": rfc3339(switch.at),
    })
}
