//! At which part of a judgement a reason to wait arises, so that gates, detectors and judge are
//! counted apart.

use crate::decide::reason::Reason;

/// A part of a judgement, in the order in which a call passes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The arguments, or the definition of the tool, cannot be relied on.
    Definition,
    /// A gate of eligibility.
    Gate,
    /// A count that is used up, or the same write again.
    Limit,
    /// A detector.
    Detector,
    /// Something does not fit the question.
    Size,
    /// The judge: its verdict, its evidence, or its failure.
    Judge,
    /// The installation: storage, or a bug.
    Installation,
}

impl Stage {
    /// Whether a call that stops here had passed every gate.
    #[must_use]
    pub const fn is_behind_the_gates(self) -> bool {
        match self {
            Self::Definition | Self::Gate | Self::Installation => false,
            Self::Limit | Self::Detector | Self::Size | Self::Judge => true,
        }
    }
}

/// Every code and its stage, in the order of the checks.
pub const CODES: [(&str, Stage); 24] = [
    ("arguments_unreadable", Stage::Definition),
    ("tool_unknown", Stage::Definition),
    ("tool_changed", Stage::Definition),
    ("destructive", Stage::Gate),
    ("human_only", Stage::Gate),
    ("builtin_write", Stage::Gate),
    ("unclassified", Stage::Gate),
    ("not_declared_harmless", Stage::Gate),
    ("turn_limit", Stage::Limit),
    ("sandbox_allowance", Stage::Limit),
    ("repeated_call", Stage::Limit),
    ("novel_argument", Stage::Detector),
    ("too_large", Stage::Size),
    ("judge_unavailable", Stage::Judge),
    ("judge_timeout", Stage::Judge),
    ("judge_error", Stage::Judge),
    ("judge_rate_limited", Stage::Judge),
    ("judge_refused", Stage::Judge),
    ("judge_unreadable", Stage::Judge),
    ("soft_deny", Stage::Judge),
    ("unsupported_approval", Stage::Judge),
    ("judge_escalated", Stage::Judge),
    ("not_recorded", Stage::Installation),
    ("internal_error", Stage::Installation),
];

/// The stage of a code, where it is one of ours.
#[must_use]
pub fn stage_of_code(code: &str) -> Option<Stage> {
    CODES.iter().find(|(known, _)| *known == code).map(|(_, stage)| *stage)
}

/// The stage at which a reason arises.
#[must_use]
pub const fn stage(reason: &Reason) -> Stage {
    match reason {
        Reason::ArgumentsUnreadable(_) | Reason::ToolUnknown | Reason::ToolChanged => {
            Stage::Definition
        }
        Reason::Destructive
        | Reason::HumanOnly
        | Reason::BuiltinWrite
        | Reason::Unclassified
        | Reason::NotDeclaredHarmless => Stage::Gate,
        Reason::TurnLimit(_) | Reason::SandboxAllowance | Reason::RepeatedCall => Stage::Limit,
        Reason::NovelArgument(_) => Stage::Detector,
        Reason::TooLarge(_) => Stage::Size,
        Reason::JudgeUnavailable
        | Reason::JudgeTimeout
        | Reason::JudgeError
        | Reason::JudgeRateLimited
        | Reason::JudgeRefused
        | Reason::JudgeUnreadable
        | Reason::SoftDeny(_)
        | Reason::UnsupportedApproval(_)
        | Reason::JudgeEscalated(_) => Stage::Judge,
        Reason::NotRecorded | Reason::InternalError => Stage::Installation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::reason::{TooLarge, TurnLimit, Unsupported};
    use crate::decide::request::ArgumentsUnreadable;

    #[test]
    fn every_reason_stands_in_the_table_with_its_stage() {
        let reasons = [
            Reason::ArgumentsUnreadable(ArgumentsUnreadable::NotAnObject),
            Reason::ToolUnknown,
            Reason::ToolChanged,
            Reason::Destructive,
            Reason::HumanOnly,
            Reason::BuiltinWrite,
            Reason::Unclassified,
            Reason::NotDeclaredHarmless,
            Reason::TurnLimit(TurnLimit::Judged),
            Reason::SandboxAllowance,
            Reason::RepeatedCall,
            Reason::NovelArgument(Vec::new()),
            Reason::TooLarge(TooLarge::Call),
            Reason::JudgeUnavailable,
            Reason::JudgeTimeout,
            Reason::JudgeError,
            Reason::JudgeRateLimited,
            Reason::JudgeRefused,
            Reason::JudgeUnreadable,
            Reason::SoftDeny(Vec::new()),
            Reason::UnsupportedApproval(Unsupported::CallUncovered),
            Reason::JudgeEscalated(String::new()),
            Reason::NotRecorded,
            Reason::InternalError,
        ];
        let rows: Vec<_> = reasons.iter().map(|reason| (reason.code(), stage(reason))).collect();
        assert_eq!(rows, CODES);
    }
}
