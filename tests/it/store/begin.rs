//! Beginning and recording a judgement.

use approver::decide::BlockedBy;
use approver::decide::novelty::{Finding, Kind, Resemblance};
use approver::decide::policy::Mode;
use approver::decide::prompt::Cuts;
use approver::decide::request::{Door, Origin};
use approver::decide::state::Sandbox;
use approver::decide::verdict::{JudgeFailure, Tokens};
use approver::store::{
    Begun, CallOutcome, JudgeRecord, ModeChoice, NewCallOutcome, NewOutcome, Record, Recorded,
    RecordedCall, Reserved, Resolution, Standing, Status, StoreError, Switch, ToolDefinition,
};

use super::world::{AGENT, CONVERSATION, ORGANISATION, SURFACE, World, approve, at, tool};

fn execute(call: &str) -> NewOutcome {
    NewOutcome { call_id: call.to_owned(), outcome: NewCallOutcome::Execute }
}

/// The outcome of one call of a replay.
#[track_caller]
fn replayed(begun: Begun) -> Vec<RecordedCall> {
    match begun {
        Begun::Replayed { calls, .. } => calls,
        other => panic!("expected a replay, found {other:?}"),
    }
}

pub(super) async fn a_new_conversation_knows_nothing(world: World) {
    let judged = world.judge(world.request("k1", &["c1", "c2"])).await;
    assert_eq!(judged.mode, Mode::Ask);
    assert_eq!(judged.known, [None, None]);
    assert!(!judged.taken_over);
    let state = judged.state;
    assert!(state.grants.is_empty() && state.pinned.is_empty() && state.turn_writes.is_empty());
    assert_eq!((state.judged_in_turn, state.escalations), (0, 0));
    assert_eq!(state.sandbox, Sandbox::default());
    assert_eq!(state.automatic_approval, Ok(()));
    let conversation = world.store.conversation(ORGANISATION, SURFACE, CONVERSATION).await;
    let conversation = conversation.unwrap().unwrap();
    assert_eq!((conversation.mode, conversation.deleted_at), (None, None));
}

pub(super) async fn the_same_key_replays_and_other_bodies_conflict(world: World) {
    let judged = world.judge(world.request("k1", &["c1"])).await;
    let request = judged.ticket.request.clone();
    match world.begin(world.request("k1", &["c1"])).await {
        Begun::InProgress { request: by, lease_until } => {
            assert_eq!((by, lease_until), (request, at(60)));
        }
        other => panic!("{other:?}"),
    }
    world.record(&judged, vec![world.pending(&judged, "c1", "a1")]).await;
    let calls = replayed(world.begin(world.request("k1", &["c1"])).await);
    let approval = Box::new(world.approval("a1").await);
    let expected = CallOutcome::Approval(approval);
    assert_eq!(calls, [RecordedCall { call_id: "c1".to_owned(), outcome: expected }]);
    // The current state, not the one that was told first.
    let decided = world.decided(world.decision("a1", approve())).await;
    let calls = replayed(world.begin(world.request("k1", &["c1"])).await);
    assert_eq!(calls[0].outcome, CallOutcome::Approval(Box::new(decided)));
    let other = world.begin(world.request("k1", &["c2"])).await;
    assert!(matches!(other, Begun::IdempotencyConflict), "{other:?}");
    // The refused request took nothing.
    world.judge(world.request("k2", &["c2"])).await;
}

pub(super) async fn keys_belong_to_organisation_caller_and_endpoint(world: World) {
    world.judge(world.request("k1", &["c1"])).await;
    let mut other = world.request("k1", &["c2"]);
    other.idempotency.caller = "another gateway".to_owned();
    world.judge(other).await;
    let mut other = world.request("k1", &["c3"]);
    other.idempotency.endpoint = "another endpoint".to_owned();
    world.judge(other).await;
    // Another organisation's conversation of the same name is another conversation too.
    let mut other = world.request("k1", &["c1"]);
    other.organisation = "another".to_owned();
    world.judge(other).await;
}

