//! What the plan must know beyond the request: counts, grants, pinned definitions. Whoever calls
//! [`super::plan`] keeps them; nothing here stores or reads anything.

use super::policy::OperatorSettings;
use super::prompt::ResultsView;
use super::request::{Origin, Tool};
use super::verdict::JudgeFailure;

/// What identifies a tool, its definition included: a changed definition is another tool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolIdentity {
    /// Where the tool comes from.
    pub origin: Origin,
    /// The MCP server's label, for a connector's tool.
    pub server_label: Option<String>,
    /// The tool's bare name.
    pub name: String,
    /// Digest of description, input schema and annotations.
    pub definition: String,
}

impl ToolIdentity {
    /// The identity of a tool as it is defined now.
    #[must_use]
    pub fn of(tool: &Tool) -> Self {
        Self {
            origin: tool.origin,
            server_label: tool.server_label.clone(),
            name: tool.name.clone(),
            definition: tool.definition_digest(),
        }
    }

    /// Whether a call would name both alike, whatever their origins and definitions.
    #[must_use]
    pub fn same_name(&self, other: &Self) -> bool {
        self.server_label == other.server_label && self.name == other.name
    }
}

/// A person's approval of all later calls of one tool in this conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The approval that carried it: the decider of the calls that it covers.
    pub approval_id: String,
    /// The tool that it covers.
    pub tool: ToolIdentity,
}

/// The state that belongs to one request, as its keeper knows it.
#[derive(Debug, Clone)]
pub struct State {
    /// Grants that hold for this organisation, door, surface, agent and conversation.
    pub grants: Vec<Grant>,
    /// The definitions under which the conversation knows tools of the gateway's list.
    pub pinned: Vec<ToolIdentity>,
    /// Writes that were approved or are pending in this turn, by [`super::call_digest`].
    pub turn_writes: Vec<String>,
    /// Calls that the judge was asked about in this turn.
    pub judged_in_turn: u32,
    /// Escalations by detector or judge in this conversation since a person last decided.
    pub escalations: u32,
    /// What the offline sandbox may still do in this turn.
    pub sandbox: Sandbox,
    /// Whether automatic approval is available, or why not.
    pub automatic_approval: Result<(), JudgeFailure>,
}

impl Default for State {
    /// A conversation that is new, with a judge at hand and no sandbox.
    fn default() -> Self {
        Self {
            grants: Vec::new(),
            pinned: Vec::new(),
            turn_writes: Vec::new(),
            judged_in_turn: 0,
            escalations: 0,
            sandbox: Sandbox::default(),
            automatic_approval: Ok(()),
        }
    }
}

/// The offline sandbox's switch and its use in this turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sandbox {
    /// Whether the built-in `Bash` is enabled for the organisation.
    pub enabled: bool,
    /// Calls that ran on their own in this turn.
    pub calls: u32,
    /// Seconds that they reserved.
    pub seconds: u32,
}

/// Calls of the offline sandbox in one turn.
pub const SANDBOX_CALLS: u32 = 24;
/// Seconds that they may reserve together.
pub const SANDBOX_SECONDS: u32 = 1_800;
/// Seconds that a call reserves when it sets no time limit.
pub const SANDBOX_DEFAULT_TIMEOUT: u32 = 120;

/// What the operator configured.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Classes, human-only names and defaults of tools.
    pub operator: OperatorSettings,
    /// Calls of one turn that the judge may see; 16 unless configured.
    pub max_judged_calls_per_turn: u32,
    /// Escalations after which a conversation waits for a person; 3 at the gateway's door.
    pub max_escalations: u32,
    /// What the judge sees of tool results.
    pub results_view: ResultsView,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            operator: OperatorSettings::default(),
            max_judged_calls_per_turn: 16,
            max_escalations: 3,
            results_view: ResultsView::default(),
        }
    }
}
