//! Agent versions, channels, and the effective policy.

use approver::store::TokenKind;
use serde_json::{Value, json};

use super::on_both_stores;
use super::world::World;

const SEVEN: &str = "/v1/agents/erp/versions/7";

/// An agent with a tool of each kind.
fn version() -> Value {
    let harmless = json!({"readOnlyHint": false, "destructiveHint": false, "openWorldHint": false});
    json!({
        "instructions": "You keep the orders.",
        "tools": [
            {"name": "order_find", "origin": "function",
             "annotations": {"readOnlyHint": true, "destructiveHint": false}},
            {"name": "note_add", "origin": "function", "annotations": harmless},
            {"name": "order_delete", "origin": "function",
             "annotations": {"readOnlyHint": false, "destructiveHint": true}},
            {"name": "order_send", "origin": "function",
             "annotations": {"readOnlyHint": false, "destructiveHint": false}},
            {"name": "Bash", "origin": "builtin", "sandbox": true},
        ],
        "policy": {
            "version": 1,
            "classes": {"read": "allow", "write": "approve", "destructive": "approve"},
            "tools": {"order_send": "deny", "Bash": "write"},
            "conversation_modes": {"offered": ["plan", "ask", "auto"], "default": "ask"},
            "judge": {"allow": ["Notes on existing orders are routine."]},
        },
    })
}

async fn owner(world: &World) -> String {
    world.token("owner", TokenKind::PolicyOwner).await
}

async fn a_version_is_stored_once_and_never_changes(world: World) {
    let owner = owner(&world).await;
    let stored = world.put(SEVEN, &owner, &version()).await.expect(201);
    assert_eq!(stored["created_by"], "owner");
    assert_eq!(stored["created_at"], "2027-01-15T08:00:00Z");
    // The same value in another notation is the same version.
    let text = version().to_string().replace(r#""tools":["#, "\n \"tools\" : [");
    let headers = [];
    let again = world
        .send(reqwest::Method::PUT, SEVEN, Some(&owner), &headers, Some(text))
        .await
        .expect(200);
    assert_eq!(again, stored);
    let mut other = version();
    other["instructions"] = json!("You may do anything.");
    assert_eq!(world.put(SEVEN, &owner, &other).await.error(409), "version_exists");

    let read = world.get(SEVEN, &owner).await.expect(200);
    assert_eq!(read["content"], version());
    assert_eq!(read["digest"], stored["digest"]);
    world.put("/v1/agents/erp/versions/8", &owner, &other).await.expect(201);
    let listed = world.get("/v1/agents/erp/versions", &owner).await.expect(200);
    let names: Vec<_> =
        listed["data"].as_array().unwrap().iter().map(|one| one["version"].clone()).collect();
    assert_eq!(names, ["7", "8"]);
    assert_eq!(world.get("/v1/agents/crm/versions", &owner).await.error(404), "not_found");
}

async fn all_problems_come_at_once_with_their_codes(world: World) {
    let owner = owner(&world).await;
    let mut wrong = version();
    wrong["policy"]["classes"]["write"] = json!("allow");
    wrong["policy"]["judge"]["hard_deny"] = json!([]);
    wrong["tools"][0]["annotations"] = json!({"readOnlyHint": "yes"});
    wrong["tools"][1]["origin"] = json!("elsewhere");
    wrong["secret"] = json!(1);
    let reply = world.put(SEVEN, &owner, &wrong).await;
    let problems = reply.json["error"]["detail"]["problems"].clone();
    let found: Vec<(String, String)> = problems
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (one["code"].as_str().unwrap().to_owned(), one["param"].as_str().unwrap().to_owned())
        })
        .collect();
    for (code, param) in [
        ("invalid_hitl_policy", "$.policy.classes.write"),
        ("invalid_hitl_policy", "$.policy.judge.hard_deny"),
        ("INVALID_TOOL_ANNOTATIONS", "$.tools[0].annotations.readOnlyHint"),
        ("INVALID_TOOL_ANNOTATIONS", "$.tools[0].annotations.destructiveHint"),
        ("invalid_request", "$.tools[1].origin"),
        ("invalid_request", "$.secret"),
    ] {
        assert!(found.contains(&(code.to_owned(), param.to_owned())), "{param}: {found:?}");
    }
    assert_eq!(reply.error(400), "invalid_hitl_policy");
    assert_eq!(world.get(SEVEN, &owner).await.error(404), "not_found");

    // The answer's own code is that of what is wrong.
    let mut wrong = version();
    wrong["tools"][0]["annotations"] = json!({});
    assert_eq!(world.put(SEVEN, &owner, &wrong).await.error(400), "INVALID_TOOL_ANNOTATIONS");
    let reply = world.put(SEVEN, &owner, &json!({"tools": {}})).await;
    assert_eq!(reply.error(400), "invalid_request");
    // Names that no path can carry.
    for path in ["/v1/agents/a%20b/versions/7", "/v1/agents/erp/versions/-7"] {
        assert_eq!(world.put(path, &owner, &version()).await.error(400), "invalid_request");
    }
}

