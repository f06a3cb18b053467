//! SIGKILL of the real binary between any two steps, under load: at random times, and right after an
//! answer, when what was told before it was recorded is lost.
//!
//! Clients write down what they are told (`crash/ledger.rs`), in this process, which nobody kills.
//! After every kill the service comes back on the same store, and all of it must still be so: no
//! decision is lost or turns, nobody is released twice, and nothing is there that nobody asked for,
//! or in part. In the end receivers have heard of every request of an instance that ended, once or
//! more. `APPROVER_CRASH_ROUNDS` and `APPROVER_CRASH_SEED` make it longer and repeat its
//! choices; what a kill hits is the machine's choice all the same.

mod client;
mod instance;
mod ledger;
mod replicas;
mod requests;
mod site;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures::StreamExt as _;
use secrecy::ExposeSecret as _;
use tokio::task::JoinSet;

use self::client::Client;
use self::instance::{Instance, provisioned, receiver};
use self::ledger::Ledger;
use self::requests::Requests;
use self::site::{Ask, PATIENCE, Site};
use crate::store::place::PostgresPlace;
use crate::store::proxy::Proxy;

const CLIENTS: usize = 4;
/// Instances of the approval protocol, each with a receiver at a host of its own.
const INSTANCES: usize = 2;
const ROUNDS: usize = 16;
/// Load before something is killed, in milliseconds.
const LOAD: std::ops::RangeInclusive<u64> = 20..=400;
/// And after it, where another replica serves on.
const ALONE: std::ops::RangeInclusive<u64> = 20..=150;
/// Or so many answers, at most.
const ANSWERS: usize = 30;
/// Requests that are repeated after each kill, to see that they are answered as before.
const REPEATS: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_loses_nothing_and_invents_nothing_on_sqlite() {
    let site = Site::start(&["sqlite:approver.db".to_owned()]).await;
    survive(site, None).await;
}

/// One of two replicas, while clients go on with the other. The second is behind a network that is
/// cut at times as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_of_a_replica_loses_nothing_and_invents_nothing_on_postgres() {
    let place = PostgresPlace::new().await;
    let proxy = Proxy::start(place.address()).await;
    let site = Site::start(&addresses(&place, &proxy)).await;
    survive(site, Some(&proxy)).await;
    place.remove().await;
}

/// A database straight, and through a proxy.
fn addresses(place: &PostgresPlace, proxy: &Proxy) -> [String; 2] {
    let (host, port) = place.address();
    let urls = [place.url_at(&host, port), place.url_at("127.0.0.1", proxy.port())];
    urls.map(|url| url.expose_secret().to_owned())
}

fn number(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a whole number"))
}

