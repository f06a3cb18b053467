//! Two processes on one PostgreSQL database, step by step.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::addresses;
use super::site::{Ask, PATIENCE, Site};
use crate::store::place::PostgresPlace;
use crate::store::proxy::Proxy;

/// An approval that waits.
struct Waiting {
    id: String,
    hmac: Value,
}

impl Waiting {
    async fn raised(site: &Site, index: usize, name: &str) -> Self {
        let answer = site.insist(index, &judgement(site, name)).await.expect(200);
        Self::of(&answer)
    }

    fn of(answer: &Value) -> Self {
        let result = &answer["results"][0];
        assert_eq!(result["outcome"], "pending", "{answer}");
        let id = result["item"]["id"].as_str().expect("an approval").to_owned();
        Self { id, hmac: result["item"]["hmac"].clone() }
    }

    fn ask(&self, site: &Site, rest: &str) -> Ask {
        Ask::get(format!("/v1/approvals/{}{rest}", self.id), &site.tokens.ana)
    }

    fn approve(&self, site: &Site) -> Ask {
        let body = json!({"decision": "approve", "hmac": self.hmac});
        Ask::post(format!("/v1/approvals/{}/decision", self.id), &site.tokens.ana, body)
    }

    fn claim(&self, site: &Site, key: &str) -> Ask {
        let path = format!("/v1/approvals/{}/claim", self.id);
        Ask::post(path, &site.tokens.gateway, json!({})).under(key)
    }

    fn report(&self, site: &Site) -> Ask {
        let path = format!("/v1/approvals/{}/execution", self.id);
        Ask::post(path, &site.tokens.gateway, json!({"status": "OK"}))
    }
}

/// One call that waits for a person.
fn judgement(site: &Site, name: &str) -> Ask {
    let body = json!({
        "agent": "erp", "version": "7",
        "conversation": {"id": name, "surface": "responses", "items": [], "person_items": []},
        "turn": {"id": "turn-1"},
        "tools": [],
        "calls": [{"call_id": "call-1", "tool": "note_add", "arguments": "{\"text\":\"a\"}"}],
    });
    Ask::post("/v1/judgements", &site.tokens.gateway, body).under(name)
}

async fn until_ready(site: &Site, index: usize, status: u16) {
    let begun = Instant::now();
    loop {
        let found = site.send(index, &Ask::get("/readyz", "")).await.map(|answer| answer.status);
        if found == Some(status) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{found:?}\n{}", site.last_lines(index));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_replica_records_the_other_tells() {
    let place = PostgresPlace::new().await;
    let proxy = Proxy::start(place.address()).await;
    let site = Arc::new(Site::start(&addresses(&place, &proxy)).await);

    // Judged by one, decided by the other, and the first tells whoever waits there.
    let waiting = Waiting::raised(&site, 0, "conv-1").await;
    let poll = tokio::spawn({
        let (site, ask) = (Arc::clone(&site), waiting.ask(&site, "?wait=60s"));
        async move { site.send(0, &ask).await }
    });
    let decided = site.insist(1, &waiting.approve(&site)).await.expect(200);
    assert_eq!(decided["status"], "approved");
    let told = poll.await.unwrap().expect("the poll is answered").expect(200);
    assert_eq!(
        (&told["status"], &told["decision"]["decided_by"]),
        (&json!("approved"), &json!("ana"))
    );

    // Of two keys at two replicas one gets it, and keeps it when its replica is killed.
    let asks = [waiting.claim(&site, "key-0"), waiting.claim(&site, "key-1")];
    let claims = tokio::join!(site.insist(0, &asks[0]), site.insist(1, &asks[1]));
    let winner = usize::from(claims.0.status != 200);
    let (won, lost) = if winner == 0 { (claims.0, claims.1) } else { (claims.1, claims.0) };
    let released = won.expect(200);
    assert_eq!(lost.code(), "already_claimed");
    site.kill(winner);
    let other = 1 - winner;
    assert_eq!(site.insist(other, &asks[winner]).await.expect(200), released);
    assert_eq!(site.insist(other, &asks[other]).await.code(), "already_claimed");
    site.insist(other, &waiting.report(&site)).await.expect(200);
    site.restart(winner);
    let found = site.insist(winner, &waiting.ask(&site, "")).await.expect(200);
    assert_eq!(found, site.insist(other, &waiting.ask(&site, "")).await.expect(200));
    assert_eq!(found["execution"]["status"], "OK");

    // A replica dies while somebody waits there: whoever comes again is told.
    let waiting = Waiting::raised(&site, 0, "conv-2").await;
    let poll = tokio::spawn({
        let (site, ask) = (Arc::clone(&site), waiting.ask(&site, "?wait=60s"));
        async move { site.send(0, &ask).await }
    });
    // Were the poll not there yet, nobody would answer it either.
    tokio::time::sleep(Duration::from_millis(200)).await;
    site.kill(0);
    assert!(poll.await.unwrap().is_none(), "a killed process answers");
    site.insist(1, &waiting.approve(&site)).await.expect(200);
    site.restart(0);
    let told = site.insist(0, &waiting.ask(&site, "?wait=60s")).await.expect(200);
    assert_eq!(told["status"], "approved");
    drop(site);
    place.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_without_its_database_says_so_and_recovers() {
    let place = PostgresPlace::new().await;
    let proxy = Proxy::start(place.address()).await;
    let site = Site::start(&addresses(&place, &proxy)).await;
    let waiting = Waiting::raised(&site, 1, "conv-1").await;
    proxy.refuse(true);
    proxy.cut();
    let asks = [
        judgement(&site, "conv-2"),
        waiting.approve(&site),
        waiting.claim(&site, "key-1"),
        waiting.ask(&site, ""),
    ];
    for ask in &asks {
        let answer = site.send(1, ask).await.expect("an answer");
        assert_eq!((answer.status, answer.code()), (503, "store_unavailable"), "{ask:?}");
        assert!(answer.retry_after, "{ask:?}");
    }
    until_ready(&site, 1, 503).await;
    assert_eq!(site.send(1, &Ask::get("/healthz", "")).await.expect("it lives").status, 200);
    // What was refused did not happen, and the other replica works.
    let found = site.insist(0, &waiting.ask(&site, "")).await.expect(200);
    assert_eq!(found["status"], "pending");
    site.insist(0, &waiting.approve(&site)).await.expect(200);
    proxy.refuse(false);
    until_ready(&site, 1, 200).await;
    let found = site.insist(1, &waiting.ask(&site, "")).await.expect(200);
    assert_eq!(found["status"], "approved");
    // The request that was refused is judged under its key, once, whoever is asked.
    let judged = Waiting::of(&site.insist(1, &asks[0]).await.expect(200));
    let again = site.insist(0, &asks[0]).await.expect(200);
    assert_eq!((&again["replayed"], Waiting::of(&again).id), (&json!(true), judged.id));
    site.insist(1, &waiting.claim(&site, "key-1")).await.expect(200);
    assert_eq!(site.insist(0, &waiting.claim(&site, "key-2")).await.code(), "already_claimed");
    drop(site);
    place.remove().await;
}
