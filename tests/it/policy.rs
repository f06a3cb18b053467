//! Policies, tools and agent versions: the cases of `fixtures/policy`, and what holds for all.

use std::path::Path;

use approver::decide::eligibility;
use approver::decide::json::{Json, read_document};
use approver::decide::outcome::{BlockedBy, Outcome, Step};
use approver::decide::plan;
use approver::decide::policy::{
    Action, Class, ClassSource, Effect, Mode, Modes, Open, OperatorSettings, Policy, Rule, Verdict,
    effective, floor, parse_text, rule,
};
use approver::decide::request::{
    Agent, Call, CatalogueEntry, Conversation, Door, Origin, Request, Tool,
};
use approver::decide::state::{Sandbox, Settings, State};
use approver::decide::verdict::JudgeFailure;
use approver::host::agent::{self, Reading};
use approver::host::tool;
use proptest::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cases::Named;

/// The cases of a file.
#[track_caller]
fn cases<C: DeserializeOwned + Named>(file: &str) -> Vec<C> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/policy").join(file);
    crate::cases::cases(&std::fs::read_to_string(&path).unwrap())
}

/// Writes out `«3×ab»` as `ababab`, the innermost first.
fn expand(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(end) = text.find('»') {
        let start = text[..end].rfind('«').expect("a « before each »");
        let (count, piece) =
            text[start + '«'.len_utf8()..end].split_once('×').expect("«count×piece»");
        let piece = piece.repeat(count.parse().expect("a count"));
        text.replace_range(start..end + '»'.len_utf8(), &piece);
    }
    text
}

