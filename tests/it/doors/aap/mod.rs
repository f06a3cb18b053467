//! The Agent Approval Protocol over HTTP, as its clients meet it.

mod claims;
mod consume;
mod echo;
mod instances;
mod judged;
mod receiver;
mod requests;
mod waits;
mod webhooks;

use std::time::Duration;

use approver::decide::policy::Mode;
use approver::store::{
    Decide, Decided, MoveChannel, PersonVerdict, PutVersion, SetInstance, TokenKind, VersionPut,
};
use reqwest::Method;
use serde_json::{Value, json};

use super::judgements::content;
use super::world::{ORGANISATION, Reply, World};

const REQUESTS: &str = "/aap/v1/requests";
const INSTANCES: &str = "/aap/v1/instances";

/// An instance of version 7 of `erp`, which allows reads, blocks `purge`, and lets the rest wait.
pub(super) struct Asking<'w> {
    world: &'w World,
    id: String,
    token: String,
}

async fn put_version(world: &World, name: &str, content: &Value) {
    let put = PutVersion {
        organisation: ORGANISATION.to_owned(),
        agent: "erp".to_owned(),
        version: name.to_owned(),
        content: content.to_string(),
        digest: approver::decide::digest(&[&content.to_string()]),
        by: "owner".to_owned(),
        now: world.now(),
    };
    assert_eq!(world.store.put_version(put).await.unwrap(), VersionPut::Done);
}

async fn channel(world: &World, name: &str, version: &str) {
    let channel = MoveChannel {
        organisation: ORGANISATION.to_owned(),
        agent: "erp".to_owned(),
        name: name.to_owned(),
        version: version.to_owned(),
        by: "owner".to_owned(),
        now: world.now(),
    };
    world.store.move_channel(channel).await.unwrap();
}

/// A provisioner that may bind the channel `production`, which stands for version 7.
async fn provisioner(world: &World) -> String {
    put_version(world, "7", &content()).await;
    channel(world, "production", "7").await;
    let versions = vec![("erp".to_owned(), "production".to_owned())];
    world.token("rollout", TokenKind::Provisioner { versions }).await
}

async fn provision<'w>(world: &'w World, provisioner: &str, key: &str) -> Asking<'w> {
    let made = world.post_once(INSTANCES, provisioner, key, &json!({})).await.expect(201);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Asking { world, id: text(&made["instance"]["id"]), token: text(&made["credential"]["token"]) }
}

pub(super) async fn asking(world: &World) -> Asking<'_> {
    let provisioner = provisioner(world).await;
    provision(world, &provisioner, "k").await
}

/// A request for a tool with arguments.
fn call(tool: &str, arguments: Value) -> Value {
    json!({"tool": tool, "arguments": arguments, "timeout": "30m"})
}

/// One that waits for a person.
fn note() -> Value {
    call("note_add", json!({"contact": "C-1042", "text": "call back Monday"}))
}

impl Asking<'_> {
    async fn submit(&self, key: &str, body: &Value) -> Reply {
        self.world.post_once(REQUESTS, &self.token, key, body).await
    }

    /// A submission whose text is anything.
    pub(super) async fn send(&self, body: String) -> Reply {
        let headers = [("Idempotency-Key", "k")];
        self.world.send(Method::POST, REQUESTS, Some(&self.token), &headers, Some(body)).await
    }

    /// A new request.
    #[track_caller]
    fn raise(&self, key: &str, body: &Value) -> impl Future<Output = Value> {
        let caller = std::panic::Location::caller();
        async move {
            let reply = self.submit(key, body).await;
            assert_eq!(reply.status, 201, "{caller}: {}", reply.text);
            reply.json
        }
    }

    async fn get(&self, id: &str) -> Reply {
        self.world.get(&format!("{REQUESTS}/{id}"), &self.token).await
    }

    async fn cancel(&self, id: &str) -> Reply {
        self.world.delete(&format!("{REQUESTS}/{id}"), &self.token).await
    }

    /// Without a body and without its type, as clients do it.
    async fn consume(&self, id: &str, key: &str) -> Reply {
        let path = format!("{REQUESTS}/{id}/consume");
        let headers = [("Idempotency-Key", key)];
        self.world.send(Method::POST, &path, Some(&self.token), &headers, None).await
    }

    async fn outcome(&self, id: &str, report: &Value) -> Reply {
        self.world.post(&format!("{REQUESTS}/{id}/outcome"), &self.token, report).await
    }

    /// What an operator sets.
    async fn set(&self, mode: Option<Mode>, trusted_context: bool) {
        let set = SetInstance {
            organisation: ORGANISATION.to_owned(),
            instance: self.id.clone(),
            mode: Some(mode),
            trusted_context: Some(trusted_context),
            by: "root".to_owned(),
            now: self.world.now(),
        };
        assert!(self.world.store.set_instance(set).await.unwrap().is_some());
    }

    /// The approval as the store has it.
    async fn stored(&self, id: &str) -> approver::store::Approval {
        self.world.store.approval(ORGANISATION, id).await.unwrap().unwrap()
    }
}

async fn decide(world: &World, id: &str, approve: bool, reason: Option<&str>) -> Decided {
    decide_as(world, id, approve, false, reason).await
}

async fn decide_as(
    world: &World,
    id: &str,
    approve: bool,
    remember: bool,
    reason: Option<&str>,
) -> Decided {
    let start_by = world.now().plus(Duration::from_secs(300));
    let verdict =
        if approve { PersonVerdict::Approve { start_by, remember } } else { PersonVerdict::Reject };
    let decide = Decide {
        organisation: ORGANISATION.to_owned(),
        approval: id.to_owned(),
        verdict,
        by: "ana".to_owned(),
        reason: reason.map(str::to_owned),
        stored_mode: None,
        now: world.now(),
    };
    world.store.decide(decide).await.unwrap()
}

async fn approve(world: &World, id: &str) {
    assert!(matches!(decide(world, id, true, None).await, Decided::Done(_)));
}

fn id(request: &Value) -> &str {
    request["id"].as_str().unwrap()
}

/// The members of an object, in alphabetical order.
fn members(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// The code of an error with that status, whose envelope is the protocol's and nothing more.
#[track_caller]
fn code(reply: Reply, status: u16, kind: &str) -> String {
    assert_eq!(reply.status, status, "{}", reply.text);
    assert_eq!(members(&reply.json), ["error"]);
    let error = &reply.json["error"];
    let known = ["code", "message", "param", "request_id", "type"];
    assert!(members(error).iter().all(|name| known.contains(name)), "{}", reply.text);
    assert_eq!(error["type"], kind, "{}", reply.text);
    assert!(!error["message"].as_str().unwrap().is_empty());
    error["code"].as_str().unwrap().to_owned()
}
