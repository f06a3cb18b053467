//! Instances: provisioned by whoever holds a provisioner token, bound to one of the agent versions
//! that the token lists, and set by an operator.
//!
//! A receiver is asked before it counts. A repeat of a request is answered as the first was, and the
//! token comes with it: it is derived anew, because nothing but its hash is kept.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::rfc3339;
use crate::decide::policy::Mode;
use crate::service::keys::token_hash;
use crate::service::{Code, Refusal, Service, ids};
use crate::store::{
    BeginChange, ChangeBegun, ChangeOperation, ChangeTicket, CreateInstance, Delivery, Instance,
    InstanceCreated, InstanceDeleted, InstanceSet, InstanceToken, InstanceUpdated, NewToken,
    SetInstance, SettingsChange, Token, TokenKind, UpdateInstance,
};

/// How long a change may take before another attempt may take it over: a receiver's answer, and
/// time to record it.
const LEASE: Duration = Duration::from_secs(30);
/// How often to look whether another request of the same key is done.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long to look.
const LOOK_FOR: Duration = Duration::from_secs(35);

/// What makes a repeat a repeat.
#[derive(Debug, Clone)]
pub struct Repeat {
    /// The idempotency key.
    pub key: String,
    /// Digest of the body.
    pub digest: String,
}

/// A receiver, as it was sent.
#[derive(Debug, Clone)]
pub struct NewDelivery {
    /// Its address.
    pub url: String,
    /// The provisioner's id for it.
    pub registration_id: String,
    /// `whsec_` and 32 bytes in base64.
    pub signing_secret: SecretString,
}

/// An instance with its token.
#[derive(Debug)]
pub struct Provisioned {
    /// The instance as JSON, as it was when it was provisioned.
    pub instance: String,
    /// Its token.
    pub token: SecretString,
    /// Whether an earlier request of the same key made it.
    pub replayed: bool,
}

/// What an operator sets; what is `None` stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The mode, or the version's default.
    pub mode: Option<Option<Mode>>,
    /// Whether its context counts.
    pub trusted_context: Option<bool>,
}

/// The instance as the protocol shows it.
fn resource(instance: &Instance) -> String {
    let mut shown = json!({"id": instance.id, "name": instance.name});
    if let Some(delivery) = &instance.delivery {
        shown["delivery"] = json!({
            "type": "webhook",
            "url": delivery.url,
            "registration_id": delivery.registration_id,
        });
    }
    shown.to_string()
}

impl Service {
    /// Makes an instance, or answers as when it was made.
    ///
    /// # Errors
    /// 400 when the name selects none of the token's versions, 409 when the key was used with
    /// something else or its instance was deleted, 422 when the receiver does not answer; or the
    /// store fails.
    pub async fn provision(
        &self,
        provisioner: &Token,
        name: Option<&str>,
        delivery: Option<NewDelivery>,
        repeat: Repeat,
    ) -> Result<Provisioned, Refusal> {
        let (agent, version) = binding(provisioner, name)?;
        let organisation = &provisioner.organisation;
        self.version(organisation, &agent, &version).await.map_err(|refusal| {
            match refusal.code {
                Code::NotFound => {
                    let text = format!("There is no version `{version}` of the agent `{agent}`.");
                    Refusal::invalid("$.instance_name", text)
                }
                _ => refusal,
            }
        })?;
        let end = Instant::now() + LOOK_FOR;
        loop {
            let operation = ChangeOperation::Create { proposed: ids::uuid() };
            let ticket = match self.begin_change(provisioner, operation, &repeat).await? {
                ChangeBegun::Go(ticket) => ticket,
                ChangeBegun::Replayed { instance, response } => {
                    return self.provisioned_before(organisation, &instance, response).await;
                }
                ChangeBegun::InProgress => {
                    wait_for_other(end).await?;
                    continue;
                }
                ChangeBegun::Conflict => return Err(idempotency_conflict()),
            };
            let checked = self.check(provisioner, &ticket, delivery.as_ref()).await?;
            let (instance, token) =
                self.new_instance(provisioner, &ticket, name, (&agent, &version), checked)?;
            let response = resource(&instance);
            let stored = NewToken {
                token: Token {
                    id: instance.token.id.clone(),
                    organisation: organisation.clone(),
                    name: instance.id.clone(),
                    kind: TokenKind::Instance { instance: instance.id.clone() },
                    created_at: instance.created_at,
                    revoked_at: None,
                },
                hash: token_hash(token.expose_secret()),
            };
            let create =
                CreateInstance { ticket, instance, token: stored, response: response.clone() };
            match self.store.create_instance(create).await? {
                InstanceCreated::Done => {
                    return Ok(Provisioned { instance: response, token, replayed: false });
                }
                InstanceCreated::Superseded => {}
            }
        }
    }

