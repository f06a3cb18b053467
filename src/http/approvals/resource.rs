//! The approval as `GET` answers it, whole.
//!
//! ```jsonc
//! { "id":"apreq_…", "status":"pending",       // pending|approved|rejected|cancelled|expired
//!   "agent":"erp-assistant", "version":"7",   // never a channel
//!   "surface":"responses", "conversation":"conv_1", "turn":"resp_2", "call_id":"call_9",
//!   "user":"usr_81",                          // ? member that the turn ran for
//!   "tool":"orders_create", "origin":"connector",
//!   "server_label":"erp", "tool_version":"3", // ?
//!   "timeout_seconds":120,                    // ?
//!   "arguments":"{…}", "hmac":"5c1a…",        // ? exact text; absent once `retention.inputs` is over
//!   "arguments_missing":{"reason","key_id"?}, // ? why there are none: not_kept|key_missing|unreadable
//!   "policy_class":"write",                   // read|write|destructive|null
//!   "mode":"auto", "conversationMode":"auto", // the mode that the call was raised in
//!   "pause_reason":"novel_argument",          // ? code
//!   "reason":"…",                             // the decision's; while it waits the pause's; or null
//!                                             // (for a gate's code, which stands alone there)
//!   "pause_sentence":"…",                     // ? why it waited, for people, a gate's code included;
//!                                             // kept when a person decides later
//!   "findings":[{"kind","item","pointer","found","resembles"?,"sentence"}],
//!   "provenance":[…], "evidence":[…],         // ? with the arguments
//!   "aap":{"instance","timeout","agent_reasoning"?,"context"?}, // ? what an instance claims; context as JSON text
//!   "judge":{"model","reason","prompt_digest","tokens":{"input","output","cached"}},  // ? when asked
//!   "judgedBy":"…", "judgeReason":"…",        // ? model and reason once more, as listings name them
//!   "created_at":"…Z", "deadline_at":"…Z",
//!   "decision":{"decided_by","at","reason","start_by"?}, // ? how it ended
//!   "claim":{"at":"…Z"},                      // ?
//!   "execution":{"status":"OK","at":"…Z","output"?:"…"} } // ? OK|FAILED|TIMEOUT
//! ```
//!
//! Arguments, findings, provenance, evidence and output are for eyes, of whoever may see the
//! organisation's calls. The prompt itself and the claim's key are in no answer.

use serde_json::{Map, Value, json};

use crate::decide::novelty::{Finding, Resemblance};
use crate::decide::reason::Reason;
use crate::decide::request::Origin;
use crate::decide::verdict::Tokens;
use crate::http::time::rfc3339;
use crate::service::approvals::ApprovalView;
use crate::service::input::{Echo, Missing};
use crate::store::{Execution, JudgeRecord, Resolution, Status};

