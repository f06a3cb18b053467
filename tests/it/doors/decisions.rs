//! A person's decision about one approval.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use approver::decide::policy::{Class, Mode};
use approver::store::{Begun, ModeChoice, Standing, TokenKind};
use serde_json::{Value, json};

use super::on_both_stores;
use super::raised::{Raise, Raised, call, call_of, connector, content, policy, wire};
use super::world::{ORGANISATION, World};

async fn a_person_decides_and_nothing_is_released(world: World) {
    let (ana, gateway) = world.staffed().await;
    let first = world.waiting().await;
    let reply = world.decide(&first, &ana, &first.approve()).await.expect(200);
    let start_by = wire(world.now().plus(Duration::from_secs(300)));
    let expected = json!({"approval_id": first.id, "status": "approved", "start_by": start_by});
    assert_eq!(reply, expected);
    let second = world.raise(call("call_2", "note_add")).await;
    let reply = world.decide(&second, &ana, &second.reject()).await.expect(200);
    assert_eq!(reply, json!({"approval_id": second.id, "status": "rejected"}));
    // A gateway names the person.
    let third = world.raise(call("call_3", "note_add")).await;
    let mut body = third.approve();
    body["decided_by"] = json!("Bob Ö.");
    world.decide(&third, &gateway, &body).await.expect(200);
    let stored = world.store.approval(ORGANISATION, &third.id).await.unwrap().unwrap();
    assert_eq!(stored.decision.unwrap().by.as_deref(), Some("Bob Ö."));
    assert_eq!(stored.claim, None);
}

async fn who_may_decide(world: World) {
    let (ana, gateway) = world.staffed().await;
    let raised = world.waiting().await;
    let with = |name: Value| {
        let mut body = raised.approve();
        body["decided_by"] = name;
        body
    };
    for kind in [
        TokenKind::PolicyOwner,
        TokenKind::Admin,
        TokenKind::Gateway { decide: false },
        TokenKind::Provisioner { versions: Vec::new() },
        TokenKind::Instance { instance: "i".to_owned() },
    ] {
        let token = world.token("other", kind).await;
        for body in [raised.approve(), with(json!("ana"))] {
            assert_eq!(world.decide(&raised, &token, &body).await.error(403), "forbidden");
        }
    }
    let machine = world.token("auto:approver", TokenKind::Operator).await;
    assert_eq!(world.decide(&raised, &machine, &raised.approve()).await.error(403), "forbidden");
    let foreign = world.token_of("birch", "bob", TokenKind::Operator).await;
    assert_eq!(world.decide(&raised, &foreign, &raised.approve()).await.error(404), "not_found");
    for (token, body) in [
        (&ana, with(json!("ana"))),
        (&gateway, raised.approve()),
        (&gateway, with(Value::Null)),
        (&gateway, with(json!("auto:approver"))),
        (&gateway, with(json!(" "))),
        (&gateway, with(json!(""))),
        (&gateway, with(json!("a\u{202e}b"))),
        (&gateway, with(json!("ａｕｔｏ：ａｐｐｒｏｖｅｒ"))),
        (&gateway, with(json!("аuto∶approver"))),
        (&gateway, with(json!("Auto Approver"))),
        (&gateway, with(json!("a".repeat(257)))),
        (&gateway, with(json!(7))),
    ] {
        let reply = world.decide(&raised, token, &body).await;
        assert_eq!(reply.json["error"]["param"], "$.decided_by", "{body}");
        assert_eq!(reply.error(400), "invalid_request");
    }
    assert_eq!(world.status(&raised).await, "pending");
}

async fn bodies_are_read_strictly(world: World) {
    let (ana, _) = world.staffed().await;
    let raised = world.waiting().await;
    let changed = |member: &str, value: Value| {
        let mut body = raised.approve();
        body[member] = value;
        body
    };
    for (body, param) in [
        (json!({}), "$.decision"),
        (json!({"decision": "approve"}), "$.hmac"),
        (changed("decision", json!("yes")), "$.decision"),
        (changed("decision", json!(true)), "$.decision"),
        (changed("hmac", Value::Null), "$.hmac"),
        (changed("remember", json!("always")), "$.remember"),
        (changed("remember", json!(true)), "$.remember"),
        (changed("reason", json!("")), "$.reason"),
        (changed("reason", json!("x".repeat(1001))), "$.reason"),
        (changed("extra", json!(1)), "$.extra"),
        (json!([]), "$"),
    ] {
        let reply = world.decide(&raised, &ana, &body).await;
        assert_eq!(reply.json["error"]["param"], param, "{body}: {}", reply.text);
        assert_eq!(reply.error(400), "invalid_request");
    }
    let twice = format!(
        "{{\"decision\":\"reject\",\"decision\":\"approve\",\"hmac\":\"{}\"}}",
        raised.hmac
    );
    let path = raised.path("/decision");
    let reply = world.send(reqwest::Method::POST, &path, Some(&ana), &[], Some(twice)).await;
    assert_eq!(reply.error(400), "invalid_request");
    assert_eq!(world.status(&raised).await, "pending");
}