async fn survive(site: Site, network: Option<&Proxy>) {
    let seed = number("APPROVER_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..));
    let rounds = number("APPROVER_CRASH_ROUNDS").map_or(ROUNDS, |rounds| rounds as usize);
    say(&format!("APPROVER_CRASH_SEED={seed} APPROVER_CRASH_ROUNDS={rounds}"));
    let mut random = Rng::with_seed(seed);
    let (site, ledger, stop) = (Arc::new(site), Arc::<Ledger>::default(), Arc::default());
    let mut client = |name: String| {
        let (site, ledger) = (Arc::clone(&site), Arc::clone(&ledger));
        Client { site, ledger, name, random: random.fork() }
    };
    let mut clients = JoinSet::new();
    for index in 0..CLIENTS {
        clients.spawn(client(index.to_string()).live(Arc::clone(&stop)));
    }
    let repeating = client("repeating".to_owned());
    let requests = Arc::new(Requests::new(&ledger));
    let mut instances = Vec::new();
    for index in 0..INSTANCES {
        let url = receiver(&format!("127.0.0.{}", index + 1), &requests).await;
        let token = provisioned(&site, index, &url).await;
        let client = client(format!("aap-{index}"));
        let instance = Instance { client, requests: Arc::clone(&requests), token };
        clients.spawn(instance.clone().live(Arc::clone(&stop)));
        instances.push(instance);
    }
    for round in 0..rounds {
        match random.u8(..4) {
            0 | 1 => {
                site.kill_after(random.usize(..ANSWERS));
                site.until_killed().await;
            }
            kind => {
                tokio::time::sleep(Duration::from_millis(random.u64(LOAD))).await;
                match network {
                    Some(network) if kind == 2 => cut(network, &mut random).await,
                    _ => site.kill(random.usize(..site.len())),
                }
            }
        }
        if site.len() > 1 {
            tokio::time::sleep(Duration::from_millis(random.u64(ALONE))).await;
        }
        let still = site.gate.write().await;
        let victim = site.killed();
        if let Some(victim) = victim {
            site.restart(victim);
        }
        let index = victim.unwrap_or_else(|| random.usize(..site.len()));
        listed(&site, index, &ledger, &requests).await;
        ledger.check(&format!("seed {seed}, round {round}"));
        drop(still);
        repeat(&repeating, REPEATS).await;
        for instance in &mut instances {
            instance.repeat(REPEATS / INSTANCES).await;
        }
        ledger.check(&format!("seed {seed}, repeats of round {round}"));
    }
    all_kinds(&ledger).await;
    stop.store(true, Ordering::Relaxed);
    clients.join_all().await;
    let begun = Instant::now();
    settle(&repeating).await;
    for instance in &mut instances {
        instance.settle().await;
    }
    let settled = begun.elapsed();
    repeat(&repeating, usize::MAX).await;
    for instance in &mut instances {
        instance.repeat(usize::MAX).await;
    }
    for index in 0..site.len() {
        listed(&site, index, &ledger, &requests).await;
    }
    all_told(&requests).await;
    requests.compare_told();
    ledger.check(&format!("seed {seed}, at the end"));
    let book = ledger.book();
    say(&format!("{} turns, {:?}, settled in {settled:?}", book.turns.len(), book.counts));
}

/// Waits until the clients have seen everything that can happen: a run without it would prove little.
async fn all_kinds(ledger: &Ledger) {
    const KINDS: [&str; 17] = [
        "execute",
        "blocked",
        "pending",
        "approved",
        "rejected",
        "cancelled",
        "released",
        "executed",
        "deleted",
        "decided together",
        "unanswered",
        "request approved",
        "request denied",
        "request cancelled",
        "consumed",
        "outcome",
        "told",
    ];
    let begun = Instant::now();
    loop {
        let counts = ledger.book().counts.clone();
        if KINDS.iter().all(|kind| counts.contains_key(kind)) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "of {KINDS:?} there are {counts:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until receivers have heard of all requests that ended: also of those whose process was killed
/// as it told them.
async fn all_told(requests: &Requests) {
    let begun = Instant::now();
    loop {
        let untold = requests.untold();
        if untold.is_empty() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "of these nobody heard: {untold:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Compares what a process lists with what everybody was told.
async fn listed(site: &Site, index: usize, ledger: &Ledger, requests: &Requests) {
    let all = listing(site, index).await;
    let (instances, gateways): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|approval| approval["surface"] == "aap");
    ledger.listed(&gateways);
    requests.listed(&instances);
}

/// Takes the network away in the middle of whatever it carries, for a moment or a while.
async fn cut(network: &Proxy, random: &mut Rng) {
    network.refuse(true);
    network.cut();
    tokio::time::sleep(Duration::from_millis(random.u64(LOAD))).await;
    network.refuse(false);
}

/// All approvals that a process lists.
async fn listing(site: &Site, index: usize) -> Vec<serde_json::Value> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/approvals?limit=100{cursor}");
        let mut page = site.insist(index, &Ask::get(path, &site.tokens.ana)).await.expect(200);
        found.append(page["approvals"].as_array_mut().expect("a page"));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

/// Repeats requests and claims that were answered: each is answered as before.
async fn repeat(client: &Client, most: usize) {
    let (mut turns, mut claims) = {
        let book = client.ledger.book();
        let turns = book.turns.iter().filter(|(_, turn)| turn.answered);
        let turns: Vec<_> = turns.map(|(conversation, _)| conversation.clone()).collect();
        let claims = book.approvals.iter().filter_map(|(id, known)| {
            let key = known.released.clone()?;
            Some((id.clone(), key))
        });
        (turns, claims.collect::<Vec<_>>())
    };
    let mut random = client.random.clone();
    random.shuffle(&mut turns);
    random.shuffle(&mut claims);
    turns.truncate(most);
    claims.truncate(most);
    let judged = futures::stream::iter(turns).for_each_concurrent(CLIENTS, |conversation| {
        let mut client = client.clone();
        async move {
            client.judge(&conversation).await;
        }
    });
    let claimed = futures::stream::iter(claims).for_each_concurrent(CLIENTS, |(id, key)| {
        let mut client = client.clone();
        async move {
            if !client.claim(&id, &key).await {
                client.ledger.contradiction(format!("{id}: {key} is released no more"));
            }
            if client.claim(&id, &format!("late-{key}")).await {
                client.ledger.contradiction(format!("{id} is released once more"));
            }
        }
    });
    tokio::join!(judged, claimed);
}

/// Repeats what was never answered until it is: an attempt that was killed holds its request until
/// its lease is over.
async fn settle(client: &Client) {
    let open: Vec<_> = {
        let book = client.ledger.book();
        let open = book.turns.iter().filter(|(_, turn)| !turn.answered);
        open.map(|(conversation, _)| conversation.clone()).collect()
    };
    let begun = Instant::now();
    futures::stream::iter(open)
        .for_each_concurrent(None, |conversation| {
            let mut client = client.clone();
            async move {
                while !client.judge(&conversation).await {
                    assert!(begun.elapsed() < PATIENCE, "{conversation} is never judged");
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
            }
        })
        .await;
}

#[expect(clippy::print_stderr, reason = "whoever repeats a failure needs the seed")]
fn say(text: &str) {
    eprintln!("{text}");
}
