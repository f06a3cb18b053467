//! A store, and requests, outcomes and people for it with one line each.

use std::sync::Arc;
use std::time::Duration;

use approver::decide::policy::{Class, Mode, Modes};
use approver::decide::request::{Door, Origin};
use approver::decide::state::ToolIdentity;
use approver::store::{
    Approval, Begin, BeginCall, Begun, Claimant, Decide, Decided, Facts, Idempotency, ModeChoice,
    NewApproval, NewCallOutcome, NewOutcome, PersonVerdict, Record, Recorded, Reserved, Sealed,
    Standing, Status, Store, StoreError, Timestamp, ToJudge,
};

pub(crate) const ORGANISATION: &str = "org";
pub(super) const AGENT: &str = "erp";
pub(super) const SURFACE: &str = "chat";
pub(super) const CONVERSATION: &str = "conv";
pub(super) const TURN: &str = "turn-1";

/// Seconds after the test's own beginning.
pub(super) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_millis(1_700_000_000_000).plus(Duration::from_secs(seconds))
}

/// What the calls of this suite are about.
pub(super) fn tool(definition: &str) -> ToolIdentity {
    ToolIdentity {
        origin: Origin::Connector,
        server_label: Some("crm".to_owned()),
        name: "note_add".to_owned(),
        definition: definition.to_owned(),
    }
}

pub(super) fn claimant(key: &str) -> Claimant {
    Claimant { caller: "gateway".to_owned(), key: key.to_owned() }
}

pub(super) fn approve() -> PersonVerdict {
    PersonVerdict::Approve { start_by: at(1_300), remember: false }
}

#[derive(Clone)]
pub(crate) struct World {
    pub(super) store: Arc<dyn Store>,
}

impl World {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// A request in ask mode; its body and its calls' bytes follow from the calls' ids.
    pub(super) fn request(&self, key: &str, calls: &[&str]) -> Begin {
        Begin {
            organisation: ORGANISATION.to_owned(),
            idempotency: Idempotency {
                caller: "gateway".to_owned(),
                endpoint: "judgements".to_owned(),
                key: key.to_owned(),
                digest: calls.join("+"),
            },
            door: Door::Gateway,
            instance: None,
            agent: AGENT.to_owned(),
            surface: SURFACE.to_owned(),
            conversation: CONVERSATION.to_owned(),
            turn: TURN.to_owned(),
            continues: None,
            mode: ModeChoice::Unsaid,
            modes: Modes { offered: Mode::ALL.to_vec(), default: Mode::Ask },
            calls: calls
                .iter()
                .map(|call| BeginCall {
                    call_id: (*call).to_owned(),
                    digest: format!("bytes of {call}"),
                    identity: Some(format!("write of {call}")),
                })
                .collect(),
            tools: Vec::new(),
            reserve: Reserved::default(),
            instance_after: None,
            now: at(0),
            lease: Duration::from_secs(60),
        }
    }

    pub(super) async fn begin(&self, begin: Begin) -> Begun {
        self.store.begin(begin).await.unwrap()
    }

    #[track_caller]
    pub(super) fn judge(&self, begin: Begin) -> impl Future<Output = ToJudge> {
        let caller = std::panic::Location::caller();
        async move {
            match self.begin(begin).await {
                Begun::Judge(judge) => *judge,
                other => panic!("{caller}: expected to judge, found {other:?}"),
            }
        }
    }

    /// What is known of a call when it is raised in a judgement.
    pub(super) fn facts(&self, judged: &ToJudge, call: &str, approval: &str) -> Facts {
        let ticket = &judged.ticket;
        Facts {
            id: approval.to_owned(),
            organisation: ticket.organisation.clone(),
            door: Door::Gateway,
            instance: None,
            agent: AGENT.to_owned(),
            version: "7".to_owned(),
            surface: ticket.surface.clone(),
            conversation: ticket.conversation.clone(),
            turn: ticket.turn.clone(),
            call_id: call.to_owned(),
            user: None,
            tool: tool("d1"),
            tool_version: None,
            class: Some(Class::Write),
            mode: judged.mode,
            timeout_seconds: None,
            pause_reason: None,
            pause_sentence: None,
            judged: None,
            findings: Vec::new(),
            detectors: "1".to_owned(),
            arguments_digest: "0".repeat(64),
            lists_digest: None,
            policy_digest: None,
            latency_ms: 3,
            created_at: at(0),
            deadline_at: at(3_600),
        }
    }

