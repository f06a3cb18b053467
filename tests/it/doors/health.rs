//! What a load balancer asks, and what strangers get.

use reqwest::Method;

use super::on_both_stores;
use super::world::World;

async fn it_is_alive_and_ready(world: World) {
    let health = world.send(Method::GET, "/healthz", None, &[], None).await.expect(200);
    assert_eq!(health["status"], "ok");
    let ready = world.send(Method::GET, "/readyz", None, &[], None).await.expect(200);
    assert_eq!(ready["store"], "ok");
}

async fn unknown_paths_and_methods_are_errors_like_all_others(world: World) {
    let reply = world.send(Method::GET, "/v1/nowhere", None, &[], None).await;
    assert_eq!(reply.error(404), "not_found");
    let reply = world.send(Method::POST, "/healthz", None, &[], None).await;
    assert_eq!(reply.error(405), "method_not_allowed");
}

on_both_stores!(it_is_alive_and_ready, unknown_paths_and_methods_are_errors_like_all_others);
