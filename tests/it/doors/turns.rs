//! A person's decisions about all that a paused turn waits for.

use std::time::Duration;

use approver::decide::policy::Mode;
use approver::store::{Claimant, ModeChoice, TokenKind};
use serde_json::{Value, json};

use super::on_both_stores;
use super::raised::{
    CONVERSATION, Raise, Raised, SURFACE, TURN, call, call_of, connector, content, wire,
};
use super::world::{ORGANISATION, World};

const PATH: &str = "/v1/decisions";

fn body(continuation: &str, input: Vec<Value>) -> Value {
    json!({"turn_id": TURN, "continuation_id": continuation, "decided_by": "ana", "input": input})
}

fn mcp(raised: &Raised, approve: bool) -> Value {
    json!({"type": "mcp_approval_response", "approval_request_id": raised.id, "approve": approve})
}

/// A write, a connector's call and a read of one turn.
async fn three(world: &World) -> [Raised; 3] {
    let write = world.waiting().await;
    let orders = world.raise(call_of("call_2", connector("Orders."))).await;
    let read = world.raise(call("call_3", "find")).await;
    [write, orders, read]
}

async fn check_pending(world: &World, raised: &[Raised]) {
    for raised in raised {
        assert_eq!(world.status(raised).await, "pending");
    }
}

async fn a_turn_is_decided_and_claimed_at_once(world: World) {
    let (_, gateway) = world.staffed().await;
    let [write, orders, read] = three(&world).await;
    let mut orders_answer = mcp(&orders, true);
    orders_answer["reason"] = json!("Checked with the customer");
    orders_answer["remember"] = json!("conversation");
    orders_answer["id"] = json!("mcpr_1");
    let input = vec![write.answer("approve"), orders_answer, read.answer("reject")];
    let reply = world.post(PATH, &gateway, &body("resp_2", input)).await.expect(200);
    let start_by = wire(world.now().plus(Duration::from_secs(300)));
    let expected = json!({"turn_id": TURN, "continuation_id": "resp_2", "results": [
        {"approval_id": write.id, "call_id": "call_1", "status": "approved", "release": true, "start_by": start_by},
        {"approval_id": orders.id, "call_id": "call_2", "status": "approved", "release": true, "start_by": start_by},
        {"approval_id": read.id, "call_id": "call_3", "status": "rejected", "release": false}]});
    assert_eq!(reply, expected);
    // It was claimed for the continuation: nobody else gets it.
    assert_eq!(world.claim(&write, &gateway, "k").await.error(409), "already_claimed");
    let stored = world.store.approval(ORGANISATION, &orders.id).await.unwrap().unwrap();
    let claimant = Claimant { caller: "tok-maple-gw-gateway".to_owned(), key: "resp_2".to_owned() };
    assert_eq!(stored.claim.unwrap().claimant, claimant);
    let decision = stored.decision.unwrap();
    assert_eq!(decision.by.as_deref(), Some("ana"));
    assert_eq!(decision.reason.as_deref(), Some("Checked with the customer"));
}

