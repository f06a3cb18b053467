//! The pure core of a judgement: `plan` before the judge is asked, `settle` after.
//!
//! Nothing here does input or output, reads a clock, draws a random number or waits: what the world
//! knows comes in as arguments. Whatever is wrong ends at a person; nothing here rejects a call but
//! the policy's own block.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

pub mod approval;
pub mod eligibility;
pub mod json;
pub mod novelty;
pub mod outcome;
pub mod policy;
pub mod prompt;
pub mod provenance;
pub mod reason;
pub mod request;
pub mod state;
mod stricter;
pub mod text;
pub mod verdict;
pub mod walk;

mod plan;
mod reserve;

pub use outcome::{Asked, BlockedBy, Decision, Outcome, Question, Step, Traced};
pub use plan::{call_digest, plan};
pub use reserve::{Reserve, reserve};
pub use state::{Settings, State};

use approval::AutomaticApproval;
use data_encoding::HEXLOWER;
use reason::Reason;
use sha2::{Digest, Sha256};
use verdict::{JudgeFailure, Reply, Tokens, Verdict};

/// Turns what the judge replied, or how it failed, into the call's decision. It cannot fail: a
/// failure is one more reason to ask a person.
#[must_use]
pub fn settle(question: Question, reply: Result<Reply, JudgeFailure>) -> Decision {
    let (outcome, model, tokens) = match reply {
        Ok(reply) => (judged(&question, &reply.text), Some(reply.model), reply.tokens),
        Err(failure) => (pending(failure.into()), None, Tokens::default()),
    };
    let Question { call_id, class, prompt, cuts, provenance, .. } = question;
    let asked = Asked { prompt_digest: prompt.digest, model, tokens, cuts };
    Decision { call_id, outcome, class, findings: Vec::new(), provenance, asked: Some(asked) }
}

fn judged(question: &Question, text: &str) -> Outcome {
    let pointers: Vec<String> =
        question.provenance.iter().map(|traced| traced.pointer.clone()).collect();
    match verdict::read(text, question.eligible.class(), &question.sources, &pointers) {
        Verdict::Escalate(reason) => pending(reason),
        Verdict::Approve { reason, supported } => Outcome::Approved(AutomaticApproval::new(
            &question.eligible,
            &question.nothing_novel,
            reason,
            supported,
        )),
    }
}

fn pending(reason: Reason) -> Outcome {
    Outcome::Pending(Some(reason))
}

/// SHA-256 over length-prefixed parts, as 64 lower-case hex digits: no two lists of parts share one.
#[must_use]
pub fn digest(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    HEXLOWER.encode(&hasher.finalize())
}
