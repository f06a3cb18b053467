//! Many at once, of whom exactly one may win.

use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use approver::decide::request::Door;
use approver::store::{
    Begin, Begun, Cancel, Cancelled, ChannelMoved, ClaimApproval, ClaimNotifications, Claimed,
    Decided, InstanceDeleted, Listing, MoveChannel, NewCallOutcome, NewOutcome, PersonVerdict,
    PutVersion, Recorded, Reserved, Status, ToolDefinition, VersionPut,
};

use super::instances::{provisioned, raised, receiver, through};
use super::world::{AGENT, CONVERSATION, ORGANISATION, World, approve, at, claimant, tool};

/// Runs all of them at once: each starts when all are there.
async fn at_once<T, F>(count: usize, work: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(Barrier::new(count));
    let mut running = JoinSet::new();
    for index in 0..count {
        let (start, work) = (Arc::clone(&start), work(index));
        running.spawn(async move {
            start.wait().await;
            work.await
        });
    }
    running.join_all().await
}

pub(super) async fn one_of_200_deciders_wins(world: World) {
    for round in 0..10 {
        let call = format!("c{round}");
        world.raise(&format!("k{round}"), &[&call]).await;
        let id = format!("ap-{call}");
        let answers = at_once(200, |index| {
            let verdict = if index % 2 == 0 { approve() } else { PersonVerdict::Reject };
            let mut decision = world.decision(&id, verdict);
            decision.by = format!("person {index}");
            let world = world.clone();
            async move { world.decide(decision).await }
        })
        .await;
        let stored = world.approval(&id).await;
        let mut winners = 0;
        for answer in answers {
            match answer {
                Decided::Done(approval) => {
                    winners += 1;
                    assert_eq!(*approval, stored);
                }
                Decided::TooLate(approval) => assert_eq!(*approval, stored),
                other @ (Decided::ModeChanged { .. } | Decided::NotFound) => panic!("{other:?}"),
            }
        }
        assert_eq!(winners, 1, "round {round}");
        assert_eq!(stored.revision, 2);
    }
}

pub(super) async fn decide_cancel_and_expire_have_one_winner(world: World) {
    for round in 0..10 {
        let call = format!("c{round}");
        world.raise(&format!("k{round}"), &[&call]).await;
        let id = format!("ap-{call}");
        let answers = at_once(60, |index| {
            let (world, id) = (world.clone(), id.clone());
            async move {
                match index % 3 {
                    0 => match world.decide(world.decision(&id, approve())).await {
                        Decided::Done(_) => Some(Status::Approved),
                        Decided::TooLate(_) => None,
                        other => panic!("{other:?}"),
                    },
                    1 => {
                        let organisation = ORGANISATION.to_owned();
                        let now = at(1_000);
                        let cancel = Cancel { organisation, approval: id, by: None, now };
                        match world.store.cancel(cancel).await.unwrap() {
                            Cancelled::Done(_) => Some(Status::Cancelled),
                            Cancelled::TooLate(_) => None,
                            Cancelled::NotFound => panic!("not found"),
                        }
                    }
                    _ => {
                        let expired = world.store.expire_due(at(3_600), 10).await.unwrap();
                        (!expired.is_empty()).then_some(Status::Expired)
                    }
                }
            }
        })
        .await;
        let winners: Vec<Status> = answers.into_iter().flatten().collect();
        let stored = world.approval(&id).await;
        assert_eq!(winners, [stored.status], "round {round}");
        assert_eq!(stored.revision, 2);
    }
}

pub(super) async fn one_of_100_claims_is_released(world: World) {
    for round in 0..5 {
        let call = format!("c{round}");
        world.raise(&format!("k{round}"), &[&call]).await;
        let id = format!("ap-{call}");
        world.decided(world.decision(&id, approve())).await;
        // Two calls with each key.
        let answers = at_once(100, |index| {
            let (world, approval) = (world.clone(), id.clone());
            let claim = ClaimApproval {
                organisation: ORGANISATION.to_owned(),
                approval,
                claimant: claimant(&format!("key {}", index / 2)),
                now: at(1_100),
            };
            async move {
                match world.store.claim(claim.clone()).await.unwrap() {
                    Claimed::Released(approval) => Some((claim.claimant, *approval)),
                    Claimed::AlreadyClaimed(_) => None,
                    other => panic!("{other:?}"),
                }
            }
        })
        .await;
        let released: Vec<_> = answers.into_iter().flatten().collect();
        let stored = world.approval(&id).await;
        assert_eq!(released.len(), 2, "one key, and its repeat");
        for (claimant, approval) in released {
            assert_eq!(stored.claim.as_ref().map(|claim| &claim.claimant), Some(&claimant));
            assert_eq!(approval, stored);
        }
    }
}

/// Begins until it is told what to do, as the service does.
async fn begin_patiently(world: &World, begin: Begin) -> Begun {
    loop {
        match world.begin(begin.clone()).await {
            Begun::InProgress { .. } => tokio::task::yield_now().await,
            other => return other,
        }
    }
}