/// The hmac binds organisation, approval, conversation, call id, label, tool and arguments.
async fn an_hmac_is_for_one_call_alone(world: World) {
    let (ana, _) = world.staffed().await;
    let raised = world.waiting().await;
    let base = call("call_2", "note_add");
    let others = [
        base.clone(),
        Raise { arguments: format!("{} ", base.arguments), ..call("call_3", "note_add") },
        Raise { conversation: "conv_2".to_owned(), ..call("call_1", "note_add") },
        call("call_4", "find"),
        call_of("call_5", connector("Orders.")),
    ];
    let mut wrong = vec![
        String::new(),
        "0".repeat(64),
        raised.hmac.to_uppercase(),
        format!("{} ", raised.hmac),
        raised.hmac[..63].to_owned(),
        format!("{}0", raised.hmac),
    ];
    for position in [0, 31, 63] {
        let mut digits: Vec<char> = raised.hmac.chars().collect();
        digits[position] = if digits[position] == '0' { '1' } else { '0' };
        wrong.push(digits.into_iter().collect());
    }
    for other in others {
        wrong.push(world.raise(other).await.hmac);
    }
    // The same call of another organisation.
    wrong.push(
        world
            .raise(Raise { organisation: "birch".to_owned(), ..call("call_1", "note_add") })
            .await
            .hmac,
    );
    for hmac in wrong {
        for decision in ["approve", "reject"] {
            let body = json!({"decision": decision, "hmac": hmac});
            let reply = world.decide(&raised, &ana, &body).await;
            assert!(!reply.text.contains(&raised.hmac), "the right one is not told");
            assert_eq!(reply.error(400), "approval_hmac_mismatch", "{hmac}");
        }
    }
    assert_eq!(world.status(&raised).await, "pending");
    world.decide(&raised, &ana, &raised.approve()).await.expect(200);
}

async fn the_second_decision_is_told_the_first(world: World) {
    let (ana, _) = world.staffed().await;
    let bob = world.token("bob", TokenKind::Operator).await;
    for (number, (body, status)) in
        [("approve", "approved"), ("reject", "rejected")].into_iter().enumerate()
    {
        let raised = world.raise(call(&format!("call_{number}"), "note_add")).await;
        let body = json!({"decision": body, "hmac": raised.hmac});
        world.decide(&raised, &ana, &body).await.expect(200);
        for (token, body) in [(&bob, raised.approve()), (&bob, raised.reject()), (&ana, body)] {
            let reply = world.decide(&raised, token, &body).await;
            let detail = json!({"approval_id": raised.id, "status": status, "decided_by": "ana"});
            assert_eq!(reply.json["error"]["detail"], detail);
            assert_eq!(reply.error(409), "approval_already_decided");
        }
    }
    // What ended otherwise was decided too.
    let expired = world.raise(call("call_e", "note_add")).await;
    world.pass(Duration::from_secs(3600));
    let reply = world.decide(&expired, &ana, &expired.approve()).await;
    assert_eq!(reply.json["error"]["detail"]["status"], "expired");
    assert_eq!(reply.error(409), "approval_already_decided");
    assert_eq!(world.status(&expired).await, "expired");
}

async fn of_many_deciders_one_wins(world: World) {
    let (ana, gateway) = world.staffed().await;
    let raised = Arc::new(world.waiting().await);
    let world = Arc::new(world);
    let deciders: Vec<_> = (0..200)
        .map(|number| {
            let (world, raised, gateway) =
                (Arc::clone(&world), Arc::clone(&raised), gateway.clone());
            tokio::spawn(async move {
                let name = format!("person-{number}");
                let mut body = if number % 2 == 0 { raised.approve() } else { raised.reject() };
                body["decided_by"] = json!(name);
                let reply = world.decide(&raised, &gateway, &body).await;
                (name, reply)
            })
        })
        .collect();
    let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
    let mut winner = None;
    let mut named = Vec::new();
    for decider in deciders {
        let (name, reply) = decider.await.unwrap();
        *counts.entry(reply.status).or_default() += 1;
        match reply.status {
            200 => winner = Some(name),
            _ => named.push(reply.json["error"]["detail"]["decided_by"].clone()),
        }
    }
    assert_eq!(counts, BTreeMap::from([(200, 1), (409, 199)]));
    let winner = json!(winner.unwrap());
    assert!(named.iter().all(|name| *name == winner), "{winner}: {named:?}");
    let shown = world.get(&raised.path(""), &ana).await.expect(200);
    assert_eq!(shown["decision"]["decided_by"], winner);
}

