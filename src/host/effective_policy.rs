//! The effective policy: what a conversation in a mode makes of each tool of an agent version. The
//! same answer from a stored version and from a file.

use serde::Serialize;

use crate::decide::eligibility;
use crate::decide::policy::{
    self, ClassSource, Effective, Mode, Modes, Open, OperatorSettings, Policy, Verdict,
};
use crate::decide::reason::Reason;
use crate::decide::request::{Door, Origin, Tool};
use crate::decide::verdict::JudgeFailure;
use crate::host::tool::is_name;

/// What is looked at, and how.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The version's policy.
    pub policy: Option<&'a Policy>,
    /// The version's tools.
    pub tools: &'a [Tool],
    /// What holds above the policy.
    pub operator: &'a OperatorSettings,
    /// The mode; the policy's default where there is none.
    pub mode: Option<Mode>,
    /// Only this tool, by name or as `mcp__<label>__<name>`.
    pub tool: Option<&'a str>,
    /// The door that calls come through.
    pub door: Door,
    /// Whether automatic approval is available, or why not.
    pub automatic_approval: Result<(), JudgeFailure>,
    /// Whether the built-in `Bash` may run in its offline sandbox.
    pub sandbox_enabled: bool,
    /// Whether the two above were taken for granted.
    pub assumed: bool,
}

/// The version does not offer the mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotOffered {
    /// The mode.
    pub mode: Mode,
    /// Those that it offers.
    pub offered: Modes,
}

/// The answer. Members are stable; new ones may be added.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectivePolicy {
    /// The mode that verdicts are for: `plan`, `ask` or `auto`.
    pub effective_mode: &'static str,
    /// `request` when it was named, else `default`.
    pub effective_mode_source: &'static str,
    /// The modes that the policy offers.
    pub offered_modes: Vec<&'static str>,
    /// The door: `gateway`, `aap`, `proxy` or `hook`.
    pub door: &'static str,
    /// What verdicts take for granted because no file can say it: `automatic_approval` is
    /// available, and the organisation enabled the `offline_sandbox`. Empty for a stored version.
    pub assumed: &'static [&'static str],
    /// Whether a conversation of this version may have calls approved automatically.
    pub automatic_approval: AutomaticApprovalAnswer,
    /// The organisation's sentences.
    pub lists: EffectiveLists,
    /// The tools, in the version's order.
    pub tools: Vec<EffectiveTool>,
}

/// Whether automatic approval is available.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct AutomaticApprovalAnswer {
    /// Whether it is.
    pub available: bool,
    /// Why not: `not_offered` (the policy offers no auto mode), `not_configured` (there is no
    /// judge), `switched_off`, `judge_failing` (the circuit breaker is open); null when it is.
    pub reason: Option<&'static str>,
}

impl AutomaticApprovalAnswer {
    /// The answer for whoever asks about the service and not about a version.
    #[must_use]
    pub fn of(available: Result<(), JudgeFailure>) -> Self {
        let reason = available.err().map(|failure| match failure {
            JudgeFailure::NotConfigured => "not_configured",
            JudgeFailure::SwitchedOff => "switched_off",
            JudgeFailure::BreakerOpen
            | JudgeFailure::Timeout
            | JudgeFailure::Connection
            | JudgeFailure::ServerError
            | JudgeFailure::Rejected
            | JudgeFailure::RateLimited
            | JudgeFailure::Refused
            | JudgeFailure::PromptTooLong
            | JudgeFailure::Truncated
            | JudgeFailure::Malformed => "judge_failing",
        });
        Self { available: reason.is_none(), reason }
    }
}

/// The organisation's sentences, under the policy's own names.
#[derive(Debug, Serialize)]
pub struct EffectiveLists {
    /// Background.
    pub environment: Vec<String>,
    /// What is routine.
    pub allow: Vec<String>,
    /// What goes to a person.
    pub soft_deny: Vec<String>,
}

/// One tool, as a conversation in the mode meets it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveTool {
    /// The bare name.
    pub name: String,
    /// `builtin`, `catalog`, `function` or `connector`.
    pub origin: &'static str,
    /// The connector's label, else null.
    pub server_label: Option<String>,
    /// Whether the version defines it; if not, it is shown as a tool without annotations.
    pub defined: bool,
    /// `read`, `write`, `destructive`, or null for a tool without a class.
    pub class: Option<&'static str>,
    /// `annotations`, `unreliable_annotations`, `missing_annotations`, `catalogue`, `rule` or
    /// `none`.
    pub class_source: &'static str,
    /// The pattern of the rule that gives the class, else null.
    pub class_rule: Option<String>,
    /// `allow`, `approve` or `block`: policy and operator, before the mode.
    pub action: &'static str,
    /// `EXECUTE`, `JUDGE`, `PAUSE_APPROVAL` or `BLOCK`: in the mode.
    pub verdict: &'static str,
    /// In auto, the code of what keeps its calls from the approver; else null.
    pub pause_reason: Option<&'static str>,
    /// What applied: `tools.<pattern>`, `classes.<class>`, `default`, `operator.unclassified`,
    /// `builtin.unnamed_class`, `builtin.sandbox_offline`, `conversation_mode.<mode>`.
    pub matched_rules: Vec<String>,
}

