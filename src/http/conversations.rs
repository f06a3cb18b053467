//! `GET` and `DELETE /v1/conversations/{id}`: a conversation as the service knows it, one entry a
//! surface.

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde::Serialize;

use super::Doors;
use super::auth::{Gateway, Watcher};
use super::body::Answer;
use super::parameters::{NoParameters, Segments};
use crate::service::Refusal;

pub(super) fn routes() -> Router<Doors> {
    Router::new().route("/v1/conversations/{id}", get(read).delete(delete))
}

/// A conversation of that id.
#[derive(Debug, Serialize)]
struct Conversation {
    id: String,
    /// One a surface that has brought calls, by its name; grants hold within one.
    surfaces: Vec<Surface>,
}

#[derive(Debug, Serialize)]
struct Surface {
    surface: String,
    /// The mode that a person last picked; null when none was, and the version's default applies.
    mode: Option<&'static str>,
    /// Escalations by detector or judge since a person last decided.
    escalations: u32,
}

/// A conversation that was deleted.
#[derive(Debug, Serialize)]
struct Deleted {
    id: String,
    deleted: bool,
    /// The approvals that were pending, and are cancelled now.
    cancelled: Vec<String>,
}

/// For gateways and operators.
async fn read(
    State(doors): State<Doors>,
    Watcher(caller): Watcher,
    Segments(id): Segments<String>,
    _: NoParameters,
) -> Result<Answer<Conversation>, Refusal> {
    let found = doors.service.conversations(caller.organisation(), &id).await?;
    let surfaces = found.into_iter().map(|conversation| Surface {
        surface: conversation.surface,
        mode: conversation.mode.map(|mode| mode.as_str()),
        escalations: conversation.escalations,
    });
    Ok(Answer(Conversation { surfaces: surfaces.collect(), id }))
}

/// For gateways. The records stay for audit; the id is not used again.
async fn delete(
    State(doors): State<Doors>,
    Gateway(caller): Gateway,
    Segments(id): Segments<String>,
    _: NoParameters,
) -> Result<Answer<Deleted>, Refusal> {
    let cancelled = doors.service.delete_conversation(caller.organisation(), &id).await?;
    let cancelled = cancelled.into_iter().map(|approval| approval.facts.id).collect();
    Ok(Answer(Deleted { id, deleted: true, cancelled }))
}
