//! How `approver serve` ends.

use std::io::Write;
use std::time::{Duration, Instant};

use super::{PATIENCE, Running, half_a_request, made, read_all};

#[test]
fn a_stop_lets_what_runs_finish_and_takes_nothing_new() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::dev(folder.path(), &[]);
    let body = r#"{"instructions":"Seven."}"#;
    let mut stream = half_a_request(&running, body);
    running.signal("-TERM");
    let begun = Instant::now();
    let refused = loop {
        let reply = running.get("/v1/tokens", running.token("admin"));
        if reply.starts_with("HTTP/1.1 503") {
            break reply;
        }
        assert!(begun.elapsed() < PATIENCE, "{reply}");
    };
    assert!(refused.contains("\"stopping\"") && refused.contains("retry-after: 1"), "{refused}");
    assert!(running.get("/readyz", "").starts_with("HTTP/1.1 503"));
    stream.write_all(body.as_bytes()).unwrap();
    let reply = read_all(&mut stream);
    assert!(reply.starts_with("HTTP/1.1 201"), "{reply}");
    let (code, log) = running.ended();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::dev(folder.path(), &[]);
    let _stream = half_a_request(&running, "{}");
    running.signal("-TERM");
    let begun = Instant::now();
    while !running.get("/readyz", "").starts_with("HTTP/1.1 503") {
        assert!(begun.elapsed() < PATIENCE);
    }
    running.signal("-TERM");
    let begun = Instant::now();
    let (code, log) = running.ended();
    assert_eq!(code, Some(130), "{log}");
    assert!(begun.elapsed() < Duration::from_secs(20), "it waited for a request: {log}");
    assert!(made(folder.path()).is_empty());
}

#[test]
fn a_stop_waits_no_longer_than_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::dev(folder.path(), &["--set", "server.stop_timeout=300ms"]);
    let _stream = half_a_request(&running, "{}");
    running.signal("-TERM");
    let (code, log) = running.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("what still runs is cut"), "{log}");
}
