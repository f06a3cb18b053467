//! Whether the process lives, and whether it can work.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

use super::Doors;
use super::body::Answer;

pub(super) fn routes() -> Router<Doors> {
    Router::new().route("/healthz", get(healthz)).route("/readyz", get(readyz))
}

/// The process answers.
async fn healthz() -> Response {
    Answer(json!({"status": "ok"})).into_response()
}

/// The store answers and its tables are ours. Without a judge every call waits for a person, and
/// that is a state to work in.
async fn readyz(State(doors): State<Doors>) -> Response {
    let stopping = doors.service.running.is_stopping();
    let store = doors.service.store.ready().await.is_ok();
    let ready = store && !stopping;
    let judge = doors.service.automatic_approval.is_ok();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "status": match (ready, stopping) {
            (true, _) => "ok",
            (false, true) => "stopping",
            (false, false) => "unavailable",
        },
        "store": if store { "ok" } else { "unavailable" },
        "judge": if judge { "configured" } else { "none" },
    });
    (status, Answer(body)).into_response()
}
