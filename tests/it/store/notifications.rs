//! The outbox of the approval protocol, and how long its requests are kept.

use std::time::Duration;

use approver::decide::request::Door;
use approver::store::{
    Cancel, ChangeOperation, ClaimNotifications, DueNotification, FinishNotification,
    PersonVerdict, Status, Sweep, Timestamp, UpdateInstance,
};

use super::instances::{change, go, provisioned, raised, receiver, through};
use super::world::{CONVERSATION, ORGANISATION, World, approve, at};

const HOUR: Duration = Duration::from_secs(3_600);

async fn due_at(world: &World, now: Timestamp) -> Vec<DueNotification> {
    let claim = ClaimNotifications {
        now,
        lease: Duration::from_secs(60),
        give_up_before: now.minus(HOUR * 168),
        limit: 100,
        per_host: 100,
    };
    let mut due = world.store.claim_notifications(claim).await.unwrap();
    due.sort_by(|left, right| left.request.cmp(&right.request));
    due
}

async fn due(world: &World, seconds: u64) -> Vec<DueNotification> {
    due_at(world, at(seconds)).await
}

async fn finish(world: &World, request: &str, attempt: u32, retry: Option<u64>, now: u64) -> bool {
    let request = request.to_owned();
    let retry_at = retry.map(at);
    let finish =
        FinishNotification { request, attempt, retry_at, busy_until: at(now), now: at(now) };
    world.store.finish_notification(finish).await.unwrap()
}

async fn receives(world: &World, key: &str, url: Option<&str>) {
    let operation = ChangeOperation::Update { instance: "i1".to_owned() };
    let update = UpdateInstance {
        ticket: go(world, change(operation, key, "d")).await,
        organisation: ORGANISATION.to_owned(),
        name: None,
        delivery: Some(url.map(receiver)),
        response: |_| String::new(),
        now: at(2_000),
    };
    world.store.update_instance(update).await.unwrap();
}

pub(super) async fn whatever_ends_a_request_is_told_once(world: World) {
    provisioned(&world, "i1", Some(receiver("https://a.example"))).await;
    provisioned(&world, "quiet", None).await;
    raised(&world, "i1", "k1", &["c1", "c2", "c3", "c4"]).await;
    raised(&world, "quiet", "k2", &["q1"]).await;
    world.raise("k3", &["g1"]).await;
    assert!(due(&world, 9_999).await.is_empty());
    // As it is recorded.
    let mut begin = world.request("k4", &["c5"]);
    begin.door = Door::Aap;
    begin.instance = Some("i1".to_owned());
    let judged = world.judge(begin).await;
    let outcome = through(world.approved(&judged, "c5", "ap-c5"), "i1");
    world.record(&judged, vec![outcome]).await;
    // By a person, either way.
    world.decided(world.decision("ap-c1", approve())).await;
    world.decided(world.decision("ap-c2", PersonVerdict::Reject)).await;
    world.decide(world.decision("ap-c2", approve())).await;
    world.decided(world.decision("ap-q1", approve())).await;
    world.decided(world.decision("ap-g1", approve())).await;
    let cancel = Cancel {
        organisation: ORGANISATION.to_owned(),
        approval: "ap-c3".to_owned(),
        by: None,
        now: at(1_500),
    };
    world.store.cancel(cancel.clone()).await.unwrap();
    world.store.cancel(cancel).await.unwrap();
    assert_eq!(world.store.expire_due(at(3_600), 10).await.unwrap().len(), 1);
    let told = due(&world, 4_000).await;
    let found: Vec<_> =
        told.iter().map(|one| (one.request.as_str(), one.decided_at, one.attempt)).collect();
    let expected = [
        ("ap-c1", at(1_000), 1),
        ("ap-c2", at(1_000), 1),
        ("ap-c3", at(1_500), 1),
        ("ap-c4", at(3_600), 1),
        ("ap-c5", at(0), 1),
    ];
    assert_eq!(found, expected);
    let first = told.first().unwrap();
    assert_eq!((first.instance.as_str(), &first.delivery), ("i1", &receiver("https://a.example")));
    for one in &told {
        let approval = world.approval(&one.request).await;
        assert_eq!(approval.decision.unwrap().at, one.decided_at);
    }
}

