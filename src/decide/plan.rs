//! All that code alone decides about the calls of one request, in the order of the reasons.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::approval::NothingNovel;
use super::eligibility::{self, Eligible, EligibleClass};
use super::json::Json;
use super::novelty::{self, Finding, ToolText};
use super::outcome::{BlockedBy, Decision, Outcome, Question, Step, Traced};
use super::policy::{
    self, Action, Class, Effective, Lists, Mode, Policy, is_sandboxed_bash, needs_person,
};
use super::prompt::{self, MAX_CALL, Pending, Prefix};
use super::provenance::{FirstSeen, MAX_TRACED, Texts};
use super::reason::{Reason, TurnLimit};
use super::request::{Agent, Call, Request, Tool};
use super::state::{
    SANDBOX_CALLS, SANDBOX_DEFAULT_TIMEOUT, SANDBOX_SECONDS, Settings, State, ToolIdentity,
};
use super::{digest, verdict};

/// Plans every call of a request, in call order; counts that the request itself uses up are
/// reserved in that order too.
#[must_use]
pub fn plan(
    agent: &Agent,
    policy: Option<&Policy>,
    request: &Request,
    state: &State,
    settings: &Settings,
) -> Vec<Step> {
    let no_lists = Lists::default();
    let lists = policy.map_or(&no_lists, |policy| &policy.lists);
    let shared = Shared::new(agent, lists, request, settings);
    let mut planner = Planner {
        agent,
        policy,
        request,
        state,
        settings,
        shared,
        judged: state.judged_in_turn,
        sandbox_calls: state.sandbox.calls,
        sandbox_seconds: state.sandbox.seconds,
        writes: state.turn_writes.iter().cloned().collect(),
    };
    request.calls.iter().map(|call| contain(call, || planner.call(call))).collect()
}

/// A bug in the core costs its own call, which then goes to a person, and no other.
fn contain(call: &Call, work: impl FnOnce() -> Step) -> Step {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Step::Settled(Box::new(Decision::internal_error(&call.call_id, None))))
}

/// Digest by which two calls are the same: tool and parsed arguments, in any notation.
#[must_use]
pub fn call_digest(tool: &Tool, arguments: &Json) -> String {
    let label = tool.server_label.as_deref().unwrap_or_default();
    digest(&["call-1", label, &tool.name, &arguments.canonical()])
}

/// What all calls of a request share, made when the first of them needs it.
struct Shared<'a> {
    agent: &'a Agent,
    lists: &'a Lists,
    request: &'a Request,
    settings: &'a Settings,
    texts: Texts<'a>,
    known: OnceCell<novelty::Sources>,
    prefix: OnceCell<Prefix>,
    quotable: OnceCell<Arc<verdict::Sources>>,
}

impl<'a> Shared<'a> {
    fn new(
        agent: &'a Agent,
        lists: &'a Lists,
        request: &'a Request,
        settings: &'a Settings,
    ) -> Self {
        let texts = Texts::new(&request.conversation, agent, lists);
        let (known, prefix, quotable) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { agent, lists, request, settings, texts, known, prefix, quotable }
    }

    /// The detectors' sources. A `soft_deny` sentence never makes an item known.
    fn known(&self) -> &novelty::Sources {
        self.known.get_or_init(|| {
            let context: Vec<&str> = self
                .lists
                .environment
                .iter()
                .chain(&self.lists.allow)
                .map(String::as_str)
                .collect();
            novelty::Sources::new(self.texts.persons(), &self.agent.instructions, &context)
        })
    }

    fn prefix(&self) -> &Prefix {
        self.prefix.get_or_init(|| {
            let conversation = &self.request.conversation;
            let view = self.settings.results_view;
            Prefix::new(self.agent, self.lists, conversation, &self.texts, view)
        })
    }

    fn quotable(&self) -> Arc<verdict::Sources> {
        let make = || Arc::new(verdict::Sources::new(self.texts.persons(), self.agent, self.lists));
        Arc::clone(self.quotable.get_or_init(make))
    }
}

