//! Approvals that wait, recorded through the store as a judgement records them.

use std::sync::Arc;
use std::time::Duration;

use approver::decide::policy::{self, Class, Mode, Modes};
use approver::decide::request::{Door, Origin, Tool};
use approver::decide::state::ToolIdentity;
use approver::host::agent::{Reading, parse_text};
use approver::http::{Doors, router};
use approver::judge::scripted::{Move, Scripted};
use approver::service::events::Events;
use approver::service::keys::{KeyRing, Part, token_hash};
use approver::service::{Approver, Clock, Limits, Parts, Service, Timing, definitions, ids};
use approver::store::{
    Begin, BeginCall, Begun, Facts, Idempotency, ModeChoice, NewApproval, NewCallOutcome,
    NewOutcome, PutVersion, Record, Recorded, Reserved, Standing, Timestamp, TokenKind,
    ToolDefinition,
};
use serde_json::{Value, json};

use super::world::{ORGANISATION, Reply, World};

pub(crate) const AGENT: &str = "erp-assistant";
pub(crate) const VERSION: &str = "7";
pub(crate) const SURFACE: &str = "responses";
pub(crate) const CONVERSATION: &str = "conv_1";
pub(crate) const TURN: &str = "resp_1";

/// A waiting approval, as whoever raised it knows it.
#[derive(Debug, Clone)]
pub(crate) struct Raised {
    pub(crate) id: String,
    pub(crate) hmac: String,
}

impl Raised {
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/approvals/{}{rest}", self.id)
    }

    pub(crate) fn approve(&self) -> Value {
        json!({"decision": "approve", "hmac": self.hmac})
    }

    pub(crate) fn reject(&self) -> Value {
        json!({"decision": "reject", "hmac": self.hmac})
    }

    /// As an item of a continuation's input.
    pub(crate) fn answer(&self, decision: &str) -> Value {
        json!({"type": "backbone:approval_response", "approval_id": self.id, "decision": decision,
            "hmac": self.hmac})
    }
}

/// A call to be raised.
#[derive(Debug, Clone)]
pub(crate) struct Raise {
    pub(crate) organisation: String,
    pub(crate) surface: String,
    pub(crate) conversation: String,
    pub(crate) turn: String,
    pub(crate) call_id: String,
    pub(crate) tool: Tool,
    pub(crate) class: Option<Class>,
    pub(crate) arguments: String,
    pub(crate) mode: ModeChoice,
    pub(crate) standing: Standing,
    pub(crate) pending_for: Duration,
    /// What is sealed besides the arguments.
    pub(crate) sealed: Value,
    pub(crate) facts: fn(&mut Facts),
}

/// A call of a tool that the agent version defines; its class follows from the tool's name.
pub(crate) fn call(call_id: &str, tool: &str) -> Raise {
    let tools = version(&policy()).agent.tools;
    let tool = tools.into_iter().find(|known| known.name == tool).expect("a tool of the version");
    call_of(call_id, tool)
}

/// A call of any tool.
pub(crate) fn call_of(call_id: &str, tool: Tool) -> Raise {
    let class = policy::effective(
        version(&policy()).policy.as_ref(),
        &tool,
        Door::Gateway,
        &policy::OperatorSettings::default(),
    )
    .class;
    Raise {
        organisation: ORGANISATION.to_owned(),
        surface: SURFACE.to_owned(),
        conversation: CONVERSATION.to_owned(),
        turn: TURN.to_owned(),
        call_id: call_id.to_owned(),
        tool,
        class,
        arguments: r#"{"contact":"C-1042","text":"call back Monday"}"#.to_owned(),
        mode: ModeChoice::Unsaid,
        standing: Standing::Pending,
        pending_for: Duration::from_secs(3600),
        sealed: json!({}),
        facts: |_| {},
    }
}

/// A tool of a connected server, as the gateway lists it.
pub(crate) fn connector(description: &str) -> Tool {
    let text = json!({"name": "orders", "origin": "connector", "server_label": "erp",
        "description": description, "annotations": {"readOnlyHint": false, "destructiveHint": false}});
    definitions::read(&text.to_string()).expect("a definition")
}

/// The policy of most tests.
pub(crate) fn policy() -> Value {
    json!({"version": 1,
        "classes": {"read": "approve", "write": "approve", "destructive": "approve"},
        "conversation_modes": {"offered": ["plan", "ask", "auto"], "default": "ask"}})
}