    pub(super) fn outcome(
        &self,
        judged: &ToJudge,
        call: &str,
        approval: &str,
        standing: Standing,
    ) -> NewOutcome {
        let facts = self.facts(judged, call, approval);
        let input = Sealed { key_id: "k1".to_owned(), ciphertext: approval.as_bytes().to_vec() };
        let approval = Box::new(NewApproval { facts, standing, input });
        NewOutcome { call_id: call.to_owned(), outcome: NewCallOutcome::Approval(approval) }
    }

    pub(super) fn pending(&self, judged: &ToJudge, call: &str, approval: &str) -> NewOutcome {
        self.outcome(judged, call, approval, Standing::Pending)
    }

    pub(super) fn approved(&self, judged: &ToJudge, call: &str, approval: &str) -> NewOutcome {
        let by = "auto:approver".to_owned();
        let reason = Some("the user asked for it".to_owned());
        let standing = Standing::Approved { by, reason, start_by: at(300) };
        self.outcome(judged, call, approval, standing)
    }

    pub(super) async fn try_record(
        &self,
        judged: &ToJudge,
        calls: Vec<NewOutcome>,
    ) -> Result<Recorded, StoreError> {
        let ticket = judged.ticket.clone();
        let used = ticket.reserved;
        self.store.record(Record { ticket, calls, used, escalations: 0, now: at(0) }).await
    }

    #[track_caller]
    pub(super) fn record(
        &self,
        judged: &ToJudge,
        calls: Vec<NewOutcome>,
    ) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let recorded = self.try_record(judged, calls).await.unwrap();
            assert_eq!(recorded, Recorded::Done, "{caller}");
        }
    }

    /// A turn's pending approvals, one a call, named after it.
    pub(super) async fn raise(&self, key: &str, calls: &[&str]) {
        self.raise_in(self.request(key, calls)).await;
    }

    pub(super) async fn raise_in(&self, begin: Begin) {
        self.raise_in_as(begin, "ap").await;
    }

    pub(super) async fn raise_in_as(&self, begin: Begin, prefix: &str) {
        let calls: Vec<String> = begin.calls.iter().map(|call| call.call_id.clone()).collect();
        let judged = self.judge(begin).await;
        let outcome = |call: &String| self.pending(&judged, call, &format!("{prefix}-{call}"));
        self.record(&judged, calls.iter().map(outcome).collect()).await;
    }

    pub(super) async fn approval(&self, id: &str) -> Approval {
        self.store.approval(ORGANISATION, id).await.unwrap().expect("the approval is there")
    }

    #[track_caller]
    pub(super) fn check_status(&self, id: &str, expected: Status) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            assert_eq!(self.approval(id).await.status, expected, "{id} at {caller}");
        }
    }

    pub(super) fn decision(&self, approval: &str, verdict: PersonVerdict) -> Decide {
        Decide {
            organisation: ORGANISATION.to_owned(),
            approval: approval.to_owned(),
            verdict,
            by: "ana".to_owned(),
            reason: None,
            stored_mode: None,
            now: at(1_000),
        }
    }

    pub(super) async fn decide(&self, decide: Decide) -> Decided {
        self.store.decide(decide).await.unwrap()
    }

    #[track_caller]
    pub(super) fn decided(&self, decide: Decide) -> impl Future<Output = Approval> {
        let caller = std::panic::Location::caller();
        async move {
            match self.decide(decide).await {
                Decided::Done(approval) => *approval,
                other => panic!("{caller}: expected a decision, found {other:?}"),
            }
        }
    }
}
