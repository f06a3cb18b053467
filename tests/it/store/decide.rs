//! A person's decision about one approval.

use approver::decide::policy::Mode;
use approver::decide::request::Door;
use approver::store::{
    Cancel, Cancelled, Decided, ModeChoice, PersonVerdict, Record, Recorded, Reserved, Status,
    ToolDefinition,
};

use super::world::{ORGANISATION, World, approve, at, tool};

pub(super) async fn a_person_decides_once(world: World) {
    world.raise("k1", &["c1", "c2"]).await;
    let mut first = world.decision("ap-c1", approve());
    first.reason = Some("it is routine".to_owned());
    let decided = world.decided(first.clone()).await;
    let decision = decided.decision.clone().unwrap();
    assert_eq!(decided.status, Status::Approved);
    assert_eq!(decision.by.as_deref(), Some("ana"));
    assert_eq!(decision.reason.as_deref(), Some("it is routine"));
    assert_eq!((decision.at, decision.start_by), (at(1_000), Some(at(1_300))));
    assert_eq!(decided.revision, 2);
    // The second hears of the first, word for word, whoever it is and whatever it says.
    let mut second = world.decision("ap-c1", PersonVerdict::Reject);
    second.by = "bo".to_owned();
    for late in [first, second] {
        assert_eq!(world.decide(late).await, Decided::TooLate(Box::new(decided.clone())));
    }
    assert_eq!(world.approval("ap-c1").await, decided);
    let rejected = world.decided(world.decision("ap-c2", PersonVerdict::Reject)).await;
    assert_eq!(rejected.status, Status::Rejected);
    assert_eq!(rejected.decision.unwrap().start_by, None);
}

pub(super) async fn a_decision_after_the_deadline_finds_it_expired(world: World) {
    world.raise("k1", &["c1", "c2"]).await;
    let mut late = world.decision("ap-c1", approve());
    late.now = at(3_600);
    match world.decide(late).await {
        Decided::TooLate(approval) => {
            assert_eq!(approval.status, Status::Expired);
            let decision = approval.decision.unwrap();
            assert_eq!((decision.by, decision.at), (None, at(3_600)));
        }
        other => panic!("{other:?}"),
    }
    world.check_status("ap-c1", Status::Expired).await;
    let mut in_time = world.decision("ap-c2", approve());
    in_time.now = at(3_599);
    world.decided(in_time).await;
}

pub(super) async fn a_decision_checked_against_another_mode_does_not_count(world: World) {
    let mut begin = world.request("k1", &["c1"]);
    begin.mode = ModeChoice::Named(Mode::Plan);
    world.raise_in(begin).await;
    let mut decision = world.decision("ap-c1", approve());
    let stored = Some(Mode::Plan);
    assert_eq!(world.decide(decision.clone()).await, Decided::ModeChanged { stored });
    world.check_status("ap-c1", Status::Pending).await;
    decision.stored_mode = Some(Mode::Ask);
    assert_eq!(world.decide(decision.clone()).await, Decided::ModeChanged { stored });
    decision.stored_mode = Some(Mode::Plan);
    let decided = world.decided(decision.clone()).await;
    // Of what has ended, that is the answer.
    decision.stored_mode = None;
    assert_eq!(world.decide(decision).await, Decided::TooLate(Box::new(decided)));
}

pub(super) async fn another_organisation_finds_nothing(world: World) {
    world.raise("k1", &["c1"]).await;
    let mut decision = world.decision("ap-c1", approve());
    decision.organisation = "another".to_owned();
    assert_eq!(world.decide(decision).await, Decided::NotFound);
    assert_eq!(world.store.approval("another", "ap-c1").await.unwrap(), None);
    assert_eq!(world.decide(world.decision("nothing", approve())).await, Decided::NotFound);
    world.check_status("ap-c1", Status::Pending).await;
}

pub(super) async fn a_decision_forgets_the_escalations_and_cancelling_does_not(world: World) {
    let escalate = async |key: &str| {
        let judged = world.judge(world.request(key, &[key])).await;
        let record = Record {
            ticket: judged.ticket.clone(),
            calls: vec![world.pending(&judged, key, &format!("ap-{key}"))],
            used: Reserved::default(),
            escalations: 1,
            now: at(0),
        };
        assert_eq!(world.store.record(record).await.unwrap(), Recorded::Done);
        judged.state.escalations
    };
    assert_eq!(escalate("k1").await, 0);
    assert_eq!(escalate("k2").await, 1);
    let cancel = Cancel {
        organisation: ORGANISATION.to_owned(),
        approval: "ap-k1".to_owned(),
        by: None,
        now: at(5),
    };
    let cancelled = world.store.cancel(cancel).await.unwrap();
    assert!(matches!(cancelled, Cancelled::Done(_)), "{cancelled:?}");
    assert_eq!(escalate("k3").await, 2);
    // A new turn changes nothing.
    let mut probe = world.request("k4", &["c4"]);
    probe.turn = "turn-2".to_owned();
    assert_eq!(world.judge(probe).await.state.escalations, 3);
    world.decided(world.decision("ap-k2", PersonVerdict::Reject)).await;
    assert_eq!(escalate("k5").await, 0);
}

pub(super) async fn a_grant_holds_for_its_key_alone(world: World) {
    world.raise("k1", &["c1", "c2"]).await;
    let remember = PersonVerdict::Approve { start_by: at(1_300), remember: true };
    world.decided(world.decision("ap-c1", remember)).await;
    world.decided(world.decision("ap-c2", approve())).await;
    let state = world.judge(world.request("k2", &["c3"])).await.state;
    let grants: Vec<_> =
        state.grants.iter().map(|grant| (grant.approval_id.as_str(), &grant.tool)).collect();
    assert_eq!(grants, [("ap-c1", &tool("d1"))]);
    let none = async |change: &dyn Fn(&mut approver::store::Begin)| {
        let mut begin = world.request(&format!("n{}", fastrand::u64(..)), &["n"]);
        begin.turn = format!("turn-{}", fastrand::u64(..));
        change(&mut begin);
        let grants = world.judge(begin).await.state.grants;
        assert!(grants.is_empty(), "{grants:?}");
    };
    none(&|begin| begin.agent = "another".to_owned()).await;
    none(&|begin| begin.surface = "another".to_owned()).await;
    none(&|begin| begin.conversation = "another".to_owned()).await;
    none(&|begin| begin.organisation = "another".to_owned()).await;
    none(&|begin| begin.door = Door::Aap).await;
    none(&|begin| begin.instance = Some("another".to_owned())).await;
    // Another turn of the same conversation has it, and a changed definition is the plan's to see.
    let mut begin = world.request("k3", &["c1"]);
    begin.turn = "turn-2".to_owned();
    begin.tools = vec![ToolDefinition { tool: tool("d2"), content: String::new() }];
    assert_eq!(world.judge(begin).await.state.grants.len(), 1);
    world.store.delete_conversation(ORGANISATION, "conv", at(9)).await.unwrap();
}