async fn json_that_two_readers_may_read_differently_is_refused(world: World) {
    let owner = owner(&world).await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for (text, param) in [
        (r#"{"instructions":"a","instructions":"b"}"#.to_owned(), "$.instructions"),
        (format!(r#"{{"tools":{deep}}}"#), "$"),
        (r#"{"instructions":"a"} x"#.to_owned(), "$"),
        (r#"{"instructions":"\ud800"}"#.to_owned(), "$"),
        (String::new(), "$"),
    ] {
        let reply =
            world.send(reqwest::Method::PUT, SEVEN, Some(&owner), &[], Some(text.clone())).await;
        assert_eq!(reply.json["error"]["param"], param, "{text:.60}: {}", reply.text);
        assert_eq!(reply.error(400), "invalid_request");
    }
}

async fn a_channel_stands_for_a_version(world: World) {
    let owner = owner(&world).await;
    let path = "/v1/agents/erp/channels/production";
    let body = json!({"version": "7"});
    assert_eq!(world.put(path, &owner, &body).await.error(404), "not_found");
    world.put(SEVEN, &owner, &version()).await.expect(201);
    let mut other = version();
    other["instructions"] = json!("Eight.");
    world.put("/v1/agents/erp/versions/8", &owner, &other).await.expect(201);
    let moved = world.put(path, &owner, &body).await.expect(200);
    assert_eq!(moved["version"], "7");
    assert_eq!(moved["moved_by"], "owner");
    let production = "/v1/agents/erp/versions/production";
    assert_eq!(world.get(production, &owner).await.expect(200)["version"], "7");
    world.put(path, &owner, &json!({"version": "8"})).await.expect(200);
    assert_eq!(world.get(production, &owner).await.expect(200)["version"], "8");
    let policy = format!("{production}/policy");
    assert_eq!(world.get(&policy, &owner).await.expect(200)["effectiveMode"], "ask");
    let listed = world.get("/v1/agents/erp/channels", &owner).await.expect(200);
    assert_eq!(listed["data"][0]["name"], "production");
    assert_eq!(listed["data"][0]["version"], "8");
    // One name is one thing, whichever comes first.
    let seven = "/v1/agents/erp/channels/7";
    assert_eq!(world.put(seven, &owner, &body).await.error(409), "name_taken");
    assert_eq!(world.put(production, &owner, &version()).await.error(409), "name_taken");
    assert_eq!(world.get("/v1/agents/crm/channels", &owner).await.error(404), "not_found");
}

/// A tool of an effective policy, by its name.
#[track_caller]
fn tool<'a>(policy: &'a Value, name: &str) -> &'a Value {
    let tools = policy["tools"].as_array().unwrap();
    tools.iter().find(|tool| tool["name"] == name).unwrap()
}

async fn the_effective_policy_in_each_mode(world: World) {
    let owner = owner(&world).await;
    world.put(SEVEN, &owner, &version()).await.expect(201);
    let policy = format!("{SEVEN}/policy");
    let default = world.get(&policy, &owner).await.expect(200);
    assert_eq!(default["effectiveMode"], "ask");
    assert_eq!(default["effectiveModeSource"], "default");
    assert_eq!(default["automaticApproval"], json!({"available": true, "reason": null}));
    assert_eq!(default["lists"]["allow"][0], "Notes on existing orders are routine.");
    assert_eq!(default["assumed"], json!([]));

    for (mode, rows) in [
        (
            "plan",
            [
                ("order_find", "EXECUTE", ""),
                ("note_add", "BLOCK", "conversation_mode.plan"),
                ("order_delete", "BLOCK", "conversation_mode.plan"),
                ("order_send", "BLOCK", "tools.order_send"),
                ("Bash", "BLOCK", "conversation_mode.plan"),
            ],
        ),
        (
            "ask",
            [
                ("order_find", "EXECUTE", "classes.read"),
                ("note_add", "PAUSE_APPROVAL", "classes.write"),
                ("order_delete", "PAUSE_APPROVAL", "classes.destructive"),
                ("order_send", "BLOCK", "tools.order_send"),
                ("Bash", "EXECUTE", "builtin.sandbox_offline"),
            ],
        ),
        (
            "auto",
            [
                ("order_find", "EXECUTE", "classes.read"),
                ("note_add", "JUDGE", "conversation_mode.auto"),
                ("order_delete", "PAUSE_APPROVAL", "classes.destructive"),
                ("order_send", "BLOCK", "tools.order_send"),
                ("Bash", "EXECUTE", "builtin.sandbox_offline"),
            ],
        ),
    ] {
        let answer = world.get(&format!("{policy}?mode={mode}"), &owner).await.expect(200);
        assert_eq!(answer["effectiveMode"], mode);
        assert_eq!(answer["effectiveModeSource"], "request");
        for (name, verdict, rule) in rows {
            let shown = tool(&answer, name);
            assert_eq!(shown["verdict"], verdict, "{mode} {name}");
            let rules = shown["matchedRules"].as_array().unwrap();
            assert!(rule.is_empty() || rules.contains(&json!(rule)), "{mode} {name}: {rules:?}");
        }
    }
    let auto = world.get(&format!("{policy}?mode=auto&tool=order_delete"), &owner).await;
    let auto = auto.expect(200);
    assert_eq!(auto["tools"].as_array().unwrap().len(), 1);
    let shown = tool(&auto, "order_delete");
    assert_eq!(shown["pauseReason"], "destructive");
    assert_eq!(
        (&shown["class"], &shown["classSource"]),
        (&json!("destructive"), &json!("annotations"))
    );
    assert_eq!(shown["action"], "approve");
}

async fn the_effective_policy_without_automatic_approval(world: World) {
    let owner = owner(&world).await;
    let admin = world.token("root", TokenKind::Admin).await;
    world.put(SEVEN, &owner, &version()).await.expect(201);
    let off = json!({"enabled": false, "agent": "erp"});
    world.put("/v1/automatic-approval", &admin, &off).await.expect(200);
    let policy = world.get(&format!("{SEVEN}/policy?mode=auto"), &owner).await.expect(200);
    assert_eq!(policy["automaticApproval"], json!({"available": false, "reason": "switched_off"}));
    let shown = tool(&policy, "note_add");
    assert_eq!(shown["verdict"], "PAUSE_APPROVAL");
    assert_eq!(shown["pauseReason"], "judge_unavailable");
    assert_eq!(tool(&policy, "Bash")["verdict"], "PAUSE_APPROVAL");
}

async fn a_mode_that_is_not_offered_is_refused(world: World) {
    let owner = owner(&world).await;
    let mut plain = version();
    plain["policy"].as_object_mut().unwrap().remove("conversation_modes");
    world.put(SEVEN, &owner, &plain).await.expect(201);
    let policy = format!("{SEVEN}/policy");
    let reply = world.get(&format!("{policy}?mode=auto"), &owner).await;
    let detail = json!({"mode": "auto", "offered": ["plan", "ask"]});
    assert_eq!(reply.json["error"]["detail"], detail);
    assert_eq!(reply.error(400), "conversation_mode_not_offered");
    let ask = world.get(&policy, &owner).await.expect(200);
    assert_eq!(ask["automaticApproval"], json!({"available": false, "reason": "not_offered"}));
    for query in ["mode=AUTO", "mode=ask&mode=ask", "tool=a%20b", "door=aap"] {
        let reply = world.get(&format!("{policy}?{query}"), &owner).await;
        assert_eq!(reply.error(400), "invalid_request", "{query}");
    }
}

async fn who_may_read_and_write_agents(world: World) {
    let owner = owner(&world).await;
    world.put(SEVEN, &owner, &version()).await.expect(201);
    let channel = "/v1/agents/erp/channels/production";
    let body = json!({"version": "7"});
    for kind in [TokenKind::Gateway { decide: false }, TokenKind::Operator, TokenKind::Admin] {
        let token = world.token("reader", kind).await;
        world.get(SEVEN, &token).await.expect(200);
        world.get(&format!("{SEVEN}/policy"), &token).await.expect(200);
        assert_eq!(world.put(SEVEN, &token, &version()).await.error(403), "forbidden");
        assert_eq!(world.put(channel, &token, &body).await.error(403), "forbidden");
    }
    let pair = vec![("erp".to_owned(), "7".to_owned())];
    for kind in [
        TokenKind::Instance { instance: "i".to_owned() },
        TokenKind::Provisioner { versions: pair },
    ] {
        let token = world.token("machine", kind).await;
        for path in [SEVEN, "/v1/agents/erp/versions", "/v1/agents/erp/channels"] {
            assert_eq!(world.get(path, &token).await.error(403), "forbidden");
        }
    }
    let stranger = world.token_of("oak", "owner", TokenKind::PolicyOwner).await;
    for path in [
        SEVEN.to_owned(),
        format!("{SEVEN}/policy"),
        "/v1/agents/erp/versions".to_owned(),
        "/v1/agents/erp/channels".to_owned(),
    ] {
        assert_eq!(world.get(&path, &stranger).await.error(404), "not_found", "{path}");
    }
    assert_eq!(world.put(channel, &stranger, &body).await.error(404), "not_found");
    // And the stranger's own agent of that name is another one.
    let mut other = version();
    other["instructions"] = json!("Another's.");
    world.put(SEVEN, &stranger, &other).await.expect(201);
    assert_eq!(world.get(SEVEN, &owner).await.expect(200)["content"], version());
}

on_both_stores!(
    a_version_is_stored_once_and_never_changes,
    all_problems_come_at_once_with_their_codes,
    json_that_two_readers_may_read_differently_is_refused,
    a_channel_stands_for_a_version,
    the_effective_policy_in_each_mode,
    the_effective_policy_without_automatic_approval,
    a_mode_that_is_not_offered_is_refused,
    who_may_read_and_write_agents,
);