fn json(text: &str) -> Json {
    read_document(text).unwrap().value
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ValidationCase {
    name: String,
    #[serde(rename = "why")]
    _why: String,
    policy: String,
    #[serde(default)]
    problems: Vec<String>,
}

impl Named for ValidationCase {
    fn name(&self) -> &str {
        &self.name
    }
}

#[test]
fn every_problem_of_a_policy_is_reported() {
    for case in cases::<ValidationCase>("validation.toml") {
        let found: Vec<_> = match parse_text(&expand(&case.policy)) {
            Ok(_) => Vec::new(),
            Err(problems) => {
                assert!(!problems.is_empty(), "{}: an error without one", case.name);
                problems
                    .iter()
                    .map(|problem| format!("{}: {}", problem.path, problem.text))
                    .collect()
            }
        };
        assert_eq!(found, case.problems, "{}", case.name);
    }
}

#[test]
fn a_policy_is_read_as_written() {
    let case = cases::<ValidationCase>("validation.toml")
        .into_iter()
        .find(|case| case.name == "everything")
        .unwrap();
    let policy = parse_text(&case.policy).unwrap();
    assert_eq!(policy.default, Some(Action::Block));
    assert_eq!(
        policy.classes,
        [
            (Class::Read, Action::Allow),
            (Class::Write, Action::Approve),
            (Class::Destructive, Action::Block),
        ]
    );
    let rule = |pattern: &str, effect| Rule { pattern: pattern.to_owned(), effect };
    assert_eq!(
        policy.rules,
        [
            rule("erp_*", Effect::Class(Class::Write)),
            rule("erp_delete", Effect::Class(Class::Destructive)),
            rule("look up?", Effect::Class(Class::Read)),
            rule("*", Effect::Action(Action::Approve)),
            rule("a", Effect::Action(Action::Block)),
            rule("b", Effect::Action(Action::Block)),
            rule("c", Effect::Action(Action::Allow)),
        ]
    );
    assert_eq!(
        policy.modes,
        Modes { offered: vec![Mode::Auto, Mode::Plan, Mode::Ask], default: Mode::Auto }
    );
    assert_eq!(policy.lists.environment, ["A bakery."]);
    assert_eq!(policy.lists.allow, ["Notes are routine."]);
    assert_eq!(policy.lists.soft_deny, ["Payroll needs a person."]);

    let smallest = parse_text(r#"{"version":1}"#).unwrap();
    assert_eq!(smallest, Policy::default());
    assert_eq!(smallest.modes.offered, [Mode::Plan, Mode::Ask]);
    assert_eq!(smallest.modes.default, Mode::Ask);
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EffectiveCase {
    name: String,
    #[serde(rename = "why")]
    _why: String,
    policy: Option<String>,
    tool: String,
    #[serde(default)]
    door: DoorName,
    #[serde(default)]
    operator: Operator,
    #[serde(default)]
    sandbox: bool,
    #[serde(default = "yes")]
    available: bool,
    class: String,
    source: String,
    action: String,
    matched: Vec<String>,
    plan: String,
    ask: String,
    auto: String,
    /// The first gate that is closed, whatever the action and the mode.
    gate: Option<String>,
}

const fn yes() -> bool {
    true
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum DoorName {
    #[default]
    Gateway,
    Aap,
    Proxy,
    Hook,
}

impl From<DoorName> for Door {
    fn from(name: DoorName) -> Self {
        match name {
            DoorName::Gateway => Self::Gateway,
            DoorName::Aap => Self::Aap,
            DoorName::Proxy => Self::Proxy,
            DoorName::Hook => Self::Hook,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Operator {
    catalogue: Vec<Entry>,
    human_only: Vec<String>,
    unclassified: Option<String>,
    unclassified_elsewhere: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    class: String,
    #[serde(default)]
    human_only: bool,
}

impl Named for EffectiveCase {
    fn name(&self) -> &str {
        &self.name
    }
}

impl EffectiveCase {
    fn settings(&self) -> OperatorSettings {
        let mut settings = OperatorSettings::default();
        settings.human_only.clone_from(&self.operator.human_only);
        settings.catalogue = self
            .operator
            .catalogue
            .iter()
            .map(|entry| CatalogueEntry {
                name: entry.name.clone(),
                class: Class::from_word(&entry.class).unwrap(),
                human_only: entry.human_only,
            })
            .collect();
        if let Some(word) = &self.operator.unclassified {
            settings.unclassified = Action::from_word(word).unwrap();
        }
        if let Some(word) = &self.operator.unclassified_elsewhere {
            settings.unclassified_elsewhere = Action::from_word(word).unwrap();
        }
        settings
    }

    fn tool(&self) -> Tool {
        let mut problems = Vec::new();
        let tool = tool::parse(&json(&self.tool), "$", &mut problems);
        tool.unwrap_or_else(|| panic!("{}: {problems:?}", self.name))
    }
}

#[test]
fn policy_operator_and_mode_make_a_verdict() {
    for case in cases::<EffectiveCase>("effective.toml") {
        let name = &case.name;
        let policy = case
            .policy
            .as_deref()
            .map(|text| parse_text(text).unwrap_or_else(|problems| panic!("{name}: {problems:?}")));
        let (tool, settings) = (case.tool(), case.settings());
        let found = effective(policy.as_ref(), &tool, case.door.into(), &settings);
        assert_eq!(found.class.map_or("none", Class::as_str), case.class, "{name}: class");
        assert_eq!(found.class_source.as_str(), case.source, "{name}: source");
        assert_eq!(found.action.as_str(), case.action, "{name}: action");
        assert_eq!(found.matched, case.matched, "{name}: matched");
        assert_eq!(found.classes.last().copied(), found.class, "{name}: classes");
        let gates = eligibility::check(&tool, &found, &settings);
        let closed = gates.as_ref().err().map(|reason| reason.code());
        assert_eq!(closed, case.gate.as_deref(), "{name}: gate");
        let open = Open {
            judged: case.available && gates.is_ok(),
            sandbox: case.available && case.sandbox,
        };
        for (mode, expected) in
            [(Mode::Plan, &case.plan), (Mode::Ask, &case.ask), (Mode::Auto, &case.auto)]
        {
            let ruling = rule(&found, &tool, &settings, mode, open);
            let shown = match ruling.because {
                Some(because) => format!("{} {because}", ruling.verdict.as_str()),
                None => ruling.verdict.as_str().to_owned(),
            };
            assert_eq!(&shown, expected, "{name}: {}", mode.as_str());
        }
    }
}

/// What the plan of one call makes of the tool, in the words of a verdict.
fn planned(case: &EffectiveCase, policy: Option<&Policy>, door: Door, mode: Mode) -> &'static str {
    let tool = case.tool();
    let call = Call::new("c", &tool.name, tool.server_label.as_deref(), "{}");
    let request = Request {
        door,
        mode,
        conversation: Conversation::default(),
        tools: vec![tool],
        calls: vec![call],
    };
    let state = State {
        sandbox: Sandbox { enabled: case.sandbox, ..Sandbox::default() },
        automatic_approval: if case.available { Ok(()) } else { Err(JudgeFailure::SwitchedOff) },
        ..State::default()
    };
    let settings = Settings { operator: case.settings(), ..Settings::default() };
    let steps = plan(&Agent::default(), policy, &request, &state, &settings);
    match steps.first().expect("a step for the call") {
        Step::Ask(_) => "JUDGE",
        Step::Settled(decision) => match &decision.outcome {
            Outcome::Execute => "EXECUTE",
            Outcome::ExecuteSandboxed { .. } => "EXECUTE builtin.sandbox_offline",
            Outcome::Pending(_) => "PAUSE_APPROVAL",
            Outcome::Blocked(BlockedBy::Policy) => "BLOCK",
            Outcome::Blocked(BlockedBy::Mode(Mode::Plan)) => "BLOCK conversation_mode.plan",
            other => panic!("{}: {other:?}", case.name),
        },
    }
}

#[test]
fn what_is_shown_of_a_policy_is_what_happens() {
    for case in cases::<EffectiveCase>("effective.toml") {
        let policy = case.policy.as_deref().map(|text| parse_text(text).unwrap());
        for (mode, expected) in
            [(Mode::Plan, &case.plan), (Mode::Ask, &case.ask), (Mode::Auto, &case.auto)]
        {
            let expected = expected.strip_suffix(" conversation_mode.auto").unwrap_or(expected);
            let found = planned(&case, policy.as_ref(), case.door.into(), mode);
            assert_eq!(found, expected, "{}: {}", case.name, mode.as_str());
        }
    }
}

#[test]
fn a_floor_is_trusted_unless_its_annotations_are_unreliable() {
    for case in cases::<EffectiveCase>("effective.toml") {
        let floor = floor(&case.tool(), &case.settings());
        let reliable = floor.source != ClassSource::UnreliableAnnotations;
        assert_eq!(floor.trusted, reliable, "{}", case.name);
        assert!(!matches!(floor.source, ClassSource::Rule(_)));
        assert!(reliable || floor.class == Some(Class::Write), "{}", case.name);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentCase {
    name: String,
    #[serde(rename = "why")]
    _why: String,
    agent: String,
    #[serde(default)]
    save: Vec<String>,
    stored: Option<Vec<String>>,
}

impl Named for AgentCase {
    fn name(&self) -> &str {
        &self.name
    }
}

#[test]
fn every_problem_of_an_agent_is_reported_with_its_code() {
    for case in cases::<AgentCase>("agents.toml") {
        let text = expand(&case.agent);
        let problems = |reading| match agent::parse_text(&text, reading) {
            Ok(_) => Vec::new(),
            Err(problems) => {
                assert!(!problems.is_empty(), "{}: an error without one", case.name);
                problems.iter().map(ToString::to_string).collect()
            }
        };
        assert_eq!(problems(Reading::Save), case.save, "{}: save", case.name);
        let stored = case.stored.as_ref().unwrap_or(&case.save);
        assert_eq!(&problems(Reading::Stored), stored, "{}: stored", case.name);
    }
}

fn class() -> impl Strategy<Value = Class> {
    proptest::sample::select(&Class::ALL)
}

fn action() -> impl Strategy<Value = Action> {
    proptest::sample::select(&[Action::Allow, Action::Approve, Action::Block])
}

fn a_rule() -> impl Strategy<Value = Rule> {
    let effect = prop_oneof![class().prop_map(Effect::Class), action().prop_map(Effect::Action)];
    ("[ab*]{1,3}", effect).prop_map(|(pattern, effect)| Rule { pattern, effect })
}

fn a_policy() -> impl Strategy<Value = Policy> {
    (
        proptest::collection::vec((class(), action()), 0..4),
        proptest::collection::vec(a_rule(), 0..5),
        proptest::option::of(action()),
    )
        .prop_map(|(classes, rules, default)| Policy {
            classes,
            rules,
            default,
            ..Policy::default()
        })
}

fn a_tool() -> impl Strategy<Value = Tool> {
    let hint = || proptest::sample::select(&["true", "false", "null", "\"x\"", ""]);
    let annotations = (hint(), hint(), hint()).prop_map(|(read, destroy, open)| {
        let members: Vec<_> =
            [("readOnlyHint", read), ("destructiveHint", destroy), ("openWorldHint", open)]
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| format!("\"{name}\":{value}"))
                .collect();
        format!("{{{}}}", members.join(","))
    });
    let annotations = prop_oneof![Just("null".to_owned()), Just("7".to_owned()), annotations];
    let origin = proptest::sample::select(&["builtin", "catalog", "function", "connector"]);
    let name = prop_oneof!["[ab]{1,3}", Just("Bash".to_owned()), Just("Deliver".to_owned())];
    (name, origin, annotations).prop_map(|(name, origin, annotations)| {
        let label = if origin == "connector" {
            r#""server_label":"a","#
        } else {
            ""
        };
        let sandbox = origin == "builtin" && name == "Bash";
        let text = format!(
            r#"{{"name":"{name}","origin":"{origin}",{label}"annotations":{annotations},"sandbox":{sandbox}}}"#
        );
        tool::parse(&json(&text), "$", &mut Vec::new()).unwrap()
    })
}

/// How free a verdict leaves the agent.
const fn freedom(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Block => 0,
        Verdict::PauseApproval => 1,
        Verdict::Judge => 2,
        Verdict::Execute => 3,
    }
}

proptest! {
    #[test]
    fn another_rule_never_frees_a_classified_tool(
        policy in a_policy(), more in a_rule(), tool in a_tool()
    ) {
        let settings = OperatorSettings::default();
        let before = effective(Some(&policy), &tool, Door::Gateway, &settings);
        let mut longer = policy;
        longer.rules.push(more);
        let after = effective(Some(&longer), &tool, Door::Gateway, &settings);
        prop_assert!(after.class >= before.class);
        // A tool without a class leaves `default` behind when it gets a rule; that is the contract.
        if before.class.is_some() {
            prop_assert!(after.action >= before.action);
        }
    }

    #[test]
    fn the_order_of_rules_does_not_matter(policy in a_policy(), tool in a_tool()) {
        let settings = OperatorSettings::default();
        let mut turned = policy.clone();
        turned.rules.reverse();
        let one = effective(Some(&policy), &tool, Door::Aap, &settings);
        let other = effective(Some(&turned), &tool, Door::Aap, &settings);
        prop_assert_eq!(one.action, other.action);
        prop_assert_eq!(one.classes, other.classes);
    }

    #[test]
    fn no_policy_is_freer_than_the_operator_for_an_unclassified_tool(
        policy in a_policy(), tool in a_tool(), set in action()
    ) {
        let settings = OperatorSettings { unclassified: set, ..OperatorSettings::default() };
        let found = effective(Some(&policy), &tool, Door::Gateway, &settings);
        if found.class.is_none() {
            prop_assert!(found.action >= set);
        }
    }

    #[test]
    fn modes_only_tighten_but_for_the_approver(
        policy in a_policy(), tool in a_tool(), judged: bool, sandbox: bool
    ) {
        let settings = OperatorSettings::default();
        let found = effective(Some(&policy), &tool, Door::Gateway, &settings);
        let open = Open {
            judged: judged && eligibility::check(&tool, &found, &settings).is_ok(),
            sandbox,
        };
        let verdict = |mode| rule(&found, &tool, &settings, mode, open).verdict;
        prop_assert!(freedom(verdict(Mode::Plan)) <= freedom(verdict(Mode::Ask)));
        prop_assert_ne!(verdict(Mode::Plan), Verdict::Judge);
        prop_assert_ne!(verdict(Mode::Ask), Verdict::Judge);
        if found.action == Action::Block {
            prop_assert_eq!(verdict(Mode::Auto), Verdict::Block);
        }
        if verdict(Mode::Auto) == Verdict::Judge {
            prop_assert_eq!(verdict(Mode::Ask), Verdict::PauseApproval);
            prop_assert_ne!(found.class, Some(Class::Destructive));
            prop_assert!(!settings.is_human_only(&tool));
            prop_assert!(found.class == Some(Class::Read) || tool.origin != Origin::Builtin);
        }
        if found.class != Some(Class::Read) {
            prop_assert_eq!(verdict(Mode::Plan), Verdict::Block);
        }
    }

    #[test]
    fn no_text_breaks_the_readers(text in "[\\[\\]{}:,\"a-e0-9 ]{0,60}") {
        if let Err(problems) = parse_text(&text) {
            prop_assert!(!problems.is_empty());
        }
        if let Err(problems) = agent::parse_text(&text, Reading::Save) {
            prop_assert!(!problems.is_empty());
        }
    }
}