struct Planner<'a> {
    agent: &'a Agent,
    policy: Option<&'a Policy>,
    request: &'a Request,
    state: &'a State,
    settings: &'a Settings,
    shared: Shared<'a>,
    judged: u32,
    sandbox_calls: u32,
    sandbox_seconds: u32,
    writes: BTreeSet<String>,
}

/// A call's tool, as the agent version, the gateway's list and the conversation define it.
enum Definition<'a> {
    Known(&'a Tool),
    /// Defined, but not as the agent version or the conversation knows it.
    Changed(&'a Tool),
    Unknown,
}

/// What is known of a call before anyone looks at its arguments.
struct Subject<'a> {
    call: &'a Call,
    tool: &'a Tool,
    effective: Effective,
}

impl<'a> Planner<'a> {
    fn call(&mut self, call: &'a Call) -> Step {
        match self.definition(call) {
            Definition::Known(tool) => self.known(call, tool),
            Definition::Changed(tool) => {
                let subject = self.subject(call, tool);
                Step::Settled(Box::new(self.unreliable(&subject, Reason::ToolChanged)))
            }
            Definition::Unknown => {
                // Nobody says what it is, so only its name can meet a rule.
                let tool = call.undefined_tool();
                let subject = self.subject(call, &tool);
                let mut decision = self.unreliable(&subject, Reason::ToolUnknown);
                decision.class = None;
                let waits = decision.outcome == Outcome::Pending(Some(Reason::ToolUnknown));
                if waits && self.request.mode == Mode::Plan {
                    decision.outcome = Outcome::Blocked(BlockedBy::Mode(Mode::Plan));
                }
                Step::Settled(Box::new(decision))
            }
        }
    }

