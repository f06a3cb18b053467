//! Claims, executions, expiry, cancelling and deletion.

use approver::store::{
    Begun, Cancel, Cancelled, ClaimApproval, Claimant, Claimed, Decided, Execution,
    ExecutionStatus, PersonVerdict, Recorded, ReportExecution, Reported, Sealed, Status,
};

use super::world::{CONVERSATION, ORGANISATION, SURFACE, World, approve, at, claimant};

pub(super) fn claim(approval: &str, key: &str, seconds: u64) -> ClaimApproval {
    ClaimApproval {
        organisation: ORGANISATION.to_owned(),
        approval: approval.to_owned(),
        claimant: claimant(key),
        now: at(seconds),
    }
}

pub(super) fn report(approval: &str, status: ExecutionStatus) -> ReportExecution {
    let output = Some(Sealed { key_id: "k2".to_owned(), ciphertext: vec![0, 1, 255] });
    ReportExecution {
        organisation: ORGANISATION.to_owned(),
        approval: approval.to_owned(),
        status,
        output,
        now: at(1_200),
    }
}

pub(super) async fn one_key_gets_the_claim(world: World) {
    world.raise("k1", &["c1", "c2", "c3"]).await;
    let claimed = async |claim: ClaimApproval| world.store.claim(claim).await.unwrap();
    let early = claimed(claim("ap-c1", "x", 999)).await;
    assert!(matches!(early, Claimed::NotApproved(_)), "{early:?}");
    for id in ["ap-c1", "ap-c2"] {
        world.decided(world.decision(id, approve())).await;
    }
    world.decided(world.decision("ap-c3", PersonVerdict::Reject)).await;
    let released = match claimed(claim("ap-c1", "x", 1_299)).await {
        Claimed::Released(approval) => approval,
        other => panic!("{other:?}"),
    };
    assert_eq!(released.claim.as_ref().unwrap().at, at(1_299));
    // The same key, as often as it asks, at any time.
    assert_eq!(claimed(claim("ap-c1", "x", 9_999)).await, Claimed::Released(released.clone()));
    let other = claimed(claim("ap-c1", "y", 1_299)).await;
    assert_eq!(other, Claimed::AlreadyClaimed(released.clone()));
    // A key is another token's only by chance.
    let mut chance = claim("ap-c1", "x", 1_299);
    chance.claimant = Claimant { caller: "another gateway".to_owned(), key: "x".to_owned() };
    assert_eq!(claimed(chance).await, Claimed::AlreadyClaimed(released));
    let late = claimed(claim("ap-c2", "x", 1_300)).await;
    assert!(matches!(late, Claimed::Expired(_)), "{late:?}");
    world.check_status("ap-c2", Status::Approved).await;
    let rejected = claimed(claim("ap-c3", "x", 1_100)).await;
    assert!(matches!(rejected, Claimed::NotApproved(_)), "{rejected:?}");
    let mut foreign = claim("ap-c1", "x", 1_100);
    foreign.organisation = "another".to_owned();
    assert_eq!(claimed(foreign).await, Claimed::NotFound);
}

pub(super) async fn an_execution_is_reported_once(world: World) {
    let reported = async |report: ReportExecution| world.store.report_execution(report).await;
    let judged = world.judge(world.request("k1", &["c1", "c2"])).await;
    let outcomes = vec![world.pending(&judged, "c1", "a1"), world.approved(&judged, "c2", "a2")];
    world.record(&judged, outcomes).await;
    let answer = reported(report("a1", ExecutionStatus::Ok)).await.unwrap();
    assert!(matches!(answer, Reported::NotApproved(_)), "{answer:?}");
    world.decided(world.decision("a1", approve())).await;
    let answer = reported(report("a1", ExecutionStatus::Ok)).await.unwrap();
    assert!(matches!(answer, Reported::NotClaimed(_)), "{answer:?}");
    world.store.claim(claim("a1", "x", 1_100)).await.unwrap();
    let done = match reported(report("a1", ExecutionStatus::Timeout)).await.unwrap() {
        Reported::Done(approval) => approval,
        other => panic!("{other:?}"),
    };
    let execution = Execution { status: ExecutionStatus::Timeout, at: at(1_200) };
    assert_eq!(done.execution, Some(execution));
    let again = reported(report("a1", ExecutionStatus::Ok)).await.unwrap();
    assert_eq!(again, Reported::AlreadyReported(done));
    let sealed = world.store.sealed(ORGANISATION, "a1").await.unwrap();
    assert_eq!(sealed.output, report("a1", ExecutionStatus::Ok).output);
    assert_eq!(sealed.input.unwrap().ciphertext, b"a1");
    // What a machine approved was told to run at once, so that nobody claims it.
    let machine = reported(report("a2", ExecutionStatus::Ok)).await.unwrap();
    assert!(matches!(machine, Reported::Done(_)), "{machine:?}");
    let mut foreign = report("a2", ExecutionStatus::Ok);
    foreign.organisation = "another".to_owned();
    assert_eq!(reported(foreign).await.unwrap(), Reported::NotFound);
}