pub(super) async fn a_begun_request_is_taken_over_after_its_lease(world: World) {
    let reserve = Reserved { judged: 2, sandbox_calls: 1, sandbox_seconds: 30 };
    let first = world.judge(with_reserve(world.request("k1", &["c1"]), reserve)).await;
    let mut again = with_reserve(world.request("k1", &["c1"]), reserve);
    again.now = at(59);
    assert!(matches!(world.begin(again.clone()).await, Begun::InProgress { .. }));
    again.now = at(60);
    let second = world.judge(again.clone()).await;
    assert!(second.taken_over);
    assert_eq!(second.ticket.request, first.ticket.request);
    assert!(second.ticket.attempt > first.ticket.attempt);
    // The dead owner's reservation is not counted beside the new one.
    assert_eq!(second.state.judged_in_turn, 0);
    assert_eq!(second.state.sandbox, Sandbox::default());
    assert!(second.state.turn_writes.is_empty());
    // The first owner was only slow: it comes too late, and stores nothing.
    let late = world.try_record(&first, vec![world.pending(&first, "c1", "a1")]).await.unwrap();
    assert_eq!(late, Recorded::Superseded);
    assert_eq!(world.store.approval(ORGANISATION, "a1").await.unwrap(), None);
    world.record(&second, vec![world.pending(&second, "c1", "a2")]).await;
    let late = world.try_record(&first, vec![world.pending(&first, "c1", "a3")]).await.unwrap();
    assert_eq!(late, Recorded::Superseded);
    again.now = at(61);
    let calls = replayed(world.begin(again).await);
    let stored = Box::new(world.approval("a2").await);
    assert_eq!(calls[0].outcome, CallOutcome::Approval(stored));
}

pub(super) async fn an_attempt_is_recorded_once(world: World) {
    let judged = world.judge(world.request("k1", &["c1"])).await;
    world.record(&judged, vec![world.pending(&judged, "c1", "a1")]).await;
    let again = world.try_record(&judged, vec![world.pending(&judged, "c1", "a2")]).await.unwrap();
    assert_eq!(again, Recorded::Superseded);
    assert_eq!(world.store.approval(ORGANISATION, "a2").await.unwrap(), None);
    // Another organisation cannot record with this one's ticket.
    let mut stolen = world.judge(world.request("k2", &["c2"])).await;
    stolen.ticket.organisation = "another".to_owned();
    let late = world.try_record(&stolen, vec![execute("c2")]).await.unwrap();
    assert_eq!(late, Recorded::Superseded);
}

pub(super) async fn a_call_is_judged_once_whatever_the_key(world: World) {
    let judged = world.judge(world.request("k1", &["c1", "c2"])).await;
    let outcomes = vec![execute("c1"), world.pending(&judged, "c2", "a2")];
    world.record(&judged, outcomes).await;
    let pending = CallOutcome::Approval(Box::new(world.approval("a2").await));
    // The same calls, whole and mixed with a new one, in any order.
    let calls = replayed(world.begin(world.request("k2", &["c2", "c1"])).await);
    let outcomes: Vec<_> = calls.into_iter().map(|call| (call.call_id, call.outcome)).collect();
    let expected = [("c2".to_owned(), pending.clone()), ("c1".to_owned(), CallOutcome::Execute)];
    assert_eq!(outcomes, expected);
    let mixed = world.judge(world.request("k3", &["c3", "c2"])).await;
    let known = RecordedCall { call_id: "c2".to_owned(), outcome: pending };
    assert_eq!(mixed.known, [None, Some(known)]);
    // The pending write of the same turn is one that may not be repeated.
    assert_eq!(mixed.state.turn_writes, ["write of c2"]);
    world.record(&mixed, vec![execute("c3")]).await;
    // Both keys replay from now on.
    for (key, calls) in [("k2", ["c2", "c1"]), ("k3", ["c3", "c2"])] {
        replayed(world.begin(world.request(key, &calls)).await);
    }
    let conflict = world.begin(world.request("k2", &["c1"])).await;
    assert!(matches!(conflict, Begun::IdempotencyConflict), "{conflict:?}");
    // Other bytes under a known id.
    let mut other = world.request("k4", &["c4", "c1"]);
    other.calls[1].digest = "other bytes".to_owned();
    match world.begin(other).await {
        Begun::CallConflict { call_id } => assert_eq!(call_id, "c1"),
        other => panic!("{other:?}"),
    }
    // The same id in another turn is another call.
    let mut elsewhere = world.request("k5", &["c1"]);
    elsewhere.turn = "turn-2".to_owned();
    world.judge(elsewhere).await;
}