    fn definition(&self, call: &Call) -> Definition<'a> {
        let named = |tool: &&Tool| tool.name == call.tool && tool.server_label == call.server_label;
        let listed = self.request.tools.iter().find(named);
        match (self.agent.tools.iter().find(named), listed) {
            (Some(own), Some(listed)) if !own.same_definition(listed) => Definition::Changed(own),
            (Some(own), _) => Definition::Known(own),
            (None, Some(listed)) => {
                let identity = ToolIdentity::of(listed);
                let mut pinned = self
                    .state
                    .pinned
                    .iter()
                    .filter(|pinned| pinned.same_name(&identity))
                    .peekable();
                let changed = pinned.peek().is_some() && !pinned.any(|known| *known == identity);
                if changed { Definition::Changed(listed) } else { Definition::Known(listed) }
            }
            (None, None) => Definition::Unknown,
        }
    }

    fn subject<'s>(&self, call: &'s Call, tool: &'s Tool) -> Subject<'s> {
        let operator = &self.settings.operator;
        let effective = policy::effective(self.policy, tool, self.request.door, operator);
        Subject { call, tool, effective }
    }

    /// A call whose tool or arguments cannot be relied on waits in every mode, also where the
    /// policy would let it run; a block stays a block.
    fn unreliable(&self, subject: &Subject<'_>, reason: Reason) -> Decision {
        match (subject.effective.action, &subject.call.arguments) {
            (Action::Block, _) => decide(subject, Outcome::Blocked(BlockedBy::Policy)),
            (Action::Allow | Action::Approve, Err(why)) => {
                let reason = Reason::ArgumentsUnreadable(why.clone());
                decide(subject, Outcome::Pending(Some(reason)))
            }
            (Action::Allow | Action::Approve, Ok(arguments)) => {
                let examined = self.examine(subject, arguments);
                examined.decide(subject, Outcome::Pending(Some(reason)))
            }
        }
    }

    fn known(&mut self, call: &'a Call, tool: &'a Tool) -> Step {
        let subject = self.subject(call, tool);
        if subject.effective.action == Action::Block {
            return settle(&subject, Outcome::Blocked(BlockedBy::Policy));
        }
        let arguments = match &call.arguments {
            Ok(arguments) => arguments,
            Err(why) => {
                let reason = Reason::ArgumentsUnreadable(why.clone());
                return settle(&subject, Outcome::Pending(Some(reason)));
            }
        };
        let mode = self.request.mode;
        if mode == Mode::Plan && subject.effective.class != Some(Class::Read) {
            return settle(&subject, Outcome::Blocked(BlockedBy::Mode(mode)));
        }
        if subject.effective.action == Action::Allow {
            return settle(&subject, Outcome::Execute);
        }
        self.needs_approval(&subject, arguments)
    }

    fn needs_approval(&mut self, subject: &Subject<'a>, arguments: &'a Json) -> Step {
        let identity = call_digest(subject.tool, arguments);
        let examined = self.examine(subject, arguments);
        if let Some(grant) = self.grant(subject) {
            self.writes.insert(identity);
            return examined.settle(subject, grant);
        }
        if self.runs_offline(subject) {
            return match self.reserve_sandbox(subject.call) {
                Some(outcome) => settle(subject, outcome),
                None => {
                    self.writes.insert(identity);
                    let reason = Reason::SandboxAllowance;
                    examined.settle(subject, Outcome::Pending(Some(reason)))
                }
            };
        }
        let step = match self.request.mode {
            Mode::Plan | Mode::Ask => examined.settle(subject, Outcome::Pending(None)),
            Mode::Auto => match self.question(subject, arguments, &identity, &examined) {
                Ok(question) => Step::Ask(Box::new(question)),
                Err(reason) => examined.settle(subject, Outcome::Pending(Some(reason))),
            },
        };
        self.writes.insert(identity);
        step
    }

    /// The question about a call, or the first reason in the order of [`Reason`] not to ask it.
    fn question(
        &mut self,
        subject: &Subject<'a>,
        arguments: &'a Json,
        identity: &str,
        examined: &Examined,
    ) -> Result<Question, Reason> {
        let Subject { call, tool, effective } = subject;
        let eligible = eligibility::check(tool, effective, &self.settings.operator)?;
        if self.state.escalations >= self.settings.max_escalations {
            return Err(Reason::TurnLimit(TurnLimit::Escalations));
        }
        if self.judged >= self.settings.max_judged_calls_per_turn {
            return Err(Reason::TurnLimit(TurnLimit::Judged));
        }
        if eligible.class() == EligibleClass::Write && self.writes.contains(identity) {
            return Err(Reason::RepeatedCall);
        }
        let Some(nothing_novel) = NothingNovel::prove(&examined.findings) else {
            return Err(Reason::NovelArgument(examined.findings.clone()));
        };
        let (prompt, cuts) = self.prompt(&eligible, call, tool, arguments, examined)?;
        self.state.automatic_approval?;
        self.judged += 1;
        Ok(Question {
            call_id: call.call_id.clone(),
            class: effective.class,
            eligible,
            nothing_novel,
            prompt,
            cuts,
            sources: self.shared.quotable(),
            provenance: examined.provenance.clone(),
        })
    }

    fn prompt(
        &self,
        eligible: &Eligible,
        call: &'a Call,
        tool: &'a Tool,
        arguments: &'a Json,
        examined: &Examined,
    ) -> Result<(prompt::Prompt, prompt::Cuts), Reason> {
        let leaves = arguments.leaves(MAX_TRACED);
        let first_seen: Vec<FirstSeen> =
            examined.provenance.iter().map(|traced| traced.first_seen.clone()).collect();
        let pending = Pending {
            call,
            arguments,
            tool,
            leaves: &leaves,
            leaf_count: arguments.leaf_count(),
            first_seen: &first_seen,
            request_calls: &self.request.calls,
        };
        prompt::build(eligible, self.shared.prefix(), &self.shared.texts, pending)
            .map_err(Reason::TooLarge)
    }

    /// Runs the detectors and traces the arguments, for the judge and for the person alike.
    fn examine(&self, subject: &Subject<'_>, arguments: &Json) -> Examined {
        let tool = ToolText {
            name: &subject.tool.name,
            description: subject.tool.description.as_deref(),
            input_schema: subject.tool.input_schema.as_ref(),
        };
        let findings = novelty::scan(arguments, tool, self.shared.known());
        // A larger call is never asked about, and its pointers may be as large as itself.
        let most = if subject.call.arguments_text.len() > MAX_CALL { 0 } else { MAX_TRACED };
        let provenance = arguments
            .leaves(most)
            .into_iter()
            .map(|leaf| Traced {
                first_seen: self.shared.texts.trace(leaf.value),
                pointer: leaf.pointer,
            })
            .collect();
        Examined { findings, provenance }
    }

    /// A person's grant covers the tool, whatever the arguments; never what may destroy and never
    /// what only a person may approve.
    fn grant(&self, subject: &Subject<'_>) -> Option<Outcome> {
        if needs_person(&subject.effective, subject.tool, &self.settings.operator) {
            return None;
        }
        let identity = ToolIdentity::of(subject.tool);
        let grant = self.state.grants.iter().find(|grant| grant.tool == identity)?;
        Some(Outcome::Granted { approval_id: grant.approval_id.clone() })
    }

    /// Whether the call is one of the built-in `Bash` in its offline sandbox, which runs without
    /// anyone's approval: never past plan mode, nor what may destroy, nor what is human-only, and
    /// never a tool that the agent's author defines, whatever it calls itself.
    fn runs_offline(&self, subject: &Subject<'_>) -> bool {
        let authored = self.agent.tools.iter().any(|tool| std::ptr::eq(tool, subject.tool));
        is_sandboxed_bash(subject.tool)
            && !authored
            && self.request.mode != Mode::Plan
            && self.state.sandbox.enabled
            && self.state.automatic_approval.is_ok()
            && !needs_person(&subject.effective, subject.tool, &self.settings.operator)
    }

    fn reserve_sandbox(&mut self, call: &Call) -> Option<Outcome> {
        let timeout_seconds = call.timeout_seconds.unwrap_or(SANDBOX_DEFAULT_TIMEOUT);
        let seconds = self.sandbox_seconds.saturating_add(timeout_seconds);
        if self.sandbox_calls >= SANDBOX_CALLS || seconds > SANDBOX_SECONDS {
            return None;
        }
        self.sandbox_calls += 1;
        self.sandbox_seconds = seconds;
        Some(Outcome::ExecuteSandboxed { timeout_seconds })
    }
}

