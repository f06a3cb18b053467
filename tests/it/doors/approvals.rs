//! Reading approvals: one, and pages of them.

use std::time::Duration;

use approver::decide::novelty::{Finding, Kind};
use approver::decide::reason::Reason;
use approver::decide::verdict::Tokens;
use approver::store::{JudgeRecord, TokenKind};
use serde_json::json;

use super::on_both_stores;
use super::raised::{AGENT, CONVERSATION, Raise, SURFACE, TURN, call, call_of, connector, wire};
use super::world::World;

/// A call that was judged and waits for what a detector found.
fn judged() -> Raise {
    let sealed = json!({
        "provenance": [{"pointer": "/to", "source": "result", "index": 2, "tool": "find"}],
        "evidence": [{"source": "user", "index": 1, "quote": "add a note", "covers": [""]}],
    });
    Raise {
        arguments: "{\"to\": \"eve@example.net\",  \"amount\": 1.50}".to_owned(),
        sealed,
        facts: |facts| {
            facts.pause_reason = Some("novel_argument".to_owned());
            facts.pause_sentence = Some("An address that nobody mentioned.".to_owned());
            facts.timeout_seconds = Some(30);
            facts.tool_version = Some("3".to_owned());
            facts.findings = vec![Finding {
                kind: Kind::Email,
                item: "eve@example.net".to_owned(),
                pointer: "/to".to_owned(),
                found: "eve@example.net".to_owned(),
                resembles: None,
            }];
            facts.judged = Some(JudgeRecord {
                model: "small".to_owned(),
                reason: Some("Nobody asked for it.".to_owned()),
                prompt_digest: "d".repeat(64),
                tokens: Tokens { input: Some(10), output: Some(2), cached: None },
                cuts: Default::default(),
            });
        },
        ..call("call_1", "note_add")
    }
}

async fn the_resource_says_everything(world: World) {
    let (ana, gateway) = world.staffed().await;
    let raised = world.raise(judged()).await;
    let created = world.now();
    let body = world.get(&raised.path(""), &ana).await.expect(200);
    let expected = json!({
        "id": raised.id, "status": "pending", "agent": AGENT, "version": "7",
        "surface": SURFACE, "conversation": CONVERSATION, "turn": TURN, "call_id": "call_1",
        "user": "usr_81", "tool": "note_add", "origin": "function", "tool_version": "3",
        "timeout_seconds": 30, "arguments": "{\"to\": \"eve@example.net\",  \"amount\": 1.50}",
        "hmac": raised.hmac, "policy_class": "write", "mode": "ask", "conversationMode": "ask",
        "pause_reason": "novel_argument", "reason": "An address that nobody mentioned.",
        "pause_sentence": "An address that nobody mentioned.",
        "findings": [{"kind": "email", "item": "eve@example.net", "pointer": "/to",
            "found": "eve@example.net", "sentence": body["findings"][0]["sentence"]}],
        "provenance": [{"pointer": "/to", "source": "result", "index": 2, "tool": "find"}],
        "evidence": [{"source": "user", "index": 1, "quote": "add a note", "covers": [""]}],
        "judge": {"model": "small", "reason": "Nobody asked for it.",
            "prompt_digest": "d".repeat(64), "tokens": {"input": 10, "output": 2, "cached": null}},
        "judgedBy": "small", "judgeReason": "Nobody asked for it.",
        "created_at": wire(created), "deadline_at": wire(created.plus(Duration::from_secs(3600))),
    });
    assert_eq!(body, expected);
    // A gateway reads the same.
    assert_eq!(world.get(&raised.path(""), &gateway).await.expect(200), expected);

    // It goes on: decided, claimed, run.
    let reason = json!({"decision": "approve", "hmac": raised.hmac, "reason": "I asked for it."});
    world.decide(&raised, &ana, &reason).await.expect(200);
    world.claim(&raised, &gateway, "k").await.expect(200);
    let report = json!({"status": "FAILED", "output": "no such contact"});
    world.post(&raised.path("/execution"), &gateway, &report).await.expect(200);
    let body = world.get(&raised.path(""), &ana).await.expect(200);
    let start_by = wire(created.plus(Duration::from_secs(300)));
    assert_eq!(body["status"], "approved");
    assert_eq!(body["reason"], "I asked for it.");
    assert_eq!(body["pause_sentence"], "An address that nobody mentioned.");
    assert_eq!(
        body["decision"],
        json!({"decided_by": "ana", "at": wire(created),
        "reason": "I asked for it.", "start_by": start_by})
    );
    assert_eq!(body["claim"], json!({"at": wire(created)}));
    let execution = json!({"status": "FAILED", "at": wire(created), "output": "no such contact"});
    assert_eq!(body["execution"], execution);
    assert!(!body.to_string().contains("\"k\""), "the claim's key is nobody's business");
}

