//! The most that a request may use of a turn's counts, before its mode and the conversation's state
//! are known. Whoever keeps the counts sets this much aside first and takes the rest back later, so
//! that requests of one turn at the same time never use more than the turn has.

use super::eligibility;
use super::policy::{self, Action, Policy, is_sandboxed_bash, needs_person};
use super::request::{Agent, Call, Door, Tool};
use super::state::{SANDBOX_CALLS, SANDBOX_DEFAULT_TIMEOUT, SANDBOX_SECONDS, Settings};

/// A share of a turn's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reserve {
    /// Calls that the judge may be asked about.
    pub judged: u32,
    /// Calls that may run in the offline sandbox.
    pub sandbox_calls: u32,
    /// Seconds that they may reserve.
    pub sandbox_seconds: u32,
}

/// The most that [`super::plan()`] uses for these calls, whatever the mode is and whatever the
/// conversation knows.
#[must_use]
pub fn reserve(
    agent: &Agent,
    policy: Option<&Policy>,
    door: Door,
    tools: &[Tool],
    calls: &[Call],
    settings: &Settings,
) -> Reserve {
    let mut most = Reserve::default();
    let operator = &settings.operator;
    for call in calls.iter().filter(|call| call.arguments.is_ok()) {
        let Some(tool) = call.definition(agent, tools) else { continue };
        let effective = policy::effective(policy, tool, door, operator);
        if effective.action != Action::Approve {
            continue;
        }
        if eligibility::check(tool, &effective, operator).is_ok() {
            most.judged = most.judged.saturating_add(1);
        }
        if is_sandboxed_bash(tool) && !needs_person(&effective, tool, operator) {
            let seconds = call.timeout_seconds.unwrap_or(SANDBOX_DEFAULT_TIMEOUT);
            most.sandbox_calls = most.sandbox_calls.saturating_add(1);
            most.sandbox_seconds = most.sandbox_seconds.saturating_add(seconds);
        }
    }
    Reserve {
        judged: most.judged.min(settings.max_judged_calls_per_turn),
        sandbox_calls: most.sandbox_calls.min(SANDBOX_CALLS),
        sandbox_seconds: most.sandbox_seconds.min(SANDBOX_SECONDS),
    }
}
