//! A person's decisions about all that a paused turn waits for.

use approver::decide::policy::Mode;
use approver::store::{
    ClaimApproval, Claimed, ContinuationFailed, DecideTurn, ExecutionStatus, ModeChoice,
    PersonVerdict, ReportExecution, Status, TurnAnswer, TurnDecided,
};

use super::world::{CONVERSATION, ORGANISATION, SURFACE, TURN, World, approve, at, claimant};

fn decisions(continuation: &str, answers: &[(&str, PersonVerdict)]) -> DecideTurn {
    DecideTurn {
        organisation: ORGANISATION.to_owned(),
        surface: SURFACE.to_owned(),
        conversation: CONVERSATION.to_owned(),
        turn: TURN.to_owned(),
        continuation: claimant(continuation),
        answers: answers
            .iter()
            .map(|(approval, verdict)| TurnAnswer {
                approval: (*approval).to_owned(),
                verdict: *verdict,
                reason: None,
            })
            .collect(),
        by: "ana".to_owned(),
        named_mode: None,
        stored_mode: None,
        now: at(1_000),
    }
}

async fn decide(world: &World, decisions: DecideTurn) -> TurnDecided {
    world.store.decide_turn(decisions).await.unwrap()
}

pub(super) async fn a_turn_is_decided_as_a_whole_and_claimed(world: World) {
    world.raise("k1", &["c2", "c1"]).await;
    let answers = [("ap-c2", PersonVerdict::Reject), ("ap-c1", approve())];
    let decided = match decide(&world, decisions("resp_2", &answers)).await {
        TurnDecided::Done(decided) => decided,
        other => panic!("{other:?}"),
    };
    let told: Vec<_> = decided
        .iter()
        .map(|approval| {
            let claim = approval.claim.as_ref().map(|claim| claim.claimant.clone());
            (approval.facts.id.as_str(), approval.status, claim)
        })
        .collect();
    let expected =
        [("ap-c1", Status::Approved, Some(claimant("resp_2"))), ("ap-c2", Status::Rejected, None)];
    assert_eq!(told, expected);
    for approval in decided {
        assert_eq!(world.approval(&approval.facts.id).await, approval);
    }
    // Nobody else gets the call.
    let claim = |key: &str| ClaimApproval {
        organisation: ORGANISATION.to_owned(),
        approval: "ap-c1".to_owned(),
        claimant: claimant(key),
        now: at(1_001),
    };
    let other = world.store.claim(claim("another")).await.unwrap();
    assert!(matches!(other, Claimed::AlreadyClaimed(_)), "{other:?}");
    let turns = world.store.turns(ORGANISATION, TURN).await.unwrap();
    let continuation = turns[0].continuation.clone().unwrap();
    assert_eq!((continuation.id.as_str(), continuation.failed), ("resp_2", false));
}

pub(super) async fn nothing_happens_unless_all_is_answered(world: World) {
    world.raise("k1", &["c1", "c2", "c3"]).await;
    let mut elsewhere = world.request("k2", &["c4"]);
    elsewhere.turn = "turn-2".to_owned();
    world.raise_in(elsewhere).await;
    let some = [("ap-c1", approve())];
    let missing = vec!["ap-c2".to_owned(), "ap-c3".to_owned()];
    let answer = decide(&world, decisions("resp_2", &some)).await;
    assert_eq!(answer, TurnDecided::Unanswered(missing));
    let all = [("ap-c1", approve()), ("ap-c2", approve()), ("ap-c3", PersonVerdict::Reject)];
    let more = [all[0], all[1], all[2], ("ap-c4", approve())];
    let answer = decide(&world, decisions("resp_2", &more)).await;
    assert_eq!(answer, TurnDecided::NotOfThisTurn(vec!["ap-c4".to_owned()]));
    let mut foreign = decisions("resp_2", &all);
    foreign.organisation = "another".to_owned();
    assert_eq!(decide(&world, foreign).await, TurnDecided::NotFound);
    let mut other_mode = decisions("resp_2", &all);
    other_mode.stored_mode = Some(Mode::Auto);
    assert_eq!(decide(&world, other_mode).await, TurnDecided::ModeChanged { stored: None });
    let mut too_late = decisions("resp_2", &all);
    too_late.now = at(3_600);
    match decide(&world, too_late).await {
        TurnDecided::TooLate(approval) => assert_eq!(approval.status, Status::Expired),
        other => panic!("{other:?}"),
    }
    for id in ["ap-c1", "ap-c2", "ap-c3", "ap-c4"] {
        world.check_status(id, Status::Pending).await;
    }
    // One that a person decided elsewhere meanwhile is named, and the rest left alone.
    let first = world.decided(world.decision("ap-c2", PersonVerdict::Reject)).await;
    let answer = decide(&world, decisions("resp_2", &all)).await;
    assert_eq!(answer, TurnDecided::TooLate(Box::new(first)));
    world.check_status("ap-c1", Status::Pending).await;
    // Answering what still waits is enough.
    let rest = [all[0], all[2]];
    let answer = decide(&world, decisions("resp_2", &rest)).await;
    assert!(matches!(&answer, TurnDecided::Done(decided) if decided.len() == 2), "{answer:?}");
}

