//! What a door adds to a request so that it is judged more strictly. Nothing here loosens: a mode
//! counts where it is the stricter one, annotations where a second plan with them is.

use std::time::Duration;

use crate::decide::json::Json;
use crate::decide::policy::Mode;
use crate::decide::request::{Agent, Annotations, Call};
use crate::decide::{State, Step};
use crate::service::versions::LoadedVersion;

/// What a door adds.
#[derive(Debug, Clone, Default)]
pub struct Stricter {
    /// The mode that an operator chose; the version's default where there is none. Where the version
    /// does not offer it, every call waits that is not blocked.
    pub chosen: Option<Mode>,
    /// The mode that the caller claims; it counts where it is stricter.
    pub claimed: Option<Mode>,
    /// The annotations of the called tool that the caller claims.
    pub annotations: Option<Json>,
    /// Where the instance counts rather than the conversation and the turn that it names.
    pub limit: Option<InstanceLimit>,
}

/// What an instance may do whose conversations and turns may be its own invention: all of its calls
/// within a time count as those of one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceLimit {
    /// The time.
    pub within: Duration,
    /// Escalations in it after which calls wait.
    pub escalations: u32,
}

/// The same, as the version at hand has it.
#[derive(Debug, Clone)]
pub(super) struct InForce {
    pub(super) mode: Mode,
    pub(super) limit: Option<InstanceLimit>,
    all_wait: bool,
    claimed: Option<Agent>,
}

impl Stricter {
    pub(super) fn in_force(self, version: &LoadedVersion, calls: &[Call]) -> InForce {
        let modes = version.modes();
        let chosen = self.chosen.unwrap_or(modes.default);
        let offered = modes.offers(chosen);
        let mode = if offered { chosen } else { chosen.min(Mode::Ask) };
        let agent = &version.content.agent;
        let claimed =
            self.annotations.map(|annotations| with_annotations(agent, calls, annotations));
        InForce {
            mode: self.claimed.map_or(mode, |claimed| claimed.min(mode)),
            limit: self.limit,
            all_wait: !offered,
            claimed,
        }
    }
}

impl InForce {
    /// The mode that counts, and the state with the instance's own limit of escalations: reached or
    /// not.
    pub(super) fn apply(&self, turn: Mode, state: &mut State) -> Mode {
        if let Some(limit) = self.limit {
            state.escalations = if state.escalations >= limit.escalations { u32::MAX } else { 0 };
        }
        turn.min(self.mode)
    }

    /// The steps with what is claimed; `plan` makes them anew for another agent.
    pub(super) fn tighten(
        &self,
        steps: Vec<Step>,
        plan: impl FnOnce(&Agent) -> Vec<Step>,
    ) -> Vec<Step> {
        let steps = match &self.claimed {
            None => steps,
            Some(claimed) => {
                let others = plan(claimed);
                steps.into_iter().zip(others).map(|(step, other)| step.stricter(other)).collect()
            }
        };
        if self.all_wait { steps.into_iter().map(Step::waiting).collect() } else { steps }
    }
}

/// The agent as the caller sees the tools that it calls.
fn with_annotations(agent: &Agent, calls: &[Call], annotations: Json) -> Agent {
    let mut agent = agent.clone();
    for tool in &mut agent.tools {
        let called = |call: &Call| call.tool == tool.name && call.server_label == tool.server_label;
        if calls.iter().any(called) {
            tool.annotations = Annotations::Present(annotations.clone());
        }
    }
    agent
}