async fn nothing_happens_unless_all_of_it_may(world: World) {
    let (_, gateway) = world.staffed().await;
    let raised = three(&world).await;
    let [write, orders, read] = &raised;
    let elsewhere =
        world.raise(Raise { turn: "resp_other".to_owned(), ..call("call_9", "find") }).await;
    let all = || vec![write.answer("approve"), mcp(orders, true), read.answer("approve")];
    let with = |position: usize, change: fn(&mut Value)| {
        let mut input = all();
        change(&mut input[position]);
        input
    };
    let mut foreign = all();
    foreign.push(elsewhere.answer("approve"));
    let mut unsigned = all();
    unsigned[0] = mcp(write, true);
    for (input, status, code, param) in [
        (all()[..2].to_vec(), 400, "invalid_approval_decision", "$.input"),
        (Vec::new(), 400, "invalid_approval_decision", "$.input"),
        (foreign, 400, "invalid_approval_decision", "$.input"),
        (unsigned, 400, "invalid_approval_decision", "$.input[0]"),
        (
            with(2, |item| item["hmac"] = json!("0".repeat(64))),
            400,
            "approval_hmac_mismatch",
            "$.input[2]",
        ),
        (
            with(1, |item| {
                item["approve"] = json!(false);
                item["remember"] = json!("conversation");
            }),
            400,
            "invalid_approval_decision",
            "$.input[1].remember",
        ),
    ] {
        let reply = world.post(PATH, &gateway, &body("resp_2", input)).await;
        assert_eq!(reply.json["error"]["param"], param, "{}", reply.text);
        assert_eq!(reply.error(status), code);
        check_pending(&world, &raised).await;
    }
    // One was decided elsewhere: it is named, and the rest is left alone.
    let ana = world.token("ana2", TokenKind::Operator).await;
    world.decide(read, &ana, &read.reject()).await.expect(200);
    let reply = world.post(PATH, &gateway, &body("resp_2", all())).await;
    let detail = json!({"approval_id": read.id, "status": "rejected", "decided_by": "ana2"});
    assert_eq!(reply.json["error"]["detail"], detail);
    assert_eq!(reply.json["error"]["param"], "$.input[2]");
    assert_eq!(reply.error(409), "approval_already_decided");
    check_pending(&world, &raised[..2]).await;
    // Answering what still waits is enough.
    world.post(PATH, &gateway, &body("resp_2", all()[..2].to_vec())).await.expect(200);
}

async fn a_stale_or_planned_call_stops_the_whole_turn(world: World) {
    let (_, gateway) = world.staffed().await;
    let raised = three(&world).await;
    let [write, orders, read] = &raised;
    let all = |write_says: &str| {
        vec![write.answer(write_says), mcp(orders, false), read.answer("approve")]
    };
    let blocks = json!({"version": 1, "classes": {"read": "allow", "write": "block", "destructive": "block"}});
    world.put_version("8", &content(&blocks, "A tool.")).await;
    world.move_channel("production", "8").await;
    let reply = world.post(PATH, &gateway, &body("resp_2", all("approve"))).await;
    assert_eq!(reply.json["error"]["param"], "$.input[0]");
    assert_eq!(reply.error(409), "approval_stale");
    world.move_channel("production", "7").await;
    let plan = Raise {
        mode: ModeChoice::Named(Mode::Plan),
        turn: "resp_p".to_owned(),
        ..call("call_p", "find")
    };
    world.raise(plan).await;
    let reply = world.post(PATH, &gateway, &body("resp_2", all("approve"))).await;
    assert_eq!(reply.json["error"]["param"], "$.input[0]");
    assert_eq!(reply.error(400), "conversation_in_plan_mode");
    check_pending(&world, &raised).await;
    let mode = |mode: Value| json!({"type": "backbone:mode", "mode": mode});
    for (named, expected) in [
        (json!("plan"), "conversation_in_plan_mode"),
        (json!("yolo"), "invalid_request"),
        (json!(7), "invalid_request"),
    ] {
        let mut input = all("approve");
        input.push(mode(named));
        let reply = world.post(PATH, &gateway, &body("resp_2", input)).await;
        assert_eq!(reply.error(400), expected);
        check_pending(&world, &raised).await;
    }
    // Ask on the same continuation leaves plan and approves; the last item counts.
    let mut input = all("approve");
    input.extend([mode(json!("plan")), mode(json!("ask"))]);
    let reply = world.post(PATH, &gateway, &body("resp_2", input)).await.expect(200);
    assert_eq!(reply["results"][0]["release"], true);
    let stored = world.store.conversation(ORGANISATION, SURFACE, CONVERSATION).await.unwrap();
    assert_eq!(stored.unwrap().mode, Some(Mode::Ask));
}

