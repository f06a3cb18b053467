//! Limits on what a connection may send and take.

use std::io::{Read, Write};
use std::time::Duration;

use tempfile::TempDir;

use super::{PATIENCE, Running, half_a_request, read_all};

fn limited(folder: &TempDir) -> Running {
    Running::dev(
        folder.path(),
        &[
            "--set",
            "server.header_timeout=500ms",
            "--set",
            "server.body_timeout=500ms",
            "--set",
            "server.max_headers=20",
            "--set",
            "server.max_header_bytes=8 KiB",
            "--set",
            "server.max_body=1 KiB",
        ],
    )
}

#[test]
fn slow_headers_and_slow_bodies_end() {
    let folder = tempfile::tempdir().unwrap();
    let running = limited(&folder);
    // Nothing at all; the beginning of either HTTP; a header without an end.
    for begun in ["", "PRI * HTTP/2.0\r\n", "GE", "GET /healthz HTTP/1.1\r\nHost: a\r\nX-A: "] {
        let mut stream = running.connect();
        stream.write_all(begun.as_bytes()).unwrap();
        let answer = read_all(&mut stream);
        assert!(!answer.contains("200"), "{begun:?}: {answer}");
    }
    let mut stream = half_a_request(&running, "{}");
    stream.write_all(b"{").unwrap();
    let reply = read_all(&mut stream);
    assert!(reply.starts_with("HTTP/1.1 408") && reply.contains("request_timeout"), "{reply}");
    assert!(running.get("/healthz", "").starts_with("HTTP/1.1 200"));
}

#[test]
fn too_much_of_anything_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let running = limited(&folder);
    let many = "X-A: b\r\n".repeat(30);
    let reply = running.exchange(&format!("GET /healthz HTTP/1.1\r\nHost: a\r\n{many}\r\n"));
    assert!(reply.starts_with("HTTP/1.1 431"), "{reply}");
    let long = "a".repeat(20_000);
    let reply =
        running.exchange(&format!("GET /healthz HTTP/1.1\r\nHost: a\r\nX-A: {long}\r\n\r\n"));
    assert!(reply.starts_with("HTTP/1.1 431"), "{reply}");
    let token = running.token("policy_owner");
    let body = format!(r#"{{"instructions":"{}"}}"#, "a".repeat(2_000));
    let reply = running.put("/v1/agents/erp/versions/7", token, &body);
    assert!(reply.starts_with("HTTP/1.1 413") && reply.contains("1024 bytes"), "{reply}");
    // And in parts, without a length.
    let mut stream = running.connect();
    write!(
        stream,
        "PUT /v1/agents/erp/versions/7 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    )
    .unwrap();
    let reply = read_all(&mut stream);
    assert!(reply.starts_with("HTTP/1.1 413"), "{reply}");
}

#[test]
fn connections_over_the_limit_wait() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::dev(folder.path(), &["--set", "server.max_connections=2"]);
    let held = [half_a_request(&running, "{}"), half_a_request(&running, "{}")];
    let mut waiting = running.connect();
    waiting.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    waiting.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(waiting.read(&mut [0; 16]).is_err(), "a third connection was served");
    drop(held);
    waiting.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(read_all(&mut waiting).starts_with("HTTP/1.1 200"));
}