/// A gate's code has no `reason`, and whoever looks at the call reads what it means all the same.
async fn a_gates_code_comes_with_its_sentence(world: World) {
    let (ana, _) = world.staffed().await;
    for gate in Reason::GATES {
        let code = gate.code();
        let found = Reason::sentence_of_gate(code);
        assert_eq!(found, Some(gate.sentence()), "{code}");
    }
    assert_eq!(Reason::sentence_of_gate("judge_timeout"), None);
    let raise = Raise {
        facts: |facts| facts.pause_reason = Some("destructive".to_owned()),
        ..call("call_1", "purge")
    };
    let raised = world.raise(raise).await;
    let check = async |reason: serde_json::Value| {
        let body = world.get(&raised.path(""), &ana).await.expect(200);
        assert_eq!((&body["pause_reason"], &body["reason"]), (&json!("destructive"), &reason));
        assert_eq!(body["pause_sentence"], Reason::Destructive.sentence());
    };
    check(json!(null)).await;
    let mut reject = raised.reject();
    reject["reason"] = json!("Not today.");
    world.decide(&raised, &ana, &reject).await.expect(200);
    check(json!("Not today.")).await;
}

async fn swept_inputs_are_absent_and_the_rest_stays(world: World) {
    let (ana, _) = world.staffed().await;
    let raised = world.raise(judged()).await;
    world.decide(&raised, &ana, &raised.reject()).await.expect(200);
    let sweep = approver::store::Sweep {
        inputs_before: world.now().plus(Duration::from_secs(1)),
        records_before: world.now(),
        keys_before: world.now(),
        protocol_before: world.now(),
        deliveries_before: world.now(),
        limit: 10,
    };
    world.store.sweep(sweep).await.unwrap();
    let body = world.get(&raised.path(""), &ana).await.expect(200);
    for gone in ["arguments", "hmac", "provenance", "evidence"] {
        assert!(body.get(gone).is_none(), "{gone}: {body}");
    }
    assert_eq!(body["judgedBy"], "small");
    // What cannot be read any more is still decided.
    let again = world.decide(&raised, &ana, &raised.approve()).await;
    assert_eq!(again.error(409), "approval_already_decided");
}

async fn who_may_read_what(world: World) {
    let (ana, _) = world.staffed().await;
    let raised = world.waiting().await;
    let paths = [
        raised.path(""),
        raised.path("?wait=1s"),
        "/v1/approvals".to_owned(),
        format!("/v1/agents/{AGENT}/approvals"),
    ];
    for kind in [
        TokenKind::PolicyOwner,
        TokenKind::Admin,
        TokenKind::Provisioner { versions: Vec::new() },
        TokenKind::Instance { instance: "i".to_owned() },
    ] {
        let token = world.token("other", kind).await;
        for path in &paths {
            assert_eq!(world.get(path, &token).await.error(403), "forbidden", "{path}");
        }
    }
    let foreign = world.token_of("birch", "bob", TokenKind::Operator).await;
    for path in [&paths[0], &paths[1], &paths[3]] {
        assert_eq!(world.get(path, &foreign).await.error(404), "not_found", "{path}");
    }
    assert_eq!(world.get(&paths[2], &foreign).await.expect(200)["approvals"], json!([]));
    for path in &paths {
        let anonymous = world.send(reqwest::Method::GET, path, None, &[], None).await;
        assert_eq!(anonymous.error(401), "unauthenticated");
    }
    assert_eq!(world.get("/v1/approvals/apreq_none", &ana).await.error(404), "not_found");
    assert_eq!(world.get("/v1/agents/nobody/approvals", &ana).await.error(404), "not_found");
}