pub(crate) fn content(policy: &Value, description: &str) -> Value {
    let tool = |name: &str, read: bool, destroy: bool| {
        json!({"name": name, "origin": "function", "description": description,
            "annotations": {"readOnlyHint": read, "destructiveHint": destroy, "openWorldHint": false}})
    };
    json!({"instructions": "You keep the CRM.", "policy": policy, "tools": [
        tool("find", true, false), tool("note_add", false, false), tool("purge", false, true)]})
}

fn version(policy: &Value) -> approver::host::agent::AgentVersion {
    parse_text(&content(policy, "A tool.").to_string(), Reading::Save).expect("a version")
}

impl World {
    /// The agent's version 7 with [`policy`], and tokens of an operator and a gateway that decides.
    pub(crate) async fn staffed(&self) -> (String, String) {
        self.put_version(VERSION, &content(&policy(), "A tool.")).await;
        let ana = self.token("ana", TokenKind::Operator).await;
        let gateway = self.token("gw", TokenKind::Gateway { decide: true }).await;
        (ana, gateway)
    }

    pub(crate) async fn put_version(&self, version: &str, content: &Value) {
        let content = content.to_string();
        let put = PutVersion {
            organisation: ORGANISATION.to_owned(),
            agent: AGENT.to_owned(),
            version: version.to_owned(),
            digest: approver::decide::digest(&[&content]),
            content,
            by: "owner".to_owned(),
            now: self.now(),
        };
        self.store.put_version(put).await.unwrap();
    }

    pub(crate) async fn move_channel(&self, name: &str, version: &str) {
        let moved = approver::store::MoveChannel {
            organisation: ORGANISATION.to_owned(),
            agent: AGENT.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            by: "owner".to_owned(),
            now: self.now(),
        };
        self.store.move_channel(moved).await.unwrap();
    }

    /// A waiting write.
    pub(crate) async fn waiting(&self) -> Raised {
        self.raise(call("call_1", "note_add")).await
    }

    /// Records one call.
    pub(crate) async fn raise(&self, raise: Raise) -> Raised {
        let id = ids::approval();
        let judged = match self.store.begin(self.begin(&raise, &id)).await.unwrap() {
            Begun::Judge(judged) => judged,
            other => panic!("expected to judge, found {other:?}"),
        };
        let facts = self.facts(&raise, &id, judged.mode);
        let mut sealed = raise.sealed.clone();
        sealed["version"] = json!(1);
        sealed["arguments"] = json!(raise.arguments);
        for list in ["provenance", "evidence"] {
            if sealed[list].is_null() {
                sealed[list] = json!([]);
            }
        }
        sealed["prompt"] = Value::Null;
        let keys = &self.service.keys;
        let plain = sealed.to_string();
        let input = keys.seal(&raise.organisation, &id, Part::Input, plain.as_bytes()).unwrap();
        let hmac = keys
            .hmac(
                &input.key_id,
                &approver::service::keys::Bound {
                    organisation: &raise.organisation,
                    approval: &id,
                    conversation: &raise.conversation,
                    call_id: &raise.call_id,
                    server_label: raise.tool.server_label.as_deref(),
                    tool: &raise.tool.name,
                    arguments: &raise.arguments,
                },
            )
            .unwrap();
        let approval = Box::new(NewApproval { facts, standing: raise.standing, input });
        let outcome = NewCallOutcome::Approval(approval);
        let record = Record {
            ticket: judged.ticket,
            calls: vec![NewOutcome { call_id: raise.call_id, outcome }],
            used: Reserved::default(),
            escalations: 0,
            now: self.now(),
        };
        assert_eq!(self.store.record(record).await.unwrap(), Recorded::Done);
        Raised { id, hmac }
    }

    /// The request that raises it, under a key of its own.
    pub(crate) fn begin(&self, raise: &Raise, key: &str) -> Begin {
        let identity = ToolIdentity::of(&raise.tool);
        let definition =
            ToolDefinition { tool: identity, content: definitions::write(&raise.tool) };
        let own = raise.tool.origin == Origin::Function;
        Begin {
            organisation: raise.organisation.clone(),
            idempotency: Idempotency {
                caller: "gateway".to_owned(),
                endpoint: "judgements".to_owned(),
                key: key.to_owned(),
                digest: key.to_owned(),
            },
            door: Door::Gateway,
            instance: None,
            agent: AGENT.to_owned(),
            surface: raise.surface.clone(),
            conversation: raise.conversation.clone(),
            turn: raise.turn.clone(),
            continues: None,
            mode: raise.mode,
            modes: Modes { offered: Mode::ALL.to_vec(), default: Mode::Ask },
            calls: vec![BeginCall {
                call_id: raise.call_id.clone(),
                digest: key.to_owned(),
                identity: Some(key.to_owned()),
            }],
            tools: if own { Vec::new() } else { vec![definition] },
            reserve: Reserved::default(),
            instance_after: None,
            now: self.now(),
            lease: Duration::from_secs(60),
        }
    }