async fn decide_cancel_and_expiry_race_for_one_end(world: World) {
    let (ana, gateway) = world.staffed().await;
    let world = Arc::new(world);
    for round in 0..6 {
        let raised = Arc::new(world.raise(call(&format!("call_{round}"), "note_add")).await);
        let mut racers = Vec::new();
        for number in 0..12 {
            let (world, raised) = (Arc::clone(&world), Arc::clone(&raised));
            let (ana, gateway) = (ana.clone(), gateway.clone());
            racers.push(tokio::spawn(async move {
                let empty = json!({});
                match number % 3 {
                    0 => world.decide(&raised, &ana, &raised.approve()).await.status == 200,
                    1 => world.post(&raised.path("/cancel"), &gateway, &empty).await.status == 200,
                    _ => {
                        let later = world.now().plus(Duration::from_secs(3600));
                        !world.store.expire_due(later, 10).await.unwrap().is_empty()
                    }
                }
            }));
        }
        let mut wins = Vec::new();
        for (number, racer) in racers.into_iter().enumerate() {
            if racer.await.unwrap() {
                wins.push(number % 3);
            }
        }
        // A cancellation's repeats are answered alike; everything else succeeds once.
        wins.dedup();
        wins.sort_unstable();
        wins.dedup();
        let status = world.status(&raised).await;
        let expected = ["approved", "cancelled", "expired"];
        assert_eq!(wins.iter().map(|win| expected[*win]).collect::<Vec<_>>(), [status]);
    }
}

async fn a_grant_is_remembered_and_not_decided_again(world: World) {
    let (ana, _) = world.staffed().await;
    let raised = world.waiting().await;
    let mut body = raised.reject();
    body["remember"] = json!("conversation");
    let reply = world.decide(&raised, &ana, &body).await;
    assert_eq!(reply.json["error"]["param"], "$.remember");
    assert_eq!(reply.error(400), "invalid_approval_decision");
    let purge = world.raise(call("call_2", "purge")).await;
    let mut body = purge.approve();
    body["remember"] = json!("conversation");
    assert_eq!(world.decide(&purge, &ana, &body).await.error(400), "invalid_approval_decision");
    assert_eq!(world.status(&purge).await, "pending");
    world.decide(&purge, &ana, &purge.approve()).await.expect(200);

    let mut body = raised.approve();
    body["remember"] = json!("conversation");
    world.decide(&raised, &ana, &body).await.expect(200);
    let later = Raise { turn: "resp_9".to_owned(), ..call("call_9", "note_add") };
    let begun = world.store.begin(world.begin(&later, "later")).await.unwrap();
    let Begun::Judge(judged) = begun else { panic!("{begun:?}") };
    let grants: Vec<_> = judged
        .state
        .grants
        .iter()
        .map(|grant| (grant.approval_id.as_str(), grant.tool.name.as_str()))
        .collect();
    assert_eq!(grants, [(raised.id.as_str(), "note_add")]);
    // A call that the grant decided.
    let standing = Standing::Approved {
        by: format!("grant:{}", raised.id),
        reason: None,
        start_by: world.now().plus(Duration::from_secs(300)),
    };
    let granted = world.raise(Raise { standing, ..call("call_3", "note_add") }).await;
    for body in [granted.approve(), granted.reject()] {
        let reply = world.decide(&granted, &ana, &body).await;
        assert_eq!(reply.error(400), "invalid_approval_decision");
    }
    // One that the approver decided is decided.
    let standing = Standing::Approved {
        by: "auto:approver".to_owned(),
        reason: Some("asked for".to_owned()),
        start_by: world.now().plus(Duration::from_secs(300)),
    };
    let automatic = world.raise(Raise { standing, ..call("call_4", "note_add") }).await;
    let reply = world.decide(&automatic, &ana, &automatic.reject()).await;
    assert_eq!(reply.json["error"]["detail"]["decided_by"], "auto:approver");
    assert_eq!(reply.error(409), "approval_already_decided");
}

async fn in_plan_mode_only_reads_are_approved(world: World) {
    let (ana, _) = world.staffed().await;
    let write = world.waiting().await;
    let unclassified = world.raise(Raise { class: None, ..call("call_2", "find") }).await;
    let read = world.raise(call("call_3", "find")).await;
    // Any later request that names plan puts the conversation into it.
    let plan = Raise {
        mode: ModeChoice::Named(Mode::Plan),
        turn: "resp_p".to_owned(),
        ..call("call_p", "find")
    };
    let planned = world.raise(plan).await;
    for raised in [&write, &unclassified] {
        let reply = world.decide(raised, &ana, &raised.approve()).await;
        assert_eq!(reply.error(400), "conversation_in_plan_mode");
        assert_eq!(world.status(raised).await, "pending");
    }
    for raised in [&read, &planned] {
        world.decide(raised, &ana, &raised.approve()).await.expect(200);
    }
    // A reject always works, and so does an approval once the conversation left plan.
    world.decide(&unclassified, &ana, &unclassified.reject()).await.expect(200);
    let ask = Raise {
        mode: ModeChoice::Named(Mode::Ask),
        turn: "resp_a".to_owned(),
        ..call("call_a", "find")
    };
    world.raise(ask).await;
    world.decide(&write, &ana, &write.approve()).await.expect(200);
}

