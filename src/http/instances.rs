//! Instances of the approval protocol as operators see them: which there are, in which mode they
//! run, and whether what they say of a conversation counts.
//!
//! `GET /v1/instances` and `GET /v1/instances/{id}` (`admin`, `operator`), the latter with
//! `deleted_at` and with `changes`: who set mode or trust, when, and what stood before and after.
//! `PATCH /v1/instances/{id}` (`admin`) `{"mode":"plan"|"ask"|"auto"|null, "trusted_context":bool}`,
//! both optional; `null` is the version's default. Provisioning is the protocol's own
//! (`/aap/v1/instances`).

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde_json::{Value, json};

use super::Doors;
use super::auth::{Admin, Overseer};
use super::body::{Answer, JsonText};
use super::parameters::{NoParameters, Segments};
use super::time::rfc3339;
use crate::decide::json::Json;
use crate::decide::policy::Mode;
use crate::decide::walk::wrong_type;
use crate::service::Refusal;
use crate::service::aap::instances::Settings;
use crate::store::{Instance, InstanceSettings, SettingsChange};

pub(super) fn routes() -> Router<Doors> {
    Router::new()
        .route("/v1/instances", get(list))
        .route("/v1/instances/{id}", get(show).patch(set))
}

async fn list(
    State(doors): State<Doors>,
    Overseer(caller): Overseer,
    _: NoParameters,
) -> Result<Answer<Value>, Refusal> {
    let instances = doors.service.instances(caller.organisation()).await?;
    let shown: Vec<Value> = instances.iter().map(resource).collect();
    Ok(Answer(json!({"instances": shown})))
}

async fn show(
    State(doors): State<Doors>,
    Overseer(caller): Overseer,
    Segments(id): Segments<String>,
    _: NoParameters,
) -> Result<Answer<Value>, Refusal> {
    let (instance, changes) =
        doors.service.instance_with_changes(caller.organisation(), &id).await?;
    let mut shown = resource(&instance);
    shown["deleted_at"] = json!(instance.deleted_at.map(rfc3339));
    shown["changes"] = changes.iter().map(change).collect();
    Ok(Answer(shown))
}

async fn set(
    State(doors): State<Doors>,
    Admin(caller): Admin,
    Segments(id): Segments<String>,
    _: NoParameters,
    text: JsonText,
) -> Result<Answer<Value>, Refusal> {
    let settings = text.walk(|members| {
        let mode = match members.optional("mode") {
            None => None,
            Some(Json::Null) => Some(None),
            Some(Json::String(word)) => match Mode::from_word(word) {
                Some(mode) => Some(Some(mode)),
                None => {
                    members.report("mode", "expected `plan`, `ask`, `auto` or null");
                    None
                }
            },
            Some(other) => {
                members.report("mode", wrong_type("a mode's name or null", other));
                None
            }
        };
        Some(Settings { mode, trusted_context: members.boolean("trusted_context") })
    })?;
    let instance = doors.service.set_instance(&caller.token, &id, settings).await?;
    Ok(Answer(resource(&instance)))
}

fn change(change: &SettingsChange) -> Value {
    let settings = |settings: InstanceSettings| {
        json!({
            "mode": settings.mode.map(Mode::as_str),
            "trusted_context": settings.trusted_context,
        })
    };
    json!({
        "changed_by": change.by,
        "changed_at": rfc3339(change.at),
        "before": settings(change.before),
        "after": settings(change.after),
    })
}

fn resource(instance: &Instance) -> Value {
    json!({
        "id": instance.id,
        "name": instance.name,
        "agent": instance.agent,
        "version": instance.version,
        "mode": instance.mode.map(Mode::as_str),
        "trusted_context": instance.trusted_context,
        "receives": instance.delivery.is_some(),
        "created_at": rfc3339(instance.created_at),
        "updated_at": rfc3339(instance.updated_at),
    })
}
