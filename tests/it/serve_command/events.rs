//! What the log tells of approvals, line by line, and what it does not.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::judge::SlowJudge;
use super::{Ask, K1, Site, id};
use crate::doors::judgements;

/// A judgement of one call, in a mode.
fn judgement<'a>(
    site: &'a Site,
    name: &'a str,
    tool: &str,
    change: impl Fn(&mut Value),
) -> Ask<'a> {
    let arguments = json!({"contact": "C-1042", "text": "call back Monday"}).to_string();
    let call = json!({"call_id": name, "tool": tool, "arguments": arguments});
    let mut body = judgements::request(&[call]);
    body["turn"]["id"] = format!("turn-{name}").into();
    change(&mut body);
    Ask { body: Some(body.to_string()), ..site.judgement(name) }
}

#[test]
fn events_are_whole_lines_of_the_log_without_what_people_wrote() {
    let site = Site::new(K1);
    let judge = SlowJudge::start();
    let running = site.serve_judged_by(&judge, &["--log", "json"]);
    let raise = |ask: Ask<'_>, outcome: &str| {
        let (status, answer) = running.ask(ask);
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["results"][0]["outcome"], outcome);
        id(&answer)
    };
    let act = |path: &str, token: &str, body: Value| {
        let body = Some(body.to_string());
        let (status, answer) = running.ask(Ask { method: "POST", path, token, key: None, body });
        assert_eq!(status, 200, "{answer}");
    };

    // A machine decides one at once, which tells of two things.
    judge.answer();
    let approved = raise(judgement(&site, "c1", "note_add", |_| {}), "approved");
    // A person rejects one that a gate stopped.
    let rejected = raise(judgement(&site, "c2", "wipe", |_| {}), "pending");
    let hmac = site.approval(&running, &rejected)["hmac"].clone();
    let reject = json!({"decision": "reject", "hmac": hmac, "reason": "PLANTED-REASON"});
    act(&format!("/v1/approvals/{rejected}/decision"), &site.operator, reject);
    // Nobody needs the third, and nobody decides the fourth in time.
    let asks = |body: &mut Value| {
        body["input"] = json!([{"type": "backbone:mode", "mode": "ask"}]);
    };
    let cancelled = raise(judgement(&site, "c3", "note_add", asks), "pending");
    act(&format!("/v1/approvals/{cancelled}/cancel"), &site.gateway, json!({}));
    let soon = |body: &mut Value| {
        asks(body);
        body["pending_for"] = json!("1s");
    };
    let expired = raise(judgement(&site, "c4", "note_add", soon), "pending");
    let (status, answer) = running.ask(site.read(&format!("/v1/approvals/{expired}?wait=30s")));
    assert_eq!((status, &answer["status"]), (200, &"expired".into()));
    running.signal("-TERM");
    let (code, log) = running.ended();
    assert_eq!(code, Some(0), "{log}");

    let event = |event: &str, name: &str, approval: &str, tool: &str, more: Value| {
        let mut fields = json!({
            "event": event, "organisation": "default", "approval_id": approval, "agent": "erp",
            "version": "7", "conversation": "conv_1", "turn": format!("turn-{name}"),
            "call_id": name, "tool": tool, "tool_version": "2",
        });
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fields
    };
    let by = |decision: &str, by: &str| json!({"decision": decision, "decided_by": by});
    let stopped = json!({"reason_code": "destructive"});
    let mut by_person = by("reject", "person");
    by_person["reason_code"] = json!("destructive");
    let expected = [
        event("approval-requested", "c1", &approved, "note_add", json!({})),
        event("approval-decided", "c1", &approved, "note_add", by("approve", "auto")),
        event("approval-requested", "c2", &rejected, "wipe", stopped),
        event("approval-decided", "c2", &rejected, "wipe", by_person),
        event("approval-requested", "c3", &cancelled, "note_add", json!({})),
        event("approval-cancelled", "c3", &cancelled, "note_add", json!({})),
        event("approval-requested", "c4", &expired, "note_add", json!({})),
        event("approval-expired", "c4", &expired, "note_add", json!({})),
    ];
    let lines = log.lines().map(|line| serde_json::from_str(line).expect("every line is JSON"));
    let events: Vec<Value> = lines
        .filter(|line: &Value| line["target"] == "approver::event")
        .map(|mut line| {
            assert_eq!(line["level"], "INFO");
            assert!(line["timestamp"].is_string(), "{line}");
            let mut fields = line["fields"].take();
            let duration = fields.as_object_mut().unwrap().remove("duration_ms");
            assert!(duration.is_some_and(|duration| duration.is_u64()), "{fields}");
            fields
        })
        .collect();
    // One approval's events come in their order.
    let told = |events: &[Value]| {
        let mut told: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for event in events {
            let of = event["call_id"].as_str().unwrap().to_owned();
            told.entry(of).or_default().push(event.clone());
        }
        told
    };
    assert_eq!(told(&events), told(&expected));

    let secrets = [&site.gateway, &site.operator, K1.split_once(':').unwrap().1];
    let written = ["C-1042", "call back Monday", "PLANTED-REASON", "The user asked"];
    for hidden in secrets.iter().copied().chain(written) {
        assert!(!log.contains(hidden), "{hidden}: {log}");
    }
}