pub(super) async fn a_deleted_conversations_requests_are_told(world: World) {
    provisioned(&world, "i1", Some(receiver("https://a.example"))).await;
    raised(&world, "i1", "k1", &["c1"]).await;
    world.store.delete_conversation(ORGANISATION, CONVERSATION, at(7)).await.unwrap();
    let told = due(&world, 7).await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].decided_at, at(7));
}

pub(super) async fn one_worker_attempts_until_it_is_acknowledged(world: World) {
    provisioned(&world, "i1", Some(receiver("https://a.example"))).await;
    raised(&world, "i1", "k1", &["c1"]).await;
    world.decided(world.decision("ap-c1", approve())).await;
    assert_eq!(due(&world, 1_000).await.len(), 1);
    assert!(due(&world, 1_059).await.is_empty());
    assert!(finish(&world, "ap-c1", 1, Some(1_090), 1_001).await);
    assert!(due(&world, 1_089).await.is_empty());
    assert_eq!(due(&world, 1_090).await[0].attempt, 2);
    // A worker that died is followed by another, and comes too late when it did not.
    let third = due(&world, 1_150).await;
    assert_eq!(third[0].attempt, 3);
    assert!(!finish(&world, "ap-c1", 2, None, 1_151).await);
    // The receiver may have changed since.
    receives(&world, "u1", Some("https://b.example")).await;
    let fourth = due(&world, 2_000).await;
    assert_eq!(fourth[0].delivery.url, "https://b.example");
    assert!(finish(&world, "ap-c1", 4, None, 2_001).await);
    assert!(!finish(&world, "ap-c1", 4, None, 2_001).await);
    assert!(due(&world, 99_999).await.is_empty());
}

pub(super) async fn delivery_ends_with_the_receiver_the_instance_or_the_week(world: World) {
    provisioned(&world, "i1", Some(receiver("https://a.example"))).await;
    raised(&world, "i1", "k1", &["c1", "c2", "c3"]).await;
    world.decided(world.decision("ap-c1", approve())).await;
    assert_eq!(due(&world, 1_000).await.len(), 1);
    receives(&world, "u1", None).await;
    assert!(!finish(&world, "ap-c1", 1, None, 1_001).await);
    // A receiver that comes later hears nothing of what ended before.
    receives(&world, "u2", Some("https://b.example")).await;
    assert!(due(&world, 9_999).await.is_empty());
    world.decided(world.decision("ap-c2", approve())).await;
    let week = at(1_000).plus(HOUR * 168);
    assert_eq!(due_at(&world, week.minus(Duration::from_millis(1))).await.len(), 1);
    assert!(due_at(&world, week.plus(HOUR)).await.is_empty());
    world.decided(world.decision("ap-c3", approve())).await;
    world.store.delete_instance(ORGANISATION, "i1", at(1_000)).await.unwrap();
    assert!(due(&world, 1_001).await.is_empty());
}

pub(super) async fn a_host_has_so_many_places(world: World) {
    for (id, url) in
        [("i1", "https://a.example/1"), ("i2", "https://a.example/2"), ("i3", "https://b.example")]
    {
        provisioned(&world, id, Some(receiver(url))).await;
    }
    raised(&world, "i1", "k1", &["a1", "a2"]).await;
    raised(&world, "i2", "k2", &["a3", "a4", "a5"]).await;
    raised(&world, "i3", "k3", &["b1", "b2"]).await;
    for call in ["a1", "a2", "a3", "a4", "a5", "b1", "b2"] {
        world.decided(world.decision(&format!("ap-{call}"), approve())).await;
    }
    let claim = async |limit: u32, seconds: u64| {
        let now = at(seconds);
        let lease = Duration::from_secs(60);
        let give_up_before = at(0);
        let claim = ClaimNotifications { now, lease, give_up_before, limit, per_host: 2 };
        let due = world.store.claim_notifications(claim).await.unwrap();
        let mut found: Vec<_> = due.into_iter().map(|one| one.request).collect();
        found.sort();
        found
    };
    assert_eq!(claim(1, 1_000).await, ["ap-a1"]);
    // Whoever looks, the host has its places once.
    assert_eq!(claim(9, 1_000).await, ["ap-a2", "ap-b1", "ap-b2"]);
    assert!(claim(9, 1_001).await.is_empty());
    let busy = async |request: &str, attempt: u32, busy_until: u64, now: u64| {
        let request = request.to_owned();
        let (busy_until, now) = (at(busy_until), at(now));
        let finish = FinishNotification { request, attempt, retry_at: None, busy_until, now };
        assert!(world.store.finish_notification(finish).await.unwrap());
    };
    // A place is free when its attempt says so.
    busy("ap-a1", 1, 1_005, 1_002).await;
    assert!(claim(9, 1_004).await.is_empty());
    assert_eq!(claim(9, 1_005).await, ["ap-a3"]);
    // What goes to another host from now on takes its places there.
    receives(&world, "u1", Some("https://c.example")).await;
    busy("ap-a3", 1, 1_006, 1_006).await;
    let mut later = claim(9, 1_060).await;
    later.retain(|one| one.starts_with("ap-a"));
    assert_eq!(later, ["ap-a2", "ap-a4", "ap-a5"]);
}