pub(super) async fn what_is_due_expires(world: World) {
    world.raise("k1", &["c1", "c2", "c3"]).await;
    let mut elsewhere = world.request("k2", &["c4"]);
    elsewhere.organisation = "another".to_owned();
    world.raise_in(elsewhere).await;
    world.decided(world.decision("ap-c2", approve())).await;
    assert!(world.store.expire_due(at(3_599), 10).await.unwrap().is_empty());
    let mut expired = Vec::new();
    for _ in 0..2 {
        let some = world.store.expire_due(at(3_600), 2).await.unwrap();
        expired.extend(some.into_iter().map(|approval| (approval.facts.id, approval.status)));
    }
    expired.sort_by(|left, right| left.0.cmp(&right.0));
    let expected = ["ap-c1", "ap-c3", "ap-c4"].map(|id| (id.to_owned(), Status::Expired));
    assert_eq!(expired, expected);
    assert!(world.store.expire_due(at(9_999), 10).await.unwrap().is_empty());
    world.check_status("ap-c2", Status::Approved).await;
}

pub(super) async fn cancelling_ends_what_is_pending(world: World) {
    world.raise("k1", &["c1", "c2"]).await;
    let cancel = |id: &str, seconds: u64| Cancel {
        organisation: ORGANISATION.to_owned(),
        approval: id.to_owned(),
        by: Some("instance:1".to_owned()),
        now: at(seconds),
    };
    let done = match world.store.cancel(cancel("ap-c1", 10)).await.unwrap() {
        Cancelled::Done(approval) => approval,
        other => panic!("{other:?}"),
    };
    assert_eq!(done.status, Status::Cancelled);
    assert_eq!(done.decision.as_ref().unwrap().by.as_deref(), Some("instance:1"));
    let again = world.store.cancel(cancel("ap-c1", 11)).await.unwrap();
    assert_eq!(again, Cancelled::TooLate(done.clone()));
    let decision = world.decide(world.decision("ap-c1", approve())).await;
    assert_eq!(decision, Decided::TooLate(done));
    match world.store.cancel(cancel("ap-c2", 3_600)).await.unwrap() {
        Cancelled::TooLate(approval) => assert_eq!(approval.status, Status::Expired),
        other => panic!("{other:?}"),
    }
    let mut foreign = cancel("ap-c1", 10);
    foreign.organisation = "another".to_owned();
    assert_eq!(world.store.cancel(foreign).await.unwrap(), Cancelled::NotFound);
}

pub(super) async fn a_deleted_conversation_cancels_and_stays_deleted(world: World) {
    world.raise("k1", &["c1", "c2", "c3"]).await;
    world.decided(world.decision("ap-c2", approve())).await;
    let mut elsewhere = world.request("k2", &["c1"]);
    elsewhere.surface = "mail".to_owned();
    world.raise_in_as(elsewhere, "mail").await;
    let begun = world.judge(world.request("k3", &["c9"])).await;
    let delete = async |organisation: &str| {
        let deleted = world.store.delete_conversation(organisation, CONVERSATION, at(500)).await;
        deleted.unwrap().map(|cancelled| {
            let mut ids: Vec<_> = cancelled.into_iter().map(|approval| approval.facts.id).collect();
            ids.sort();
            ids
        })
    };
    assert_eq!(delete("another").await, None);
    assert_eq!(world.store.conversations(ORGANISATION, CONVERSATION).await.unwrap().len(), 2);
    let expected = ["ap-c1", "ap-c3", "mail-c1"].map(str::to_owned).to_vec();
    assert_eq!(delete(ORGANISATION).await, Some(expected));
    assert_eq!(delete(ORGANISATION).await, Some(Vec::new()));
    world.check_status("ap-c1", Status::Cancelled).await;
    world.check_status("ap-c2", Status::Approved).await;
    assert!(world.store.conversations(ORGANISATION, CONVERSATION).await.unwrap().is_empty());
    let found = world.store.conversation(ORGANISATION, SURFACE, CONVERSATION).await.unwrap();
    assert_eq!(found.unwrap().deleted_at, Some(at(500)));
    // What was being judged is not recorded, and nothing new begins.
    let late = world.try_record(&begun, vec![world.pending(&begun, "c9", "a9")]).await.unwrap();
    assert_eq!(late, Recorded::Superseded);
    for key in ["k3", "k4"] {
        let again = world.begin(world.request(key, &["c9"])).await;
        assert!(matches!(again, Begun::ConversationDeleted), "{again:?}");
    }
    // A repeat hears how its calls ended, under its own key and any other; that one is not kept.
    for key in ["k1", "k5", "k5"] {
        let again = world.begin(world.request(key, &["c1", "c2", "c3"])).await;
        assert!(matches!(again, Begun::Replayed { .. }), "{again:?}");
    }
    let again = world.begin(world.request("k5", &["c1", "c4"])).await;
    assert!(matches!(again, Begun::ConversationDeleted), "{again:?}");
    // What a person approved in it is not released any more.
    let claimed = world.store.claim(claim("ap-c2", "x", 1_001)).await.unwrap();
    assert!(matches!(claimed, Claimed::ConversationDeleted(_)), "{claimed:?}");
}
