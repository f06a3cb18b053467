//! Instances of the approval protocol: keys, changes, deletion.

use std::time::Duration;

use approver::decide::policy::Mode;
use approver::decide::request::Door;
use approver::store::{
    BeginChange, Begun, ChangeBegun, ChangeOperation, ChangeTicket, Claimed, CreateInstance,
    Decided, Delivery, Instance, InstanceCreated, InstanceDeleted, InstanceSet, InstanceSettings,
    InstanceToken, InstanceUpdated, NewOutcome, NewToken, Record, Recorded, Reported, Reserved,
    Sealed, SetInstance, Status, Sweep, ToJudge, Token, TokenKind, UpdateInstance,
};

use super::lifecycle::{claim, report};
use super::world::{AGENT, ORGANISATION, World, approve, at};

pub(crate) fn receiver(url: &str) -> Delivery {
    let secret = Sealed { key_id: "k1".to_owned(), ciphertext: vec![0, 255] };
    let registration_id = "11111111-1111-4111-8111-111111111111".to_owned();
    let host = url.trim_start_matches("https://").split('/').next().unwrap().to_owned();
    Delivery { url: url.to_owned(), host, registration_id, secret }
}

pub(super) fn change(operation: ChangeOperation, key: &str, digest: &str) -> BeginChange {
    BeginChange {
        organisation: ORGANISATION.to_owned(),
        caller: "provisioner".to_owned(),
        operation,
        key: key.to_owned(),
        digest: digest.to_owned(),
        now: at(0),
        lease: Duration::from_secs(60),
    }
}

fn creation(key: &str, digest: &str, proposed: &str) -> BeginChange {
    change(ChangeOperation::Create { proposed: proposed.to_owned() }, key, digest)
}

pub(super) async fn go(world: &World, begin: BeginChange) -> ChangeTicket {
    match world.store.begin_change(begin).await.unwrap() {
        ChangeBegun::Go(ticket) => ticket,
        other => panic!("expected to go, found {other:?}"),
    }
}

fn creating(ticket: &ChangeTicket, delivery: Option<Delivery>) -> CreateInstance {
    let id = ticket.instance.clone();
    let token = Token {
        id: format!("tok-{id}"),
        organisation: ORGANISATION.to_owned(),
        name: id.clone(),
        kind: TokenKind::Instance { instance: id.clone() },
        created_at: at(0),
        revoked_at: None,
    };
    let mut hash = [7; 32];
    for (place, byte) in hash.iter_mut().zip(id.bytes()) {
        *place = byte;
    }
    let instance = Instance {
        organisation: ORGANISATION.to_owned(),
        name: format!("name of {id}"),
        agent: AGENT.to_owned(),
        version: "production".to_owned(),
        mode: None,
        trusted_context: false,
        delivery,
        token: InstanceToken {
            id: token.id.clone(),
            key_id: "k1".to_owned(),
            nonce: "n".to_owned(),
        },
        provisioner: "provisioner".to_owned(),
        created_at: at(0),
        updated_at: at(0),
        deleted_at: None,
        id,
    };
    let response = format!("{{\"id\":\"{}\"}}", instance.id);
    CreateInstance { ticket: ticket.clone(), instance, token: NewToken { token, hash }, response }
}

/// An instance of that id, with or without a receiver.
pub(crate) async fn provisioned(world: &World, id: &str, delivery: Option<Delivery>) -> Instance {
    let ticket = go(world, creation(&format!("key of {id}"), "d", id)).await;
    let create = creating(&ticket, delivery);
    let instance = create.instance.clone();
    assert_eq!(world.store.create_instance(create).await.unwrap(), InstanceCreated::Done);
    instance
}

/// The instance's pending requests, one a call, named after it.
pub(super) async fn raised(world: &World, instance: &str, key: &str, calls: &[&str]) {
    let mut begin = world.request(key, calls);
    begin.door = Door::Aap;
    begin.instance = Some(instance.to_owned());
    let judged = world.judge(begin).await;
    let outcomes = calls.iter().map(|call| {
        let outcome = world.pending(&judged, call, &format!("ap-{call}"));
        through(outcome, instance)
    });
    world.record(&judged, outcomes.collect()).await;
}

