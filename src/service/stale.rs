//! Whether an approval may still release its call: policy and tool definition applied again.
//!
//! A version never changes, so what changes is the tool that a gateway lists, the operator's
//! settings, and the version that a channel names. An approval does not say through which channel
//! it was raised; so beside its own version it must pass the version of every channel of the agent
//! that was moved since: one of them may be the one that it came through. Where that is not so, a
//! call waits once more for nothing; where it is, a call that the policy forbids by now does not
//! run.

use std::sync::Arc;

use super::versions::LoadedVersion;
use super::{Code, Refusal, Service, definitions};
use crate::decide::policy::{Action, Class, Effective, effective, needs_person};
use crate::decide::request::{Origin, Tool};
use crate::decide::state::ToolIdentity;
use crate::store::{Approval, Facts};

/// What the call of an approval would meet now.
#[derive(Debug)]
pub(super) enum Standing {
    /// It may still be released.
    Holds {
        /// Whether it is a read by every version that may apply.
        is_read: bool,
        /// Whether only a person's decision about each call may release it, by any of them.
        needs_person: bool,
    },
    /// The policy or the operator blocks it, or its tool is another by now.
    Stale,
}

impl Service {
    /// Applies policy and tool definition again.
    ///
    /// # Errors
    /// The store fails, or a version cannot be read.
    pub(super) async fn standing(&self, approval: &Approval) -> Result<Standing, Refusal> {
        let facts = &approval.facts;
        let (organisation, surface) = (&facts.organisation, &facts.surface);
        let listed = self
            .store
            .current_definition(organisation, surface, &facts.conversation, &facts.tool)
            .await?;
        let listed = match listed {
            None => Listed::Never,
            Some(listed) if listed.tool != facts.tool => Listed::Changed,
            Some(listed) => match definitions::read(&listed.content) {
                Some(tool) => Listed::Same(Box::new(tool)),
                None => Listed::Changed,
            },
        };
        let operator = &self.approver.settings().operator;
        let (mut is_read, mut person) = (true, false);
        for version in self.versions_now(facts).await? {
            let Some(tool) = tool_now(&version, facts, &listed) else {
                return Ok(Standing::Stale);
            };
            let policy = version.content.policy.as_ref();
            let met: Effective = effective(policy, &tool, facts.door, operator);
            if met.action == Action::Block {
                return Ok(Standing::Stale);
            }
            is_read &= met.class == Some(Class::Read);
            person |= needs_person(&met, &tool, operator);
        }
        Ok(Standing::Holds { is_read, needs_person: person })
    }

    /// The versions that may apply to an approval now: its own, and those of channels that were
    /// moved since it was raised.
    pub(super) async fn versions_now(
        &self,
        facts: &Facts,
    ) -> Result<Vec<Arc<LoadedVersion>>, Refusal> {
        let Facts { organisation, agent, .. } = facts;
        let mut versions = vec![self.version(organisation, agent, &facts.version).await?];
        for channel in self.store.channels(organisation, agent).await? {
            let known = versions.iter().any(|version| version.version == channel.version);
            if channel.moved_at >= facts.created_at && !known {
                versions.push(self.version(organisation, agent, &channel.version).await?);
            }
        }
        Ok(versions)
    }
}

/// How the conversation last met the tool in the gateway's list.
enum Listed {
    /// It never did.
    Never,
    /// Under the definition that the approval is about.
    Same(Box<Tool>),
    /// Under another, or one that cannot be read.
    Changed,
}

/// The tool that would run under a version; `None` when it is not the one that was approved.
fn tool_now(version: &LoadedVersion, facts: &Facts, listed: &Listed) -> Option<Tool> {
    let mut own = version.content.agent.tools.iter();
    let own =
        own.find(|own| own.name == facts.tool.name && own.server_label == facts.tool.server_label);
    match (own, listed) {
        (Some(own), _) => (ToolIdentity::of(own) == facts.tool).then(|| own.clone()),
        (None, Listed::Same(tool)) => Some(tool.as_ref().clone()),
        (None, Listed::Changed) => None,
        (None, Listed::Never) => {
            // Nobody ever said what it is: a person approved a name, and only its name meets rules.
            let unknown = Tool {
                server_label: facts.tool.server_label.clone(),
                ..Tool::new(&facts.tool.name, Origin::Function)
            };
            (ToolIdentity::of(&unknown) == facts.tool).then_some(unknown)
        }
    }
}

/// 409 for what is not released any more.
pub(super) fn stale(approval: &Approval) -> Refusal {
    let text = "The policy or the tool changed since the call was raised: it may not run on this \
                approval. It can be rejected, or raised again.";
    Refusal::new(Code::ApprovalStale, text)
        .with(serde_json::json!({"approval_id": approval.facts.id}))
}
