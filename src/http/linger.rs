//! A body that nobody reads to its end.
//!
//! An answer may be ready before its request's body has arrived: who may not do something, or sends
//! too much, learns that at once. Many clients read no answer before they have sent all, and a
//! connection that is closed meanwhile takes the answer with it. So what is left of a body is read and
//! thrown away, for a short time and up to a limit.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::EXPECT;
use futures::{Stream, StreamExt};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// For how long a body's rest is read.
const TIME: Duration = Duration::from_secs(5);

/// The same request; of its body at most `most` bytes are read once nobody wants it any more.
pub(super) fn to_the_end(request: Request, most: usize) -> Request {
    // A client that waits to be asked for its body sends none, and must not be asked.
    if request.body().is_end_stream() || request.headers().contains_key(EXPECT) {
        return request;
    }
    request.map(|body| Body::from_stream(Lingering { rest: Some(body.into_data_stream()), most }))
}

struct Lingering {
    /// `None` once there is nothing left.
    rest: Option<BodyDataStream>,
    most: usize,
}

impl Stream for Lingering {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, axum::Error>>> {
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let next = rest.poll_next_unpin(context);
        if let Poll::Ready(None | Some(Err(_))) = next {
            self.rest = None;
        }
        next
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        // Where no task can run any more there is no connection either.
        if let (Some(rest), Ok(runtime)) = (self.rest.take(), Handle::try_current()) {
            let most = self.most;
            runtime.spawn(timeout(TIME, throw_away(rest, most)));
        }
    }
}

async fn throw_away(mut rest: BodyDataStream, most: usize) {
    let mut left = most;
    while let Some(Ok(bytes)) = rest.next().await {
        let Some(fewer) = left.checked_sub(bytes.len()) else { return };
        left = fewer;
    }
}