/// What detectors and tracing say of a call.
struct Examined {
    findings: Vec<Finding>,
    provenance: Vec<Traced>,
}

impl Examined {
    fn decide(self, subject: &Subject<'_>, outcome: Outcome) -> Decision {
        let Self { findings, provenance } = self;
        Decision { findings, provenance, ..decide(subject, outcome) }
    }

    fn settle(self, subject: &Subject<'_>, outcome: Outcome) -> Step {
        Step::Settled(Box::new(self.decide(subject, outcome)))
    }
}

fn settle(subject: &Subject<'_>, outcome: Outcome) -> Step {
    Step::Settled(Box::new(decide(subject, outcome)))
}

fn decide(subject: &Subject<'_>, outcome: Outcome) -> Decision {
    Decision {
        call_id: subject.call.call_id.clone(),
        outcome,
        class: subject.effective.class,
        findings: Vec::new(),
        provenance: Vec::new(),
        asked: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::reason::Reason;
    use super::*;

    #[test]
    fn a_bug_sends_its_own_call_to_a_person() {
        let call = Call::new("call_1", "note_add", None, "{}");
        let Step::Settled(decision) = contain(&call, || panic!("a bug")) else { panic!() };
        assert_eq!(decision.call_id, "call_1");
        assert_eq!(decision.outcome, Outcome::Pending(Some(Reason::InternalError)));
    }
}
