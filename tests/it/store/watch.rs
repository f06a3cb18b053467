//! Who is woken by what.

use futures::FutureExt;

use approver::store::{Cancel, ClaimApproval, ExecutionStatus, ReportExecution, Watch, Watched};

use super::world::{CONVERSATION, ORGANISATION, SURFACE, World, approve, at, claimant};

fn fires(watch: &mut Watch) -> bool {
    watch.changed().now_or_never().is_some()
}

pub(super) async fn every_change_wakes_those_who_wait_for_it(world: World) {
    let conversation = Watched::Conversation {
        organisation: ORGANISATION.to_owned(),
        surface: SURFACE.to_owned(),
        id: CONVERSATION.to_owned(),
    };
    let judged = world.judge(world.request("k1", &["c1", "c2", "c3", "c4"])).await;
    let request = Watched::Request(judged.ticket.request.clone());
    let mut request = world.store.subscribe(vec![request]);
    let mut conversation = world.store.subscribe(vec![conversation]);
    let organisation = Watched::Organisation(ORGANISATION.to_owned());
    let mut organisation = world.store.subscribe(vec![organisation]);
    let mut foreign = world.store.subscribe(vec![Watched::Organisation("another".to_owned())]);
    let all = ["c1", "c2", "c3", "c4"];
    let outcomes =
        all.iter().map(|call| world.pending(&judged, call, &format!("ap-{call}"))).collect();
    world.record(&judged, outcomes).await;
    request.changed().await;
    conversation.changed().await;
    organisation.changed().await;
    let approval = |id: &str| vec![Watched::Approval(id.to_owned())];
    let mut first = world.store.subscribe(approval("ap-c1"));
    let mut both = world.store.subscribe([approval("ap-c1"), approval("ap-c2")].concat());
    world.decided(world.decision("ap-c1", approve())).await;
    first.changed().await;
    both.changed().await;
    conversation.changed().await;
    organisation.changed().await;
    // A lost decision changes nothing. (SQLite's slow poll may wake them all the same.)
    world.decide(world.decision("ap-c1", approve())).await;
    let claim = ClaimApproval {
        organisation: ORGANISATION.to_owned(),
        approval: "ap-c1".to_owned(),
        claimant: claimant("x"),
        now: at(1_100),
    };
    world.store.claim(claim).await.unwrap();
    first.changed().await;
    let report = ReportExecution {
        organisation: ORGANISATION.to_owned(),
        approval: "ap-c1".to_owned(),
        status: ExecutionStatus::Ok,
        output: None,
        now: at(1_200),
    };
    world.store.report_execution(report).await.unwrap();
    first.changed().await;
    let cancel = Cancel {
        organisation: ORGANISATION.to_owned(),
        approval: "ap-c2".to_owned(),
        by: None,
        now: at(1_000),
    };
    world.store.cancel(cancel).await.unwrap();
    both.changed().await;
    let mut third = world.store.subscribe(approval("ap-c3"));
    world.store.expire_due(at(3_600), 1).await.unwrap();
    third.changed().await;
    let mut fourth = world.store.subscribe(approval("ap-c4"));
    world.store.delete_conversation(ORGANISATION, CONVERSATION, at(5)).await.unwrap();
    fourth.changed().await;
    conversation.changed().await;
    // What did not wait is not woken, but by a slow poll.
    drop(fourth);
    let _ = fires(&mut foreign);
}
