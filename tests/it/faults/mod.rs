//! A real HTTP server on the loopback interface that misbehaves as told.
//!
//! ```ignore
//! let server = FaultServer::start([Fault::status(503), Fault::says("{}")]).await;
//! let settings = Settings::new(server.base_url(), "model");
//! // … ask …
//! assert_eq!(server.requests().len(), 2);
//! ```
//!
//! * One fault a request, in order; the last one repeats.
//! * It speaks HTTP/1.1 over plain TCP and writes exactly the bytes that the fault says, which no
//!   HTTP library would. Connections are kept alive where the fault leaves them usable.
//! * [`PLANTED`] stands in every body and header that a provider could put text in: tests search
//!   failures and logs for it.
//! * It ends when dropped, with all its connections.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What no failure and no log may ever show.
pub(crate) const PLANTED: &str = "PLANTED-PROVIDER-TEXT";

/// How one request is treated.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// A whole, well-formed HTTP answer.
    Answer { status: u16, headers: Vec<(&'static str, String)>, body: Vec<u8> },
    /// The request is read and never answered.
    Silence,
    /// Status and headers come, then the body never ends: one space every 20 ms.
    DripBody,
    /// Status, headers and half the body that they announce; then the connection is closed.
    CutBody,
    /// The same with a chunked body.
    CutChunkedBody,
    /// The request is read and the connection closed without a word.
    HangUp,
    /// The connection is reset as soon as it is accepted.
    Reset,
    /// A chat completion whose text is that many bytes long.
    Flood { bytes: usize },
    /// Bytes that are no HTTP, then the connection is closed.
    Garbage(Vec<u8>),
}

impl Fault {
    /// A well-formed answer with this status and body, as JSON.
    pub(crate) fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::Answer {
            status,
            headers: vec![("content-type", "application/json".to_owned())],
            body: body.to_string().into_bytes(),
        }
    }

    /// This status, with planted text in an ordinary error body and in a header.
    pub(crate) fn status(status: u16) -> Self {
        Self::json(
            status,
            &serde_json::json!({"error": {
                "message": PLANTED, "type": PLANTED, "param": PLANTED, "code": PLANTED,
            }}),
        )
        .header("x-request-id", PLANTED)
    }

    /// A status with another body, of whatever kind.
    pub(crate) fn raw(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::Answer {
            status,
            headers: vec![("content-type", content_type.to_owned())],
            body: body.into(),
        }
    }

    /// A chat completion with one choice.
    pub(crate) fn choice(choice: serde_json::Value) -> Self {
        Self::json(
            200,
            &serde_json::json!({
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1_790_000_000,
                "model": "served-model",
                "choices": [choice],
                "usage": {
                    "prompt_tokens": 1450,
                    "completion_tokens": 120,
                    "total_tokens": 1570,
                    "prompt_tokens_details": {"cached_tokens": 1386},
                },
            }),
        )
    }

    /// A chat completion in which the model says this.
    pub(crate) fn says(text: &str) -> Self {
        Self::choice(serde_json::json!({
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": null},
            "finish_reason": "stop",
        }))
    }

    /// The same answer with one more header.
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        match &mut self {
            Self::Answer { headers, .. } => headers.push((name, value.to_owned())),
            other => panic!("`{other:?}` has no headers"),
        }
        self
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// Request line and headers, names in lower case.
    pub(crate) head: String,
    /// The body's exact text.
    pub(crate) body: String,
    /// Counts the connections from 0.
    pub(crate) connection: usize,
}

impl Received {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            (found == name).then(|| value.trim())
        })
    }
}

#[derive(Default)]
struct Seen {
    requests: Vec<Received>,
    connections: usize,
    written: usize,
}

/// The server. Dropping it closes everything.
pub(crate) struct FaultServer {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    _tasks: JoinSet<()>,
}

impl FaultServer {
    /// Starts a server with these faults, one a request; the last one repeats.
    pub(crate) async fn start(faults: impl IntoIterator<Item = Fault>) -> Self {
        let faults: Arc<Vec<Fault>> = Arc::new(faults.into_iter().collect());
        assert!(!faults.is_empty(), "a server needs at least one fault");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut tasks = JoinSet::new();
        tasks.spawn({
            let seen = Arc::clone(&seen);
            async move {
                let mut connections = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    let connection = {
                        let mut seen = seen.lock().unwrap();
                        seen.connections += 1;
                        seen.connections - 1
                    };
                    connections.spawn(serve(
                        stream,
                        connection,
                        Arc::clone(&faults),
                        Arc::clone(&seen),
                    ));
                }
            }
        });
        Self { address, seen, _tasks: tasks }
    }

    /// The address to configure.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Every request whose head and body came in whole.
    pub(crate) fn requests(&self) -> Vec<Received> {
        self.seen.lock().unwrap().requests.clone()
    }

    /// How often somebody connected.
    pub(crate) fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    /// Bytes of bodies that the network took from the server.
    pub(crate) fn written(&self) -> usize {
        self.seen.lock().unwrap().written
    }

    /// Waits until that many requests have come in.
    pub(crate) async fn wait_for_requests(&self, count: usize) {
        while self.requests().len() < count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// An address at which nobody listens.
pub(crate) async fn refused_base_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/v1", listener.local_addr().unwrap())
}

