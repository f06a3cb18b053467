//! One permission to run, and one word on how it went.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{REQUESTS, approve, asking, channel, code, decide, id, note, put_version};
use crate::doors::judgements::content;
use crate::doors::on_both_stores;
use crate::doors::world::World;

async fn one_key_consumes(world: World) {
    let asking = asking(&world).await;
    let made = asking.raise("k1", &note()).await;
    let early = asking.consume(id(&made), "a").await;
    assert_eq!(code(early, 409, "conflict"), "not_approved");
    approve(&world, id(&made)).await;
    let path = format!("{REQUESTS}/{}/consume", id(&made));
    let reply = world.send(reqwest::Method::POST, &path, Some(&asking.token), &[], None).await;
    assert_eq!(code(reply, 400, "invalid_request"), "missing_idempotency_key");
    let body = Some("{\"force\":true}".to_owned());
    let key = [("Idempotency-Key", "a")];
    let reply = world.send(reqwest::Method::POST, &path, Some(&asking.token), &key, body).await;
    assert_eq!(code(reply, 400, "invalid_request"), "invalid_request");
    let consumed = asking.consume(id(&made), "a").await.expect(200);
    assert_eq!(consumed["consumption"], json!({"consumed_at": "2027-01-15T08:00:00Z"}));
    assert_eq!(asking.consume(id(&made), "a").await.expect(200), consumed);
    let reply = asking.consume(id(&made), "b").await;
    assert_eq!(code(reply, 409, "conflict"), "already_consumed");
    // The same key, as long as it asks.
    world.pass(Duration::from_secs(3_600));
    assert_eq!(asking.consume(id(&made), "a").await.expect(200), consumed);
    for (key, yes) in [("k2", false), ("k3", true)] {
        let made = asking.raise(key, &note()).await;
        if yes {
            asking.cancel(id(&made)).await.expect(200);
        } else {
            decide(&world, id(&made), false, None).await;
        }
        let reply = asking.consume(id(&made), "a").await;
        assert_eq!(code(reply, 409, "conflict"), "not_approved");
    }
}

async fn an_approval_is_consumed_in_time(world: World) {
    let asking = asking(&world).await;
    let made = asking.raise("k1", &note()).await;
    approve(&world, id(&made)).await;
    let before = asking.get(id(&made)).await.expect(200);
    world.pass(Duration::from_millis(300_000));
    let reply = asking.consume(id(&made), "a").await;
    assert_eq!(code(reply, 409, "conflict"), "approval_expired");
    // It stays approved, with the time that was set once.
    assert_eq!(asking.get(id(&made)).await.expect(200), before);
    let made = asking.raise("k2", &note()).await;
    approve(&world, id(&made)).await;
    world.pass(Duration::from_millis(299_999));
    asking.consume(id(&made), "a").await.expect(200);
}

async fn what_changed_since_is_not_released(world: World) {
    let asking = asking(&world).await;
    let raise = async |key: &str| {
        let made = asking.raise(key, &note()).await;
        approve(&world, id(&made)).await;
        id(&made).to_owned()
    };
    let (first, second, third) = (raise("k1").await, raise("k2").await, raise("k3").await);
    asking.consume(&first, "a").await.expect(200);
    let mut blocking = content();
    blocking["policy"]["tools"]["note_add"] = json!("block");
    put_version(&world, "8", &blocking).await;
    channel(&world, "production", "8").await;
    let reply = asking.consume(&second, "a").await;
    assert_eq!(code(reply, 409, "conflict"), "approval_expired");
    // Whoever had the permission keeps it.
    asking.consume(&first, "a").await.expect(200);
    let mut changed = content();
    changed["tools"][1]["description"] = json!("adds a note, and mails it");
    put_version(&world, "9", &changed).await;
    channel(&world, "production", "9").await;
    let reply = asking.consume(&second, "a").await;
    assert_eq!(code(reply, 409, "conflict"), "approval_expired");
    channel(&world, "production", "7").await;
    asking.consume(&third, "a").await.expect(200);
}

async fn one_of_20_consumers_wins(world: World) {
    let asking = asking(&world).await;
    for round in 0..3 {
        let made = asking.raise(&format!("k{round}"), &note()).await;
        approve(&world, id(&made)).await;
        let mut running = JoinSet::new();
        for number in 0..20 {
            let url = format!("{}{REQUESTS}/{}/consume", world.url, id(&made));
            let (client, token) = (world.client.clone(), asking.token.clone());
            running.spawn(async move {
                let request = client.post(url).bearer_auth(token);
                let reply = request.header("Idempotency-Key", format!("c{number}")).send().await;
                let reply = reply.unwrap();
                (reply.status().as_u16(), reply.text().await.unwrap())
            });
        }
        let replies = running.join_all().await;
        let won = replies.iter().filter(|(status, _)| *status == 200).count();
        assert_eq!(won, 1, "{replies:?}");
        let lost = replies
            .iter()
            .filter(|(status, text)| *status == 409 && text.contains("\"already_consumed\""));
        assert_eq!(lost.count(), 19, "{replies:?}");
    }
}

async fn an_outcome_is_told_once(world: World) {
    let asking = asking(&world).await;
    let made = asking.raise("k1", &note()).await;
    let id = id(&made);
    let succeeded = json!({"status": "succeeded"});
    let told = async |report: &Value| asking.outcome(id, report).await;
    assert_eq!(code(told(&succeeded).await, 409, "conflict"), "not_consumed");
    approve(&world, id).await;
    assert_eq!(code(told(&succeeded).await, 409, "conflict"), "not_consumed");
    asking.consume(id, "a").await.expect(200);
    for (report, param) in [
        (json!({}), "status"),
        (json!({"status": "OK"}), "status"),
        (json!({"status": null}), "status"),
        (json!({"status": "failed", "note": ""}), "note"),
        (json!({"status": "failed", "note": null}), "note"),
        (json!({"status": "failed", "output": "x"}), "output"),
    ] {
        let reply = told(&report).await;
        assert_eq!(reply.json["error"]["param"], param, "{}", reply.text);
        code(reply, 400, "invalid_request");
    }
    let report = json!({"status": "succeeded", "note": "done: ä"});
    let shown = told(&report).await.expect(200);
    assert_eq!(
        shown["consumption"]["outcome"],
        json!({
            "status": "succeeded", "note": "done: ä", "reported_at": "2027-01-15T08:00:00Z",
        })
    );
    world.pass(Duration::from_secs(1));
    assert_eq!(told(&report).await.expect(200), shown);
    for other in [
        succeeded,
        json!({"status": "failed", "note": "done: ä"}),
        json!({"status": "succeeded", "note": "done"}),
    ] {
        assert_eq!(code(told(&other).await, 409, "conflict"), "outcome_conflict");
    }
    assert_eq!(asking.get(id).await.expect(200), shown);
}

on_both_stores!(
    one_key_consumes,
    an_approval_is_consumed_in_time,
    what_changed_since_is_not_released,
    one_of_20_consumers_wins,
    an_outcome_is_told_once,
);
