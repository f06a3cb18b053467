//! `POST /v1/judgements`, over HTTP: an agent version with a tool of every kind, requests for it, and
//! a judge that approves what the person asked for.

mod modes;
mod outcomes;
mod record;
mod refusals;
mod replicas;
mod retries;

use approver::judge::scripted::Move;
use approver::store::{PutVersion, TokenKind, VersionPut};
use serde_json::{Value, json};

use super::world::{ORGANISATION, Reply, World};

pub(crate) const PATH: &str = "/v1/judgements";

/// Approves a call whose two arguments the person's one message names.
pub(crate) const APPROVES: &str = r#"{"soft_deny":[],"basis":[{"source":"user","index":1,"quote":"Note on C-1042: call back Monday","covers":[0,1,2]}],"unsupported_arguments":[],"reason":"The user asked for this note.","decision":"approve"}"#;

/// Does not approve it.
pub(super) const ESCALATES: &str = r#"{"soft_deny":[],"basis":[],"unsupported_arguments":[0,1,2],"reason":"Nobody asked for this note.","decision":"escalate"}"#;

/// What the person asked for.
pub(crate) const NOTE: &str = r#"{"contact":"C-1042","text":"call back Monday"}"#;

pub(super) fn harmless(read: bool) -> Value {
    json!({"readOnlyHint": read, "destructiveHint": false, "openWorldHint": false})
}

/// The content of version 7: a tool of every kind.
pub(crate) fn content() -> Value {
    let tool = |name: &str, annotations: Value| json!({"name": name, "origin": "function", "version": "2", "annotations": annotations});
    let destroys = json!({"readOnlyHint": false, "destructiveHint": true, "openWorldHint": false});
    json!({
        "instructions": "You keep the notes of a sales team.",
        "tools": [
            tool("find", harmless(true)),
            tool("note_add", harmless(false)),
            tool("wipe", destroys),
            tool("purge", harmless(false)),
        ],
        "policy": {
            "version": 1,
            "classes": {"read": "allow", "write": "approve", "destructive": "approve"},
            "tools": {"purge": "block"},
            "conversation_modes": {"offered": ["plan", "ask", "auto"], "default": "ask"},
            "judge": {"allow": ["Notes on existing contacts are routine."]},
        },
    })
}

/// A request in auto with these calls.
pub(crate) fn request(calls: &[Value]) -> Value {
    json!({
        "agent": "erp", "version": "7", "user": "usr_81",
        "conversation": {
            "id": "conv_1", "surface": "responses",
            "items": [{"type": "message", "role": "user",
                "content": "Note on C-1042: call back Monday."}],
            "person_items": [0],
        },
        "turn": {"id": "resp_1"},
        "input": [{"type": "backbone:mode", "mode": "auto"}],
        "tools": [
            {"name": "orders_create", "origin": "connector", "server_label": "erp",
                "version": "3", "description": "creates an order", "inputSchema": {},
                "annotations": harmless(false)},
            {"name": "Bash", "origin": "builtin", "sandbox": true},
        ],
        "calls": calls,
    })
}

pub(super) fn call(id: &str, tool: &str, arguments: &str) -> Value {
    json!({"call_id": id, "tool": tool, "arguments": arguments})
}

/// The one call that most tests are about.
pub(crate) fn note(id: &str) -> Value {
    call(id, "note_add", NOTE)
}

impl World {
    /// Stores version 7 of the agent, lets the judge approve, and answers a gateway's token.
    pub(super) async fn gateway(&self) -> String {
        self.put_content("7", &content().to_string()).await;
        self.judge(|_| Move::say(APPROVES));
        self.token("gateway", TokenKind::Gateway { decide: false }).await
    }

    pub(super) async fn put_content(&self, version: &str, content: &str) {
        let put = PutVersion {
            organisation: ORGANISATION.to_owned(),
            agent: "erp".to_owned(),
            version: version.to_owned(),
            content: content.to_owned(),
            digest: format!("digest of {version}"),
            by: "owner".to_owned(),
            now: self.now(),
        };
        assert_eq!(self.store.put_version(put).await.unwrap(), VersionPut::Done);
    }

    pub(super) async fn judge_calls(&self, token: &str, key: &str, body: &Value) -> Reply {
        self.post_once(PATH, token, key, body).await
    }
}

/// The outcomes of an answer, in call order.
#[track_caller]
pub(super) fn outcomes(answer: &Value) -> Vec<&str> {
    let results = answer["results"].as_array().expect("an answer has results");
    results.iter().map(|result| result["outcome"].as_str().unwrap()).collect()
}

/// The first result.
pub(super) fn only(answer: &Value) -> &Value {
    assert_eq!(answer["results"].as_array().map(Vec::len), Some(1), "{answer}");
    &answer["results"][0]
}

pub(super) fn approval_id(result: &Value) -> String {
    result["item"]["id"].as_str().expect("the result has an approval").to_owned()
}
