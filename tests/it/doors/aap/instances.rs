//! Instances: provisioned, read, changed, deleted; and what an operator sets on them.

use std::time::Duration;

use approver::service::Limits;
use approver::service::events::{Events, WebhookSettings};
use approver::service::keys::token_hash;
use approver::store::{Created, NewToken, Sweep, Token, TokenKind};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    Asking, INSTANCES, approve, asking, call, channel, code, id, members, note, provision,
    provisioner, put_version,
};
use crate::doors::events::SECRET;
use crate::doors::judgements::content;
use crate::doors::on_both_stores;
use crate::doors::world::{ORGANISATION, Reply, World};

async fn patch(world: &World, token: &str, id: &str, key: &str, body: &Value) -> Reply {
    let path = format!("{INSTANCES}/{id}");
    let headers = [("Idempotency-Key", key)];
    world.send(Method::PATCH, &path, Some(token), &headers, Some(body.to_string())).await
}

async fn provisioning_answers_its_repeats_alike(world: World) {
    let provisioner = provisioner(&world).await;
    let body = json!({"instance_name": "laptop"});
    let made = world.post_once(INSTANCES, &provisioner, "k1", &body).await.expect(201);
    assert_eq!(members(&made), ["credential", "instance"]);
    assert_eq!(members(&made["credential"]), ["token"]);
    assert_eq!(members(&made["instance"]), ["id", "name"]);
    assert_eq!(made["instance"]["name"], "laptop");
    let id = made["instance"]["id"].as_str().unwrap();
    assert!(uuid::Uuid::parse_str(id).is_ok());
    let token = made["credential"]["token"].as_str().unwrap();
    let asking = Asking { world: &world, id: id.to_owned(), token: token.to_owned() };
    asking.raise("k", &note()).await;
    // A repeat gets the same token, which is nowhere kept, also after the name changed.
    patch(&world, &provisioner, id, "u1", &json!({"instance_name": "desk"})).await.expect(200);
    let again = world.post_once(INSTANCES, &provisioner, "k1", &body).await.expect(200);
    assert_eq!(again, made);
    let now = world.get(&format!("{INSTANCES}/{id}"), &provisioner).await.expect(200);
    assert_eq!(now, json!({"id": id, "name": "desk"}));
    let reply = world.post_once(INSTANCES, &provisioner, "k1", &json!({})).await;
    assert_eq!(code(reply, 409, "conflict"), "idempotency_conflict");
    let reply = world.post(INSTANCES, &provisioner, &json!({})).await;
    assert_eq!(code(reply, 400, "invalid_request"), "missing_idempotency_key");
    for (body, param) in [
        (json!({"instance_name": ""}), "instance_name"),
        (json!({"instance_name": null}), "instance_name"),
        (json!({"mode": "auto"}), "mode"),
        (json!({"delivery": null}), "delivery"),
        (json!({"trusted_context": true}), "trusted_context"),
    ] {
        let reply = world.post_once(INSTANCES, &provisioner, "k9", &body).await;
        assert_eq!(reply.json["error"]["param"], param, "{}", reply.text);
        assert_eq!(code(reply, 400, "invalid_request"), "invalid_request");
    }
    // Many at once make one.
    let mut running = JoinSet::new();
    for _ in 0..12 {
        let (client, url) = (world.client.clone(), format!("{}{INSTANCES}", world.url));
        let token = provisioner.clone();
        running.spawn(async move {
            let request = client.post(url).bearer_auth(token).header("Idempotency-Key", "k2");
            let request = request.header("Content-Type", "application/json").body("{}");
            let reply = request.send().await.unwrap();
            (reply.status().as_u16(), reply.text().await.unwrap())
        });
    }
    let replies = running.join_all().await;
    assert_eq!(replies.iter().filter(|(status, _)| *status == 201).count(), 1, "{replies:?}");
    assert!(replies.iter().all(|(_, text)| *text == replies[0].1), "{replies:?}");
    assert_eq!(world.store.instances(ORGANISATION).await.unwrap().len(), 2);
}

