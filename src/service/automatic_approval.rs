//! The switch of automatic approval: the first button of an incident.

use super::{Refusal, Service};
use crate::decide::verdict::JudgeFailure;
use crate::store::Switch;

impl Service {
    /// Whether calls of the organisation, or of one of its agents, may be approved automatically
    /// right now, or why not.
    ///
    /// # Errors
    /// The store fails.
    pub async fn automatic_approval(
        &self,
        organisation: &str,
        agent: Option<&str>,
    ) -> Result<Result<(), JudgeFailure>, Refusal> {
        let switches = self.store.switches(organisation).await?;
        Ok(self.available(&switches, agent))
    }

    /// The same with switches that were read before. A switch is named before anything else that
    /// keeps it off: it is what a person moved, and may move back.
    pub fn available(&self, switches: &[Switch], agent: Option<&str>) -> Result<(), JudgeFailure> {
        let off = |switch: &Switch| {
            !switch.enabled && (switch.agent.is_none() || switch.agent.as_deref() == agent)
        };
        if switches.iter().any(off) {
            return Err(JudgeFailure::SwitchedOff);
        }
        self.automatic_approval?;
        if self.metrics.is_breaker_open() {
            return Err(JudgeFailure::BreakerOpen);
        }
        Ok(())
    }

    /// Switches automatic approval for the organisation or for one of its agents, and answers all of
    /// the organisation's switches.
    ///
    /// # Errors
    /// 404 for an agent without a version, whose name is probably a slip; or the store fails.
    pub async fn set_automatic_approval(
        &self,
        organisation: &str,
        agent: Option<&str>,
        enabled: bool,
        by: &str,
    ) -> Result<Vec<Switch>, Refusal> {
        if let Some(agent) = agent
            && self.store.versions(organisation, agent).await?.is_empty()
        {
            return Err(Refusal::not_found("agent").at("$.agent"));
        }
        let switch = Switch {
            organisation: organisation.to_owned(),
            agent: agent.map(str::to_owned),
            enabled,
            by: by.to_owned(),
            at: self.now(),
        };
        self.store.set_automatic_approval(switch).await?;
        Ok(self.store.switches(organisation).await?)
    }
}
