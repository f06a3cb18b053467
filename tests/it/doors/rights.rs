//! Rights come before the body: whoever may not do something learns that, and nothing of what a body
//! would have to be, and nobody reads it.

use approver::store::TokenKind;
use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::on_both_stores;
use super::world::World;

/// Every kind of token, by a name of its own.
fn kinds() -> [(&'static str, TokenKind); 7] {
    [
        ("gateway", TokenKind::Gateway { decide: false }),
        ("deciding", TokenKind::Gateway { decide: true }),
        ("instance", TokenKind::Instance { instance: "i".to_owned() }),
        ("provisioner", TokenKind::Provisioner { versions: Vec::new() }),
        ("operator", TokenKind::Operator),
        ("policy_owner", TokenKind::PolicyOwner),
        ("admin", TokenKind::Admin),
    ]
}

/// Sends a request's header alone and answers the status line of what comes back.
async fn answer_to_header(world: &World, method: &str, path: &str, token: &str) -> String {
    let address = world.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let header = format!(
        "{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: 100\r\nExpect: 100-continue\r\n\r\n"
    );
    stream.write_all(header.as_bytes()).await.unwrap();
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(line).unwrap()
}

async fn rights_are_looked_at_before_anything_else(world: World) {
    world.staffed().await;
    let raised = world.waiting().await;
    let decision = raised.path("/decision?x=1");
    let execution = raised.path("/execution?x=1");
    let mut tokens = Vec::new();
    for (name, kind) in kinds() {
        tokens.push((name, world.token(name, kind).await));
    }
    for (method, path, may) in [
        ("PUT", "/v1/agents/erp/versions/7?x=1", &["policy_owner"][..]),
        ("PUT", "/v1/agents/erp/channels/production?x=1", &["policy_owner"]),
        ("PUT", "/v1/automatic-approval?x=1", &["admin"]),
        ("POST", "/v1/tokens?x=1", &["admin"]),
        ("PATCH", "/v1/instances/i?x=1", &["admin"]),
        ("POST", &decision, &["operator", "deciding"]),
        ("POST", &execution, &["gateway", "deciding"]),
        ("POST", "/v1/decisions?x=1", &["deciding"]),
        ("POST", "/v1/decisions/resp_2/failed?x=1", &["deciding"]),
        ("POST", "/v1/judgements", &["gateway", "deciding"]),
        ("POST", "/aap/v1/requests", &[]),
        ("POST", "/aap/v1/instances", &["provisioner"]),
    ] {
        for (name, token) in &tokens {
            // The instance of that token is none.
            if path.starts_with("/aap/v1/requests") && *name == "instance" {
                continue;
            }
            let line = answer_to_header(&world, method, path, token).await;
            let forbidden = line.starts_with("HTTP/1.1 403");
            assert_eq!(forbidden, !may.contains(name), "{method} {path} as {name}: {line}");
            assert!(!line.starts_with("HTTP/1.1 100"), "{method} {path} as {name}: it is read");
        }
        let line = answer_to_header(&world, method, path, "none").await;
        assert!(line.starts_with("HTTP/1.1 401"), "{method} {path}: {line}");
    }
}

/// Many clients read no answer before they have sent all: the answer does not go with the connection.
async fn whoever_sends_all_the_same_hears_why_it_was_for_nothing(world: World) {
    let operator = world.token("ana", TokenKind::Operator).await;
    let body = "a".repeat(6 * 1024 * 1024);
    for (token, status, code) in
        [(operator.as_str(), 403, "forbidden"), ("none", 401, "unauthenticated")]
    {
        let headers = [("Idempotency-Key", "k")];
        let sent =
            world.send(Method::POST, "/v1/judgements", Some(token), &headers, Some(body.clone()));
        assert_eq!(sent.await.error(status), code);
    }
}

on_both_stores!(
    rights_are_looked_at_before_anything_else,
    whoever_sends_all_the_same_hears_why_it_was_for_nothing,
);