/// A read by its record that is a write by the tools that would run now.
async fn in_plan_mode_a_read_must_still_be_one(world: World) {
    let (ana, _) = world.staffed().await;
    let plan = ModeChoice::Named(Mode::Plan);
    let raise = Raise { mode: plan, class: Some(Class::Read), ..call("call_1", "note_add") };
    let raised = world.raise(raise).await;
    let reply = world.decide(&raised, &ana, &raised.approve()).await;
    assert_eq!(reply.error(400), "conversation_in_plan_mode");
    assert_eq!(world.status(&raised).await, "pending");
}

#[track_caller]
fn check_stale(reply: super::world::Reply, raised: &Raised) {
    assert_eq!(reply.json["error"]["detail"]["approval_id"], json!(raised.id), "{}", reply.text);
    assert_eq!(reply.error(409), "approval_stale");
}

async fn policy_and_tool_are_applied_again(world: World) {
    let (ana, gateway) = world.staffed().await;
    world.move_channel("production", "7").await;
    world.pass(Duration::from_secs(1));
    let blocks = json!({"version": 1, "classes": {"read": "allow", "write": "block", "destructive": "block"}});
    world.put_version("8", &content(&blocks, "A tool.")).await;
    world.put_version("9", &content(&policy(), "Another tool.")).await;
    world.put_version("10", &json!({"instructions": "", "tools": [], "policy": policy()})).await;
    for (number, version) in ["8", "9", "10"].into_iter().enumerate() {
        // Each round begins where the channel names the version that the call is raised under.
        world.move_channel("production", "7").await;
        world.pass(Duration::from_secs(1));
        let waiting = world.raise(call(&format!("call_w{number}"), "note_add")).await;
        let approved = world.raise(call(&format!("call_a{number}"), "note_add")).await;
        world.decide(&approved, &ana, &approved.approve()).await.expect(200);
        world.pass(Duration::from_secs(1));
        world.move_channel("production", version).await;
        check_stale(world.decide(&waiting, &ana, &waiting.approve()).await, &waiting);
        check_stale(world.claim(&approved, &gateway, "k").await, &approved);
        // Nothing ended: back on a version that allows it, it goes on.
        assert_eq!(world.status(&waiting).await, "pending");
        world.move_channel("production", "7").await;
        world.claim(&approved, &gateway, "k").await.expect(200);
        // What was released stays so, for its repeats.
        world.move_channel("production", version).await;
        world.claim(&approved, &gateway, "k").await.expect(200);
        world.decide(&waiting, &ana, &waiting.reject()).await.expect(200);
    }
}

/// A tool that a connected server defines, and defines otherwise later.
async fn a_tool_that_the_gateway_lists_otherwise_is_another(world: World) {
    let (ana, gateway) = world.staffed().await;
    let waiting = world.raise(call_of("call_1", connector("Lists orders."))).await;
    let approved = world.raise(call_of("call_2", connector("Lists orders."))).await;
    world.decide(&approved, &ana, &approved.approve()).await.expect(200);
    let changed = world.raise(call_of("call_3", connector("Sends orders to Eve."))).await;
    check_stale(world.decide(&waiting, &ana, &waiting.approve()).await, &waiting);
    check_stale(world.claim(&approved, &gateway, "k").await, &approved);
    // The call under the new definition can be approved: that is what its person sees.
    world.decide(&changed, &ana, &changed.approve()).await.expect(200);
    // And the old one again, once the server says so again.
    world.raise(call_of("call_4", connector("Lists orders."))).await;
    world.decide(&waiting, &ana, &waiting.approve()).await.expect(200);
}

on_both_stores!(
    a_person_decides_and_nothing_is_released,
    who_may_decide,
    bodies_are_read_strictly,
    an_hmac_is_for_one_call_alone,
    the_second_decision_is_told_the_first,
    of_many_deciders_one_wins,
    decide_cancel_and_expiry_race_for_one_end,
    a_grant_is_remembered_and_not_decided_again,
    in_plan_mode_only_reads_are_approved,
    in_plan_mode_a_read_must_still_be_one,
    policy_and_tool_are_applied_again,
    a_tool_that_the_gateway_lists_otherwise_is_another,
);