    fn new_instance(
        &self,
        provisioner: &Token,
        ticket: &ChangeTicket,
        name: Option<&str>,
        (agent, version): (&str, &str),
        delivery: Option<Delivery>,
    ) -> Result<(Instance, SecretString), Refusal> {
        let now = self.now();
        let (id, nonce) = (ticket.instance.clone(), Uuid::new_v4().simple().to_string());
        let key_id = self.keys.active().to_owned();
        let token = self.keys.instance_token(&key_id, &id, &nonce).ok_or_else(key_gone)?;
        let name = name.map_or_else(|| format!("{agent} {}", rfc3339(now)), str::to_owned);
        let instance = Instance {
            id,
            organisation: provisioner.organisation.clone(),
            name,
            agent: agent.to_owned(),
            version: version.to_owned(),
            mode: None,
            trusted_context: false,
            delivery,
            token: InstanceToken { id: ids::token(), key_id, nonce },
            provisioner: provisioner.id.clone(),
            created_at: now,
            updated_at: now,
            deleted_at: None,
        };
        Ok((instance, token.into()))
    }

    async fn provisioned_before(
        &self,
        organisation: &str,
        id: &str,
        response: String,
    ) -> Result<Provisioned, Refusal> {
        let instance = self.store.instance(organisation, id).await?;
        let instance = instance.filter(|instance| instance.deleted_at.is_none());
        let Some(Instance { token, .. }) = instance else {
            let text = "The instance that this key made was deleted.";
            return Err(Refusal::new(Code::InstanceDeleted, text));
        };
        let token = self.keys.instance_token(&token.key_id, id, &token.nonce);
        let token = token.ok_or_else(key_gone)?.into();
        Ok(Provisioned { instance: response, token, replayed: true })
    }

    async fn begin_change(
        &self,
        provisioner: &Token,
        operation: ChangeOperation,
        repeat: &Repeat,
    ) -> Result<ChangeBegun, Refusal> {
        let change = BeginChange {
            organisation: provisioner.organisation.clone(),
            caller: provisioner.id.clone(),
            operation,
            key: repeat.key.clone(),
            digest: repeat.digest.clone(),
            now: self.now(),
            lease: LEASE,
        };
        Ok(self.store.begin_change(change).await?)
    }

    /// An instance that the provisioner made.
    ///
    /// # Errors
    /// 404, also for deleted ones; or the store fails.
    pub async fn provisioned_instance(
        &self,
        provisioner: &Token,
        id: &str,
    ) -> Result<String, Refusal> {
        let instance = self.instance_of(provisioner, id).await?;
        let instance = instance.filter(|instance| instance.deleted_at.is_none());
        instance.as_ref().map(resource).ok_or_else(no_instance)
    }