async fn pages_are_newest_first(world: World) {
    let (ana, _) = world.staffed().await;
    let mut raised = Vec::new();
    for number in 0..5 {
        raised.push(world.raise(call(&format!("call_{number}"), "note_add")).await);
        world.pass(Duration::from_millis(7));
    }
    let orders = world.raise(call_of("call_c", connector("Orders."))).await;
    raised.push(orders);
    world.decide(&raised[1], &ana, &raised[1].reject()).await.expect(200);
    let base = format!("/v1/agents/{AGENT}/approvals");
    let mut seen: Vec<String> = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = world.get(&format!("{base}?limit=4{cursor}"), &ana).await.expect(200);
        let ids = page["approvals"].as_array().unwrap().iter();
        seen.extend(ids.map(|approval| approval["id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let newest: Vec<String> = raised.iter().rev().map(|raised| raised.id.clone()).collect();
    assert_eq!(seen, newest);
    let of_status = async |status: &str| {
        let page = world.get(&format!("{base}?status={status}"), &ana).await.expect(200);
        page["approvals"].as_array().unwrap().len()
    };
    for (status, count) in [
        ("pending", 5),
        ("rejected", 1),
        ("approved", 0),
        ("cancelled", 0),
        ("expired", 0),
        ("all", 6),
    ] {
        assert_eq!(of_status(status).await, count, "{status}");
    }
    // A connector's call names its server.
    let page = world.get(&format!("{base}?limit=1"), &ana).await.expect(200);
    assert_eq!(page["approvals"][0]["server_label"], "erp");
    assert_eq!(page["approvals"][0]["origin"], "connector");
    // Of all agents, and of one by its name.
    for path in ["/v1/approvals".to_owned(), format!("/v1/approvals?agent={AGENT}")] {
        let page = world.get(&path, &ana).await.expect(200);
        assert_eq!(page["approvals"].as_array().unwrap().len(), 6, "{path}");
    }
    // What is over is not shown as waiting, whoever looks first.
    world.pass(Duration::from_secs(3600));
    assert_eq!(of_status("pending").await, 0);
    assert_eq!(of_status("expired").await, 5);
}

async fn queries_are_read_strictly(world: World) {
    let (ana, _) = world.staffed().await;
    let raised = world.waiting().await;
    let list = format!("/v1/agents/{AGENT}/approvals");
    for (path, param) in [
        (format!("{list}?status=open"), "status"),
        (format!("{list}?status=pending&status=pending"), "status"),
        (format!("{list}?limit=0"), "limit"),
        (format!("{list}?limit=101"), "limit"),
        (format!("{list}?limit=%2B5"), "limit"),
        (format!("{list}?limit="), "limit"),
        (format!("{list}?cursor=!"), "cursor"),
        (format!("{list}?cursor=abc"), "cursor"),
        (format!("{list}?page=2"), "query"),
        (format!("{list}?agent=x"), "query"),
        (format!("{list}?wait=5s"), "state"),
        (format!("{list}?state=x"), "state"),
        (format!("{list}?wait=5&state=x"), "wait"),
        (raised.path("?wait=0s"), "wait"),
        (raised.path("?wait=1d"), "wait"),
        (raised.path("?wait=1.5s"), "wait"),
        (raised.path("?wait="), "wait"),
        (raised.path("?wait=1s&wait=1s"), "wait"),
        (raised.path("?Wait=1s"), "query"),
    ] {
        let reply = world.get(&path, &ana).await;
        assert_eq!(reply.json["error"]["param"], param, "{path}: {}", reply.text);
        assert_eq!(reply.error(400), "invalid_request");
    }
}

on_both_stores!(
    the_resource_says_everything,
    a_gates_code_comes_with_its_sentence,
    swept_inputs_are_absent_and_the_rest_stays,
    who_may_read_what,
    pages_are_newest_first,
    queries_are_read_strictly,
);
