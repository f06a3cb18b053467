//! A judge that answers when it is told to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::json;

use super::PATIENCE;
use crate::doors::judgements::APPROVES;

/// A server that approves what the person asked for, each question when it is told to. One that is
/// never told keeps its caller waiting.
pub(super) struct SlowJudge {
    address: SocketAddr,
    asked: Receiver<()>,
    answer: Sender<()>,
}

impl SlowJudge {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (ask, asked) = channel();
        let (answer, told) = channel();
        // It ends with the test's process, or once nobody holds the other ends.
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                read_request(&mut stream);
                if ask.send(()).is_err() || told.recv().is_err() {
                    return;
                }
                // Whoever asked may be gone.
                let _ = stream.write_all(approval().as_bytes());
            }
        });
        Self { address, asked, answer }
    }

    /// Settings that have the service ask it, and wait long for it.
    pub(super) fn settings(&self) -> Vec<String> {
        let base_url = format!("judge.base_url=http://{}/v1", self.address);
        let settings =
            [&base_url, "judge.model=slow", "judge.deadline=60s", "judge.request_deadline=90s"];
        settings.iter().flat_map(|setting| ["--set".to_owned(), (*setting).to_owned()]).collect()
    }

    /// Waits until somebody asks.
    pub(super) fn until_asked(&self) {
        self.asked.recv_timeout(PATIENCE).expect("nobody asks the judge");
    }

    /// Answers whoever asked.
    pub(super) fn answer(&self) {
        self.answer.send(()).unwrap();
    }
}

/// A whole request, whose body has a length.
fn read_request(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.expect("a body has a length").parse().unwrap();
            if body.len() >= length {
                return;
            }
        }
        let read = stream.read(&mut part).unwrap();
        assert!(read > 0, "the question was cut off");
        bytes.extend_from_slice(&part[..read]);
    }
}

fn approval() -> String {
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_790_000_000, "model": "slow",
        "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": APPROVES, "refusal": null}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    })
    .to_string();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
