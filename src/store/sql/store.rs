//! The store's interface over an engine: every method is one operation.

use std::sync::Arc;

use super::Operation;
use super::conversations::{
    CurrentDefinition, DeleteConversation, GetConversation, ListConversations, ListTurns,
};
use super::decide_turn::FailContinuation;
use super::directory::{
    GetToken, GetVersion, ListChannels, ListSwitches, ListTokens, ListVersions, RevokeToken,
    TokenByHash,
};
use super::instance_settings::ListSettings;
use super::instances::{AbandonChange, DeleteInstance, GetInstance, ListInstances};
use super::lifecycle::ExpireDue;
use super::read::{CountPending, GetApproval, GetSealed, List, ListTurn, Ping, SchemaVersion};
use super::sealing::KeysInUse;
use crate::decide::state::ToolIdentity;
use crate::store::migrations::HEAD;
use crate::store::wake::Registry;
use crate::store::{
    Answer, Approval, Begin, BeginChange, Begun, Cancel, Cancelled, ChangeBegun, ChangeTicket,
    Channel, ChannelMoved, ClaimApproval, ClaimNotifications, Claimed, ContinuationFailed,
    Conversation, CreateInstance, Created, Decide, DecideTurn, Decided, DueNotification,
    FinishNotification, Instance, InstanceCreated, InstanceDeleted, InstanceSet, InstanceUpdated,
    KeyUse, Listing, MoveChannel, NewToken, Pending, PutVersion, Record, Recorded, ReportExecution,
    Reported, Reseal, SealedOtherwise, SealedParts, SetInstance, SettingsChange, SigningSecret,
    Store, StoreError, StoredVersion, Sweep, Swept, Switch, Timestamp, Token, ToolDefinition, Turn,
    TurnDecided, UpdateInstance, VersionPut, Watch, Watched,
};

/// A database that runs operations.
pub(in crate::store) trait Engine: Send + Sync {
    /// Runs an operation in a transaction. The answer comes when it is durable, unless the operation
    /// says that it need not be.
    fn write<O: Operation>(
        &self,
        operation: O,
    ) -> impl Future<Output = Result<O::Output, StoreError>> + Send;

    /// Runs an operation that only reads, and sees all that was answered before.
    fn read<O: Operation>(
        &self,
        operation: O,
    ) -> impl Future<Output = Result<O::Output, StoreError>> + Send;

    /// The subscriptions.
    fn registry(&self) -> &Arc<Registry>;
}

