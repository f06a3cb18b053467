//! What a conversation's mode makes of an effective policy.
//!
//! A mode only tightens, but for auto, which hands some of what would wait for a person to the
//! approver. No mode moves a block.

use super::annotations::declares_destructive;
use super::{Action, Class, Effective, Mode, OperatorSettings};
use crate::decide::request::{Origin, Tool};

/// What happens with a tool's calls in a mode, as far as the tool alone decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// They run.
    Execute,
    /// The automatic approver looks at them: detectors, then the judge.
    Judge,
    /// They wait for a person.
    PauseApproval,
    /// They never run.
    Block,
}

impl Verdict {
    /// The verdict's name in answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Execute => "EXECUTE",
            Self::Judge => "JUDGE",
            Self::PauseApproval => "PAUSE_APPROVAL",
            Self::Block => "BLOCK",
        }
    }
}

/// Ways past a person that are open to a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// Every gate of [`crate::decide::eligibility`] is open, and automatic approval is available.
    pub judged: bool,
    /// The organisation enabled offline runs, automatic approval is available, and the turn's
    /// allowance is not used up. It opens nothing for any tool but the built-in `Bash` whose
    /// definition says so.
    pub sandbox: bool,
}

/// A verdict, and what besides the policy made it so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The verdict.
    pub verdict: Verdict,
    /// `conversation_mode.<mode>` where the mode changed what ask would give, or
    /// `builtin.sandbox_offline`.
    pub because: Option<&'static str>,
}

/// What happens with a tool's calls in `mode`.
#[must_use]
pub fn rule(
    effective: &Effective,
    tool: &Tool,
    operator: &OperatorSettings,
    mode: Mode,
    open: Open,
) -> Ruling {
    let plain = |verdict| Ruling { verdict, because: None };
    let marked = |verdict, because| Ruling { verdict, because: Some(because) };
    let reads = effective.class == Some(Class::Read);
    // Stricter than the rule it comes from: what needs a person is not run offline either.
    let runs_offline =
        open.sandbox && is_sandboxed_bash(tool) && !needs_person(effective, tool, operator);
    match (effective.action, mode) {
        (Action::Block, _) => plain(Verdict::Block),
        (Action::Allow | Action::Approve, Mode::Plan) if !reads => {
            marked(Verdict::Block, "conversation_mode.plan")
        }
        (Action::Allow, _) => plain(Verdict::Execute),
        (Action::Approve, Mode::Plan) => plain(Verdict::PauseApproval),
        (Action::Approve, Mode::Ask | Mode::Auto) if runs_offline => {
            marked(Verdict::Execute, "builtin.sandbox_offline")
        }
        (Action::Approve, Mode::Auto) if open.judged => {
            marked(Verdict::Judge, "conversation_mode.auto")
        }
        (Action::Approve, Mode::Ask | Mode::Auto) => plain(Verdict::PauseApproval),
    }
}

/// Whether nothing but a person's decision about this very call may release it: some class that
/// applies is destructive, the tool says that it destroys, or the operator wants a person.
#[must_use]
pub fn needs_person(effective: &Effective, tool: &Tool, operator: &OperatorSettings) -> bool {
    effective.class == Some(Class::Destructive)
        || declares_destructive(tool)
        || operator.is_human_only(tool)
}

/// The built-in `Bash` whose definition puts it into its offline sandbox. Another origin's tool of
/// that name, or one that claims a sandbox, is none.
#[must_use]
pub fn is_sandboxed_bash(tool: &Tool) -> bool {
    tool.sandbox && tool.origin == Origin::Builtin && tool.name == "Bash"
}