async fn an_instance_is_bound_to_what_its_provisioner_may_bind(world: World) {
    put_version(&world, "7", &content()).await;
    put_version(&world, "8", &content()).await;
    channel(&world, "production", "7").await;
    let pair = |version: &str| ("erp".to_owned(), version.to_owned());
    let several = TokenKind::Provisioner { versions: vec![pair("production"), pair("8")] };
    let several = world.token("several", several).await;
    let make = async |token: &str, key: &str, body: Value| {
        world.post_once(INSTANCES, token, key, &body).await
    };
    for (key, body) in [
        ("k1", json!({})),
        ("k2", json!({"instance_name": "laptop"})),
        ("k3", json!({"instance_name": "erp"})),
    ] {
        let reply = make(&several, key, body).await;
        assert_eq!(reply.json["error"]["param"], "instance_name", "{}", reply.text);
        assert_eq!(code(reply, 400, "invalid_request"), "invalid_request");
    }
    for (key, name, version) in [("k4", "erp/8", "8"), ("k5", "erp/production", "production")] {
        let made = make(&several, key, json!({"instance_name": name})).await.expect(201);
        let id = made["instance"]["id"].as_str().unwrap();
        let stored = world.store.instance(ORGANISATION, id).await.unwrap().unwrap();
        assert_eq!((stored.agent.as_str(), stored.version.as_str()), ("erp", version));
        // Another name binds nothing anew.
        let name = json!({"instance_name": "erp/8"});
        patch(&world, &several, id, key, &name).await.expect(200);
        let stored = world.store.instance(ORGANISATION, id).await.unwrap().unwrap();
        assert_eq!(stored.version, version);
    }
    let gone = TokenKind::Provisioner { versions: vec![pair("99")] };
    let gone = world.token("gone", gone).await;
    let reply = make(&gone, "k", json!({})).await;
    code(reply, 400, "invalid_request");
    let nothing = world.token("nothing", TokenKind::Provisioner { versions: Vec::new() }).await;
    let reply = make(&nothing, "k", json!({})).await;
    code(reply, 400, "invalid_request");
    // An instance of a version that the token does not list is none to it.
    let made = make(&several, "k4", json!({"instance_name": "erp/8"})).await.expect(200);
    let id = made["instance"]["id"].as_str().unwrap();
    let path = format!("{INSTANCES}/{id}");
    for method in [Method::GET, Method::DELETE] {
        let reply = world.send(method, &path, Some(&gone), &[], None).await;
        assert_eq!(code(reply, 404, "not_found"), "not_found");
    }
    let reply = patch(&world, &gone, id, "k", &json!({"instance_name": "x"})).await;
    assert_eq!(code(reply, 404, "not_found"), "not_found");
    let foreign = TokenKind::Provisioner { versions: vec![pair("8")] };
    let foreign = world.token_of("birch", "rollout", foreign).await;
    let reply = world.get(&path, &foreign).await;
    assert_eq!(code(reply, 404, "not_found"), "not_found");
}

async fn a_channel_is_followed(world: World) {
    let asking = asking(&world).await;
    let made = asking.raise("k1", &call("find", json!({}))).await;
    assert_eq!(made["status"], "approved");
    let mut strict = content();
    strict["policy"]["classes"]["read"] = json!("block");
    put_version(&world, "8", &strict).await;
    channel(&world, "production", "8").await;
    let made = asking.raise("k2", &call("find", json!({}))).await;
    assert_eq!(made["status"], "denied");
}