async fn a_mode_must_be_offered_and_null_is_not_stored(world: World) {
    let (_, gateway) = world.staffed().await;
    let raised = world.waiting().await;
    let few = json!({"version": 1, "classes": {"read": "allow", "write": "approve", "destructive": "block"},
        "conversation_modes": {"offered": ["plan", "ask"], "default": "ask"}});
    world.put_version("8", &content(&few, "A tool.")).await;
    world.move_channel("production", "8").await;
    let with = |mode: Value| {
        body(
            "resp_2",
            vec![raised.answer("approve"), json!({"type": "backbone:mode", "mode": mode})],
        )
    };
    let reply = world.post(PATH, &gateway, &with(json!("auto"))).await;
    let detail = json!({"mode": "auto", "offered": ["plan", "ask"]});
    assert_eq!(reply.json["error"]["detail"], detail);
    assert_eq!(reply.error(400), "conversation_mode_not_offered");
    world.post(PATH, &gateway, &with(Value::Null)).await.expect(200);
    let stored = world.store.conversation(ORGANISATION, SURFACE, CONVERSATION).await.unwrap();
    assert_eq!(stored.unwrap().mode, None);
}

async fn a_repeat_names_the_continuation_until_it_failed(world: World) {
    let (ana, gateway) = world.staffed().await;
    let [write, orders, read] = three(&world).await;
    let input = || vec![write.answer("approve"), mcp(&orders, true), read.answer("reject")];
    let failed = "/v1/decisions/resp_2/failed";
    let turn = json!({"turn_id": TURN});
    assert_eq!(world.post(failed, &gateway, &turn).await.error(404), "not_found");
    world.post(PATH, &gateway, &body("resp_2", input())).await.expect(200);
    for continuation in ["resp_2", "resp_3"] {
        let reply = world.post(PATH, &gateway, &body(continuation, input())).await;
        let error = &reply.json["error"];
        assert_eq!(error["detail"], json!({"continuation_id": "resp_2"}));
        assert!(error["message"].as_str().unwrap().contains("`resp_2`"));
        assert_eq!(reply.error(409), "approval_already_decided");
    }
    let report = json!({"status": "OK", "output": "order 77"});
    world.post(&write.path("/execution"), &gateway, &report).await.expect(200);
    for _ in 0..2 {
        let reply = world.post(failed, &gateway, &turn).await.expect(200);
        let expected = json!({"turn_id": TURN, "continuation_id": "resp_2", "status": "failed"});
        assert_eq!(reply, expected);
    }
    // Long after, and although the tool is another by now: nothing runs, so nothing is checked.
    world.pass(Duration::from_secs(7200));
    world.put_version("8", &json!({"instructions": "", "tools": []})).await;
    world.move_channel("production", "8").await;
    let mut other = input();
    other[2] = read.answer("approve");
    let reply = world.post(PATH, &gateway, &body("resp_3", other)).await;
    assert_eq!(reply.error(409), "approval_already_decided");
    let reply = world.post(PATH, &gateway, &body("resp_3", input())).await.expect(200);
    let shown = world.get(&write.path(""), &ana).await.expect(200);
    let results = reply["results"].as_array().unwrap();
    assert!(results.iter().all(|result| result["release"] == false), "{reply}");
    assert_eq!(results[0]["execution"], shown["execution"]);
    assert_eq!(results[0]["execution"]["output"], "order 77");
    assert!(results[1].get("execution").is_none(), "it was released and never reported: {reply}");
    let reply = world.post(PATH, &gateway, &body("resp_4", input())).await;
    assert_eq!(reply.json["error"]["detail"], json!({"continuation_id": "resp_3"}));
    assert_eq!(reply.error(409), "approval_already_decided");
}

async fn a_turn_of_several_conversations_must_be_selected(world: World) {
    let (_, gateway) = world.staffed().await;
    let first = world.waiting().await;
    let other = |surface: &str, conversation: &str| Raise {
        surface: surface.to_owned(),
        conversation: conversation.to_owned(),
        ..call("call_1", "note_add")
    };
    let second = world.raise(other(SURFACE, "conv_2")).await;
    let third = world.raise(other("chat", "conv_2")).await;
    let select = |raised: &Raised, conversation: Option<&str>, surface: Option<&str>| {
        let mut body = body("resp_2", vec![raised.answer("approve")]);
        body["conversation_id"] = json!(conversation);
        body["surface"] = json!(surface);
        body
    };
    for (raised, conversation, surface) in
        [(&first, None, None), (&second, Some("conv_2"), None), (&first, None, Some(SURFACE))]
    {
        let reply = world.post(PATH, &gateway, &select(raised, conversation, surface)).await;
        assert_eq!(reply.json["error"]["param"], "$.conversation_id");
        assert_eq!(reply.error(400), "invalid_request");
    }
    for (raised, conversation, surface) in [
        (&third, None, Some("chat")),
        (&second, Some("conv_2"), Some(SURFACE)),
        (&first, Some(CONVERSATION), None),
    ] {
        world.post(PATH, &gateway, &select(raised, conversation, surface)).await.expect(200);
        assert_eq!(world.status(raised).await, "approved");
    }
    let reply = world.post(PATH, &gateway, &select(&first, Some("conv_9"), None)).await;
    assert_eq!(reply.json["error"]["param"], "$.turn_id");
    assert_eq!(reply.error(404), "not_found");
}

