//! A store that leaves the work to another one, except where whoever wraps it says otherwise. Tests
//! wrap one to break it, benchmarks to time it.

use approver::decide::state::ToolIdentity;
use approver::store::*;

/// What a wrapper does to the store within: nothing, unless it says otherwise.
pub(crate) trait Around: Send + Sync {
    fn inner(&self) -> &dyn Store;

    fn begin(&self, begin: Begin) -> Answer<'_, Begun> {
        self.inner().begin(begin)
    }

    fn record(&self, record: Record) -> Answer<'_, Recorded> {
        self.inner().record(record)
    }

    fn token_by_hash(&self, hash: [u8; 32]) -> Answer<'_, Option<Token>> {
        self.inner().token_by_hash(hash)
    }

    fn version<'a>(
        &'a self,
        organisation: &'a str,
        agent: &'a str,
        name: &'a str,
    ) -> Answer<'a, Option<StoredVersion>> {
        self.inner().version(organisation, agent, name)
    }
}

/// The store that a wrapper makes of the one within.
pub(crate) struct Through<A>(pub(crate) A);

impl<A: Around> Store for Through<A> {
    fn ping(&self) -> Answer<'_, ()> {
        self.0.inner().ping()
    }

    fn ready(&self) -> Answer<'_, ()> {
        self.0.inner().ready()
    }

    fn begin(&self, begin: Begin) -> Answer<'_, Begun> {
        self.0.begin(begin)
    }

    fn record(&self, record: Record) -> Answer<'_, Recorded> {
        self.0.record(record)
    }

    fn approval<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, Option<Approval>> {
        self.0.inner().approval(organisation, id)
    }

    fn sealed<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, SealedParts> {
        self.0.inner().sealed(organisation, id)
    }

    fn approvals<'a>(
        &'a self,
        organisation: &'a str,
        listing: Listing,
    ) -> Answer<'a, Vec<Approval>> {
        self.0.inner().approvals(organisation, listing)
    }

    fn pending(&self) -> Answer<'_, Pending> {
        self.0.inner().pending()
    }

    fn approvals_of_turn<'a>(
        &'a self,
        organisation: &'a str,
        surface: &'a str,
        conversation: &'a str,
        turn: &'a str,
    ) -> Answer<'a, Vec<Approval>> {
        self.0.inner().approvals_of_turn(organisation, surface, conversation, turn)
    }

    fn decide(&self, decide: Decide) -> Answer<'_, Decided> {
        self.0.inner().decide(decide)
    }

    fn decide_turn(&self, decide: DecideTurn) -> Answer<'_, TurnDecided> {
        self.0.inner().decide_turn(decide)
    }

    fn continuation_failed<'a>(
        &'a self,
        organisation: &'a str,
        surface: &'a str,
        conversation: &'a str,
        turn: &'a str,
        continuation: &'a str,
    ) -> Answer<'a, ContinuationFailed> {
        self.0.inner().continuation_failed(organisation, surface, conversation, turn, continuation)
    }

    fn claim(&self, claim: ClaimApproval) -> Answer<'_, Claimed> {
        self.0.inner().claim(claim)
    }

    fn report_execution(&self, report: ReportExecution) -> Answer<'_, Reported> {
        self.0.inner().report_execution(report)
    }

    fn cancel(&self, cancel: Cancel) -> Answer<'_, Cancelled> {
        self.0.inner().cancel(cancel)
    }

    fn expire_due(&self, now: Timestamp, limit: u32) -> Answer<'_, Vec<Approval>> {
        self.0.inner().expire_due(now, limit)
    }

    fn conversation<'a>(
        &'a self,
        organisation: &'a str,
        surface: &'a str,
        id: &'a str,
    ) -> Answer<'a, Option<Conversation>> {
        self.0.inner().conversation(organisation, surface, id)
    }

    fn conversations<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
    ) -> Answer<'a, Vec<Conversation>> {
        self.0.inner().conversations(organisation, id)
    }

    fn delete_conversation<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
        now: Timestamp,
    ) -> Answer<'a, Option<Vec<Approval>>> {
        self.0.inner().delete_conversation(organisation, id, now)
    }

    fn turns<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, Vec<Turn>> {
        self.0.inner().turns(organisation, id)
    }

    fn current_definition<'a>(
        &'a self,
        organisation: &'a str,
        surface: &'a str,
        conversation: &'a str,
        tool: &'a ToolIdentity,
    ) -> Answer<'a, Option<ToolDefinition>> {
        self.0.inner().current_definition(organisation, surface, conversation, tool)
    }

    fn create_token(&self, token: NewToken) -> Answer<'_, Created> {
        self.0.inner().create_token(token)
    }

    fn token<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, Option<Token>> {
        self.0.inner().token(organisation, id)
    }

    fn token_by_hash(&self, hash: [u8; 32]) -> Answer<'_, Option<Token>> {
        self.0.token_by_hash(hash)
    }

    fn tokens<'a>(&'a self, organisation: &'a str) -> Answer<'a, Vec<Token>> {
        self.0.inner().tokens(organisation)
    }

    fn revoke_token<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
        now: Timestamp,
    ) -> Answer<'a, bool> {
        self.0.inner().revoke_token(organisation, id, now)
    }

    fn put_version(&self, version: PutVersion) -> Answer<'_, VersionPut> {
        self.0.inner().put_version(version)
    }

    fn version<'a>(
        &'a self,
        organisation: &'a str,
        agent: &'a str,
        name: &'a str,
    ) -> Answer<'a, Option<StoredVersion>> {
        self.0.version(organisation, agent, name)
    }

    fn versions<'a>(
        &'a self,
        organisation: &'a str,
        agent: &'a str,
    ) -> Answer<'a, Vec<StoredVersion>> {
        self.0.inner().versions(organisation, agent)
    }

    fn move_channel(&self, channel: MoveChannel) -> Answer<'_, ChannelMoved> {
        self.0.inner().move_channel(channel)
    }

    fn channels<'a>(&'a self, organisation: &'a str, agent: &'a str) -> Answer<'a, Vec<Channel>> {
        self.0.inner().channels(organisation, agent)
    }

    fn set_automatic_approval(&self, switch: Switch) -> Answer<'_, ()> {
        self.0.inner().set_automatic_approval(switch)
    }

    fn switches<'a>(&'a self, organisation: &'a str) -> Answer<'a, Vec<Switch>> {
        self.0.inner().switches(organisation)
    }

    fn begin_change(&self, change: BeginChange) -> Answer<'_, ChangeBegun> {
        self.0.inner().begin_change(change)
    }

    fn abandon_change(&self, ticket: ChangeTicket) -> Answer<'_, ()> {
        self.0.inner().abandon_change(ticket)
    }

    fn create_instance(&self, instance: CreateInstance) -> Answer<'_, InstanceCreated> {
        self.0.inner().create_instance(instance)
    }

    fn update_instance(&self, update: UpdateInstance) -> Answer<'_, InstanceUpdated> {
        self.0.inner().update_instance(update)
    }

    fn set_instance(&self, set: SetInstance) -> Answer<'_, Option<InstanceSet>> {
        self.0.inner().set_instance(set)
    }

    fn instance_settings<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
    ) -> Answer<'a, Vec<SettingsChange>> {
        self.0.inner().instance_settings(organisation, id)
    }

    fn instance<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, Option<Instance>> {
        self.0.inner().instance(organisation, id)
    }

    fn instances<'a>(&'a self, organisation: &'a str) -> Answer<'a, Vec<Instance>> {
        self.0.inner().instances(organisation)
    }

    fn delete_instance<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
        now: Timestamp,
    ) -> Answer<'a, InstanceDeleted> {
        self.0.inner().delete_instance(organisation, id, now)
    }

    fn claim_notifications(&self, claim: ClaimNotifications) -> Answer<'_, Vec<DueNotification>> {
        self.0.inner().claim_notifications(claim)
    }

    fn finish_notification(&self, finish: FinishNotification) -> Answer<'_, bool> {
        self.0.inner().finish_notification(finish)
    }

    fn keys_in_use(&self) -> Answer<'_, Vec<KeyUse>> {
        self.0.inner().keys_in_use()
    }

    fn sealed_otherwise(&self, otherwise: SealedOtherwise) -> Answer<'_, Vec<SigningSecret>> {
        self.0.inner().sealed_otherwise(otherwise)
    }

    fn reseal(&self, reseal: Reseal) -> Answer<'_, bool> {
        self.0.inner().reseal(reseal)
    }

    fn sweep(&self, sweep: Sweep) -> Answer<'_, Swept> {
        self.0.inner().sweep(sweep)
    }

    fn subscribe(&self, watched: Vec<Watched>) -> Watch {
        self.0.inner().subscribe(watched)
    }
}