async fn a_change_is_made_once(world: World) {
    let provisioner = provisioner(&world).await;
    let asking = provision(&world, &provisioner, "k").await;
    let change =
        async |key: &str, body: Value| patch(&world, &provisioner, &asking.id, key, &body).await;
    let first = change("u1", json!({"instance_name": "a"})).await.expect(200);
    assert_eq!(first, json!({"id": asking.id, "name": "a"}));
    change("u2", json!({"instance_name": "b"})).await.expect(200);
    // A repeat is answered as it was then, and changes nothing.
    assert_eq!(change("u1", json!({"instance_name": "a"})).await.expect(200), first);
    let path = format!("{INSTANCES}/{}", asking.id);
    assert_eq!(world.get(&path, &provisioner).await.expect(200)["name"], "b");
    let reply = change("u1", json!({"instance_name": "c"})).await;
    assert_eq!(code(reply, 409, "conflict"), "idempotency_conflict");
    for body in [json!({}), json!({"instance_name": null}), json!({"version": "8"})] {
        code(change("u3", body).await, 400, "invalid_request");
    }
    let text = Some(json!({"instance_name": "d"}).to_string());
    let reply = world.send(Method::PATCH, &path, Some(&provisioner), &[], text).await;
    assert_eq!(code(reply, 400, "invalid_request"), "missing_idempotency_key");
    let reply = patch(&world, &provisioner, "x", "u4", &json!({"instance_name": "d"})).await;
    assert_eq!(code(reply, 404, "not_found"), "not_found");
    // Without a receiver there is none to remove.
    change("u5", json!({"delivery": null})).await.expect(200);
}

async fn a_deleted_instance_asks_nothing_more(world: World) {
    let provisioner = provisioner(&world).await;
    let asking = provision(&world, &provisioner, "k").await;
    let other = provision(&world, &provisioner, "k2").await;
    let approved = asking.raise("k1", &note()).await;
    approve(&world, id(&approved)).await;
    let pending = asking.raise("k2", &note()).await;
    let others = other.raise("k1", &note()).await;
    let ended = asking.stored(id(&approved)).await;
    let path = format!("{INSTANCES}/{}", asking.id);
    for _ in 0..2 {
        let reply = world.delete(&path, &provisioner).await;
        assert_eq!((reply.status, reply.text.as_str()), (204, ""));
    }
    let unknown = format!("{INSTANCES}/{}", uuid::Uuid::new_v4());
    let reply = world.delete(&unknown, &provisioner).await;
    assert_eq!(code(reply, 404, "not_found"), "not_found");
    let reply = asking.get(id(&approved)).await;
    assert_eq!(code(reply, 401, "authentication"), "unauthenticated");
    let reply = asking.submit("k9", &note()).await;
    assert_eq!(code(reply, 401, "authentication"), "unauthenticated");
    let reply = world.get(&path, &provisioner).await;
    assert_eq!(code(reply, 404, "not_found"), "not_found");
    let reply = patch(&world, &provisioner, &asking.id, "u", &json!({"instance_name": "x"})).await;
    assert_eq!(code(reply, 404, "not_found"), "not_found");
    let reply = world.post_once(INSTANCES, &provisioner, "k", &json!({})).await;
    assert_eq!(code(reply, 409, "conflict"), "instance_deleted");
    assert_eq!(asking.stored(id(&approved)).await, ended);
    let cancelled = asking.stored(id(&pending)).await.status;
    assert_eq!(cancelled, approver::store::Status::Cancelled);
    assert_eq!(other.get(id(&others)).await.expect(200)["status"], "pending");
    // The deletion is on record for a week, and then there is nothing.
    let sweep = async || {
        let now = world.now();
        let day = Duration::from_secs(24 * 3_600);
        let sweep = Sweep {
            inputs_before: now.minus(day * 30),
            records_before: now.minus(day * 365),
            keys_before: now.minus(day),
            protocol_before: now.minus(day * 7),
            deliveries_before: now.minus(day),
            limit: 100,
        };
        world.store.sweep(sweep).await.unwrap();
    };
    world.pass(Duration::from_secs(7 * 24 * 3_600));
    sweep().await;
    assert_eq!(world.delete(&path, &provisioner).await.status, 204);
    world.pass(Duration::from_secs(1));
    sweep().await;
    let reply = world.delete(&path, &provisioner).await;
    assert_eq!(code(reply, 404, "not_found"), "not_found");
}