    async fn instance_of(
        &self,
        provisioner: &Token,
        id: &str,
    ) -> Result<Option<Instance>, Refusal> {
        let TokenKind::Provisioner { versions } = &provisioner.kind else { return Ok(None) };
        let instance = self.store.instance(&provisioner.organisation, id).await?;
        let instance = instance.filter(|instance| {
            versions
                .iter()
                .any(|(agent, version)| *agent == instance.agent && *version == instance.version)
        });
        let Some(instance) = instance else { return Ok(None) };
        let made = self.made(provisioner, &instance).await?;
        Ok(made.then_some(instance))
    }

    /// Whether it is the token that made the instance, or that token's successor: one that an
    /// administrator gave its name once it was revoked.
    async fn made(&self, provisioner: &Token, instance: &Instance) -> Result<bool, Refusal> {
        if instance.provisioner == provisioner.id {
            return Ok(true);
        }
        let maker = self.store.token(&provisioner.organisation, &instance.provisioner).await?;
        Ok(maker.is_some_and(|maker| {
            maker.revoked_at.is_some()
                && maker.name == provisioner.name
                && matches!(maker.kind, TokenKind::Provisioner { .. })
        }))
    }

    /// Changes an instance's name or receiver, or answers as when that was done. Its agent version
    /// stays.
    ///
    /// # Errors
    /// 404, 409 when the key was used with something else, 422 when the receiver does not answer; or
    /// the store fails.
    pub async fn change_instance(
        &self,
        provisioner: &Token,
        id: &str,
        name: Option<String>,
        delivery: Option<Option<NewDelivery>>,
        repeat: Repeat,
    ) -> Result<String, Refusal> {
        let end = Instant::now() + LOOK_FOR;
        loop {
            let known = self.instance_of(provisioner, id).await?;
            if known.is_none_or(|instance| instance.deleted_at.is_some()) {
                return Err(no_instance());
            }
            let operation = ChangeOperation::Update { instance: id.to_owned() };
            let ticket = match self.begin_change(provisioner, operation, &repeat).await? {
                ChangeBegun::Go(ticket) => ticket,
                ChangeBegun::Replayed { response, .. } => return Ok(response),
                ChangeBegun::InProgress => {
                    wait_for_other(end).await?;
                    continue;
                }
                ChangeBegun::Conflict => return Err(idempotency_conflict()),
            };
            let asked = delivery.as_ref().and_then(Option::as_ref);
            let checked = self.check(provisioner, &ticket, asked).await?;
            let update = UpdateInstance {
                ticket,
                organisation: provisioner.organisation.clone(),
                name: name.clone(),
                delivery: delivery.as_ref().map(|_| checked),
                response: resource,
                now: self.now(),
            };
            match self.store.update_instance(update).await? {
                InstanceUpdated::Done(instance) => return Ok(resource(&instance)),
                InstanceUpdated::Superseded => {}
                InstanceUpdated::NotFound => return Err(no_instance()),
            }
        }
    }

    /// Deletes an instance; a repeat is no error as long as the deletion is on record.
    ///
    /// # Errors
    /// 404, or the store fails.
    pub async fn delete_instance(&self, provisioner: &Token, id: &str) -> Result<(), Refusal> {
        self.instance_of(provisioner, id).await?.ok_or_else(no_instance)?;
        let organisation = &provisioner.organisation;
        match self.store.delete_instance(organisation, id, self.now()).await? {
            InstanceDeleted::Done(cancelled) => {
                self.tell_ended(&cancelled);
                let count = cancelled.len();
                tracing::info!(
                    instance = id,
                    by = provisioner.id,
                    count,
                    "an instance was deleted"
                );
                Ok(())
            }
            InstanceDeleted::Before => Ok(()),
            InstanceDeleted::NotFound => Err(no_instance()),
        }
    }

    /// Every instance of an organisation that was not deleted.
    ///
    /// # Errors
    /// The store fails.
    pub async fn instances(&self, organisation: &str) -> Result<Vec<Instance>, Refusal> {
        Ok(self.store.instances(organisation).await?)
    }