/// The same outcome, through the approval protocol.
pub(super) fn through(
    mut outcome: approver::store::NewOutcome,
    instance: &str,
) -> approver::store::NewOutcome {
    if let approver::store::NewCallOutcome::Approval(approval) = &mut outcome.outcome {
        approval.facts.door = Door::Aap;
        approval.facts.instance = Some(instance.to_owned());
    }
    outcome
}

pub(super) async fn a_key_makes_one_instance(world: World) {
    let begin = async |change: BeginChange| world.store.begin_change(change).await.unwrap();
    let ticket = go(&world, creation("k", "d", "i1")).await;
    assert_eq!(ticket.instance, "i1");
    assert_eq!(begin(creation("k", "d", "i2")).await, ChangeBegun::InProgress);
    assert_eq!(begin(creation("k", "other", "i2")).await, ChangeBegun::Conflict);
    // Other callers' and other organisations' keys are others.
    let mut another = creation("k", "d", "i3");
    another.caller = "another".to_owned();
    assert!(matches!(begin(another).await, ChangeBegun::Go(_)));
    let mut foreign = creation("k", "d", "i4");
    foreign.organisation = "another".to_owned();
    assert!(matches!(begin(foreign).await, ChangeBegun::Go(_)));
    // What was given up may come again; what was abandoned is taken over after its lease, by the
    // id that was proposed first.
    world.store.abandon_change(ticket.clone()).await.unwrap();
    let ticket = go(&world, creation("k", "other", "i5")).await;
    let mut later = creation("k", "other", "i6");
    later.now = at(60);
    let taken = go(&world, later).await;
    assert_eq!(taken.instance, "i5");
    assert!(taken.attempt > ticket.attempt);
    let create = async |create: CreateInstance| world.store.create_instance(create).await.unwrap();
    assert_eq!(create(creating(&ticket, None)).await, InstanceCreated::Superseded);
    assert_eq!(world.store.instance(ORGANISATION, "i5").await.unwrap(), None);
    let create_taken = creating(&taken, Some(receiver("https://a.example")));
    assert_eq!(create(create_taken.clone()).await, InstanceCreated::Done);
    assert_eq!(create(create_taken.clone()).await, InstanceCreated::Superseded);
    let replayed = ChangeBegun::Replayed {
        instance: "i5".to_owned(),
        response: create_taken.response.clone(),
    };
    assert_eq!(begin(creation("k", "other", "i7")).await, replayed);
    assert_eq!(begin(creation("k", "d", "i7")).await, ChangeBegun::Conflict);
    // Too late to give it up.
    world.store.abandon_change(taken).await.unwrap();
    assert_eq!(begin(creation("k", "other", "i7")).await, replayed);
    let found = world.store.instance(ORGANISATION, "i5").await.unwrap();
    assert_eq!(found.as_ref(), Some(&create_taken.instance));
    assert_eq!(world.store.instances(ORGANISATION).await.unwrap(), [create_taken.instance]);
    assert_eq!(world.store.instance("another", "i5").await.unwrap(), None);
    assert!(world.store.instances("another").await.unwrap().is_empty());
    let token = world.store.token_by_hash(create_taken.token.hash).await.unwrap();
    assert_eq!(token, Some(create_taken.token.token));
}