pub(super) async fn a_call_of_another_key_is_waited_for_and_then_taken_over(world: World) {
    let reserve = Reserved { judged: 2, sandbox_calls: 0, sandbox_seconds: 0 };
    let first = world.judge(with_reserve(world.request("k1", &["c1", "c2"]), reserve)).await;
    let mut second = with_reserve(world.request("k2", &["c2", "c3"]), reserve);
    match world.begin(second.clone()).await {
        Begun::InProgress { request, .. } => assert_eq!(request, first.ticket.request),
        other => panic!("{other:?}"),
    }
    second.now = at(60);
    let second = world.judge(second).await;
    assert_eq!(second.known, [None, None]);
    assert_eq!(second.state.judged_in_turn, 0);
    let late = world.try_record(&first, vec![execute("c1"), execute("c2")]).await.unwrap();
    assert_eq!(late, Recorded::Superseded);
    world.record(&second, vec![execute("c2"), execute("c3")]).await;
    // The first key's owner comes back: one call is known by now, the other is still to be judged.
    let mut again = world.request("k1", &["c1", "c2"]);
    again.now = at(61);
    let again = world.judge(again).await;
    assert!(again.taken_over);
    assert_eq!(again.known[0], None);
    assert_eq!(again.known[1].as_ref().map(|call| &call.outcome), Some(&CallOutcome::Execute));
    world.record(&again, vec![execute("c1")]).await;
    replayed(world.begin(world.request("k1", &["c1", "c2"])).await);
}

pub(super) async fn calls_that_were_not_begun_are_not_recorded(world: World) {
    let judged = world.judge(world.request("k1", &["c1", "c2"])).await;
    let foreign = [vec![execute("c1")], vec![execute("c1"), execute("c9")], vec![]];
    for calls in foreign {
        let error = world.try_record(&judged, calls).await.unwrap_err();
        assert!(matches!(error, StoreError::Failed { .. }), "{error:?}");
    }
    // Nor is an approval that is somebody else's.
    let mut foreign = world.pending(&judged, "c2", "a2");
    if let NewCallOutcome::Approval(approval) = &mut foreign.outcome {
        approval.facts.organisation = "another".to_owned();
    }
    let error = world.try_record(&judged, vec![execute("c1"), foreign]).await.unwrap_err();
    assert!(matches!(error, StoreError::Failed { .. }), "{error:?}");
    world.record(&judged, vec![execute("c1"), execute("c2")]).await;
}