pub(super) async fn a_repeat_names_the_continuation(world: World) {
    world.raise("k1", &["c1"]).await;
    let answers = [("ap-c1", approve())];
    decide(&world, decisions("resp_2", &answers)).await;
    let continuation = "resp_2".to_owned();
    for key in ["resp_2", "resp_3"] {
        let again = decide(&world, decisions(key, &answers)).await;
        let continuation = continuation.clone();
        assert_eq!(again, TurnDecided::AlreadyContinued { continuation });
    }
    // A turn that waited for nothing is continued once too.
    let mut empty = world.request("k2", &["c2"]);
    empty.turn = "turn-2".to_owned();
    world.judge(empty).await;
    let mut nothing = decisions("resp_4", &[]);
    nothing.turn = "turn-2".to_owned();
    assert_eq!(decide(&world, nothing.clone()).await, TurnDecided::Done(Vec::new()));
    let again = decide(&world, nothing).await;
    assert_eq!(again, TurnDecided::AlreadyContinued { continuation: "resp_4".to_owned() });
}

pub(super) async fn after_a_failed_continuation_nothing_runs_again(world: World) {
    world.raise("k1", &["c1", "c2"]).await;
    let answers = [("ap-c1", approve()), ("ap-c2", PersonVerdict::Reject)];
    let fail = async |turn: &str, continuation: &str| {
        let (organisation, surface) = (ORGANISATION, SURFACE);
        let store = &world.store;
        store
            .continuation_failed(organisation, surface, CONVERSATION, turn, continuation)
            .await
            .unwrap()
    };
    assert_eq!(fail(TURN, "resp_2").await, ContinuationFailed::NotThisContinuation);
    decide(&world, decisions("resp_2", &answers)).await;
    let report = ReportExecution {
        organisation: ORGANISATION.to_owned(),
        approval: "ap-c1".to_owned(),
        status: ExecutionStatus::Failed,
        output: None,
        now: at(1_010),
    };
    world.store.report_execution(report).await.unwrap();
    assert_eq!(fail(TURN, "resp_9").await, ContinuationFailed::NotThisContinuation);
    assert_eq!(fail("turn-9", "resp_2").await, ContinuationFailed::NotFound);
    assert_eq!(fail(TURN, "resp_2").await, ContinuationFailed::Done);
    // Other decisions than those that were taken do not pass for them.
    let changed = [("ap-c1", approve()), ("ap-c2", approve())];
    let answer = decide(&world, decisions("resp_3", &changed)).await;
    let rejected = world.approval("ap-c2").await;
    assert_eq!(answer, TurnDecided::TooLate(Box::new(rejected.clone())));
    let approved = world.approval("ap-c1").await;
    assert_eq!(approved.execution.unwrap().status, ExecutionStatus::Failed);
    assert_eq!(approved.claim.as_ref().unwrap().claimant, claimant("resp_2"));
    let answer = decide(&world, decisions("resp_3", &answers)).await;
    assert_eq!(answer, TurnDecided::Again(vec![approved, rejected]));
    // The new continuation has taken the place of the failed one.
    let again = decide(&world, decisions("resp_4", &answers)).await;
    assert_eq!(again, TurnDecided::AlreadyContinued { continuation: "resp_3".to_owned() });
}

pub(super) async fn a_continuation_may_leave_plan_mode(world: World) {
    let mut begin = world.request("k1", &["c1"]);
    begin.mode = ModeChoice::Named(Mode::Plan);
    world.raise_in(begin).await;
    let mut leave = decisions("resp_2", &[("ap-c1", approve())]);
    leave.stored_mode = Some(Mode::Plan);
    leave.named_mode = Some(Mode::Ask);
    assert!(matches!(decide(&world, leave).await, TurnDecided::Done(_)));
    let conversation = world.store.conversation(ORGANISATION, SURFACE, CONVERSATION).await;
    assert_eq!(conversation.unwrap().unwrap().mode, Some(Mode::Ask));
}
