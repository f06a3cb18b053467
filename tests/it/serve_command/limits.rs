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

/// What half of HTTP/2's first words came of, and no more ever will, is over at once.
#[test]
fn a_connection_that_ends_in_its_first_words_ends() {
    let folder = tempfile::tempdir().unwrap();
    // With the usual 30 s for a header.
    let running = Running::dev(folder.path(), &[]);
    for begun in ["", "P", "PRI * HTTP/2.0\r\n"] {
        let mut stream = running.connect();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(begun.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let reset = std::io::ErrorKind::ConnectionReset;
        match stream.read(&mut [0; 64]) {
            Ok(length) => assert_eq!(length, 0, "{begun:?}"),
            Err(error) => assert_eq!(error.kind(), reset, "{begun:?}"),
        }
    }
}

/// An error in our own form, with an id that the header names too.
#[track_caller]
fn enveloped(reply: &str, status: u16, code: &str, text: &str) {
    assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{reply}");
    assert!(reply.contains(&format!("\"code\":\"{code}\"")) && reply.contains(text), "{reply}");
    let id = reply.split("x-request-id: ").nth(1).and_then(|rest| rest.get(..36)).unwrap();
    assert!(reply.contains(&format!("\"request_id\":\"{id}\"")), "{reply}");
}

#[test]
fn too_much_of_anything_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let running = limited(&folder);
    let get = |target: &str, fields: &str| {
        running.exchange(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    };
    let many = "X-A: b\r\n".repeat(30);
    enveloped(&get("/healthz", &many), 431, "header_too_large", "at most 20 fields");
    let long = format!("X-A: {}\r\n", "a".repeat(10_000));
    enveloped(&get("/healthz", &long), 431, "header_too_large", "at most 8192 bytes");
    let target = format!("/v1/approvals?cursor={}", "a".repeat(8_192));
    enveloped(&get(&target, ""), 414, "uri_too_long", "at most 8192 bytes");
    // Beyond what HTTP itself reads here there is no request to name.
    let reply = get("/healthz", &"X-A: b\r\n".repeat(2_000));
    assert!(reply.starts_with("HTTP/1.1 431"), "{reply}");
    let token = running.token("policy_owner");
    let body = format!(r#"{{"instructions":"{}"}}"#, "a".repeat(2_000));
    let reply = running.put("/v1/agents/erp/versions/7", token, &body);
    enveloped(&reply, 413, "body_too_large", "at most 1024 bytes");
    // What says so itself is not asked for its body, whoever sends it.
    for (length, status) in [("1024", "100"), ("1025", "413"), ("99999999999999999999", "4")] {
        let mut stream = running.connect();
        write!(
            stream,
            "PUT /v1/agents/erp/versions/7 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\
             Expect: 100-continue\r\n\r\n"
        )
        .unwrap();
        let mut line = [0; 12];
        stream.read_exact(&mut line).unwrap();
        let line = String::from_utf8_lossy(&line).into_owned();
        assert!(line.starts_with(&format!("HTTP/1.1 {status}")), "{length}: {line}");
    }
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