pub(super) async fn every_outcome_comes_back_as_it_was(world: World) {
    let ids = ["c1", "c2", "c3", "c4", "c5", "c6", "c7"];
    super::instances::provisioned(&world, "instance", None).await;
    let judged = world.judge(world.request("k1", &ids)).await;
    let mut full = world.approved(&judged, "c5", "a5");
    if let NewCallOutcome::Approval(approval) = &mut full.outcome {
        let facts = &mut approval.facts;
        facts.door = Door::Aap;
        facts.instance = Some("instance".to_owned());
        facts.user = Some("usr_81".to_owned());
        facts.tool.origin = Origin::Function;
        facts.tool.server_label = None;
        facts.tool_version = Some("3".to_owned());
        facts.class = None;
        facts.mode = Mode::Auto;
        facts.timeout_seconds = Some(120);
        facts.pause_reason = Some("novel_argument".to_owned());
        facts.pause_sentence = Some("An argument is new.".to_owned());
        facts.judged = Some(JudgeRecord {
            model: "judge-1".to_owned(),
            reason: Some("asked for".to_owned()),
            prompt_digest: "p".repeat(64),
            tokens: Tokens { input: Some(1_000), output: Some(20), cached: None },
            cuts: Cuts { shortened: 1, dropped: 2, characters: 3_000 },
        });
        let finding = |kind, resembles| Finding {
            kind,
            item: "x@example.org".to_owned(),
            pointer: "/to".to_owned(),
            found: "X@example.org".to_owned(),
            resembles,
        };
        facts.findings = vec![
            finding(Kind::Email, Some(Resemblance::HostKnown("example.org".to_owned()))),
            finding(Kind::Link, Some(Resemblance::LookAlike("y@example.org".to_owned()))),
            finding(Kind::Iban, None),
            finding(Kind::BankAccount, None),
            finding(Kind::Encoded, None),
            finding(Kind::Budget, None),
        ];
        facts.lists_digest = Some("l".repeat(64));
        facts.policy_digest = Some("q".repeat(64));
        facts.latency_ms = u64::from(u32::MAX) + 1;
    }
    let NewCallOutcome::Approval(expected) = full.outcome.clone() else { unreachable!() };
    let outcomes = vec![
        execute("c1"),
        NewOutcome {
            call_id: "c2".to_owned(),
            outcome: NewCallOutcome::ExecuteSandboxed { timeout_seconds: 90 },
        },
        NewOutcome {
            call_id: "c3".to_owned(),
            outcome: NewCallOutcome::Blocked(BlockedBy::Policy),
        },
        NewOutcome {
            call_id: "c4".to_owned(),
            outcome: NewCallOutcome::Blocked(BlockedBy::Mode(Mode::Plan)),
        },
        full,
        world.pending(&judged, "c6", "a6"),
        world.outcome(
            &judged,
            "c7",
            "a7",
            Standing::Rejected { by: "policy:block".to_owned(), reason: None },
        ),
    ];
    world.record(&judged, outcomes).await;
    let calls = replayed(world.begin(world.request("k1", &ids)).await);
    assert_eq!(calls.iter().map(|call| call.call_id.as_str()).collect::<Vec<_>>(), ids);
    let outcome = |index: usize| calls[index].outcome.clone();
    assert_eq!(outcome(0), CallOutcome::Execute);
    assert_eq!(outcome(1), CallOutcome::ExecuteSandboxed { timeout_seconds: 90 });
    assert_eq!(outcome(2), CallOutcome::Blocked(BlockedBy::Policy));
    assert_eq!(outcome(3), CallOutcome::Blocked(BlockedBy::Mode(Mode::Plan)));
    let approval = |index: usize| match outcome(index) {
        CallOutcome::Approval(approval) => *approval,
        other => panic!("{other:?}"),
    };
    let full = approval(4);
    assert_eq!(full.facts, expected.facts);
    assert_eq!(full.status, Status::Approved);
    assert_eq!(full.revision, 1);
    let decision = Resolution {
        by: Some("auto:approver".to_owned()),
        at: at(0),
        reason: Some("the user asked for it".to_owned()),
        start_by: Some(at(300)),
    };
    assert_eq!(full.decision, Some(decision));
    let pending = approval(5);
    assert_eq!((pending.status, pending.decision), (Status::Pending, None));
    let rejected = approval(6);
    assert_eq!(rejected.status, Status::Rejected);
    assert_eq!(rejected.decision.unwrap().by.as_deref(), Some("policy:block"));
    let sealed = world.store.sealed(ORGANISATION, "a5").await.unwrap();
    assert_eq!(sealed.input, Some(expected.input));
    assert_eq!(sealed.output, None);
    let foreign = world.store.sealed("another", "a5").await.unwrap();
    assert_eq!((foreign.input, foreign.output), (None, None));
}

