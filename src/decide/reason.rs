//! Every reason to wait for a person: a stable code and one sentence that we wrote.
//!
//! No provider's text and no status line can stand in a sentence; what comes from an argument or a
//! list is quoted, bounded and shown without hidden characters.

use super::json::Unreadable;
use super::novelty::Finding;
use super::request::ArgumentsUnreadable;
use super::text::{head, shown};
use super::verdict::JudgeFailure;

/// Why a call waits for a person. The order is that of the checks: the first that applies is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Two programs might read the arguments differently.
    ArgumentsUnreadable(ArgumentsUnreadable),
    /// Neither the agent version nor the gateway's list defines the tool.
    ToolUnknown,
    /// The tool's definition is not the one that the agent version or the conversation knows.
    ToolChanged,
    /// The call may destroy.
    Destructive,
    /// Only a person may ever approve this tool.
    HumanOnly,
    /// A built-in tool that writes.
    BuiltinWrite,
    /// The tool has no class.
    Unclassified,
    /// A write that its author does not declare harmless.
    NotDeclaredHarmless,
    /// A count that limits automatic decisions is used up.
    TurnLimit(TurnLimit),
    /// The turn's allowance of offline commands is used up.
    SandboxAllowance,
    /// The same write was approved or is pending in this turn.
    RepeatedCall,
    /// An argument carries an item that nobody trusted mentioned; never empty.
    NovelArgument(Vec<Finding>),
    /// Something does not fit, and nothing of it may be cut.
    TooLarge(TooLarge),
    /// No judge is configured, it is switched off, or its circuit breaker is open.
    JudgeUnavailable,
    /// No answer in time.
    JudgeTimeout,
    /// The connection or the server failed.
    JudgeError,
    /// The judge's server takes no more requests for now.
    JudgeRateLimited,
    /// The model or its filter declined to answer.
    JudgeRefused,
    /// The answer is not in the form that was asked for.
    JudgeUnreadable,
    /// The judge says that entries of `soft_deny` apply.
    SoftDeny(Vec<ListEntry>),
    /// The judge approved, and its evidence did not hold.
    UnsupportedApproval(Unsupported),
    /// The judge's own reason, cleaned.
    JudgeEscalated(String),
    /// The approval could not be stored.
    NotRecorded,
    /// A bug.
    InternalError,
}

/// Which count is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnLimit {
    /// The calls that the judge may see in one turn.
    Judged,
    /// Escalations in a conversation since a person last decided.
    Escalations,
}

/// What does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooLarge {
    /// The call's arguments.
    Call,
    /// A write with more leaves than an answer can account for.
    Leaves,
    /// The text that the person wrote.
    PersonText,
    /// The agent's instructions.
    Instructions,
    /// The whole question, by our own count or by the model's context.
    Question,
}

/// An entry of the organisation's lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListEntry {
    /// Its number, from 1.
    pub number: usize,
    /// Its sentence.
    pub text: String,
}

/// Why an approving answer does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsupported {
    /// No quote covers the call as such, from a source that may.
    CallUncovered,
    /// A quote does not stand in the source that it names.
    QuoteAbsent,
    /// A quote is too short to mean anything.
    QuoteTooShort,
    /// A quote is too long to cover anything in particular.
    QuoteTooLong,
    /// A quote stands in material that was pasted into a message.
    QuotePasted,
    /// An argument is neither covered nor listed as unsupported.
    ArgumentUncovered(String),
    /// The answer itself lists an argument as unsupported.
    ArgumentUnsupported(String),
    /// The answer itself lists the call as such as unsupported.
    CallUnsupported,
    /// An argument stands both as covered and as unsupported.
    Contradiction(String),
}

impl Reason {
    /// The gates, in their order; [`Reason::is_gate`] holds for these alone.
    pub const GATES: [Self; 5] = [
        Self::Destructive,
        Self::HumanOnly,
        Self::BuiltinWrite,
        Self::Unclassified,
        Self::NotDeclaredHarmless,
    ];

    /// The sentence that pages show for a gate's code; `None` for every other code, whose sentence
    /// stands on the wire.
    #[must_use]
    pub fn sentence_of_gate(code: &str) -> Option<String> {
        Self::GATES.iter().find(|gate| gate.code() == code).map(Self::sentence)
    }

