//! The one value that lets a call run without a person.

use super::eligibility::Eligible;
use super::novelty::Finding;
use super::verdict::{Evidence, Supported};

/// Proof that the detectors found nothing novel in a call.
///
/// INVARIANT: only [`NothingNovel::prove`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NothingNovel(());

impl NothingNovel {
    /// The proof, when there are no findings.
    #[must_use]
    pub(super) fn prove(findings: &[Finding]) -> Option<Self> {
        findings.is_empty().then_some(Self(()))
    }
}

/// An approval by the judge.
///
/// INVARIANT: it takes open gates, a scan without findings, and evidence that held; there is no
/// other constructor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutomaticApproval {
    reason: String,
    supported: Supported,
}

impl AutomaticApproval {
    pub(super) fn new(
        _gates: &Eligible,
        _detectors: &NothingNovel,
        reason: String,
        supported: Supported,
    ) -> Self {
        Self { reason, supported }
    }

    /// The judge's sentence, cleaned.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The quotes that authorise the call, as found in their sources.
    #[must_use]
    pub fn evidence(&self) -> &[Evidence] {
        self.supported.evidence()
    }
}