async fn an_operator_sets_mode_and_trust(world: World) {
    let asking = asking(&world).await;
    let admin = world.token("root", TokenKind::Admin).await;
    let operator = world.token("ana", TokenKind::Operator).await;
    let path = format!("/v1/instances/{}", asking.id);
    let set = async |token: &str, body: Value| {
        world.send(Method::PATCH, &path, Some(token), &[], Some(body.to_string())).await
    };
    let shown = set(&admin, json!({"mode": "auto", "trusted_context": true})).await.expect(200);
    assert_eq!((&shown["mode"], &shown["trusted_context"]), (&json!("auto"), &json!(true)));
    let shown = set(&admin, json!({"mode": null})).await.expect(200);
    assert_eq!((&shown["mode"], &shown["trusted_context"]), (&Value::Null, &json!(true)));
    let listed = world.get("/v1/instances", &operator).await.expect(200);
    assert_eq!(listed["instances"], json!([shown]));
    // Who did it, when, and what stood before.
    world.pass(Duration::from_secs(1));
    set(&admin, json!({"mode": null})).await.expect(200);
    set(&admin, json!({"mode": "plan", "trusted_context": false})).await.expect(200);
    let set_to = |mode: Value, trusted: bool| json!({"mode": mode, "trusted_context": trusted});
    let change = |at: &str, before: Value, after: Value| json!({"changed_by": "root", "changed_at": at, "before": before, "after": after});
    let first = "2027-01-15T08:00:00Z";
    let expected = json!([
        change(first, set_to(Value::Null, false), set_to(json!("auto"), true)),
        change(first, set_to(json!("auto"), true), set_to(Value::Null, true)),
        change("2027-01-15T08:00:01Z", set_to(Value::Null, true), set_to(json!("plan"), false)),
    ]);
    let whole = world.get(&path, &operator).await.expect(200);
    assert_eq!((&whole["changes"], &whole["deleted_at"]), (&expected, &Value::Null));
    assert_eq!((&whole["id"], &whole["mode"]), (&json!(asking.id), &json!("plan")));
    assert_eq!(world.get(&path, &asking.token).await.error(403), "forbidden");
    let unknown = format!("/v1/instances/{}", uuid::Uuid::new_v4());
    assert_eq!(world.get(&unknown, &admin).await.error(404), "not_found");
    for body in [
        json!({"mode": "free"}),
        json!({"mode": 1}),
        json!({"trusted_context": "yes"}),
        json!({"version": "8"}),
    ] {
        assert_eq!(set(&admin, body).await.error(400), "invalid_request");
    }
    for token in [&operator, &asking.token] {
        assert_eq!(set(token, json!({"mode": "auto"})).await.error(403), "forbidden");
    }
    assert_eq!(world.get("/v1/instances", &asking.token).await.error(403), "forbidden");
    let mut without_auto = content();
    without_auto["policy"]["conversation_modes"] =
        json!({"offered": ["plan", "ask"], "default": "ask"});
    put_version(&world, "8", &without_auto).await;
    channel(&world, "production", "8").await;
    let reply = set(&admin, json!({"mode": "auto"})).await;
    assert_eq!(reply.error(400), "conversation_mode_not_offered");
    let foreign = world.token_of("birch", "root", TokenKind::Admin).await;
    assert_eq!(set(&foreign, json!({"mode": "ask"})).await.error(404), "not_found");
    assert_eq!(world.get(&path, &foreign).await.error(404), "not_found");
    // The record outlives the instance.
    world.store.delete_instance(ORGANISATION, &asking.id, world.now()).await.unwrap();
    let whole = world.get(&path, &operator).await.expect(200);
    assert_eq!(
        (&whole["changes"], &whole["deleted_at"]),
        (&expected, &json!("2027-01-15T08:00:01Z"))
    );
}

