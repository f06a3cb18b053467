//! `/aap/v1/requests`: an instance asks, waits, consumes, and says how it went.

use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::routing::{get, post};

use super::wire::ApprovalRequest;
use super::{Id, Key, OfInstance};
use crate::host::aap::{self, Submission, parse_duration};
use crate::http::Doors;
use crate::http::body::{Answer, JsonText, invalid};
use crate::service::aap::requests::{AapRequest, CallReport};
use crate::service::{Code, Refusal};

/// Bytes of a body above which it is read on a thread that may take its time.
const LARGE: usize = 64 * 1024;
/// Bytes of a note.
const MAX_NOTE: usize = 4_096;

type Shown = Result<Answer<ApprovalRequest>, Refusal>;

pub(super) fn routes() -> Router<Doors> {
    Router::new()
        .route("/aap/v1/requests", post(create))
        .route("/aap/v1/requests/{id}", get(read).delete(cancel))
        .route("/aap/v1/requests/{id}/consume", post(consume))
        .route("/aap/v1/requests/{id}/outcome", post(outcome))
}

fn shown(request: AapRequest) -> Shown {
    ApprovalRequest::new(request).map(Answer)
}

async fn create(
    State(doors): State<Doors>,
    asking: OfInstance,
    Key(key): Key,
    text: JsonText,
) -> Result<(StatusCode, Answer<ApprovalRequest>), Refusal> {
    let bytes = text.0.len();
    let submission = if bytes > LARGE {
        let reading = tokio::task::spawn_blocking(move || parse(&text));
        reading.await.map_err(|_panic| {
            Refusal::new(Code::InternalError, "Something is wrong here, and it is recorded.")
        })??
    } else {
        parse(&text)?
    };
    let (request, replayed) =
        doors.service.submit(&asking.instance, key, submission, bytes).await?;
    let status = if replayed { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, shown(request)?))
}

fn parse(text: &JsonText) -> Result<Submission, Refusal> {
    aap::parse(&text.0).map_err(|problems| invalid(&problems))
}

async fn read(State(doors): State<Doors>, asking: OfInstance, Id(id): Id, uri: Uri) -> Shown {
    let service = &doors.service;
    let OfInstance { caller, instance } = &asking;
    let request = match wait(&uri)? {
        None => service.request_of(instance, &id).await?,
        Some(wait) => service.await_request(caller.poller(), instance, &id, wait).await?,
    };
    shown(request)
}

/// How long to wait. Longer than the service waits is no error.
fn wait(uri: &Uri) -> Result<Option<Duration>, Refusal> {
    let query = uri.query().unwrap_or_default();
    let mut found = None;
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        if name != "wait" {
            continue;
        }
        if found.is_some() {
            return Err(Refusal::invalid("wait", "The parameter stands twice."));
        }
        let seconds = parse_duration(&value)
            .ok_or_else(|| Refusal::invalid("wait", "Expected a duration such as `30s`."))?;
        found = Some(Duration::from_secs(seconds));
    }
    Ok(found)
}

async fn cancel(State(doors): State<Doors>, asking: OfInstance, Id(id): Id) -> Shown {
    shown(doors.service.cancel_request(&asking.instance, &id).await?)
}

async fn consume(
    State(doors): State<Doors>,
    asking: OfInstance,
    Id(id): Id,
    Key(key): Key,
    body: Bytes,
) -> Shown {
    let said = body.trim_ascii();
    if !said.is_empty() && said != b"{}" {
        return Err(Refusal::invalid("$", "Consuming takes no body."));
    }
    shown(doors.service.consume(&asking.instance, &id, key).await?)
}

async fn outcome(
    State(doors): State<Doors>,
    asking: OfInstance,
    Id(id): Id,
    text: JsonText,
) -> Shown {
    let report = text.walk(|members| {
        let status = members.required_string("status");
        let succeeded = match status {
            Some("succeeded") => Some(true),
            Some("failed") => Some(false),
            Some(_) => {
                members.report("status", "expected `succeeded` or `failed`");
                None
            }
            None => None,
        };
        let note = members.string("note");
        if note.is_some_and(|note| note.is_empty() || note.len() > MAX_NOTE) {
            members.report("note", format!("expected 1 to {MAX_NOTE} bytes"));
        }
        Some(CallReport { succeeded: succeeded?, note: note.map(str::to_owned) })
    })?;
    shown(doors.service.report_outcome(&asking.instance, &id, report).await?)
}