pub(super) async fn an_instance_changes_under_a_key_of_its_own(world: World) {
    let first = provisioned(&world, "i1", None).await;
    let update = async |key: &str, name: Option<&str>, delivery: Option<Option<Delivery>>| {
        let operation = ChangeOperation::Update { instance: "i1".to_owned() };
        let ticket = go(&world, change(operation, key, "d")).await;
        let update = UpdateInstance {
            ticket,
            organisation: ORGANISATION.to_owned(),
            name: name.map(str::to_owned),
            delivery,
            response: |instance| instance.name.clone(),
            now: at(5),
        };
        world.store.update_instance(update).await.unwrap()
    };
    let renamed = match update("k1", Some("new"), None).await {
        InstanceUpdated::Done(instance) => *instance,
        other => panic!("{other:?}"),
    };
    let expected = Instance { name: "new".to_owned(), updated_at: at(5), ..first.clone() };
    assert_eq!(renamed, expected);
    let told = update("k2", None, Some(Some(receiver("https://b.example")))).await;
    let expected = Instance { delivery: Some(receiver("https://b.example")), ..expected };
    assert_eq!(told, InstanceUpdated::Done(Box::new(expected.clone())));
    let silent = update("k3", Some("newer"), Some(None)).await;
    let expected = Instance { name: "newer".to_owned(), delivery: None, ..expected };
    assert_eq!(silent, InstanceUpdated::Done(Box::new(expected.clone())));
    // A repeat gets what was answered then.
    let operation = ChangeOperation::Update { instance: "i1".to_owned() };
    let again = world.store.begin_change(change(operation, "k1", "d")).await.unwrap();
    let (instance, response) = ("i1".to_owned(), "new".to_owned());
    assert_eq!(again, ChangeBegun::Replayed { instance, response });
    // The same key for another instance is another.
    let operation = ChangeOperation::Update { instance: "i2".to_owned() };
    let other = world.store.begin_change(change(operation, "k1", "d")).await.unwrap();
    assert!(matches!(other, ChangeBegun::Go(_)), "{other:?}");
    let set = async |organisation: &str, mode, trusted_context| {
        let set = SetInstance {
            organisation: organisation.to_owned(),
            instance: "i1".to_owned(),
            mode,
            trusted_context,
            by: "root".to_owned(),
            now: at(6),
        };
        let set = world.store.set_instance(set).await.unwrap();
        set.map(|InstanceSet { instance, change }| {
            let settings = |one: InstanceSettings| (one.mode, one.trusted_context);
            (
                instance,
                change.map(|one| (one.by, one.at, settings(one.before), settings(one.after))),
            )
        })
    };
    let by = |before, after| Some(("root".to_owned(), at(6), before, after));
    assert_eq!(set("another", None, Some(true)).await, None);
    let (now, change) = set(ORGANISATION, Some(Some(Mode::Auto)), None).await.unwrap();
    assert_eq!((now.mode, now.trusted_context), (Some(Mode::Auto), false));
    assert_eq!(change, by((None, false), (Some(Mode::Auto), false)));
    let (now, change) = set(ORGANISATION, None, Some(true)).await.unwrap();
    assert_eq!((now.mode, now.trusted_context), (Some(Mode::Auto), true));
    assert_eq!(change, by((Some(Mode::Auto), false), (Some(Mode::Auto), true)));
    // Nothing changes, and nothing is recorded.
    let again = set(ORGANISATION, Some(Some(Mode::Auto)), Some(true)).await;
    assert_eq!(again, Some((now, None)));
    let (now, change) = set(ORGANISATION, Some(None), Some(false)).await.unwrap();
    assert_eq!(now, Instance { updated_at: at(6), ..expected });
    assert_eq!(change, by((Some(Mode::Auto), true), (None, false)));
    let recorded = world.store.instance_settings(ORGANISATION, "i1").await.unwrap();
    assert_eq!(recorded.len(), 3);
    assert_eq!(
        recorded[1].after,
        InstanceSettings { mode: Some(Mode::Auto), trusted_context: true }
    );
    assert_eq!(recorded[2].before, recorded[1].after);
    assert!(world.store.instance_settings("another", "i1").await.unwrap().is_empty());
    world.store.delete_instance(ORGANISATION, "i1", at(7)).await.unwrap();
    assert_eq!(set(ORGANISATION, None, Some(true)).await, None);
    assert_eq!(update("k4", Some("late"), None).await, InstanceUpdated::NotFound);
    // What was recorded outlives the instance, for as long as records are kept.
    let sweep = async |records_before| {
        let old = at(0);
        let sweep = Sweep {
            inputs_before: old,
            records_before,
            keys_before: old,
            protocol_before: at(8),
            deliveries_before: old,
            limit: 100,
        };
        world.store.sweep(sweep).await.unwrap();
        world.store.instance_settings(ORGANISATION, "i1").await.unwrap().len()
    };
    assert_eq!(sweep(at(6)).await, 3);
    assert_eq!(world.store.instance(ORGANISATION, "i1").await.unwrap(), None);
    assert_eq!(sweep(at(7)).await, 0);
}

