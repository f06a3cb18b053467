//! What code alone decides: `fixtures/plan/cases.toml`.

use std::collections::BTreeSet;

use approver::decide::reason::Reason;
use approver::decide::request::{Origin, Request, Tool};
use approver::decide::state::{Grant, Sandbox, ToolIdentity};
use approver::decide::verdict::JudgeFailure;
use approver::decide::{BlockedBy, Outcome, Settings, State, Step, plan};
use approver::host::agent::AgentVersion;
use approver::host::judgement_file::{self, JudgementFile};
use serde::Deserialize;
use serde_json::{Value, json};

const BASE: &str = include_str!("../../fixtures/plan/base.json");
const CASES: &str = include_str!("../../fixtures/plan/cases.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    mode: Option<String>,
    /// What the person typed, in place of the base's message.
    user: Option<String>,
    /// Whether a person typed it.
    #[serde(default = "yes")]
    typed: bool,
    /// The tool's result, in place of the base's.
    result: Option<String>,
    /// JSON text merged into the policy.
    policy: Option<String>,
    /// JSON text of more tools in the request's list.
    listed: Option<String>,
    /// Tools that the request's list loses.
    #[serde(default)]
    unlisted: Vec<String>,
    /// JSON text of more tools of the agent version.
    authored: Option<String>,
    /// Bytes of the person's one message.
    typed_bytes: Option<usize>,
    /// Bytes of the instructions: plain text, or controls that take six characters each.
    instructions_bytes: Option<usize>,
    instructions_control_bytes: Option<usize>,
    /// Bytes of the whole arguments text, `FILL` filled up.
    fill: Option<Fill>,
    /// Elements of the list that `LEAVES` stands for.
    leaves: Option<usize>,
    calls: Vec<CaseCall>,
    expect: Vec<String>,
    #[serde(default)]
    grants: Vec<CaseGrant>,
    #[serde(default)]
    pinned: Vec<CasePin>,
    #[serde(default)]
    judged_in_turn: u32,
    #[serde(default)]
    escalations: u32,
    #[serde(default)]
    sandbox: CaseSandbox,
    #[serde(default = "yes")]
    automatic_approval: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fill {
    bytes: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseCall {
    tool: String,
    server_label: Option<String>,
    arguments: String,
    timeout_seconds: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseGrant {
    tool: String,
    id: String,
    definition: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CasePin {
    tool: String,
    server_label: Option<String>,
    definition: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct CaseSandbox {
    #[serde(default)]
    enabled: bool,
    #[serde(default)]
    calls: u32,
    #[serde(default)]
    seconds: u32,
}

fn yes() -> bool {
    true
}

#[test]
fn every_case_ends_as_expected() {
    let file: File = toml::from_str(CASES).unwrap();
    let names: BTreeSet<_> = file.case.iter().map(|case| &case.name).collect();
    assert_eq!(names.len(), file.case.len(), "duplicate names");
    let mut failed = Vec::new();
    for case in &file.case {
        let steps = run(case);
        let ends: Vec<_> = steps.iter().map(end).collect();
        if ends != case.expect {
            failed.push(format!("{}: {ends:?}, expected {:?}", case.name, case.expect));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn run(case: &Case) -> Vec<Step> {
    let (version, request) = read(case);
    let AgentVersion { agent, policy } = version;
    let identity = |name: &str, label: Option<&str>, definition: Option<&str>| {
        let tool = find(&agent.tools, name, label)
            .or_else(|| find(&request.tools, name, label))
            .unwrap_or_else(|| panic!("no tool {name}"));
        let identity = ToolIdentity::of(tool);
        match definition {
            Some(definition) => ToolIdentity { definition: definition.to_owned(), ..identity },
            None => identity,
        }
    };
    let state = State {
        grants: case
            .grants
            .iter()
            .map(|grant| Grant {
                approval_id: grant.id.clone(),
                tool: identity(&grant.tool, None, grant.definition.as_deref()),
            })
            .collect(),
        pinned: case
            .pinned
            .iter()
            .map(|pin| identity(&pin.tool, pin.server_label.as_deref(), pin.definition.as_deref()))
            .collect(),
        judged_in_turn: case.judged_in_turn,
        escalations: case.escalations,
        sandbox: Sandbox {
            enabled: case.sandbox.enabled,
            calls: case.sandbox.calls,
            seconds: case.sandbox.seconds,
        },
        automatic_approval: if case.automatic_approval {
            Ok(())
        } else {
            Err(JudgeFailure::SwitchedOff)
        },
        ..State::default()
    };
    plan(&agent, policy.as_ref(), &request, &state, &Settings::default())
}

fn find<'a>(tools: &'a [Tool], name: &str, label: Option<&str>) -> Option<&'a Tool> {
    tools.iter().find(|tool| tool.name == name && tool.server_label.as_deref() == label)
}

fn read(case: &Case) -> (AgentVersion, Request) {
    let mut file: Value = serde_json::from_str(BASE).unwrap();
    let request = &mut file["request"];
    if let Some(mode) = &case.mode {
        request["input"] = json!([{"type": "backbone:mode", "mode": mode}]);
    }
    if let Some(user) = &case.user {
        request["conversation"]["items"][0]["content"] = json!(user);
    }
    if let Some(result) = &case.result {
        request["conversation"]["items"][2]["content"] = json!(result);
    }
    if !case.typed {
        request["conversation"]["person_items"] = json!([]);
    }
    if let Some(bytes) = case.typed_bytes {
        request["conversation"]["items"][0]["content"] = json!(text_of(bytes));
    }
    let kept = |tool: &Value| !case.unlisted.iter().any(|name| tool["name"] == **name);
    request["tools"].as_array_mut().unwrap().retain(kept);
    if let Some(listed) = &case.listed {
        let more: Vec<Value> = serde_json::from_str(listed).unwrap();
        request["tools"].as_array_mut().unwrap().extend(more);
    }
    let calls: Vec<Value> =
        case.calls.iter().enumerate().map(|(i, call)| wire(case, i, call)).collect();
    request["calls"] = json!(calls);
    if let Some(authored) = &case.authored {
        let more: Vec<Value> = serde_json::from_str(authored).unwrap();
        file["agent"]["tools"].as_array_mut().unwrap().extend(more);
    }
    if let Some(bytes) = case.instructions_bytes {
        file["agent"]["instructions"] = json!(text_of(bytes));
    }
    if let Some(bytes) = case.instructions_control_bytes {
        file["agent"]["instructions"] = json!("\u{1}".repeat(bytes));
    }
    if let Some(policy) = &case.policy {
        merge(&mut file["agent"]["policy"], serde_json::from_str(policy).unwrap());
    }
    let JudgementFile { version, body } =
        judgement_file::parse(&file.to_string()).unwrap_or_else(|problems| panic!("{problems:?}"));
    let modes = version.policy.as_ref().unwrap().modes.clone();
    (version, body.into_request(None, &modes).unwrap())
}

fn text_of(bytes: usize) -> String {
    "word ".repeat(bytes)[..bytes].to_owned()
}

fn wire(case: &Case, index: usize, call: &CaseCall) -> Value {
    let mut arguments = call.arguments.clone();
    if let Some(count) = case.leaves {
        arguments = arguments.replace("LEAVES", &json!(vec![1; count]).to_string());
    }
    if let Some(fill) = &case.fill {
        let missing = fill.bytes - (arguments.len() - "FILL".len());
        arguments = arguments.replace("FILL", &text_of(missing));
        assert_eq!(arguments.len(), fill.bytes);
    }
    let mut wire =
        json!({"call_id": format!("call_{index}"), "tool": call.tool, "arguments": arguments});
    if let Some(label) = &call.server_label {
        wire["server_label"] = json!(label);
    }
    if let Some(seconds) = call.timeout_seconds {
        wire["timeout_seconds"] = json!(seconds);
    }
    wire
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn end(step: &Step) -> String {
    let decision = match step {
        Step::Ask(_) => return "ask".to_owned(),
        Step::Settled(decision) => decision,
    };
    match &decision.outcome {
        Outcome::Execute => "execute".to_owned(),
        Outcome::ExecuteSandboxed { timeout_seconds } => format!("sandbox {timeout_seconds}"),
        Outcome::Granted { approval_id } => format!("granted {approval_id}"),
        Outcome::Approved(_) => "approved".to_owned(),
        Outcome::Pending(reason) => {
            format!("pending {}", reason.as_ref().map_or("-", Reason::code))
        }
        Outcome::Blocked(BlockedBy::Policy) => "blocked policy".to_owned(),
        Outcome::Blocked(BlockedBy::Mode(mode)) => format!("blocked {}", mode.as_str()),
    }
}

#[test]
fn the_base_has_a_tool_of_every_origin() {
    let case: Case =
        toml::from_str("name = 'x'\ncalls = [{ tool = 'find', arguments = '{}' }]\nexpect = []")
            .unwrap();
    let (version, request) = read(&case);
    let origins: BTreeSet<_> =
        version.agent.tools.iter().chain(&request.tools).map(|tool| tool.origin).collect();
    let all = [Origin::Builtin, Origin::Catalog, Origin::Function, Origin::Connector];
    assert_eq!(origins, BTreeSet::from(all));
}
