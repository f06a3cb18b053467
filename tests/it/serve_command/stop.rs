//! How `approver serve` ends.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::judge::SlowJudge;
use super::{K1, PATIENCE, Running, Site, half_a_request, id, made, read_all, read_answer};

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
    until_stopping(&running);
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

fn until_stopping(running: &Running) {
    let begun = Instant::now();
    while !running.get("/readyz", "").starts_with("HTTP/1.1 503") {
        assert!(begun.elapsed() < PATIENCE);
    }
}

#[test]
fn a_judgement_that_runs_is_answered_and_recorded_before_the_end() {
    let site = Site::new(K1);
    let judge = SlowJudge::start();
    let running = site.serve_judged_by(&judge, &[]);
    let mut judgement = running.begin(&site.judgement("c1"));
    judge.until_asked();
    running.signal("-TERM");
    until_stopping(&running);
    let (status, refused) = running.ask(site.judgement("c2"));
    assert_eq!((status, &refused["error"]["code"]), (503, &"stopping".into()));
    judge.answer();
    let (status, answer) = read_answer(&mut judgement);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["results"][0]["outcome"], "approved");
    let (code, log) = running.ended();
    assert_eq!(code, Some(0), "{log}");

    let running = site.serve(K1, &[]);
    let recorded = site.approval(&running, &id(&answer));
    assert_eq!(recorded["status"], "approved");
    assert_eq!(recorded["decision"]["decided_by"], "auto:approver");
    // A repeat finds it.
    let (status, again) = running.ask(site.judgement("c1"));
    assert_eq!((status, &again["replayed"], id(&again)), (200, &true.into(), id(&answer)));
}

/// A judgement under way, whose judge says nothing any more, and an approval that was recorded
/// before.
fn stuck(more: &[&str]) -> (Site, Running, TcpStream, String) {
    let site = Site::new(K1);
    let running = site.serve(K1, &[]);
    let before = site.waiting(&running, "c1");
    running.signal("-TERM");
    let (code, log) = running.ended();
    assert_eq!(code, Some(0), "{log}");
    let judge = SlowJudge::start();
    let running = site.serve_judged_by(&judge, more);
    let judgement = running.begin(&site.judgement("c2"));
    judge.until_asked();
    // It holds the question as long as the process lives.
    std::mem::forget(judge);
    (site, running, judgement, before)
}

/// What was recorded is there; what was cut off is not approved, and is judged anew when it is
/// repeated.
#[track_caller]
fn check_nothing_is_lost(site: &Site, judgement: &mut TcpStream, before: &str) {
    let cut_off = read_all(judgement);
    assert!(!cut_off.contains("HTTP/1.1 200"), "{cut_off}");
    let running = site.serve(K1, &[]);
    assert_eq!(site.approval(&running, before)["status"], "pending");
    let (status, listed) = running.ask(site.read("/v1/approvals"));
    assert_eq!(status, 200, "{listed}");
    assert_eq!(listed["approvals"].as_array().map(Vec::len), Some(1), "{listed}");
    let (status, repeat) = running.ask(site.judgement("c2"));
    assert_eq!((status, &repeat["replayed"]), (200, &false.into()), "{repeat}");
    assert_eq!(repeat["results"][0]["outcome"], "pending");
}

#[test]
fn a_second_signal_cuts_a_judgement_and_loses_nothing() {
    let (site, running, mut judgement, before) = stuck(&[]);
    running.signal("-TERM");
    until_stopping(&running);
    running.signal("-TERM");
    let (code, log) = running.ended();
    assert_eq!(code, Some(130), "{log}");
    check_nothing_is_lost(&site, &mut judgement, &before);
}

#[test]
fn the_stop_limit_cuts_a_judgement_and_loses_nothing() {
    let (site, running, mut judgement, before) = stuck(&["--set", "server.stop_timeout=300ms"]);
    running.signal("-TERM");
    let (code, log) = running.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("what still runs is cut"), "{log}");
    check_nothing_is_lost(&site, &mut judgement, &before);
}

/// Whether an answer has come.
fn is_answered(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    peeked.is_ok()
}

#[test]
fn a_long_poll_ends_with_what_is() {
    let site = Site::new(K1);
    // Of one token one poll may wait, so that the next one's refusal shows that it does.
    let one = ["--set", "approvals.max_polls_per_token=1"];
    // A poll that does not end by itself is cut long before its time.
    let running = site.serve(K1, &[&one[..], &["--set", "server.stop_timeout=5s"]].concat());
    let waiting = site.waiting(&running, "c1");
    let poll = format!("/v1/approvals/{waiting}?wait=30s");
    let short = format!("/v1/approvals/{waiting}?wait=1s");
    let begun = Instant::now();
    let mut held = running.begin(&site.read(&poll));
    loop {
        let (status, _) = running.ask(site.read(&short));
        if is_answered(&held) {
            // The other one was first, and this one was refused.
            held = running.begin(&site.read(&poll));
        } else if status == 429 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "no poll waits");
    }
    running.signal("-TERM");
    let (status, answer) = read_answer(&mut held);
    assert_eq!((status, &answer["status"]), (200, &"pending".into()));
    let (code, log) = running.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("cut"), "{log}");
}