pub(super) async fn deleting_an_instance_ends_what_it_may_do(world: World) {
    let instance = provisioned(&world, "i1", Some(receiver("https://a.example"))).await;
    provisioned(&world, "i2", None).await;
    raised(&world, "i1", "k1", &["c1", "c2"]).await;
    raised(&world, "i2", "k2", &["c3"]).await;
    world.decided(world.decision("ap-c1", approve())).await;
    let approved = world.approval("ap-c1").await;
    let mut begin = world.request("k3", &["c4"]);
    begin.door = Door::Aap;
    begin.instance = Some("i1".to_owned());
    let begun = world.judge(begin.clone()).await;
    let delete = async |organisation: &str, id: &str| {
        world.store.delete_instance(organisation, id, at(50)).await.unwrap()
    };
    assert_eq!(delete("another", "i1").await, InstanceDeleted::NotFound);
    assert_eq!(delete(ORGANISATION, "i9").await, InstanceDeleted::NotFound);
    match delete(ORGANISATION, "i1").await {
        InstanceDeleted::Done(cancelled) => {
            let ids: Vec<_> = cancelled.iter().map(|one| one.facts.id.as_str()).collect();
            assert_eq!(ids, ["ap-c2"]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(delete(ORGANISATION, "i1").await, InstanceDeleted::Before);
    world.check_status("ap-c2", Status::Cancelled).await;
    world.check_status("ap-c3", Status::Pending).await;
    assert_eq!(world.approval("ap-c1").await, approved);
    let tokens = world.store.tokens(ORGANISATION).await.unwrap();
    let revoked = |id: &str| tokens.iter().find(|token| token.id == id).unwrap().revoked_at;
    assert_eq!(revoked(&instance.token.id), Some(at(50)));
    assert_eq!(revoked("tok-i2"), None);
    let record = world.store.instance(ORGANISATION, "i1").await.unwrap().unwrap();
    assert_eq!((record.deleted_at, record.delivery), (Some(at(50)), None));
    // What was being judged is not recorded, and nothing new begins.
    let late = through(world.pending(&begun, "c4", "ap-c4"), "i1");
    assert_eq!(world.try_record(&begun, vec![late]).await.unwrap(), Recorded::Superseded);
    let again = world.begin(begin).await;
    assert!(matches!(again, Begun::ConversationDeleted), "{again:?}");
    let decision = world.decide(world.decision("ap-c2", approve())).await;
    assert!(matches!(decision, Decided::TooLate(_)), "{decision:?}");
}

pub(super) async fn what_a_machine_approved_for_an_instance_is_claimed_first(world: World) {
    provisioned(&world, "i1", None).await;
    let mut begin = world.request("k1", &["c1"]);
    begin.door = Door::Aap;
    begin.instance = Some("i1".to_owned());
    let judged = world.judge(begin).await;
    let outcome = through(world.approved(&judged, "c1", "ap-c1"), "i1");
    world.record(&judged, vec![outcome]).await;
    let reported = async || {
        let report = report("ap-c1", approver::store::ExecutionStatus::Ok);
        world.store.report_execution(report).await.unwrap()
    };
    assert!(matches!(reported().await, Reported::NotClaimed(_)));
    let claimed = world.store.claim(claim("ap-c1", "x", 10)).await.unwrap();
    assert!(matches!(claimed, Claimed::Released(_)), "{claimed:?}");
    assert!(matches!(reported().await, Reported::Done(_)));
}

pub(super) async fn an_instances_escalations_count_by_time(world: World) {
    provisioned(&world, "i1", None).await;
    provisioned(&world, "i2", None).await;
    let counted = async |instance: &str, key: &str, after: u64| {
        let mut begin = world.request(key, &[key]);
        begin.door = Door::Aap;
        begin.instance = Some(instance.to_owned());
        // Another conversation every time.
        begin.conversation = key.to_owned();
        begin.instance_after = Some(at(after));
        let judged = world.judge(begin).await;
        let escalations = judged.state.escalations;
        let outcome = through(world.pending(&judged, key, &format!("ap-{key}")), instance);
        let ticket = judged.ticket.clone();
        let (used, now) = (ticket.reserved, at(10));
        let calls = vec![outcome];
        let record = approver::store::Record { ticket, calls, used, escalations: 1, now };
        assert_eq!(world.store.record(record).await.unwrap(), Recorded::Done);
        escalations
    };
    assert_eq!(counted("i1", "k1", 0).await, 0);
    assert_eq!(counted("i1", "k2", 0).await, 1);
    assert_eq!(counted("i2", "k3", 0).await, 0);
    assert_eq!(counted("i1", "k4", 0).await, 2);
    // A person's decision does not let the instance try anew; an hour does.
    world.decided(world.decision("ap-k1", approve())).await;
    assert_eq!(counted("i1", "k5", 9).await, 3);
    assert_eq!(counted("i1", "k6", 10).await, 0);
}

pub(super) async fn an_instances_calls_count_by_time(world: World) {
    provisioned(&world, "i1", None).await;
    provisioned(&world, "i2", None).await;
    let reserve = Reserved { judged: 1, sandbox_calls: 0, sandbox_seconds: 0 };
    let begin = |instance: &str, key: &str, after: Option<u64>, seconds: u64| {
        let mut begin = world.request(key, &[key]);
        begin.door = Door::Aap;
        begin.instance = Some(instance.to_owned());
        // Another conversation and turn every time.
        begin.conversation = key.to_owned();
        begin.turn = key.to_owned();
        begin.reserve = reserve;
        begin.instance_after = after.map(at);
        begin.now = at(seconds);
        begin
    };
    let met = |judged: &ToJudge| {
        let mut writes = judged.state.turn_writes.clone();
        writes.sort();
        (judged.state.judged_in_turn, writes)
    };
    let record = async |judged: &ToJudge, outcome: NewOutcome, used: Reserved| {
        let ticket = judged.ticket.clone();
        let calls = vec![through(outcome, "i1")];
        let record = Record { ticket, calls, used, escalations: 0, now: at(10) };
        assert_eq!(world.store.record(record).await.unwrap(), Recorded::Done);
    };
    let first = world.judge(begin("i1", "k1", Some(0), 10)).await;
    assert_eq!(met(&first), (0, vec![]));
    // What is being judged counts already, for this instance alone.
    let second = world.judge(begin("i1", "k2", Some(0), 10)).await;
    assert_eq!(met(&second), (1, vec!["write of k1".to_owned()]));
    assert_eq!(met(&world.judge(begin("i2", "k3", Some(0), 10)).await), (0, vec![]));
    // Nobody was asked about the one; the other may be repeated once a person said no.
    record(&first, world.pending(&first, "k1", "ap-k1"), Reserved::default()).await;
    record(&second, world.approved(&second, "k2", "ap-k2"), reserve).await;
    let both = vec!["write of k1".to_owned(), "write of k2".to_owned()];
    assert_eq!(met(&world.judge(begin("i1", "k4", Some(0), 10)).await), (1, both));
    world.decided(world.decision("ap-k1", approver::store::PersonVerdict::Reject)).await;
    let left = vec!["write of k2".to_owned(), "write of k4".to_owned()];
    assert_eq!(met(&world.judge(begin("i1", "k5", Some(0), 11)).await), (2, left));
    // What came before the time does not count, and with turns that count nothing of it does.
    let left = vec!["write of k5".to_owned()];
    assert_eq!(met(&world.judge(begin("i1", "k6", Some(10), 12)).await), (1, left));
    assert_eq!(met(&world.judge(begin("i1", "k7", None, 12)).await), (0, vec![]));
}
