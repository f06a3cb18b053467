//! Of two plans for one call, the stricter: what a caller claims of its own tools may tighten a
//! judgement and never loosens it.

use super::outcome::{Decision, Outcome, Step};
use super::policy::Class;

impl Step {
    /// The stricter of two steps for the same call; this one where they are alike. A block is the
    /// strictest, then a person, then a judge, then a grant; of the same kind, what is of the more
    /// restrictive class.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        if (other.rank(), other.class()) > (self.rank(), self.class()) { other } else { self }
    }

    /// The same call, waiting for a person; a block stays a block.
    #[must_use]
    pub fn waiting(self) -> Self {
        let decision = match self {
            Self::Settled(decision) => match decision.outcome {
                Outcome::Blocked(_) | Outcome::Pending(_) => return Self::Settled(decision),
                Outcome::Execute
                | Outcome::ExecuteSandboxed { .. }
                | Outcome::Granted { .. }
                | Outcome::Approved(_) => Decision { outcome: Outcome::Pending(None), ..*decision },
            },
            Self::Ask(question) => Decision {
                call_id: question.call_id,
                outcome: Outcome::Pending(None),
                class: question.class,
                findings: Vec::new(),
                provenance: question.provenance,
                asked: None,
            },
        };
        Self::Settled(Box::new(decision))
    }

    fn class(&self) -> Option<Class> {
        match self {
            Self::Settled(decision) => decision.class,
            Self::Ask(question) => question.class,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Ask(_) => 2,
            Self::Settled(decision) => match decision.outcome {
                Outcome::Execute | Outcome::ExecuteSandboxed { .. } => 0,
                Outcome::Granted { .. } | Outcome::Approved(_) => 1,
                Outcome::Pending(_) => 3,
                Outcome::Blocked(_) => 4,
            },
        }
    }
}
