//! A store that says how long a request waited for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use approver::decide::state::ToolIdentity;
use approver::store::*;

/// What a judgement waits for.
#[derive(Clone, Copy)]
pub(crate) enum Stage {
    Token,
    Version,
    Begin,
    Record,
}

impl Stage {
    pub(crate) const ALL: [(Self, &str); 4] = [
        (Self::Token, "token"),
        (Self::Version, "version"),
        (Self::Begin, "begin"),
        (Self::Record, "record"),
    ];
}

/// Nanoseconds by stage, over all requests.
pub(crate) struct Timed {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) waited: [AtomicU64; 4],
}

impl Timed {
    fn timed<'a, T: 'a>(&'a self, stage: Stage, answer: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            let start = Instant::now();
            let output = answer.await;
            let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.waited[stage as usize].fetch_add(nanos, Relaxed);
            output
        })
    }
}

impl Store for Timed {
    fn ping(&self) -> Answer<'_, ()> {
        self.inner.ping()
    }

    fn ready(&self) -> Answer<'_, ()> {
        self.inner.ready()
    }

    fn begin(&self, begin: Begin) -> Answer<'_, Begun> {
        self.timed(Stage::Begin, self.inner.begin(begin))
    }

    fn record(&self, record: Record) -> Answer<'_, Recorded> {
        self.timed(Stage::Record, self.inner.record(record))
    }

    fn approval<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, Option<Approval>> {
        self.inner.approval(organisation, id)
    }

    fn sealed<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, SealedParts> {
        self.inner.sealed(organisation, id)
    }

    fn approvals<'a>(
        &'a self,
        organisation: &'a str,
        listing: Listing,
    ) -> Answer<'a, Vec<Approval>> {
        self.inner.approvals(organisation, listing)
    }

    fn pending(&self) -> Answer<'_, Pending> {
        self.inner.pending()
    }

    fn approvals_of_turn<'a>(
        &'a self,
        organisation: &'a str,
        surface: &'a str,
        conversation: &'a str,
        turn: &'a str,
    ) -> Answer<'a, Vec<Approval>> {
        self.inner.approvals_of_turn(organisation, surface, conversation, turn)
    }

    fn decide(&self, decide: Decide) -> Answer<'_, Decided> {
        self.inner.decide(decide)
    }

    fn decide_turn(&self, decide: DecideTurn) -> Answer<'_, TurnDecided> {
        self.inner.decide_turn(decide)
    }

    fn continuation_failed<'a>(
        &'a self,
        organisation: &'a str,
        surface: &'a str,
        conversation: &'a str,
        turn: &'a str,
        continuation: &'a str,
    ) -> Answer<'a, ContinuationFailed> {
        self.inner.continuation_failed(organisation, surface, conversation, turn, continuation)
    }

    fn claim(&self, claim: ClaimApproval) -> Answer<'_, Claimed> {
        self.inner.claim(claim)
    }

    fn report_execution(&self, report: ReportExecution) -> Answer<'_, Reported> {
        self.inner.report_execution(report)
    }

    fn cancel(&self, cancel: Cancel) -> Answer<'_, Cancelled> {
        self.inner.cancel(cancel)
    }

    fn expire_due(&self, now: Timestamp, limit: u32) -> Answer<'_, Vec<Approval>> {
        self.inner.expire_due(now, limit)
    }

    fn conversation<'a>(
        &'a self,
        organisation: &'a str,
        surface: &'a str,
        id: &'a str,
    ) -> Answer<'a, Option<Conversation>> {
        self.inner.conversation(organisation, surface, id)
    }

    fn conversations<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
    ) -> Answer<'a, Vec<Conversation>> {
        self.inner.conversations(organisation, id)
    }

    fn delete_conversation<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
        now: Timestamp,
    ) -> Answer<'a, Option<Vec<Approval>>> {
        self.inner.delete_conversation(organisation, id, now)
    }

    fn turns<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, Vec<Turn>> {
        self.inner.turns(organisation, id)
    }

    fn current_definition<'a>(
        &'a self,
        organisation: &'a str,
        surface: &'a str,
        conversation: &'a str,
        tool: &'a ToolIdentity,
    ) -> Answer<'a, Option<ToolDefinition>> {
        self.inner.current_definition(organisation, surface, conversation, tool)
    }

    fn create_token(&self, token: NewToken) -> Answer<'_, Created> {
        self.inner.create_token(token)
    }

    fn token_by_hash(&self, hash: [u8; 32]) -> Answer<'_, Option<Token>> {
        self.timed(Stage::Token, self.inner.token_by_hash(hash))
    }

    fn tokens<'a>(&'a self, organisation: &'a str) -> Answer<'a, Vec<Token>> {
        self.inner.tokens(organisation)
    }

    fn revoke_token<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
        now: Timestamp,
    ) -> Answer<'a, bool> {
        self.inner.revoke_token(organisation, id, now)
    }

    fn put_version(&self, version: PutVersion) -> Answer<'_, VersionPut> {
        self.inner.put_version(version)
    }

    fn version<'a>(
        &'a self,
        organisation: &'a str,
        agent: &'a str,
        name: &'a str,
    ) -> Answer<'a, Option<StoredVersion>> {
        self.timed(Stage::Version, self.inner.version(organisation, agent, name))
    }

    fn versions<'a>(
        &'a self,
        organisation: &'a str,
        agent: &'a str,
    ) -> Answer<'a, Vec<StoredVersion>> {
        self.inner.versions(organisation, agent)
    }

    fn move_channel(&self, channel: MoveChannel) -> Answer<'_, ChannelMoved> {
        self.inner.move_channel(channel)
    }

    fn channels<'a>(&'a self, organisation: &'a str, agent: &'a str) -> Answer<'a, Vec<Channel>> {
        self.inner.channels(organisation, agent)
    }

    fn set_automatic_approval(&self, switch: Switch) -> Answer<'_, ()> {
        self.inner.set_automatic_approval(switch)
    }

    fn switches<'a>(&'a self, organisation: &'a str) -> Answer<'a, Vec<Switch>> {
        self.inner.switches(organisation)
    }

    fn begin_change(&self, change: BeginChange) -> Answer<'_, ChangeBegun> {
        self.inner.begin_change(change)
    }

    fn abandon_change(&self, ticket: ChangeTicket) -> Answer<'_, ()> {
        self.inner.abandon_change(ticket)
    }

    fn create_instance(&self, instance: CreateInstance) -> Answer<'_, InstanceCreated> {
        self.inner.create_instance(instance)
    }

    fn update_instance(&self, update: UpdateInstance) -> Answer<'_, InstanceUpdated> {
        self.inner.update_instance(update)
    }

    fn set_instance(&self, set: SetInstance) -> Answer<'_, Option<Instance>> {
        self.inner.set_instance(set)
    }

    fn instance<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, Option<Instance>> {
        self.inner.instance(organisation, id)
    }

    fn instances<'a>(&'a self, organisation: &'a str) -> Answer<'a, Vec<Instance>> {
        self.inner.instances(organisation)
    }

    fn delete_instance<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
        now: Timestamp,
    ) -> Answer<'a, InstanceDeleted> {
        self.inner.delete_instance(organisation, id, now)
    }

    fn claim_notifications(&self, claim: ClaimNotifications) -> Answer<'_, Vec<DueNotification>> {
        self.inner.claim_notifications(claim)
    }

    fn finish_notification(&self, finish: FinishNotification) -> Answer<'_, bool> {
        self.inner.finish_notification(finish)
    }

    fn keys_in_use(&self) -> Answer<'_, Vec<KeyUse>> {
        self.inner.keys_in_use()
    }

    fn sealed_otherwise(&self, otherwise: SealedOtherwise) -> Answer<'_, Vec<SigningSecret>> {
        self.inner.sealed_otherwise(otherwise)
    }

    fn reseal(&self, reseal: Reseal) -> Answer<'_, bool> {
        self.inner.reseal(reseal)
    }

    fn sweep(&self, sweep: Sweep) -> Answer<'_, Swept> {
        self.inner.sweep(sweep)
    }

    fn subscribe(&self, watched: Vec<Watched>) -> Watch {
        self.inner.subscribe(watched)
    }
}