async fn only_a_gateway_that_may_decide_relays(world: World) {
    let (ana, gateway) = world.staffed().await;
    let raised = world.waiting().await;
    let body = body("resp_2", vec![raised.answer("approve")]);
    let plain = world.token("plain", TokenKind::Gateway { decide: false }).await;
    let admin = world.token("admin", TokenKind::Admin).await;
    for token in [&ana, &plain, &admin] {
        for (path, body) in
            [(PATH, &body), ("/v1/decisions/resp_2/failed", &json!({"turn_id": TURN}))]
        {
            assert_eq!(world.post(path, token, body).await.error(403), "forbidden");
        }
    }
    let foreign = world.token_of("birch", "gw", TokenKind::Gateway { decide: true }).await;
    assert_eq!(world.post(PATH, &foreign, &body).await.error(404), "not_found");
    let mut nobody = body.clone();
    nobody["decided_by"] = Value::Null;
    let reply = world.post(PATH, &gateway, &nobody).await;
    assert_eq!(reply.json["error"]["param"], "$.decided_by");
    assert_eq!(world.status(&raised).await, "pending");
}

async fn bodies_are_read_strictly(world: World) {
    let (_, gateway) = world.staffed().await;
    let raised = world.waiting().await;
    let with_item = |item: Value| body("resp_2", vec![item]);
    let with = |member: &str, value: Value| {
        let mut body = body("resp_2", vec![raised.answer("approve")]);
        body[member] = value;
        body
    };
    let answer = |member: &str, value: Value| {
        let mut item = raised.answer("approve");
        item[member] = value;
        with_item(item)
    };
    let twice = body("resp_2", vec![raised.answer("approve"), raised.answer("reject")]);
    for (body, param) in [
        (with("turn_id", json!("")), "$.turn_id"),
        (with("turn_id", Value::Null), "$.turn_id"),
        (with("continuation_id", json!("a\nb")), "$.continuation_id"),
        (with("input", json!({})), "$.input"),
        (with("extra", json!(1)), "$.extra"),
        (with_item(json!({"type": "message"})), "$.input[0].type"),
        (with_item(json!(7)), "$.input[0]"),
        (with_item(json!({"type": "backbone:mode"})), "$.input[0].mode"),
        (answer("decision", json!("maybe")), "$.input[0].decision"),
        (answer("hmac", Value::Null), "$.input[0].hmac"),
        (answer("remember", json!("turn")), "$.input[0].remember"),
        (answer("reason", json!(" ")), "$.input[0].reason"),
        (answer("approve", json!(true)), "$.input[0].approve"),
        (twice, "$.input[1].approval_id"),
    ] {
        let reply = world.post(PATH, &gateway, &body).await;
        assert_eq!(reply.json["error"]["param"], param, "{body}: {}", reply.text);
        assert_eq!(reply.error(400), "invalid_request");
    }
    assert_eq!(world.status(&raised).await, "pending");
}

on_both_stores!(
    a_turn_is_decided_and_claimed_at_once,
    nothing_happens_unless_all_of_it_may,
    a_stale_or_planned_call_stops_the_whole_turn,
    a_mode_must_be_offered_and_null_is_not_stored,
    a_repeat_names_the_continuation_until_it_failed,
    a_turn_of_several_conversations_must_be_selected,
    only_a_gateway_that_may_decide_relays,
    bodies_are_read_strictly,
);
