//! Agent versions and channels: stored, moved, and what a conversation makes of one.

use serde_json::json;

use super::names::check_plain;
use super::{Code, Refusal, Service};
use crate::decide::digest;
use crate::decide::json;
use crate::decide::policy::Mode;
use crate::decide::request::Door;
use crate::host::agent::{self, AgentProblem, ProblemCode, Reading};
use crate::host::effective_policy::{self, EffectivePolicy, NotOffered, View};
use crate::store::{Channel, ChannelMoved, MoveChannel, PutVersion, StoredVersion, VersionPut};

/// As many problems as one answer names.
const MAX_PROBLEMS: usize = 50;

/// Whether a version is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It was stored now.
    New,
    /// The same content was stored before.
    Same,
}

impl Service {
    /// Stores an agent version for good, unless something is wrong with it.
    ///
    /// # Errors
    /// Every problem of the text, each with its code; 409 where other content has the name, or a
    /// channel; or the store fails.
    pub async fn put_version(
        &self,
        organisation: &str,
        agent: &str,
        version: &str,
        text: &str,
        by: &str,
    ) -> Result<(Put, StoredVersion), Refusal> {
        check_plain("agent", agent)?;
        check_plain("version", version)?;
        agent::parse_text(text, Reading::Save).map_err(|problems| problems_of(&problems))?;
        let canonical = json::read(text)
            .map_err(|unreadable| Refusal::invalid("$", unreadable.to_string()))?
            .canonical();
        let put = PutVersion {
            organisation: organisation.to_owned(),
            agent: agent.to_owned(),
            version: version.to_owned(),
            content: text.to_owned(),
            digest: digest(&["agent-version-1", &canonical]),
            by: by.to_owned(),
            now: self.now(),
        };
        let put = match self.store.put_version(put).await? {
            VersionPut::Done => Put::New,
            VersionPut::Same => Put::Same,
            VersionPut::Exists => {
                let text = "A version is stored under this name with other content, and a version \
                            never changes. Store it under another name.";
                return Err(Refusal::new(Code::VersionExists, text).at("version"));
            }
            VersionPut::NameIsChannel => {
                let text = "A channel of the agent has this name.";
                return Err(Refusal::new(Code::NameTaken, text).at("version"));
            }
        };
        Ok((put, self.stored_version(organisation, agent, version).await?))
    }

    /// The version of that name, or that the channel of that name stands for, as stored.
    ///
    /// # Errors
    /// 404, or the store fails.
    pub async fn stored_version(
        &self,
        organisation: &str,
        agent: &str,
        name: &str,
    ) -> Result<StoredVersion, Refusal> {
        let stored = self.store.version(organisation, agent, name).await?;
        stored.ok_or_else(|| Refusal::not_found("agent version"))
    }

    /// All versions of an agent, oldest first.
    ///
    /// # Errors
    /// 404 for an agent without one, or the store fails.
    pub async fn agent_versions(
        &self,
        organisation: &str,
        agent: &str,
    ) -> Result<Vec<StoredVersion>, Refusal> {
        let versions = self.store.versions(organisation, agent).await?;
        if versions.is_empty() { Err(Refusal::not_found("agent")) } else { Ok(versions) }
    }

    /// Makes a channel name a version from now on.
    ///
    /// # Errors
    /// 404 for the version, 409 where a version has the channel's name, or the store fails.
    pub async fn move_channel(
        &self,
        organisation: &str,
        agent: &str,
        name: &str,
        version: &str,
        by: &str,
    ) -> Result<Channel, Refusal> {
        check_plain("agent", agent)?;
        check_plain("name", name)?;
        let now = self.now();
        let moved = self
            .store
            .move_channel(MoveChannel {
                organisation: organisation.to_owned(),
                agent: agent.to_owned(),
                name: name.to_owned(),
                version: version.to_owned(),
                by: by.to_owned(),
                now,
            })
            .await?;
        match moved {
            ChannelMoved::Done => Ok(Channel {
                name: name.to_owned(),
                version: version.to_owned(),
                by: by.to_owned(),
                moved_at: now,
            }),
            ChannelMoved::VersionNotFound => {
                Err(Refusal::not_found("agent version").at("$.version"))
            }
            ChannelMoved::NameIsVersion => {
                let text = "A version of the agent has this name.";
                Err(Refusal::new(Code::NameTaken, text).at("name"))
            }
        }
    }

    /// All channels of an agent, by name.
    ///
    /// # Errors
    /// 404 for an agent without a version, or the store fails.
    pub async fn channels(&self, organisation: &str, agent: &str) -> Result<Vec<Channel>, Refusal> {
        let channels = self.store.channels(organisation, agent).await?;
        if channels.is_empty() {
            self.agent_versions(organisation, agent).await?;
        }
        Ok(channels)
    }

    /// The effective policy of a stored version as a conversation at the gateway's door meets it.
    ///
    /// # Errors
    /// 404, 400 for a mode that the version does not offer, or the store fails.
    pub async fn effective_policy(
        &self,
        organisation: &str,
        agent: &str,
        name: &str,
        mode: Option<Mode>,
        tool: Option<&str>,
    ) -> Result<EffectivePolicy, Refusal> {
        let version = self.version(organisation, agent, name).await?;
        let automatic_approval = self.automatic_approval(organisation, Some(agent)).await?;
        let view = View {
            policy: version.content.policy.as_ref(),
            tools: &version.content.agent.tools,
            operator: &self.approver.settings().operator,
            mode,
            tool,
            door: Door::Gateway,
            automatic_approval,
            sandbox_enabled: self.sandbox_enabled,
            assumed: false,
        };
        effective_policy::show(&view).map_err(|NotOffered { mode, offered }| {
            let offered: Vec<_> = offered.offered.iter().map(|mode| mode.as_str()).collect();
            let mode = mode.as_str();
            let text = format!("The agent version does not offer the mode `{mode}`.");
            Refusal::new(Code::ConversationModeNotOffered, text)
                .at("mode")
                .with(json!({"mode": mode, "offered": offered}))
        })
    }
}

/// All problems at once. The answer's own code is that of the first.
fn problems_of(problems: &[AgentProblem]) -> Refusal {
    let code = match problems.first().map(|first| first.code) {
        Some(ProblemCode::InvalidHitlPolicy) => Code::InvalidHitlPolicy,
        Some(ProblemCode::InvalidToolAnnotations) => Code::InvalidToolAnnotations,
        Some(ProblemCode::InvalidRequest) | None => Code::InvalidRequest,
    };
    let plain: Vec<_> = problems.iter().map(|problem| problem.problem.clone()).collect();
    let listed: Vec<_> = problems
        .iter()
        .take(MAX_PROBLEMS)
        .map(|AgentProblem { code, problem }| {
            json!({"code": code.as_str(), "param": problem.path, "message": problem.text})
        })
        .collect();
    Refusal::problems(code, &plain).with(json!({"problems": listed}))
}