impl<E: Engine> Store for E {
    fn ping(&self) -> Answer<'_, ()> {
        Box::pin(self.read(Ping))
    }

    fn ready(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            match self.read(SchemaVersion).await? {
                HEAD => Ok(()),
                found => Err(StoreError::Schema { found, needed: HEAD }),
            }
        })
    }

    fn begin(&self, begin: Begin) -> Answer<'_, Begun> {
        Box::pin(self.write(begin))
    }

    fn record(&self, record: Record) -> Answer<'_, Recorded> {
        Box::pin(self.write(record))
    }

    fn approval<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, Option<Approval>> {
        let (organisation, id) = (organisation.to_owned(), id.to_owned());
        Box::pin(self.read(GetApproval { organisation, id }))
    }

    fn sealed<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, SealedParts> {
        let (organisation, id) = (organisation.to_owned(), id.to_owned());
        Box::pin(self.read(GetSealed { organisation, id }))
    }

    fn approvals<'a>(
        &'a self,
        organisation: &'a str,
        listing: Listing,
    ) -> Answer<'a, Vec<Approval>> {
        Box::pin(self.read(List { organisation: organisation.to_owned(), listing }))
    }

    fn pending(&self) -> Answer<'_, Pending> {
        Box::pin(self.read(CountPending))
    }

    fn approvals_of_turn<'a>(
        &'a self,
        organisation: &'a str,
        surface: &'a str,
        conversation: &'a str,
        turn: &'a str,
    ) -> Answer<'a, Vec<Approval>> {
        Box::pin(self.read(ListTurn {
            organisation: organisation.to_owned(),
            surface: surface.to_owned(),
            conversation: conversation.to_owned(),
            turn: turn.to_owned(),
        }))
    }

    fn decide(&self, decide: Decide) -> Answer<'_, Decided> {
        Box::pin(self.write(decide))
    }

    fn decide_turn(&self, decide: DecideTurn) -> Answer<'_, TurnDecided> {
        Box::pin(self.write(decide))
    }

    fn continuation_failed<'a>(
        &'a self,
        organisation: &'a str,
        surface: &'a str,
        conversation: &'a str,
        turn: &'a str,
        continuation: &'a str,
    ) -> Answer<'a, ContinuationFailed> {
        Box::pin(self.write(FailContinuation {
            organisation: organisation.to_owned(),
            surface: surface.to_owned(),
            conversation: conversation.to_owned(),
            turn: turn.to_owned(),
            continuation: continuation.to_owned(),
        }))
    }

    fn claim(&self, claim: ClaimApproval) -> Answer<'_, Claimed> {
        Box::pin(self.write(claim))
    }

    fn report_execution(&self, report: ReportExecution) -> Answer<'_, Reported> {
        Box::pin(self.write(report))
    }

    fn cancel(&self, cancel: Cancel) -> Answer<'_, Cancelled> {
        Box::pin(self.write(cancel))
    }

    fn expire_due(&self, now: Timestamp, limit: u32) -> Answer<'_, Vec<Approval>> {
        Box::pin(self.write(ExpireDue { now, limit }))
    }

    fn conversation<'a>(
        &'a self,
        organisation: &'a str,
        surface: &'a str,
        id: &'a str,
    ) -> Answer<'a, Option<Conversation>> {
        Box::pin(self.read(GetConversation {
            organisation: organisation.to_owned(),
            surface: surface.to_owned(),
            id: id.to_owned(),
        }))
    }

    fn conversations<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
    ) -> Answer<'a, Vec<Conversation>> {
        let (organisation, id) = (organisation.to_owned(), id.to_owned());
        Box::pin(self.read(ListConversations { organisation, id }))
    }

    fn delete_conversation<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
        now: Timestamp,
    ) -> Answer<'a, Option<Vec<Approval>>> {
        let (organisation, id) = (organisation.to_owned(), id.to_owned());
        Box::pin(self.write(DeleteConversation { organisation, id, now }))
    }

    fn turns<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, Vec<Turn>> {
        let (organisation, id) = (organisation.to_owned(), id.to_owned());
        Box::pin(self.read(ListTurns { organisation, id }))
    }

    fn current_definition<'a>(
        &'a self,
        organisation: &'a str,
        surface: &'a str,
        conversation: &'a str,
        tool: &'a ToolIdentity,
    ) -> Answer<'a, Option<ToolDefinition>> {
        Box::pin(self.read(CurrentDefinition {
            organisation: organisation.to_owned(),
            surface: surface.to_owned(),
            conversation: conversation.to_owned(),
            tool: tool.clone(),
        }))
    }

    fn create_token(&self, token: NewToken) -> Answer<'_, Created> {
        Box::pin(self.write(token))
    }

    fn token<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, Option<Token>> {
        let (organisation, id) = (organisation.to_owned(), id.to_owned());
        Box::pin(self.read(GetToken { organisation, id }))
    }

    fn token_by_hash(&self, hash: [u8; 32]) -> Answer<'_, Option<Token>> {
        Box::pin(self.read(TokenByHash(hash)))
    }

    fn tokens<'a>(&'a self, organisation: &'a str) -> Answer<'a, Vec<Token>> {
        Box::pin(self.read(ListTokens(organisation.to_owned())))
    }

    fn revoke_token<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
        now: Timestamp,
    ) -> Answer<'a, bool> {
        let (organisation, id) = (organisation.to_owned(), id.to_owned());
        Box::pin(self.write(RevokeToken { organisation, id, now }))
    }

    fn put_version(&self, version: PutVersion) -> Answer<'_, VersionPut> {
        Box::pin(self.write(version))
    }

    fn version<'a>(
        &'a self,
        organisation: &'a str,
        agent: &'a str,
        name: &'a str,
    ) -> Answer<'a, Option<StoredVersion>> {
        let (organisation, agent) = (organisation.to_owned(), agent.to_owned());
        Box::pin(self.read(GetVersion { organisation, agent, name: name.to_owned() }))
    }

    fn versions<'a>(
        &'a self,
        organisation: &'a str,
        agent: &'a str,
    ) -> Answer<'a, Vec<StoredVersion>> {
        let (organisation, agent) = (organisation.to_owned(), agent.to_owned());
        Box::pin(self.read(ListVersions { organisation, agent }))
    }

    fn move_channel(&self, channel: MoveChannel) -> Answer<'_, ChannelMoved> {
        Box::pin(self.write(channel))
    }

    fn channels<'a>(&'a self, organisation: &'a str, agent: &'a str) -> Answer<'a, Vec<Channel>> {
        let (organisation, agent) = (organisation.to_owned(), agent.to_owned());
        Box::pin(self.read(ListChannels { organisation, agent }))
    }

    fn set_automatic_approval(&self, switch: Switch) -> Answer<'_, ()> {
        Box::pin(self.write(switch))
    }

    fn switches<'a>(&'a self, organisation: &'a str) -> Answer<'a, Vec<Switch>> {
        Box::pin(self.read(ListSwitches(organisation.to_owned())))
    }

    fn begin_change(&self, change: BeginChange) -> Answer<'_, ChangeBegun> {
        Box::pin(self.write(change))
    }

    fn abandon_change(&self, ticket: ChangeTicket) -> Answer<'_, ()> {
        Box::pin(self.write(AbandonChange(ticket)))
    }

    fn create_instance(&self, instance: CreateInstance) -> Answer<'_, InstanceCreated> {
        Box::pin(self.write(instance))
    }

    fn update_instance(&self, update: UpdateInstance) -> Answer<'_, InstanceUpdated> {
        Box::pin(self.write(update))
    }

    fn set_instance(&self, set: SetInstance) -> Answer<'_, Option<InstanceSet>> {
        Box::pin(self.write(set))
    }

    fn instance_settings<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
    ) -> Answer<'a, Vec<SettingsChange>> {
        let (organisation, id) = (organisation.to_owned(), id.to_owned());
        Box::pin(self.read(ListSettings { organisation, instance: id }))
    }

    fn instance<'a>(&'a self, organisation: &'a str, id: &'a str) -> Answer<'a, Option<Instance>> {
        let (organisation, id) = (organisation.to_owned(), id.to_owned());
        Box::pin(self.read(GetInstance { organisation, id }))
    }

    fn instances<'a>(&'a self, organisation: &'a str) -> Answer<'a, Vec<Instance>> {
        Box::pin(self.read(ListInstances(organisation.to_owned())))
    }

    fn delete_instance<'a>(
        &'a self,
        organisation: &'a str,
        id: &'a str,
        now: Timestamp,
    ) -> Answer<'a, InstanceDeleted> {
        let (organisation, id) = (organisation.to_owned(), id.to_owned());
        Box::pin(self.write(DeleteInstance { organisation, id, now }))
    }

    fn claim_notifications(&self, claim: ClaimNotifications) -> Answer<'_, Vec<DueNotification>> {
        Box::pin(self.write(claim))
    }

    fn finish_notification(&self, finish: FinishNotification) -> Answer<'_, bool> {
        Box::pin(self.write(finish))
    }

    fn keys_in_use(&self) -> Answer<'_, Vec<KeyUse>> {
        Box::pin(self.read(KeysInUse))
    }

    fn sealed_otherwise(&self, otherwise: SealedOtherwise) -> Answer<'_, Vec<SigningSecret>> {
        Box::pin(self.read(otherwise))
    }

    fn reseal(&self, reseal: Reseal) -> Answer<'_, bool> {
        Box::pin(self.write(reseal))
    }

    fn sweep(&self, sweep: Sweep) -> Answer<'_, Swept> {
        Box::pin(self.write(sweep))
    }

    fn subscribe(&self, watched: Vec<Watched>) -> Watch {
        self.registry().subscribe(watched)
    }
}
