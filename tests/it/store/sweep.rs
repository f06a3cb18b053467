//! Retention.

use std::time::Duration;

use approver::store::{
    Begin, Begun, NewCallOutcome, NewOutcome, Recorded, Reserved, Status, Sweep, Swept, Timestamp,
};

use super::world::{CONVERSATION, ORGANISATION, SURFACE, World, approve, at};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// The sweep of that time, with the usual retentions.
fn sweep_at(now: Timestamp) -> Sweep {
    Sweep {
        inputs_before: now.minus(DAY * 30),
        records_before: now.minus(DAY * 365),
        keys_before: now.minus(DAY),
        protocol_before: now.minus(DAY * 7),
        deliveries_before: now.minus(DAY),
        limit: 100,
    }
}

fn days(count: u32) -> Timestamp {
    at(10).plus(DAY * count)
}

pub(super) async fn each_retention_removes_its_own(world: World) {
    let judged = world.judge(world.request("k1", &["c1", "c2", "c3"])).await;
    let mut waits = world.pending(&judged, "c2", "a2");
    if let NewCallOutcome::Approval(approval) = &mut waits.outcome {
        approval.facts.deadline_at = days(1_000);
    }
    let executes = NewOutcome { call_id: "c3".to_owned(), outcome: NewCallOutcome::Execute };
    let outcomes = vec![world.approved(&judged, "c1", "a1"), waits, executes];
    world.record(&judged, outcomes).await;
    let sweep = async |now: Timestamp| world.store.sweep(sweep_at(now)).await.unwrap();
    let has_input =
        async |id: &str| world.store.sealed(ORGANISATION, id).await.unwrap().input.is_some();
    assert_eq!(sweep(at(10)).await, Swept::default());
    // A day later the key is gone; the calls are still known.
    assert_eq!(sweep(days(1)).await, Swept { inputs: 0, records: 0, keys: 1 });
    let again = world.begin(later(world.request("k1", &["c1", "c2", "c3"]), days(1))).await;
    assert!(matches!(again, Begun::Replayed { .. }), "{again:?}");
    // A month later the inputs go, but for what a person is still to decide.
    assert_eq!(sweep(days(30)).await, Swept { inputs: 1, records: 0, keys: 1 });
    assert!(!has_input("a1").await);
    assert!(has_input("a2").await);
    world.check_status("a1", Status::Approved).await;
    // A year later the records go, but for the one that is pending, and what leads to it.
    let swept = sweep(days(366)).await;
    assert_eq!(swept, Swept { inputs: 0, records: 3, keys: 0 });
    assert_eq!(world.store.approval(ORGANISATION, "a1").await.unwrap(), None);
    world.check_status("a2", Status::Pending).await;
    let mut decision = world.decision("a2", approve());
    decision.now = days(367);
    world.decided(decision).await;
    let swept = sweep(days(370)).await;
    assert_eq!(swept, Swept { inputs: 1, records: 4, keys: 0 });
    assert_eq!(world.store.approval(ORGANISATION, "a2").await.unwrap(), None);
    let conversation = world.store.conversation(ORGANISATION, SURFACE, CONVERSATION).await;
    assert_eq!(conversation.unwrap(), None);
    assert_eq!(sweep(days(371)).await, Swept::default());
    // All of it may come again as if for the first time.
    world.judge(later(world.request("k1", &["c1"]), days(371))).await;
}

fn later(mut begin: Begin, now: Timestamp) -> Begin {
    begin.now = now;
    begin
}

pub(super) async fn a_begun_request_that_nobody_wants_goes_with_its_reservation(world: World) {
    let mut begin = world.request("k1", &["c1"]);
    begin.reserve = Reserved { judged: 5, sandbox_calls: 1, sandbox_seconds: 60 };
    let abandoned = world.judge(begin).await;
    // Somebody at work is left alone, however old the request.
    let mut working = later(world.request("k2", &["c2"]), at(0));
    working.lease = DAY * 3;
    let working = world.judge(working).await;
    assert_eq!(working.state.judged_in_turn, 5);
    let swept = world.store.sweep(sweep_at(days(2))).await.unwrap();
    assert_eq!(swept, Swept { inputs: 0, records: 0, keys: 1 });
    let late = NewOutcome { call_id: "c1".to_owned(), outcome: NewCallOutcome::Execute };
    assert_eq!(world.try_record(&abandoned, vec![late]).await.unwrap(), Recorded::Superseded);
    let probe = world.judge(later(world.request("k3", &["c1"]), days(2))).await;
    assert_eq!(probe.state.judged_in_turn, 0);
    assert_eq!(probe.state.turn_writes, ["write of c2"]);
    world.record(&working, vec![world.pending(&working, "c2", "a2")]).await;
}