pub(super) async fn requests_are_kept_as_long_as_the_protocol_says(world: World) {
    // An operator who keeps everything for a minute keeps these for longer.
    let sweep = async |now: Timestamp| {
        let minute = now.minus(Duration::from_secs(60));
        let sweep = Sweep {
            inputs_before: minute,
            records_before: minute,
            keys_before: minute,
            protocol_before: now.minus(HOUR * 168),
            deliveries_before: now.minus(HOUR * 24),
            limit: 100,
        };
        world.store.sweep(sweep).await.unwrap()
    };
    let kept = async |id: &str| {
        let approval = world.store.approval(ORGANISATION, id).await.unwrap();
        let input = world.store.sealed(ORGANISATION, id).await.unwrap().input;
        assert_eq!(approval.is_some(), input.is_some(), "{id}");
        approval.is_some()
    };
    provisioned(&world, "i1", Some(receiver("https://a.example"))).await;
    provisioned(&world, "i2", None).await;
    raised(&world, "i1", "k1", &["c1"]).await;
    raised(&world, "i2", "k2", &["c2"]).await;
    world.decided(world.decision("ap-c1", approve())).await;
    let week = at(1_000).plus(HOUR * 168);
    sweep(week.minus(HOUR)).await;
    // Pending, and just within a week.
    assert!(kept("ap-c1").await && kept("ap-c2").await);
    // Undelivered for a week and an hour.
    sweep(week.plus(HOUR)).await;
    assert!(kept("ap-c1").await);
    let key = |key: &str, calls: &[&str], now: Timestamp| {
        let mut begin = world.request(key, calls);
        begin.now = now;
        begin
    };
    for (name, call) in [("k1", "c1"), ("k2", "c2")] {
        let again = world.begin(key(name, &[call], week)).await;
        assert!(matches!(again, approver::store::Begun::Replayed { .. }), "{again:?}");
        let other = world.begin(key(name, &["another"], week)).await;
        assert!(matches!(other, approver::store::Begun::IdempotencyConflict), "{other:?}");
    }
    // Given up: 24 hours more.
    assert!(due_at(&world, week.plus(HOUR)).await.is_empty());
    sweep(week.plus(HOUR * 25)).await;
    assert!(kept("ap-c1").await);
    sweep(week.plus(HOUR * 25 + Duration::from_secs(1))).await;
    assert!(!kept("ap-c1").await);
    assert!(kept("ap-c2").await);
    world.check_status("ap-c2", Status::Pending).await;
    // Instances: the key as long as the instance, the record of a deletion for a week.
    assert_eq!(world.store.instances(ORGANISATION).await.unwrap().len(), 2);
    let replay = async || {
        let operation = ChangeOperation::Create { proposed: "i9".to_owned() };
        let mut again = change(operation, "key of i1", "d");
        again.now = week.plus(HOUR * 1_000);
        world.store.begin_change(again).await.unwrap()
    };
    assert!(matches!(replay().await, approver::store::ChangeBegun::Replayed { .. }));
    world.store.delete_instance(ORGANISATION, "i1", week).await.unwrap();
    sweep(week.plus(HOUR * 168)).await;
    assert!(world.store.instance(ORGANISATION, "i1").await.unwrap().is_some());
    assert!(matches!(replay().await, approver::store::ChangeBegun::Replayed { .. }));
    sweep(week.plus(HOUR * 169)).await;
    assert_eq!(world.store.instance(ORGANISATION, "i1").await.unwrap(), None);
    assert!(matches!(replay().await, approver::store::ChangeBegun::Go(_)));
}
