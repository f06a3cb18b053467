//! Connections: accepted, limited, and ended with grace.
//!
//! Whatever a stranger may cost before a request has an answer is bounded here: connections at once,
//! the time for a header, its size and number of fields, the time without progress.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Sleep, sleep, timeout};

use super::limits::{HeaderLimits, MAX_TARGET};

/// What one connection may cost, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// At once; more wait to be accepted.
    pub most: usize,
    /// For a request's header to arrive whole, the time before it begins included; and as long again
    /// for the first byte of a connection.
    pub header_timeout: Duration,
    /// The header of a request that gets an answer of ours. HTTP itself reads a larger one, so that
    /// there is a request to answer.
    pub headers: HeaderLimits,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            most: 1_024,
            header_timeout: Duration::from_secs(30),
            headers: HeaderLimits::default(),
        }
    }
}

/// Requests of one HTTP/2 connection at once.
const STREAMS: u32 = 128;
/// How long a reader may take nothing of an answer.
const WRITE_STALL: Duration = Duration::from_secs(60);
/// How long to wait when the machine gives no more sockets.
const NO_SOCKET: Duration = Duration::from_millis(200);
/// How an HTTP/2 connection begins (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long to wait for more where the first bytes leave open which HTTP it is; twice as long each
/// time, so that whoever sends no more costs no more.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Serves until `end` is ready; then connections get what they wait for, at most for `grace`.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    connections: Connections,
    end: impl Future<Output = ()>,
    grace: Duration,
) {
    let builder = builder(connections);
    let open = GracefulShutdown::new();
    let (ended, _) = watch::channel(false);
    let slots = Arc::new(Semaphore::new(connections.most));
    let mut end = std::pin::pin!(end);
    loop {
        let accepted = async {
            let slot = Arc::clone(&slots).acquire_owned().await.ok()?;
            Some((slot, accept(&listener).await))
        };
        let (slot, stream) = tokio::select! {
            biased;
            () = &mut end => break,
            accepted = accepted => match accepted {
                Some(accepted) => accepted,
                // The semaphore is never closed.
                None => break,
            },
        };
        // Answers are small and whole: waiting for more to send would only delay them.
        let _slower = stream.set_nodelay(true);
        let (builder, router, open) = (builder.clone(), router.clone(), open.watcher());
        let mut ended = ended.subscribe();
        tokio::spawn(async move {
            let version = tokio::select! {
                // A request that has begun is answered, also at the end.
                biased;
                version = timeout(connections.header_timeout, version(&stream)) => {
                    version.ok().and_then(Result::ok)
                }
                _ = ended.changed() => None,
            };
            let builder = match version {
                // Nobody began anything.
                None => return,
                Some(Version::Http1) => builder.http1_only(),
                Some(Version::Http2) => builder.http2_only(),
            };
            let io = TokioIo::new(Watched::new(stream));
            let service = TowerToHyperService::new(router);
            let connection = builder.serve_connection(io, service).into_owned();
            // What ends a connection early is its client's matter: it goes to no log.
            let _ended = open.watch(connection).await;
            drop(slot);
        });
    }
    drop(listener);
    ended.send_replace(true);
    if timeout(grace, open.shutdown()).await.is_err() {
        tracing::warn!("connections were still open and are cut");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Http1,
    Http2,
}

/// Which HTTP a connection speaks, by its first bytes, which stay where they are: read ahead, they
/// would cost every connection a second buffer.
///
/// # Errors
/// It ended or failed before it said so.
async fn version(stream: &TcpStream) -> io::Result<Version> {
    let mut first = [0; PREFACE.len()];
    let mut pause = LOOK_AGAIN;
    loop {
        // Asked for before the bytes: then no more will come than those.
        let over = stream.ready(Interest::READABLE).await?.is_read_closed();
        let length = stream.peek(&mut first).await?;
        let first = first.get(..length).unwrap_or_default();
        if first.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !PREFACE.starts_with(first) {
            return Ok(Version::Http1);
        }
        if first.len() == PREFACE.len() {
            return Ok(Version::Http2);
        }
        if over {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        sleep(pause).await;
        pause *= 2;
    }
}

/// HTTP's own limits of a header: so many fields, so many bytes with the request's line. Beyond them
/// the HTTP library answers, without a word of ours.
fn limits_of_http(ours: HeaderLimits) -> HeaderLimits {
    let HeaderLimits { fields, bytes } = ours;
    HeaderLimits { fields: 4 * fields, bytes: 2 * (bytes + MAX_TARGET) }
}

fn builder(connections: Connections) -> Builder<TokioExecutor> {
    let headers = limits_of_http(connections.headers);
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(connections.header_timeout)
        .max_headers(headers.fields)
        .max_buf_size(headers.bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(headers.bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(connections.header_timeout)
        .keep_alive_timeout(connections.header_timeout);
    builder
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _address)) => return stream,
            Err(error) => {
                // A client that is gone already is nobody's error; too many open files is ours.
                let gone = [
                    io::ErrorKind::ConnectionAborted,
                    io::ErrorKind::ConnectionRefused,
                    io::ErrorKind::ConnectionReset,
                ];
                if !gone.contains(&error.kind()) {
                    tracing::error!(kind = %error.kind(), "no connection can be accepted");
                    sleep(NO_SOCKET).await;
                }
            }
        }
    }
}

/// A connection that ends when nobody takes what is written.
struct Watched {
    stream: TcpStream,
    /// When to give up; set while nobody takes anything.
    stall: Option<Pin<Box<Sleep>>>,
}

impl Watched {
    fn new(stream: TcpStream) -> Self {
        Self { stream, stall: None }
    }

    /// What came of writing: a write that is not taken for too long is an error.
    fn written<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stall = None;
            return written;
        }
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(WRITE_STALL)));
        match stall.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.written(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