    /// The stable code, `pause_reason` on the wire.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::ArgumentsUnreadable(_) => "arguments_unreadable",
            Self::ToolUnknown => "tool_unknown",
            Self::ToolChanged => "tool_changed",
            Self::Destructive => "destructive",
            Self::HumanOnly => "human_only",
            Self::BuiltinWrite => "builtin_write",
            Self::Unclassified => "unclassified",
            Self::NotDeclaredHarmless => "not_declared_harmless",
            Self::TurnLimit(_) => "turn_limit",
            Self::SandboxAllowance => "sandbox_allowance",
            Self::RepeatedCall => "repeated_call",
            Self::NovelArgument(_) => "novel_argument",
            Self::TooLarge(_) => "too_large",
            Self::JudgeUnavailable => "judge_unavailable",
            Self::JudgeTimeout => "judge_timeout",
            Self::JudgeError => "judge_error",
            Self::JudgeRateLimited => "judge_rate_limited",
            Self::JudgeRefused => "judge_refused",
            Self::JudgeUnreadable => "judge_unreadable",
            Self::SoftDeny(_) => "soft_deny",
            Self::UnsupportedApproval(_) => "unsupported_approval",
            Self::JudgeEscalated(_) => "judge_escalated",
            Self::NotRecorded => "not_recorded",
            Self::InternalError => "internal_error",
        }
    }

    /// One sentence for the person on duty.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::ArgumentsUnreadable(why) => {
                format!("The arguments cannot be read reliably: {}.", unreadable(why))
            }
            Self::ToolUnknown => {
                "Neither the agent version nor the gateway defines this tool.".to_owned()
            }
            Self::ToolChanged => {
                "The tool's definition differs from the one known so far.".to_owned()
            }
            Self::Destructive => "The call may destroy something, so a person decides.".to_owned(),
            Self::HumanOnly => "Only a person may approve this tool.".to_owned(),
            Self::BuiltinWrite => "A built-in tool that writes needs a person.".to_owned(),
            Self::Unclassified => "The tool has no class, so a person decides.".to_owned(),
            Self::NotDeclaredHarmless => {
                "The tool writes, and its author does not declare it harmless.".to_owned()
            }
            Self::TurnLimit(TurnLimit::Judged) => {
                "This turn used up its calls to the automatic approver.".to_owned()
            }
            Self::TurnLimit(TurnLimit::Escalations) => {
                "Several calls of this conversation already wait for a person's decision."
                    .to_owned()
            }
            Self::SandboxAllowance => {
                "This turn used up its allowance of commands in the offline sandbox.".to_owned()
            }
            Self::RepeatedCall => {
                "The same call was approved or is waiting in this turn already.".to_owned()
            }
            Self::NovelArgument(findings) => novel(findings),
            Self::TooLarge(TooLarge::Call) => {
                "The call's arguments are too large to be judged whole.".to_owned()
            }
            Self::TooLarge(TooLarge::Leaves) => {
                "The call has too many arguments to be judged one by one.".to_owned()
            }
            Self::TooLarge(TooLarge::PersonText) => {
                "The user's text is too large to be judged whole.".to_owned()
            }
            Self::TooLarge(TooLarge::Instructions) => {
                "The agent's instructions are too large to be judged whole.".to_owned()
            }
            Self::TooLarge(TooLarge::Question) => {
                "The call and its conversation are too large for the judge.".to_owned()
            }
            Self::JudgeUnavailable => "The automatic approver is not available.".to_owned(),
            Self::JudgeTimeout => "The automatic approver did not answer in time.".to_owned(),
            Self::JudgeError => "The automatic approver could not be reached or failed.".to_owned(),
            Self::JudgeRateLimited => {
                "The automatic approver takes no more requests for now.".to_owned()
            }
            Self::JudgeRefused => "The automatic approver declined to judge this call.".to_owned(),
            Self::JudgeUnreadable => {
                "The automatic approver's answer could not be read.".to_owned()
            }
            Self::SoftDeny(entries) => soft_deny(entries),
            Self::UnsupportedApproval(why) => {
                format!("The judge would approve, but its evidence does not hold: {}.", why.text())
            }
            Self::JudgeEscalated(reason) => reason.clone(),
            Self::NotRecorded => "The automatic approval could not be recorded.".to_owned(),
            Self::InternalError => "The automatic approver met an internal error.".to_owned(),
        }
    }

    /// Whether a gate closed: on the wire such a code stands alone, without a sentence.
    #[must_use]
    pub fn is_gate(&self) -> bool {
        match self {
            Self::Destructive
            | Self::HumanOnly
            | Self::BuiltinWrite
            | Self::Unclassified
            | Self::NotDeclaredHarmless => true,
            Self::ArgumentsUnreadable(_)
            | Self::ToolUnknown
            | Self::ToolChanged
            | Self::TurnLimit(_)
            | Self::SandboxAllowance
            | Self::RepeatedCall
            | Self::NovelArgument(_)
            | Self::TooLarge(_)
            | Self::JudgeUnavailable
            | Self::JudgeTimeout
            | Self::JudgeError
            | Self::JudgeRateLimited
            | Self::JudgeRefused
            | Self::JudgeUnreadable
            | Self::SoftDeny(_)
            | Self::UnsupportedApproval(_)
            | Self::JudgeEscalated(_)
            | Self::NotRecorded
            | Self::InternalError => false,
        }
    }
}