    /// An instance of the organisation as long as it is on record, and every change of its mode and
    /// trust.
    ///
    /// # Errors
    /// 404, or the store fails.
    pub async fn instance_with_changes(
        &self,
        organisation: &str,
        id: &str,
    ) -> Result<(Instance, Vec<SettingsChange>), Refusal> {
        let instance = self.store.instance(organisation, id).await?.ok_or_else(no_instance)?;
        let changes = self.store.instance_settings(organisation, id).await?;
        Ok((instance, changes))
    }

    /// Sets an instance's mode and trust, records who did it, and tells of it.
    ///
    /// # Errors
    /// 404, 400 for a mode that its version does not offer; or the store fails.
    pub async fn set_instance(
        &self,
        admin: &Token,
        id: &str,
        settings: Settings,
    ) -> Result<Instance, Refusal> {
        let organisation = &admin.organisation;
        let found = self.store.instance(organisation, id).await?;
        let found = found.filter(|instance| instance.deleted_at.is_none());
        let found = found.ok_or_else(no_instance)?;
        if let Some(Some(mode)) = settings.mode {
            let modes = self.version(organisation, &found.agent, &found.version).await?.modes();
            if !modes.offers(mode) {
                let offered: Vec<&str> = modes.offered.iter().map(|mode| mode.as_str()).collect();
                let mode = mode.as_str();
                let text = format!(
                    "The instance's agent version does not offer the mode `{mode}`; it offers {}.",
                    offered.join(", ")
                );
                return Err(Refusal::new(Code::ConversationModeNotOffered, text)
                    .at("$.mode")
                    .with(json!({"mode": mode, "offered": offered})));
            }
        }
        let set = SetInstance {
            organisation: organisation.clone(),
            instance: id.to_owned(),
            mode: settings.mode,
            trusted_context: settings.trusted_context,
            by: admin.name.clone(),
            now: self.now(),
        };
        let InstanceSet { instance, change } =
            self.store.set_instance(set).await?.ok_or_else(no_instance)?;
        if let Some(change) = change {
            self.events.emit_set(&instance, &change);
        }
        Ok(instance)
    }
}

/// The agent version that a name selects among those of the token; with one there is no choice.
fn binding(provisioner: &Token, name: Option<&str>) -> Result<(String, String), Refusal> {
    let TokenKind::Provisioner { versions } = &provisioner.kind else {
        return Err(Refusal::new(Code::Forbidden, "Only a provisioner's token makes instances."));
    };
    if let [only] = versions.as_slice() {
        return Ok(only.clone());
    }
    let selects = |(agent, version): &&(String, String)| {
        let alone = versions.iter().filter(|(other, _)| other == agent).count() == 1;
        name.is_some_and(|name| (alone && name == agent) || name == format!("{agent}/{version}"))
    };
    let mut selected = versions.iter().filter(selects);
    match (selected.next(), selected.next()) {
        (Some(selected), None) => Ok(selected.clone()),
        (Some(_) | None, _) => {
            let names: Vec<String> =
                versions.iter().map(|(agent, version)| format!("`{agent}/{version}`")).collect();
            let text = format!("Expected one of {}.", names.join(", "));
            Err(Refusal::invalid("$.instance_name", text))
        }
    }
}

async fn wait_for_other(end: Instant) -> Result<(), Refusal> {
    if Instant::now() >= end {
        let text = "Another request of the same key is still being carried out. Try again.";
        return Err(Refusal::new(Code::StoreUnavailable, text));
    }
    sleep(LOOK_EVERY).await;
    Ok(())
}

fn no_instance() -> Refusal {
    Refusal::not_found("instance")
}

fn idempotency_conflict() -> Refusal {
    let text = "This key was used with another request.";
    Refusal::new(Code::IdempotencyConflict, text).at("Idempotency-Key")
}

fn key_gone() -> Refusal {
    tracing::error!("the key that an instance's token is derived from is not in the key ring");
    Refusal::new(Code::InternalError, "The instance's token cannot be derived any more.")
}