pub(super) async fn modes_are_said_stored_inherited_or_refused(world: World) {
    let request = |key: &str, turn: &str, mode: ModeChoice| {
        let mut begin = world.request(key, &["c1"]);
        begin.turn = turn.to_owned();
        begin.mode = mode;
        begin
    };
    let stored = async || {
        let conversation = world.store.conversation(ORGANISATION, SURFACE, CONVERSATION).await;
        conversation.unwrap().and_then(|conversation| conversation.mode)
    };
    let named = ModeChoice::Named;
    // The version's default is not stored.
    let judged = world.judge(request("k1", "t1", ModeChoice::Unsaid)).await;
    assert_eq!((judged.mode, stored().await), (Mode::Ask, None));
    // A named mode is, also while the turn keeps the one that it began with.
    let mut second = request("k2", "t1", named(Mode::Auto));
    second.calls[0].call_id = "c2".to_owned();
    assert_eq!(world.judge(second).await.mode, Mode::Ask);
    assert_eq!(stored().await, Some(Mode::Auto));
    assert_eq!(world.judge(request("k3", "t2", ModeChoice::Unsaid)).await.mode, Mode::Auto);
    // `null` means the default, for this request.
    assert_eq!(world.judge(request("k4", "t3", ModeChoice::Default)).await.mode, Mode::Ask);
    assert_eq!(stored().await, Some(Mode::Auto));
    // A mode that is not on offer is refused, named or stored, and changes nothing.
    let refused = async |mut begin: approver::store::Begin, expected: Mode| {
        begin.modes.offered = vec![Mode::Plan, Mode::Ask];
        match world.begin(begin).await {
            Begun::ModeNotOffered { mode } => assert_eq!(mode, expected),
            other => panic!("{other:?}"),
        }
    };
    refused(request("k5", "t4", ModeChoice::Unsaid), Mode::Auto).await;
    // Nor does a turn that nobody knows hand it on.
    let mut invented = request("k5", "t4", ModeChoice::Unsaid);
    invented.continues = Some("t0".to_owned());
    refused(invented, Mode::Auto).await;
    let mut plan_only = request("k5", "t4", named(Mode::Ask));
    plan_only.modes.offered = vec![Mode::Plan];
    let begun = world.begin(plan_only).await;
    assert!(matches!(begun, Begun::ModeNotOffered { mode: Mode::Ask }), "{begun:?}");
    assert_eq!(stored().await, Some(Mode::Auto));
    // Such a request leaves no turn behind whose mode a later one would inherit.
    assert!(world.store.turns(ORGANISATION, "t4").await.unwrap().is_empty());
    // A continuation that names none keeps the paused turn's, whatever is on offer.
    let mut continuation = request("k6", "t5", ModeChoice::Unsaid);
    continuation.continues = Some("t2".to_owned());
    continuation.modes.offered = vec![Mode::Plan, Mode::Ask];
    assert_eq!(world.judge(continuation).await.mode, Mode::Auto);
    // One that names a mode does not.
    let mut continuation = request("k7", "t6", named(Mode::Plan));
    continuation.continues = Some("t2".to_owned());
    assert_eq!(world.judge(continuation).await.mode, Mode::Plan);
    assert_eq!(stored().await, Some(Mode::Plan));
}

fn with_reserve(mut begin: approver::store::Begin, reserve: Reserved) -> approver::store::Begin {
    begin.reserve = reserve;
    begin
}

pub(super) async fn counts_are_reserved_and_given_back(world: World) {
    let reserve = Reserved { judged: 4, sandbox_calls: 2, sandbox_seconds: 240 };
    let first = world.judge(with_reserve(world.request("k1", &["c1"]), reserve)).await;
    assert_eq!((first.state.judged_in_turn, first.state.sandbox), (0, Sandbox::default()));
    // All that it may use counts until it is known what it used.
    let second = world.judge(world.request("k2", &["c2"])).await;
    assert_eq!(second.state.judged_in_turn, 4);
    assert_eq!(second.state.sandbox, Sandbox { enabled: false, calls: 2, seconds: 240 });
    let record = Record {
        ticket: first.ticket.clone(),
        calls: vec![execute("c1")],
        used: Reserved { judged: 1, sandbox_calls: 1, sandbox_seconds: 120 },
        escalations: 0,
        now: at(1),
    };
    assert_eq!(world.store.record(record).await.unwrap(), Recorded::Done);
    let third = world.judge(world.request("k3", &["c3"])).await;
    assert_eq!(third.state.judged_in_turn, 1);
    assert_eq!(third.state.sandbox, Sandbox { enabled: false, calls: 1, seconds: 120 });
    // A replay reserves nothing, under its own key and under another.
    replayed(world.begin(with_reserve(world.request("k1", &["c1"]), reserve)).await);
    replayed(world.begin(with_reserve(world.request("k4", &["c1"]), reserve)).await);
    let fifth = world.judge(world.request("k5", &["c5"])).await;
    assert_eq!(fifth.state.judged_in_turn, 1);
    // Another turn has counts of its own.
    let mut other = world.request("k6", &["c6"]);
    other.turn = "turn-2".to_owned();
    assert_eq!(world.judge(other).await.state.judged_in_turn, 0);
}

