//! Agent versions, read once and kept: a version never changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Code, Refusal, Service};
use crate::decide::policy::{Modes, Policy};
use crate::host::agent::{self, AgentProblem, AgentVersion, ProblemCode, Reading};
use crate::store::StoredVersion;

/// Versions that are kept at once; when more are met, all are read again.
const KEPT: usize = 1024;

/// A stored version, read.
#[derive(Debug)]
pub struct LoadedVersion {
    /// The agent.
    pub agent: String,
    /// The version, never a channel.
    pub version: String,
    /// Digest of the stored content.
    pub digest: String,
    /// Instructions, tools, policy.
    pub content: AgentVersion,
    /// Digest of the policy; `None` without one.
    pub policy_digest: Option<String>,
    /// Digest of the policy's lists; `None` without a policy.
    pub lists_digest: Option<String>,
}

impl LoadedVersion {
    /// The modes that the version offers.
    #[must_use]
    pub fn modes(&self) -> Modes {
        self.content.policy.as_ref().map(|policy| policy.modes.clone()).unwrap_or_default()
    }
}

/// What was read, by organisation, agent and version.
#[derive(Debug, Default)]
pub(super) struct Versions {
    read: Mutex<BTreeMap<(String, String, String), Arc<LoadedVersion>>>,
}

impl Service {
    /// The version of that name, or that the channel of that name stands for. The store is asked
    /// unless the name is a version's that was read before: then it is that version's for good.
    ///
    /// # Errors
    /// There is none, or the store fails, or its policy no longer validates, or what is stored cannot
    /// be read.
    pub async fn version(
        &self,
        organisation: &str,
        agent: &str,
        name: &str,
    ) -> Result<Arc<LoadedVersion>, Refusal> {
        if let Some(loaded) = self.versions.loaded(organisation, agent, name) {
            return Ok(loaded);
        }
        let stored = self.store.version(organisation, agent, name).await?;
        let stored = stored.ok_or_else(|| Refusal::not_found("agent version").at("$.version"))?;
        self.versions.load(organisation, stored)
    }
}

impl Versions {
    fn loaded(&self, organisation: &str, agent: &str, version: &str) -> Option<Arc<LoadedVersion>> {
        let key = (organisation.to_owned(), agent.to_owned(), version.to_owned());
        self.read.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// Reads a stored version, unless it was read before.
    ///
    /// # Errors
    /// What is stored cannot be read: a version that this program never writes.
    fn load(
        &self,
        organisation: &str,
        stored: StoredVersion,
    ) -> Result<Arc<LoadedVersion>, Refusal> {
        let StoredVersion { agent, version, content, digest, .. } = stored;
        if let Some(loaded) = self.loaded(organisation, &agent, &version) {
            return Ok(loaded);
        }
        let content = agent::parse_text(&content, Reading::Stored)
            .map_err(|problems| unusable(&agent, &version, &problems))?;
        let policy = content.policy.as_ref();
        let policy_digest = policy.map(Policy::digest);
        let lists_digest = policy.map(|policy| policy.lists.digest());
        let key = (organisation.to_owned(), agent.clone(), version.clone());
        let loaded = LoadedVersion { agent, version, digest, content, policy_digest, lists_digest };
        let loaded = Arc::new(loaded);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.len() >= KEPT {
            read.clear();
        }
        read.insert(key, Arc::clone(&loaded));
        Ok(loaded)
    }
}

/// A policy that no longer validates refuses every run of its version, and its author is told why;
/// anything else that cannot be read is something that this program never writes.
fn unusable(agent: &str, version: &str, problems: &[AgentProblem]) -> Refusal {
    tracing::error!(agent, version, "a stored agent version cannot be read");
    let of_policy = |problem: &&AgentProblem| problem.code == ProblemCode::InvalidHitlPolicy;
    let of_policy: Vec<_> =
        problems.iter().filter(of_policy).map(|problem| problem.problem.clone()).collect();
    if of_policy.is_empty() {
        return Refusal::new(Code::InternalError, "The stored agent version cannot be read.");
    }
    Refusal::problems(Code::InvalidHitlPolicy, &of_policy)
}
