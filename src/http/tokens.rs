//! `/v1/tokens`: bearer tokens of the administrator's organisation.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get};
use serde_json::{Value, json};

use super::Doors;
use super::auth::Admin;
use super::body::{Answer, JsonText};
use super::parameters::{NoParameters, Segments};
use super::time::rfc3339;
use crate::decide::walk::{Members, index_path};
use crate::service::{Refusal, tokens};
use crate::store::{Token, TokenKind};

pub(super) fn routes() -> Router<Doors> {
    Router::new()
        .route("/v1/tokens", get(list).post(create))
        .route("/v1/tokens/{id}", delete(revoke))
}

async fn list(
    State(doors): State<Doors>,
    Admin(caller): Admin,
    _: NoParameters,
) -> Result<Response, Refusal> {
    let tokens = doors.service.store.tokens(caller.organisation()).await?;
    let tokens: Vec<Value> = tokens.iter().map(shown).collect();
    Ok(Answer(json!({"data": tokens})).into_response())
}

async fn create(
    State(doors): State<Doors>,
    Admin(caller): Admin,
    _: NoParameters,
    body: JsonText,
) -> Result<Response, Refusal> {
    let Asked { name, kind, decide, versions } = body.walk(read)?;
    let kind = tokens::kind(&kind, decide, versions)?;
    let made = doors.service.create_token(caller.organisation(), &name, kind).await?;
    let mut answer = shown(&made.token);
    answer["token"] = json!(made.text);
    Ok((StatusCode::CREATED, Answer(answer)).into_response())
}

async fn revoke(
    State(doors): State<Doors>,
    Admin(caller): Admin,
    Segments(id): Segments<String>,
    _: NoParameters,
) -> Result<Response, Refusal> {
    doors.service.revoke_token(caller.organisation(), &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

struct Asked {
    name: String,
    kind: String,
    decide: bool,
    versions: Vec<(String, String)>,
}

fn read(members: &mut Members<'_, '_>) -> Option<Asked> {
    let name = members.required_string("name");
    let kind = members.required_string("kind");
    let decide = members.boolean("decide").unwrap_or_default();
    let path = members.path_of("versions");
    let listed = members.list("versions").unwrap_or_default();
    let mut versions = Vec::with_capacity(listed.len());
    for (index, value) in listed.iter().enumerate() {
        let here = index_path(&path, index);
        let Some(mut pair) = Members::new(&here, value, members.problems()) else { continue };
        let (agent, version) = (pair.required_string("agent"), pair.required_string("version"));
        pair.finish();
        if let (Some(agent), Some(version)) = (agent, version) {
            versions.push((agent.to_owned(), version.to_owned()));
        }
    }
    Some(Asked { name: name?.to_owned(), kind: kind?.to_owned(), decide, versions })
}

/// A token without the token.
fn shown(token: &Token) -> Value {
    let Token { id, name, kind, created_at, revoked_at, organisation: _ } = token;
    let mut shown = json!({
        "id": id,
        "name": name,
        "kind": kind.as_str(),
        "created_at": rfc3339(*created_at),
        "revoked_at": revoked_at.map(rfc3339),
    });
    match kind {
        TokenKind::Gateway { decide } => shown["decide"] = json!(decide),
        TokenKind::Instance { instance } => shown["instance"] = json!(instance),
        TokenKind::Provisioner { versions } => {
            let pairs = versions.iter();
            shown["versions"] =
                pairs.map(|(agent, version)| json!({"agent": agent, "version": version})).collect();
        }
        TokenKind::Operator | TokenKind::PolicyOwner | TokenKind::Admin => {}
    }
    shown
}