pub(super) async fn writes_of_the_turn_are_those_approved_or_waiting(world: World) {
    let first = world.judge(world.request("k1", &["c1", "c2", "c3", "c4"])).await;
    let writes = async |key: &str| {
        let mut probe = world.request(key, &[key]);
        probe.calls[0].identity = None;
        let judged = world.judge(probe).await;
        world.record(&judged, vec![execute(key)]).await;
        let mut writes = judged.state.turn_writes;
        writes.sort();
        writes
    };
    let all = ["write of c1", "write of c2", "write of c3", "write of c4"];
    assert_eq!(writes("p1").await, all);
    let outcomes = vec![
        world.approved(&first, "c1", "a1"),
        world.pending(&first, "c2", "a2"),
        execute("c3"),
        world.pending(&first, "c4", "a4"),
    ];
    world.record(&first, outcomes).await;
    assert_eq!(writes("p2").await, ["write of c1", "write of c2", "write of c4"]);
    let reject = approver::store::PersonVerdict::Reject;
    world.decided(world.decision("a2", reject)).await;
    assert_eq!(writes("p3").await, ["write of c1", "write of c4"]);
    world.decided(world.decision("a4", approve())).await;
    assert_eq!(writes("p4").await, ["write of c1", "write of c4"]);
    let mut other = world.request("k9", &["c9"]);
    other.turn = "turn-2".to_owned();
    assert!(world.judge(other).await.state.turn_writes.is_empty());
}

pub(super) async fn the_first_definition_is_pinned_and_a_person_may_pin_another(world: World) {
    let meet = |key: &str, definition: &str| {
        let mut begin = world.request(key, &[key]);
        let content = format!("{{\"definition\":\"{definition}\"}}");
        begin.tools = vec![ToolDefinition { tool: tool(definition), content }];
        begin
    };
    let current = async || {
        let found =
            world.store.current_definition(ORGANISATION, SURFACE, CONVERSATION, &tool("?")).await;
        found.unwrap().map(|found| (found.tool.definition, found.content))
    };
    assert_eq!(current().await, None);
    let d1 = world.judge(meet("k1", "d1")).await;
    assert_eq!(d1.state.pinned, [tool("d1")]);
    assert_eq!(current().await, Some(("d1".to_owned(), "{\"definition\":\"d1\"}".to_owned())));
    // Another definition is met, and is not known.
    let d2 = world.judge(meet("k2", "d2")).await;
    assert_eq!(d2.state.pinned, [tool("d1")]);
    assert_eq!(current().await.unwrap().0, "d2");
    assert_eq!(world.judge(meet("k3", "d1")).await.state.pinned, [tool("d1")]);
    assert_eq!(current().await.unwrap().0, "d1");
    // A person approves a call under it: from then on both are known.
    let mut waits = world.pending(&d2, "k2", "a2");
    if let NewCallOutcome::Approval(approval) = &mut waits.outcome {
        approval.facts.tool = tool("d2");
    }
    world.record(&d2, vec![waits]).await;
    world.decided(world.decision("a2", approve())).await;
    let mut pinned = world.judge(meet("k4", "d3")).await.state.pinned;
    pinned.sort();
    assert_eq!(pinned, [tool("d1"), tool("d2")]);
    // Another conversation meets it for the first time.
    let mut other = meet("k5", "d3");
    other.conversation = "another".to_owned();
    assert_eq!(world.judge(other).await.state.pinned, [tool("d3")]);
}

pub(super) async fn switches_hold_from_the_next_judgement_on(world: World) {
    let switch = async |agent: Option<&str>, enabled: bool| {
        let organisation = ORGANISATION.to_owned();
        let (agent, by, at) = (agent.map(str::to_owned), "root".to_owned(), at(5));
        world
            .store
            .set_automatic_approval(Switch { organisation, agent, enabled, by, at })
            .await
            .unwrap();
    };
    let available =
        async |key: &str| world.judge(world.request(key, &[key])).await.state.automatic_approval;
    assert_eq!(available("k1").await, Ok(()));
    switch(Some("another agent"), false).await;
    assert_eq!(available("k2").await, Ok(()));
    switch(Some(AGENT), false).await;
    assert_eq!(available("k3").await, Err(JudgeFailure::SwitchedOff));
    // Both must be on.
    switch(Some(AGENT), true).await;
    switch(None, false).await;
    assert_eq!(available("k4").await, Err(JudgeFailure::SwitchedOff));
    switch(None, true).await;
    assert_eq!(available("k5").await, Ok(()));
    let switches = world.store.switches(ORGANISATION).await.unwrap();
    let known: Vec<_> =
        switches.iter().map(|switch| (switch.agent.as_deref(), switch.enabled)).collect();
    assert_eq!(known, [(None, true), (Some("another agent"), false), (Some(AGENT), true)]);
    assert!(world.store.switches("another").await.unwrap().is_empty());
}