/// Every failure of the outside world is one reason; a new one stops the build here.
impl From<JudgeFailure> for Reason {
    fn from(failure: JudgeFailure) -> Self {
        match failure {
            JudgeFailure::NotConfigured | JudgeFailure::SwitchedOff | JudgeFailure::BreakerOpen => {
                Self::JudgeUnavailable
            }
            JudgeFailure::Timeout => Self::JudgeTimeout,
            JudgeFailure::Connection | JudgeFailure::ServerError | JudgeFailure::Rejected => {
                Self::JudgeError
            }
            JudgeFailure::RateLimited => Self::JudgeRateLimited,
            JudgeFailure::Refused => Self::JudgeRefused,
            JudgeFailure::PromptTooLong => Self::TooLarge(TooLarge::Question),
            JudgeFailure::Truncated | JudgeFailure::Malformed => Self::JudgeUnreadable,
        }
    }
}

impl Unsupported {
    fn text(&self) -> String {
        match self {
            Self::CallUncovered => "nothing quoted asks for the call itself".to_owned(),
            Self::QuoteAbsent => "a quote is not in the text that it names".to_owned(),
            Self::QuoteTooShort => "a quote is too short to show consent".to_owned(),
            Self::QuoteTooLong => "a quote is too long to show anything in particular".to_owned(),
            Self::QuotePasted => "a quote comes from pasted material".to_owned(),
            Self::ArgumentUncovered(pointer) => {
                format!("nothing covers the argument {}", argument(pointer))
            }
            Self::ArgumentUnsupported(pointer) => {
                format!("the judge itself finds no support for the argument {}", argument(pointer))
            }
            Self::CallUnsupported => {
                "the judge itself finds no support for the call as such".to_owned()
            }
            Self::Contradiction(pointer) => {
                format!("the argument {} counts as covered and as unsupported", argument(pointer))
            }
        }
    }
}

/// An argument's pointer in a sentence: quoted, one line, bounded.
fn argument(pointer: &str) -> String {
    let line = shown(pointer);
    let short = head(&line, 120);
    if short.len() < line.len() { format!("`{short}…`") } else { format!("`{short}`") }
}

fn unreadable(why: &ArgumentsUnreadable) -> String {
    match why {
        ArgumentsUnreadable::NotAnObject => "they are not one JSON object".to_owned(),
        ArgumentsUnreadable::Json(Unreadable::Syntax { .. }) => {
            "they are not valid JSON".to_owned()
        }
        ArgumentsUnreadable::Json(Unreadable::Unicode { .. }) => {
            "they hold invalid Unicode".to_owned()
        }
        ArgumentsUnreadable::Json(Unreadable::DuplicateKey { pointer }) => {
            format!("{} stands twice", argument(pointer))
        }
        ArgumentsUnreadable::Json(Unreadable::TooDeep) => "they are nested too deeply".to_owned(),
        ArgumentsUnreadable::Json(Unreadable::NumberOverflow { pointer, .. }) => {
            format!("the number at {} is out of range", argument(pointer))
        }
    }
}

fn novel(findings: &[Finding]) -> String {
    let Some(first) = findings.first() else {
        return "An argument carries something that nobody asked for.".to_owned();
    };
    match findings.len() {
        1 => first.sentence(),
        more => {
            let sentence = first.sentence();
            let others = more - 1;
            let items = if others == 1 { "item" } else { "items" };
            format!("{} ({others} more {items} like it).", sentence.trim_end_matches('.'))
        }
    }
}

fn soft_deny(entries: &[ListEntry]) -> String {
    let named: Vec<String> =
        entries.iter().map(|entry| format!("{} “{}”", entry.number, shown(&entry.text))).collect();
    let (what, verb) = if entries.len() == 1 { ("entry", "applies") } else { ("entries", "apply") };
    format!("The judge says that soft_deny {what} {} {verb}.", named.join(" and "))
}
