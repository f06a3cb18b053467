//! Long polls.

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::{Asking, INSTANCES, REQUESTS, approve, asking, code, id, note, provision, provisioner};
use crate::doors::on_both_stores;
use crate::doors::world::World;

/// A poll that runs by itself: its status and text, and how long it took.
fn poll(asking: &Asking<'_>, id: &str, wait: &str) -> JoinHandle<(u16, String, Duration)> {
    let url = format!("{}{REQUESTS}/{id}?wait={wait}", asking.world.url);
    let (client, token) = (asking.world.client.clone(), asking.token.clone());
    tokio::spawn(async move {
        let begun = Instant::now();
        let reply = client.get(url).bearer_auth(token).send().await.unwrap();
        let status = reply.status().as_u16();
        (status, reply.text().await.unwrap(), begun.elapsed())
    })
}

async fn a_poll_ends_with_its_time(world: World) {
    let asking = asking(&world).await;
    let made = asking.raise("k1", &note()).await;
    let (status, text, took) = poll(&asking, id(&made), "1s").await.unwrap();
    assert_eq!(status, 200);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), made);
    assert!(took >= Duration::from_millis(990), "{took:?}");
    for wait in ["", "0s", "1", "-1s", "1s1s", "30d", "x"] {
        let reply =
            world.get(&format!("{REQUESTS}/{}?wait={wait}", id(&made)), &asking.token).await;
        assert_eq!(reply.json["error"]["param"], "wait", "{wait}");
        assert_eq!(code(reply, 400, "invalid_request"), "invalid_request");
    }
    let twice = format!("{REQUESTS}/{}?wait=1s&wait=1s", id(&made));
    let reply = world.get(&twice, &asking.token).await;
    assert_eq!(code(reply, 400, "invalid_request"), "invalid_request");
}

async fn a_poll_ends_with_its_request(world: World) {
    let asking = asking(&world).await;
    for (key, cancels) in [("k1", false), ("k2", true)] {
        let made = asking.raise(key, &note()).await;
        // More than the service waits is no error.
        let waiting = poll(&asking, id(&made), "99h");
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!waiting.is_finished());
        let ended = if cancels {
            asking.cancel(id(&made)).await.expect(200)
        } else {
            approve(&world, id(&made)).await;
            asking.get(id(&made)).await.expect(200)
        };
        let (status, text, took) = waiting.await.unwrap();
        assert_eq!(status, 200);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), ended);
        assert!(took < Duration::from_secs(20), "{took:?}");
        // What ended is not waited for.
        let (_, _, took) = poll(&asking, id(&made), "20s").await.unwrap();
        assert!(took < Duration::from_secs(10), "{took:?}");
    }
}

async fn a_poll_on_another_replica_ends_too(world: World) {
    let asking = asking(&world).await;
    let made = asking.raise("k1", &note()).await;
    let replica = world.replica().await;
    let there = Asking { world: &replica, id: asking.id.clone(), token: asking.token.clone() };
    let waiting = poll(&there, id(&made), "25s");
    tokio::time::sleep(Duration::from_millis(200)).await;
    approve(&world, id(&made)).await;
    let (status, text, took) = waiting.await.unwrap();
    assert_eq!(status, 200);
    assert!(text.contains("\"approved\""), "{text}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}

async fn a_poll_of_a_deleted_instance_ends(world: World) {
    let provisioner = provisioner(&world).await;
    let asking = provision(&world, &provisioner, "k").await;
    let made = asking.raise("k1", &note()).await;
    let waiting = poll(&asking, id(&made), "25s");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let path = format!("{INSTANCES}/{}", asking.id);
    world.delete(&path, &provisioner).await.expect(204);
    let (status, text, took) = waiting.await.unwrap();
    assert_eq!(status, 401, "{text}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}

on_both_stores!(
    a_poll_ends_with_its_time,
    a_poll_ends_with_its_request,
    a_poll_on_another_replica_ends_too,
    a_poll_of_a_deleted_instance_ends,
);