    fn facts(&self, raise: &Raise, id: &str, mode: Mode) -> Facts {
        let mut facts = Facts {
            id: id.to_owned(),
            organisation: raise.organisation.clone(),
            door: Door::Gateway,
            instance: None,
            agent: AGENT.to_owned(),
            version: VERSION.to_owned(),
            surface: raise.surface.clone(),
            conversation: raise.conversation.clone(),
            turn: raise.turn.clone(),
            call_id: raise.call_id.clone(),
            user: Some("usr_81".to_owned()),
            tool: ToolIdentity::of(&raise.tool),
            tool_version: raise.tool.version.clone(),
            class: raise.class,
            mode,
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
            created_at: self.now(),
            deadline_at: self.now().plus(raise.pending_for),
        };
        (raise.facts)(&mut facts);
        facts
    }

    pub(crate) async fn status(&self, raised: &Raised) -> &'static str {
        let approval = self.store.approval(ORGANISATION, &raised.id).await.unwrap();
        approval.expect("the approval is there").status.as_str()
    }

    pub(crate) async fn decide(&self, raised: &Raised, token: &str, body: &Value) -> Reply {
        self.post(&raised.path("/decision"), token, body).await
    }

    pub(crate) async fn claim(&self, raised: &Raised, token: &str, key: &str) -> Reply {
        self.post_once(&raised.path("/claim"), token, key, &json!({})).await
    }

    /// Ends the working token of that text.
    pub(crate) async fn revoke(&self, token: &str) {
        let found = self.store.token_by_hash(token_hash(token)).await.unwrap().expect("it works");
        assert!(self.store.revoke_token(&found.organisation, &found.id, self.now()).await.unwrap());
    }

    /// Another service on the same store, with limits and events of its own, at this moment's time.
    pub(crate) async fn beside(&self, limits: Limits, events: Events) -> Self {
        self.under_keys(&["k1"], limits, events).await
    }

    /// The same with a key ring of its own; every other service of a test has `k1` alone.
    pub(crate) async fn under_keys(&self, keys: &[&str], limits: Limits, events: Events) -> Self {
        self.judging(keys, limits, events, "no answer").await
    }

    /// The same with a judge that approves what the person asked for.
    pub(crate) async fn with_events(&self, events: Events) -> Self {
        self.judging(&["k1"], Limits::default(), events, super::judgements::APPROVES).await
    }

    async fn judging(
        &self,
        keys: &[&str],
        limits: Limits,
        events: Events,
        says: &'static str,
    ) -> Self {
        let mut world = Self::start(Arc::clone(&self.store)).await;
        let now = self.now();
        let judge = Scripted::function(move |_| Move::say(says));
        let approver = Approver::new(Arc::new(judge), Default::default(), Timing::default());
        let service = Service::new(Parts {
            store: Arc::clone(&self.store),
            approver,
            automatic_approval: Ok(()),
            sandbox_enabled: true,
            keys: KeyRing::new(&keys.iter().map(|id| root(id)).collect::<Vec<_>>()).unwrap(),
            limits,
            allow_loopback_webhooks: false,
            clock: Clock::of(move || now.into()),
        });
        world.service = Arc::new(service.with_events(events));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        world.url = format!("http://{}", listener.local_addr().unwrap());
        let doors = router(Doors { service: Arc::clone(&world.service), settings: Arc::default() });
        tokio::spawn(async move { axum::serve(listener, doors).await.unwrap() });
        world
    }
}

/// The root secret of a key: another for each id that a test uses.
fn root(id: &str) -> (String, [u8; 32]) {
    (id.to_owned(), if id == "k1" { [7; 32] } else { [8; 32] })
}

/// Seconds of a time on the wire, for comparing.
pub(crate) fn wire(time: Timestamp) -> Value {
    json!(approver::http::time::rfc3339(time))
}