/// What the version makes of its tools, or of one.
///
/// # Errors
/// The version does not offer the mode.
pub fn show(view: &View<'_>) -> Result<EffectivePolicy, NotOffered> {
    let standard = Modes::default();
    let modes = view.policy.map_or(&standard, |policy| &policy.modes);
    let mode = view.mode.unwrap_or(modes.default);
    if !modes.offers(mode) {
        return Err(NotOffered { mode, offered: modes.clone() });
    }
    let lists = view.policy.map(|policy| policy.lists.clone()).unwrap_or_default();
    let automatic_approval = if modes.offers(Mode::Auto) {
        AutomaticApprovalAnswer::of(view.automatic_approval)
    } else {
        AutomaticApprovalAnswer { available: false, reason: Some("not_offered") }
    };
    Ok(EffectivePolicy {
        effective_mode: mode.as_str(),
        effective_mode_source: if view.mode.is_some() { "request" } else { "default" },
        offered_modes: modes.offered.iter().map(|mode| mode.as_str()).collect(),
        door: door_name(view.door),
        assumed: if view.assumed { &["automatic_approval", "offline_sandbox"] } else { &[] },
        automatic_approval,
        lists: EffectiveLists {
            environment: lists.environment,
            allow: lists.allow,
            soft_deny: lists.soft_deny,
        },
        tools: tools(view, mode),
    })
}

fn tools(view: &View<'_>, mode: Mode) -> Vec<EffectiveTool> {
    let Some(name) = view.tool else {
        return view.tools.iter().map(|own| EffectiveTool::new(view, mode, own, true)).collect();
    };
    let named: Vec<_> = view
        .tools
        .iter()
        .filter(|own| own.name == name || own.qualified_name().as_deref() == Some(name))
        .map(|own| EffectiveTool::new(view, mode, own, true))
        .collect();
    if named.is_empty() {
        vec![EffectiveTool::new(view, mode, &hypothetical(name), false)]
    } else {
        named
    }
}

/// Whether a tool can have that name, bare or as `mcp__<label>__<name>`.
#[must_use]
pub fn may_be_named(name: &str) -> bool {
    let known = hypothetical(name);
    is_name(&known.name) && known.server_label.as_deref().is_none_or(is_name)
}

/// A tool of which nothing but the name is known.
fn hypothetical(name: &str) -> Tool {
    match name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some((label, bare)) => {
            Tool { server_label: Some(label.to_owned()), ..Tool::new(bare, Origin::Connector) }
        }
        None => Tool::new(name, Origin::Function),
    }
}

impl EffectiveTool {
    fn new(view: &View<'_>, mode: Mode, tool: &Tool, defined: bool) -> Self {
        let effective = policy::effective(view.policy, tool, view.door, view.operator);
        let gates = eligibility::check(tool, &effective, view.operator);
        let available = view.automatic_approval.is_ok();
        let open =
            Open { judged: gates.is_ok() && available, sandbox: view.sandbox_enabled && available };
        let ruling = policy::rule(&effective, tool, view.operator, mode, open);
        let waits = mode == Mode::Auto && ruling.verdict == Verdict::PauseApproval;
        let unavailable = view.automatic_approval.err().map(Reason::from);
        let pause_reason = gates.err().or(unavailable).filter(|_| waits);
        let Effective { class, class_source, action, matched: mut matched_rules, .. } = effective;
        matched_rules.extend(ruling.because.map(str::to_owned));
        Self {
            name: tool.name.clone(),
            origin: origin_name(tool.origin),
            server_label: tool.server_label.clone(),
            defined,
            class: class.map(|class| class.as_str()),
            class_source: class_source.as_str(),
            class_rule: match class_source {
                ClassSource::Rule(pattern) => Some(pattern),
                ClassSource::Annotations
                | ClassSource::UnreliableAnnotations
                | ClassSource::MissingAnnotations
                | ClassSource::Catalogue
                | ClassSource::None => None,
            },
            action: action.as_str(),
            verdict: ruling.verdict.as_str(),
            pause_reason: pause_reason.map(|reason| reason.code()),
            matched_rules,
        }
    }
}

const fn door_name(door: Door) -> &'static str {
    match door {
        Door::Gateway => "gateway",
        Door::Aap => "aap",
        Door::Proxy => "proxy",
        Door::Hook => "hook",
    }
}

const fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Builtin => "builtin",
        Origin::Catalog => "catalog",
        Origin::Function => "function",
        Origin::Connector => "connector",
    }
}
