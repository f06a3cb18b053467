//! Tokens: who makes them, what is told of them, and when they stop working.

use approver::store::TokenKind;
use reqwest::Method;
use serde_json::{Value, json};

use super::on_both_stores;
use super::world::World;

async fn an_admin_makes_a_token_that_works_until_it_is_ended(world: World) {
    let admin = world.token("root", TokenKind::Admin).await;
    let body = json!({"name": "Ana Gómez", "kind": "admin"});
    let reply = world.post("/v1/tokens", &admin, &body).await;
    let made = reply.expect(201);
    let text = made["token"].as_str().unwrap().to_owned();
    assert!(text.starts_with("approver_admin_"), "{text}");
    assert_eq!(made["name"], "Ana Gómez");
    assert_eq!(made["created_at"], "2027-01-15T08:00:00Z");

    let listed = world.get("/v1/tokens", &text).await;
    assert!(!listed.text.contains(&text), "a token is told once");
    let listed = listed.expect(200);
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);

    let path = format!("/v1/tokens/{}", made["id"].as_str().unwrap());
    let reply = world.delete(&path, &admin).await;
    assert_eq!((reply.status, reply.text.as_str()), (204, ""));
    assert_eq!(world.get("/v1/tokens", &text).await.error(401), "unauthenticated");
    assert_eq!(world.delete(&path, &admin).await.error(404), "not_found");
    let listed = world.get("/v1/tokens", &admin).await.expect(200);
    assert!(listed["data"][1]["revoked_at"].is_string());
    // Its name is free again.
    world.post("/v1/tokens", &admin, &body).await.expect(201);
    let again = world.post("/v1/tokens", &admin, &body).await;
    assert_eq!(again.error(409), "token_exists");
}

async fn each_kind_has_what_belongs_to_it(world: World) {
    let admin = world.token("root", TokenKind::Admin).await;
    let pair = json!([{"agent": "erp", "version": "7"}]);
    for (body, member, value) in [
        (json!({"name": "a", "kind": "gateway"}), "decide", json!(false)),
        (json!({"name": "b", "kind": "gateway", "decide": true}), "decide", json!(true)),
        (json!({"name": "c", "kind": "provisioner", "versions": pair}), "versions", pair.clone()),
        (json!({"name": "d", "kind": "operator"}), "decide", Value::Null),
        (json!({"name": "e", "kind": "policy_owner"}), "kind", json!("policy_owner")),
    ] {
        let made = world.post("/v1/tokens", &admin, &body).await.expect(201);
        assert_eq!(made[member], value, "{made}");
    }
    for (body, param) in [
        (json!({"kind": "operator"}), "$.name"),
        (json!({"name": "auto:approver", "kind": "operator"}), "$.name"),
        (json!({"name": "a\u{202e}b", "kind": "operator"}), "$.name"),
        (json!({"name": "ａuto：approver", "kind": "operator"}), "$.name"),
        (json!({"name": "auto-approver", "kind": "admin"}), "$.name"),
        (json!({"name": "x", "kind": "instance"}), "$.kind"),
        (json!({"name": "x", "kind": "root"}), "$.kind"),
        (json!({"name": "x", "kind": "operator", "decide": true}), "$.decide"),
        (json!({"name": "x", "kind": "operator", "versions": pair}), "$.versions"),
        (json!({"name": "x", "kind": "provisioner"}), "$.versions"),
        (json!({"name": "x", "kind": "provisioner", "versions": [{}]}), "$.versions[0].agent"),
        (json!({"name": "x", "kind": "operator", "scope": "all"}), "$.scope"),
        (json!({"name": 7, "kind": "operator"}), "$.name"),
    ] {
        let reply = world.post("/v1/tokens", &admin, &body).await;
        assert_eq!(reply.json["error"]["param"], param, "{}", reply.text);
        assert_eq!(reply.error(400), "invalid_request");
    }
}

async fn only_an_admin_hands_out_rights_and_only_at_home(world: World) {
    let admin = world.token("root", TokenKind::Admin).await;
    let stranger = world.token_of("oak", "root", TokenKind::Admin).await;
    let body = json!({"name": "a", "kind": "admin"});
    for kind in [
        TokenKind::Gateway { decide: true },
        TokenKind::Operator,
        TokenKind::PolicyOwner,
        TokenKind::Instance { instance: "i".to_owned() },
        TokenKind::Provisioner { versions: Vec::new() },
    ] {
        let token = world.token("other", kind).await;
        assert_eq!(world.post("/v1/tokens", &token, &body).await.error(403), "forbidden");
        assert_eq!(world.get("/v1/tokens", &token).await.error(403), "forbidden");
        assert_eq!(world.delete("/v1/tokens/x", &token).await.error(403), "forbidden");
    }
    let made = world.post("/v1/tokens", &admin, &body).await.expect(201);
    let path = format!("/v1/tokens/{}", made["id"].as_str().unwrap());
    assert_eq!(world.delete(&path, &stranger).await.error(404), "not_found");
    let listed = world.get("/v1/tokens", &stranger).await.expect(200);
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    world.get("/v1/tokens", made["token"].as_str().unwrap()).await.expect(200);
}

async fn what_is_no_token_opens_nothing(world: World) {
    world.token("root", TokenKind::Admin).await;
    let long = "a".repeat(10_000);
    for header in ["Bearer x", "Bearer ", "Basic cm9vdDo=", "x", "Bearer a b", &long] {
        let headers = [("Authorization", header)];
        let reply = world.send(Method::GET, "/v1/tokens", None, &headers, None).await;
        assert_eq!(reply.headers["www-authenticate"], "Bearer", "{header:.20}");
        assert!(!reply.text.contains(&header[header.len() / 2..]) || header.len() < 30);
        assert_eq!(reply.error(401), "unauthenticated");
    }
    let reply = world.send(Method::GET, "/v1/tokens", None, &[], None).await;
    assert_eq!(reply.error(401), "unauthenticated");
}

async fn parameters_and_paths_are_read_strictly(world: World) {
    let admin = world.token("root", TokenKind::Admin).await;
    let reply = world.get("/v1/tokens?all=1", &admin).await;
    assert_eq!(reply.json["error"]["param"], "query");
    assert_eq!(reply.error(400), "invalid_request");
    let reply = world.delete("/v1/tokens/%ff", &admin).await;
    assert_eq!(reply.json["error"]["param"], "path");
    assert_eq!(reply.error(400), "invalid_request");
}

on_both_stores!(
    an_admin_makes_a_token_that_works_until_it_is_ended,
    each_kind_has_what_belongs_to_it,
    only_an_admin_hands_out_rights_and_only_at_home,
    what_is_no_token_opens_nothing,
    parameters_and_paths_are_read_strictly,
);