async fn judged_times(world: &World, requests: impl Fn(usize) -> Begin) -> usize {
    let answers = at_once(50, |index| {
        let (world, begin) = (world.clone(), requests(index));
        async move {
            let call = begin.calls[0].call_id.clone();
            match begin_patiently(&world, begin).await {
                Begun::Judge(judged) => {
                    let outcome = world.pending(&judged, &call, &format!("a{call}"));
                    world.record(&judged, vec![outcome]).await;
                    true
                }
                Begun::Replayed { calls, .. } => {
                    assert_eq!(calls.len(), 1);
                    false
                }
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    answers.into_iter().filter(|judged| *judged).count()
}

pub(super) async fn one_of_50_equal_requests_is_judged(world: World) {
    for round in 0..3 {
        let key = format!("k{round}");
        assert_eq!(judged_times(&world, |_| world.request(&key, &[&key])).await, 1);
    }
}

pub(super) async fn one_of_50_equal_calls_is_judged(world: World) {
    for round in 0..3 {
        let call = format!("c{round}");
        let request = |index| world.request(&format!("k{round}-{index}"), &[&call]);
        assert_eq!(judged_times(&world, request).await, 1);
    }
}

pub(super) async fn two_first_definitions_do_not_both_count(world: World) {
    for round in 0..5 {
        let answers = at_once(16, |index| {
            let mut begin = world.request(&format!("k{round}-{index}"), &["c1"]);
            begin.conversation = format!("conv-{round}");
            begin.turn = format!("turn-{index}");
            let definition = format!("d{index}");
            begin.tools = vec![ToolDefinition { tool: tool(&definition), content: String::new() }];
            let world = world.clone();
            async move { world.judge(begin).await.state.pinned }
        })
        .await;
        let first = answers[0].clone();
        assert_eq!(first.len(), 1);
        assert!(answers.iter().all(|pinned| *pinned == first), "{answers:?}");
    }
}

pub(super) async fn reservations_add_up(world: World) {
    let reserve = Reserved { judged: 2, sandbox_calls: 1, sandbox_seconds: 10 };
    let mut seen = at_once(40, |index| {
        let call = format!("c{index}");
        let mut begin = world.request(&format!("k{index}"), &[&call]);
        begin.reserve = reserve;
        let world = world.clone();
        async move {
            let judged = world.judge(begin).await;
            let sandbox = judged.state.sandbox;
            (judged.state.judged_in_turn, sandbox.calls, sandbox.seconds)
        }
    })
    .await;
    seen.sort_unstable();
    let expected: Vec<_> = (0..40).map(|before| (before * 2, before, before * 10)).collect();
    assert_eq!(seen, expected);
}

pub(super) async fn a_version_and_a_channel_never_share_a_name(world: World) {
    let put = |name: &str| PutVersion {
        organisation: ORGANISATION.to_owned(),
        agent: AGENT.to_owned(),
        version: name.to_owned(),
        content: "{}".to_owned(),
        digest: "d".to_owned(),
        by: "owner".to_owned(),
        now: at(0),
    };
    assert_eq!(world.store.put_version(put("7")).await.unwrap(), VersionPut::Done);
    for round in 0..10 {
        let name = format!("name-{round}");
        let answers = at_once(2, |index| {
            let (world, version) = (world.clone(), put(&name));
            let channel = MoveChannel {
                organisation: ORGANISATION.to_owned(),
                agent: AGENT.to_owned(),
                name: name.clone(),
                version: "7".to_owned(),
                by: "owner".to_owned(),
                now: at(0),
            };
            async move {
                if index == 0 {
                    world.store.put_version(version).await.unwrap() == VersionPut::Done
                } else {
                    world.store.move_channel(channel).await.unwrap() == ChannelMoved::Done
                }
            }
        })
        .await;
        assert_eq!(answers.into_iter().filter(|done| *done).count(), 1, "round {round}");
    }
}

pub(super) async fn deletion_and_recording_leave_nothing_pending(world: World) {
    for round in 0..10 {
        let conversation = format!("{CONVERSATION}-{round}");
        let mut begun = Vec::new();
        for index in 0..8 {
            let mut begin = world.request(&format!("k{round}-{index}"), &["c1"]);
            begin.conversation.clone_from(&conversation);
            begin.turn = format!("turn-{index}");
            begun.push(world.judge(begin).await);
        }
        let answers = at_once(9, |index| {
            let (world, judged) = (world.clone(), begun.get(index).cloned());
            let conversation = conversation.clone();
            async move {
                match judged {
                    Some(judged) => {
                        let id = format!("a{round}-{index}");
                        let outcome = world.pending(&judged, "c1", &id);
                        let recorded = world.try_record(&judged, vec![outcome]).await.unwrap();
                        (recorded == Recorded::Done).then_some(id)
                    }
                    None => {
                        let organisation = ORGANISATION;
                        let deleted = world
                            .store
                            .delete_conversation(organisation, &conversation, at(5))
                            .await;
                        assert!(deleted.unwrap().is_some());
                        None
                    }
                }
            }
        })
        .await;
        for id in answers.into_iter().flatten() {
            world.check_status(&id, Status::Cancelled).await;
        }
    }
}

/// Creating, deciding, cancelling and deleting at once: whatever comes first, nothing of a deleted
/// instance is pending, and nothing more is told.
pub(super) async fn an_instances_deletion_leaves_nothing_pending_or_told(world: World) {
    for round in 0..8 {
        let instance = format!("i{round}");
        provisioned(&world, &instance, Some(receiver("https://a.example"))).await;
        let mut begun = Vec::new();
        for index in 0..4 {
            let mut begin = world.request(&format!("n{round}-{index}"), &["c"]);
            begin.door = Door::Aap;
            begin.instance = Some(instance.clone());
            begin.turn = format!("t{round}-{index}");
            begun.push(world.judge(begin).await);
        }
        let calls: Vec<String> = (0..4).map(|index| format!("r{round}-{index}")).collect();
        let names: Vec<&str> = calls.iter().map(String::as_str).collect();
        raised(&world, &instance, &format!("k{round}"), &names).await;
        at_once(9, |index| {
            let (world, judged) = (world.clone(), begun.get(index).cloned());
            let (instance, id) = (instance.clone(), format!("ap-r{round}-{}", index % 4));
            async move {
                match (judged, index) {
                    (Some(judged), _) => {
                        let outcome = world.pending(&judged, "c", &format!("a{round}-{index}"));
                        let outcome = through(outcome, &instance);
                        world.try_record(&judged, vec![outcome]).await.unwrap();
                    }
                    (None, 4..8) => {
                        world.decide(world.decision(&id, approve())).await;
                    }
                    (None, _) => {
                        let deleted = world.store.delete_instance(ORGANISATION, &instance, at(5));
                        assert!(matches!(deleted.await.unwrap(), InstanceDeleted::Done(_)));
                    }
                }
            }
        })
        .await;
    }
    let listing = Listing { status: Some(Status::Pending), limit: 100, ..Listing::default() };
    assert!(world.store.approvals(ORGANISATION, listing).await.unwrap().is_empty());
    assert!(world.store.claim_notifications(claim_at(2_000)).await.unwrap().is_empty());
}

fn claim_at(seconds: u64) -> ClaimNotifications {
    let now = at(seconds);
    let lease = std::time::Duration::from_secs(60);
    ClaimNotifications { now, lease, give_up_before: at(0), limit: 3, per_host: 100 }
}

pub(super) async fn one_of_20_workers_gets_each_notification(world: World) {
    provisioned(&world, "i1", Some(receiver("https://a.example"))).await;
    let calls: Vec<String> = (0..24).map(|index| format!("c{index:02}")).collect();
    let names: Vec<&str> = calls.iter().map(String::as_str).collect();
    raised(&world, "i1", "k", &names).await;
    for call in &calls {
        world.decided(world.decision(&format!("ap-{call}"), approve())).await;
    }
    let mut got = Vec::new();
    // Whoever found everything locked comes again.
    for _ in 0..20 {
        let answers = at_once(20, |_| {
            let world = world.clone();
            async move { world.store.claim_notifications(claim_at(1_000)).await.unwrap() }
        });
        got.extend(answers.await.into_iter().flatten().map(|one| one.request));
        if got.len() >= calls.len() {
            break;
        }
    }
    got.sort();
    let all: Vec<String> = calls.iter().map(|call| format!("ap-{call}")).collect();
    assert_eq!(got, all);
}

/// A caller who hangs up at any point leaves no lock, no half of anything, and no broken connection.
pub(super) async fn calls_that_are_given_up_leave_the_store_usable(world: World) {
    for round in 0..60_u32 {
        let key = format!("k{round}");
        let mut begin = Box::pin(world.begin(world.request(&key, &[&key])));
        for _ in 0..round % 12 {
            let polled = futures::poll!(begin.as_mut());
            if polled.is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(begin);
    }
    let mut last = world.request("last", &["last"]);
    last.now = at(100);
    let judged = world.judge(last).await;
    let outcome = NewOutcome { call_id: "last".to_owned(), outcome: NewCallOutcome::Execute };
    world.record(&judged, vec![outcome]).await;
    // Whatever was begun has begun as a whole: its key and its call go together.
    for round in 0..60 {
        let key = format!("k{round}");
        let mut again = world.request(&key, &[&key]);
        again.now = at(100);
        let again = world.judge(again).await;
        assert_eq!(again.known, [None]);
        let outcome = NewOutcome { call_id: key.clone(), outcome: NewCallOutcome::Execute };
        world.record(&again, vec![outcome]).await;
    }
}