/// The whole resource.
pub(super) fn resource(view: &ApprovalView) -> Value {
    let ApprovalView { approval, input, missing, output } = view;
    let facts = &approval.facts;
    let decided = approval.decision.as_ref().and_then(|decision| decision.reason.as_ref());
    let reason = match approval.status {
        Status::Pending => facts.pause_sentence.as_ref(),
        Status::Approved | Status::Rejected | Status::Cancelled | Status::Expired => decided,
    };
    let mut members = Map::new();
    let mut add = |name: &str, value: Value| {
        members.insert(name.to_owned(), value);
    };
    add("id", json!(facts.id));
    add("status", json!(approval.status.as_str()));
    add("agent", json!(facts.agent));
    add("version", json!(facts.version));
    add("surface", json!(facts.surface));
    add("conversation", json!(facts.conversation));
    add("turn", json!(facts.turn));
    add("call_id", json!(facts.call_id));
    if let Some(user) = &facts.user {
        add("user", json!(user));
    }
    add("tool", json!(facts.tool.name));
    add("origin", json!(origin(facts.tool.origin)));
    if let Some(label) = &facts.tool.server_label {
        add("server_label", json!(label));
    }
    if let Some(version) = &facts.tool_version {
        add("tool_version", json!(version));
    }
    if let Some(seconds) = facts.timeout_seconds {
        add("timeout_seconds", json!(seconds));
    }
    if let Some(input) = input {
        add("arguments", json!(input.arguments));
        add("hmac", json!(input.hmac));
    }
    if let Some(missing) = missing {
        add("arguments_missing", arguments_missing(missing));
    }
    add("policy_class", json!(facts.class.map(|class| class.as_str())));
    add("mode", json!(facts.mode.as_str()));
    add("conversationMode", json!(facts.mode.as_str()));
    if let Some(code) = &facts.pause_reason {
        add("pause_reason", json!(code));
    }
    add("reason", json!(reason));
    let gate = facts.pause_reason.as_deref().and_then(Reason::sentence_of_gate);
    if let Some(sentence) = facts.pause_sentence.as_ref().or(gate.as_ref()) {
        add("pause_sentence", json!(sentence));
    }
    add("findings", facts.findings.iter().map(finding).collect());
    if let Some(input) = input {
        add("provenance", json!(input.provenance));
        add("evidence", json!(input.evidence));
    }
    if let Some(judged) = &facts.judged {
        add("judge", judge(judged));
        add("judgedBy", json!(judged.model));
        add("judgeReason", json!(judged.reason));
    }
    if let Some(echo) = input.as_ref().and_then(|input| input.aap.as_ref()) {
        let instance = facts.instance.as_deref();
        add("aap", claims(instance, echo));
    }
    add("created_at", json!(rfc3339(facts.created_at)));
    add("deadline_at", json!(rfc3339(facts.deadline_at)));
    if let Some(resolution) = &approval.decision {
        add("decision", decision(resolution));
    }
    if let Some(claim) = &approval.claim {
        add("claim", json!({"at": rfc3339(claim.at)}));
    }
    if let Some(reported) = &approval.execution {
        add("execution", execution(reported, output.as_deref()));
    }
    members.into()
}

/// Why there are no arguments.
fn arguments_missing(missing: &Missing) -> Value {
    match missing {
        Missing::NotKept => json!({"reason": "not_kept"}),
        Missing::KeyMissing { key_id } => json!({"reason": "key_missing", "key_id": key_id}),
        Missing::Unreadable => json!({"reason": "unreadable"}),
    }
}

/// What an instance of the approval protocol says: claims, for a person to weigh.
fn claims(instance: Option<&str>, echo: &Echo) -> Value {
    let Echo { timeout, agent_reasoning, context, .. } = echo;
    let mut claims = json!({"instance": instance, "timeout": timeout});
    for (name, text) in [("agent_reasoning", agent_reasoning), ("context", context)] {
        if let Some(text) = text {
            claims[name] = json!(text);
        }
    }
    claims
}

/// How a call ran.
pub(in crate::http) fn execution(execution: &Execution, output: Option<&str>) -> Value {
    let mut value = json!({"status": execution.status.as_str(), "at": rfc3339(execution.at)});
    if let Some(output) = output {
        value["output"] = json!(output);
    }
    value
}

fn decision(resolution: &Resolution) -> Value {
    let Resolution { by, at, reason, start_by } = resolution;
    let mut value = json!({"decided_by": by, "at": rfc3339(*at), "reason": reason});
    if let Some(start_by) = start_by {
        value["start_by"] = json!(rfc3339(*start_by));
    }
    value
}

fn judge(judged: &JudgeRecord) -> Value {
    let JudgeRecord { model, reason, prompt_digest, tokens, cuts: _ } = judged;
    let Tokens { input, output, cached } = tokens;
    json!({
        "model": model,
        "reason": reason,
        "prompt_digest": prompt_digest,
        "tokens": {"input": input, "output": output, "cached": cached},
    })
}

fn finding(finding: &Finding) -> Value {
    let mut value = json!({
        "kind": finding.kind.code(),
        "item": finding.item,
        "pointer": finding.pointer,
        "found": finding.found,
        "sentence": finding.sentence(),
    });
    if let Some(Resemblance::HostKnown(known) | Resemblance::LookAlike(known)) = &finding.resembles
    {
        value["resembles"] = json!(known);
    }
    value
}

const fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Builtin => "builtin",
        Origin::Catalog => "catalog",
        Origin::Function => "function",
        Origin::Connector => "connector",
    }
}
