//! What a conversation's mode makes of an effective policy.
//!
//! A mode only tightens, but for auto, which hands some of what would wait for a person to the
//! approver. No mode moves a block.

use super::annotations::{declared_harmless, declares_destructive};
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
    /// The approver may look at its calls: see [`may_be_judged`]; and automatic approval is
    /// available.
    pub judged: bool,
    /// Its calls may run in the offline sandbox: the organisation enabled that, automatic approval
    /// is available, and the turn's allowance is not used up. It opens nothing for any tool but the
    /// built-in `Bash` whose definition says so.
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
pub fn rule(effective: &Effective, tool: &Tool, mode: Mode, open: Open) -> Ruling {
    let plain = |verdict| Ruling { verdict, because: None };
    let marked = |verdict, because| Ruling { verdict, because: Some(because) };
    let reads = effective.class == Some(Class::Read);
    match (effective.action, mode) {
        (Action::Block, _) => plain(Verdict::Block),
        (Action::Allow | Action::Approve, Mode::Plan) if !reads => {
            marked(Verdict::Block, "conversation_mode.plan")
        }
        (Action::Allow, _) => plain(Verdict::Execute),
        (Action::Approve, Mode::Plan) => plain(Verdict::PauseApproval),
        (Action::Approve, Mode::Ask | Mode::Auto) if open.sandbox && is_sandboxed_bash(tool) => {
            marked(Verdict::Execute, "builtin.sandbox_offline")
        }
        (Action::Approve, Mode::Auto) if open.judged => {
            marked(Verdict::Judge, "conversation_mode.auto")
        }
        (Action::Approve, Mode::Ask | Mode::Auto) => plain(Verdict::PauseApproval),
    }
}

/// Whether the gates that depend on the tool alone are open: it has a class and no class that
/// applies is destructive, it does not say that it destroys, a person is not required, and it is a
/// read or a declared harmless write that is not built in.
#[must_use]
pub fn may_be_judged(effective: &Effective, tool: &Tool, settings: &OperatorSettings) -> bool {
    let class_is_open = match effective.class {
        Some(Class::Read) => true,
        Some(Class::Write) => tool.origin != Origin::Builtin && declared_harmless(tool),
        Some(Class::Destructive) | None => false,
    };
    class_is_open && !declares_destructive(tool) && !settings.is_human_only(tool)
}

/// The built-in `Bash` whose definition puts it into its offline sandbox. Another origin's tool of
/// that name, or one that claims a sandbox, is none.
fn is_sandboxed_bash(tool: &Tool) -> bool {
    tool.sandbox && tool.origin == Origin::Builtin && tool.name == "Bash"
}