async fn an_operators_setting_is_told(world: World) {
    let (url, taken, _) = crate::doors::events::receiver(0).await;
    let events = Events::to_webhook(WebhookSettings::new(&url, SECRET.into())).unwrap();
    let world = world.beside(Limits::default(), events.clone()).await;
    let asking = asking(&world).await;
    let admin = world.token("root", TokenKind::Admin).await;
    let path = format!("/v1/instances/{}", asking.id);
    for _ in 0..2 {
        let body = json!({"trusted_context": true}).to_string();
        world.send(Method::PATCH, &path, Some(&admin), &[], Some(body)).await.expect(200);
    }
    crate::doors::events::drained(&events).await;
    let taken = taken.lock().unwrap();
    assert_eq!(taken.len(), 1, "what changes nothing is no news");
    let told: Value = serde_json::from_str(&taken[0].1).unwrap();
    assert_eq!(
        (&told["type"], &told["timestamp"]),
        (&json!("instance-set"), &json!("2027-01-15T08:00:00Z"))
    );
    let expected = json!({
        "organisation": ORGANISATION, "instance_id": asking.id, "agent": "erp",
        "version": "production", "changed_by": "root",
        "before": {"mode": null, "trusted_context": false},
        "after": {"mode": null, "trusted_context": true},
    });
    assert_eq!(told["data"], expected);
}

async fn an_instance_is_its_provisioners_alone(world: World) {
    let first = provisioner(&world).await;
    let kind =
        || TokenKind::Provisioner { versions: vec![("erp".to_owned(), "production".to_owned())] };
    let other = world.token("another", kind()).await;
    let asking = provision(&world, &first, "k").await;
    let path = format!("{INSTANCES}/{}", asking.id);
    let name = json!({"instance_name": "mine now"});
    let refused = async |token: &str| {
        for method in [Method::GET, Method::DELETE] {
            let reply = world.send(method, &path, Some(token), &[], None).await;
            assert_eq!(code(reply, 404, "not_found"), "not_found");
        }
        let reply = patch(&world, token, &asking.id, "u", &name).await;
        assert_eq!(code(reply, 404, "not_found"), "not_found");
    };
    // The same agent version, and all the same no business of its.
    refused(&other).await;
    // The key is the provisioner's own too: it makes another instance.
    let others = provision(&world, &other, "k").await;
    assert_ne!(others.id, asking.id);
    assert_ne!(others.token, asking.token);
    assert_eq!(asking.submit("k1", &note()).await.status, 201);
    world.get(&path, &first).await.expect(200);
    // Whoever gets the name of a revoked token goes on in its place.
    let id = format!("tok-{ORGANISATION}-rollout-provisioner");
    assert!(world.store.revoke_token(ORGANISATION, &id, world.now()).await.unwrap());
    refused(&other).await;
    let token = Token {
        id: "tok-next".to_owned(),
        organisation: ORGANISATION.to_owned(),
        name: "rollout".to_owned(),
        kind: kind(),
        created_at: world.now(),
        revoked_at: None,
    };
    let next = NewToken { token, hash: token_hash("test-next") };
    assert_eq!(world.store.create_token(next).await.unwrap(), Created::Done);
    let changed = patch(&world, "test-next", &asking.id, "u", &name).await.expect(200);
    assert_eq!(changed["name"], "mine now");
    assert_eq!(world.delete(&path, "test-next").await.status, 204);
}

on_both_stores!(
    provisioning_answers_its_repeats_alike,
    an_instance_is_bound_to_what_its_provisioner_may_bind,
    a_channel_is_followed,
    a_change_is_made_once,
    a_deleted_instance_asks_nothing_more,
    an_operator_sets_mode_and_trust,
    an_operators_setting_is_told,
    an_instance_is_its_provisioners_alone,
);
