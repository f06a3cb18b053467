//! `/aap/v1/instances`: a provisioner makes, reads, changes and deletes instances.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{Id, Key, Provisioner};
use crate::decide::digest;
use crate::decide::json::Json;
use crate::decide::walk::{Members, duplicates_of_request};
use crate::http::Doors;
use crate::http::body::{Answer, JsonText, invalid};
use crate::service::aap::check_url;
use crate::service::aap::instances::{NewDelivery, Provisioned, Repeat};
use crate::service::{Code, Refusal, Service};

/// Bytes of a name.
const MAX_NAME: usize = 256;

pub(super) fn routes() -> Router<Doors> {
    Router::new()
        .route("/aap/v1/instances", post(provision))
        .route("/aap/v1/instances/{id}", get(read).patch(change).delete(delete))
}

#[derive(Serialize)]
struct ProvisionResponse {
    instance: Box<RawValue>,
    credential: Credential,
}

#[derive(Serialize)]
struct Credential {
    #[serde(serialize_with = "told")]
    token: SecretString,
}

/// The one answer that holds a token.
fn told<S: Serializer>(token: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(token.expose_secret())
}

async fn provision(
    State(doors): State<Doors>,
    Provisioner(caller): Provisioner,
    Key(key): Key,
    text: JsonText,
) -> Result<(StatusCode, Answer<ProvisionResponse>), Refusal> {
    let asked = Asked::read(&doors.service, &text, "create")?;
    let delivery = asked.delivery.flatten();
    let repeat = Repeat { key, digest: asked.digest };
    let provisioned =
        doors.service.provision(&caller, asked.name.as_deref(), delivery, repeat).await?;
    let Provisioned { instance, token, replayed } = provisioned;
    let status = if replayed { StatusCode::OK } else { StatusCode::CREATED };
    let credential = Credential { token };
    Ok((status, Answer(ProvisionResponse { instance: raw(instance)?, credential })))
}

async fn read(
    State(doors): State<Doors>,
    Provisioner(caller): Provisioner,
    Id(id): Id,
) -> Result<Answer<Box<RawValue>>, Refusal> {
    Ok(Answer(raw(doors.service.provisioned_instance(&caller, &id).await?)?))
}

async fn change(
    State(doors): State<Doors>,
    Provisioner(caller): Provisioner,
    Id(id): Id,
    Key(key): Key,
    text: JsonText,
) -> Result<Answer<Box<RawValue>>, Refusal> {
    let asked = Asked::read(&doors.service, &text, "update")?;
    if asked.name.is_none() && asked.delivery.is_none() {
        return Err(Refusal::invalid("$", "Expected `instance_name`, `delivery` or both."));
    }
    let repeat = Repeat { key, digest: asked.digest };
    let Asked { name, delivery, .. } = asked;
    Ok(Answer(raw(doors.service.change_instance(&caller, &id, name, delivery, repeat).await?)?))
}

async fn delete(
    State(doors): State<Doors>,
    Provisioner(caller): Provisioner,
    Id(id): Id,
) -> Result<StatusCode, Refusal> {
    doors.service.delete_instance(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What both bodies hold.
struct Asked {
    name: Option<String>,
    /// `Some(None)`: no receiver from now on.
    delivery: Option<Option<NewDelivery>>,
    digest: String,
}

impl Asked {
    fn read(service: &Service, text: &JsonText, operation: &str) -> Result<Self, Refusal> {
        let value = text.read()?;
        let mut problems = Vec::new();
        duplicates_of_request("$", &value, &mut problems);
        let mut other_type = false;
        let asked = Members::new("$", &value, &mut problems).map(|mut members| {
            let name = members.string("instance_name");
            if name.is_some_and(|name| name.is_empty() || name.len() > MAX_NAME) {
                members.report("instance_name", format!("expected 1 to {MAX_NAME} bytes"));
            }
            let path = members.path_of("delivery");
            let delivery = match members.optional("delivery") {
                None => None,
                // Making an instance without a receiver is saying nothing of one.
                Some(Json::Null) if operation == "update" => Some(None),
                Some(value) => Members::new(&path, value, members.problems())
                    .and_then(|delivery| read_delivery(delivery, &mut other_type))
                    .map(Some),
            };
            members.finish();
            (name.map(str::to_owned), delivery)
        });
        if other_type {
            let text = "The only type of delivery is `webhook`.";
            return Err(Refusal::new(Code::UnsupportedDeliveryType, text).at("$.delivery.type"));
        }
        let Some((name, delivery)) = asked.filter(|_| problems.is_empty()) else {
            return Err(invalid(&problems));
        };
        if let Some(Some(delivery)) = &delivery {
            check_url(service, &delivery.url)?;
        }
        let digest = digest(&["aap-instance-1", operation, &value.canonical()]);
        Ok(Self { name, delivery, digest })
    }
}

fn read_delivery(mut members: Members<'_, '_>, other_type: &mut bool) -> Option<NewDelivery> {
    *other_type = members.required_string("type").is_some_and(|kind| kind != "webhook");
    let url = members.required_string("url");
    let registration_id = members.required_string("registration_id");
    if registration_id.is_some_and(|id| id.len() != 36 || Uuid::parse_str(id).is_err()) {
        members.report("registration_id", "expected a UUID");
    }
    let signing_secret = members.required_string("signing_secret").map(SecretString::from);
    if signing_secret.as_ref().is_some_and(|secret| {
        // Whatever can sign is a secret; nothing of it stands in the text.
        crate::service::aap::sign(secret, "", 0, "").is_none()
    }) {
        members.report("signing_secret", "expected `whsec_` and 32 bytes in padded base64");
    }
    members.finish();
    Some(NewDelivery {
        url: url?.to_owned(),
        registration_id: registration_id?.to_owned(),
        signing_secret: signing_secret?,
    })
}

fn raw(text: String) -> Result<Box<RawValue>, Refusal> {
    RawValue::from_string(text).map_err(|_| {
        tracing::error!("a stored instance is no JSON");
        Refusal::new(Code::InternalError, "Something is wrong here, and it is recorded.")
    })
}