async fn serve(
    mut stream: TcpStream,
    connection: usize,
    faults: Arc<Vec<Fault>>,
    seen: Arc<Mutex<Seen>>,
) {
    // A reset has no request to count, so it goes by the number of the connection.
    if let Some(Fault::Reset) = faults.get(connection).or(faults.last()) {
        stream.set_zero_linger().unwrap();
        return;
    }
    while let Some((head, body)) = read_request(&mut stream).await {
        let fault = {
            let mut seen = seen.lock().unwrap();
            let index = seen.requests.len();
            seen.requests.push(Received { head, body, connection });
            faults.get(index).or(faults.last()).cloned().unwrap()
        };
        if write_fault(&mut stream, fault, &seen).await.is_err() {
            return;
        }
    }
}

/// Reads one request; `None` at the end of the connection.
async fn read_request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes.drain(..head_end).collect()).unwrap();
    let length: usize = head
        .lines()
        .find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
        })
        .unwrap_or(0);
    while bytes.len() < length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some((head, String::from_utf8(bytes).unwrap()))
}

/// Ends the connection.
struct Close;

impl From<std::io::Error> for Close {
    fn from(_error: std::io::Error) -> Self {
        Self
    }
}

async fn write_fault(
    stream: &mut TcpStream,
    fault: Fault,
    seen: &Mutex<Seen>,
) -> Result<(), Close> {
    const JSON: &str = "content-type: application/json\r\n";
    match fault {
        Fault::Answer { status, headers, body } => {
            let mut head =
                format!("HTTP/1.1 {status} {PLANTED}\r\ncontent-length: {}\r\n", body.len());
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            head.push_str("\r\n");
            stream.write_all(head.as_bytes()).await?;
            write_counted(stream, &body, seen).await
        }
        Fault::Silence => std::future::pending().await,
        Fault::DripBody => {
            let head = format!("HTTP/1.1 200 OK\r\n{JSON}content-length: 1000000\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            loop {
                stream.write_all(b" ").await?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Fault::CutBody => {
            let part = format!(r#"{{"choices":[{{"message":{{"content":"{PLANTED}"#);
            let head = format!(
                "HTTP/1.1 200 OK\r\n{JSON}content-length: {}\r\n\r\n{part}",
                part.len() * 2
            );
            stream.write_all(head.as_bytes()).await?;
            Err(Close)
        }
        Fault::CutChunkedBody => {
            let head = format!(
                "HTTP/1.1 200 OK\r\n{JSON}transfer-encoding: chunked\r\n\r\n{:x}\r\n{PLANTED}\r\n",
                PLANTED.len()
            );
            stream.write_all(head.as_bytes()).await?;
            Err(Close)
        }
        Fault::HangUp => Err(Close),
        Fault::Reset => {
            stream.set_zero_linger()?;
            Err(Close)
        }
        Fault::Flood { bytes } => {
            let opening = br#"{"choices":[{"message":{"content":""#;
            let closing = br#""},"finish_reason":"stop"}]}"#;
            let length = opening.len() + bytes + closing.len();
            let head = format!("HTTP/1.1 200 OK\r\n{JSON}content-length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            write_counted(stream, opening, seen).await?;
            let block = [b'a'; 64 * 1024];
            let mut left = bytes;
            while left > 0 {
                let size = left.min(block.len());
                write_counted(stream, &block[..size], seen).await?;
                left -= size;
            }
            write_counted(stream, closing, seen).await
        }
        Fault::Garbage(bytes) => {
            stream.write_all(&bytes).await?;
            Err(Close)
        }
    }
}

async fn write_counted(
    stream: &mut TcpStream,
    bytes: &[u8],
    seen: &Mutex<Seen>,
) -> Result<(), Close> {
    stream.write_all(bytes).await?;
    seen.lock().unwrap().written += bytes.len();
    Ok(())
}
