//! Tokens, agent versions, channels and switches.

use super::{End, Operation, Row, Sql, Statement, statement};
use crate::store::{
    Channel, ChannelMoved, Created, MoveChannel, NewToken, PutVersion, StoreError, StoredVersion,
    Switch, Timestamp, Token, TokenKind, VersionPut,
};

macro_rules! tokens {
    ($condition:literal) => {
        concat!(
            "SELECT id, organisation, name, kind, may_decide, instance, versions, created_at, \
             revoked_at FROM tokens WHERE ",
            $condition
        )
    };
}

impl Operation for NewToken {
    type Output = Created;
    const DOING: &'static str = "storing a token";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Created>, StoreError> {
        let Token { id, organisation, name, kind, created_at, revoked_at } = &self.token;
        let (may_decide, instance, versions) = match kind {
            TokenKind::Gateway { decide } => (*decide, None, None),
            TokenKind::Instance { instance } => (false, Some(instance), None),
            TokenKind::Provisioner { versions } => {
                (false, None, Some(serde_json::json!(versions).to_string()))
            }
            TokenKind::Operator | TokenKind::PolicyOwner | TokenKind::Admin => (false, None, None),
        };
        let row = sql
            .row(statement!(
                "INSERT INTO tokens (id, organisation, name, kind, hash, may_decide, instance, \
                 versions, created_at, revoked_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
                 ON CONFLICT DO NOTHING RETURNING id",
                id,
                organisation,
                name,
                kind.as_str(),
                self.hash.as_slice(),
                may_decide,
                instance,
                versions,
                *created_at,
                *revoked_at,
            ))
            .await?;
        Ok(End::Keep(if row.is_some() { Created::Done } else { Created::Exists }))
    }
}

fn token(mut row: Row) -> Result<Token, StoreError> {
    let id = row.text("token's id")?;
    let organisation = row.text("organisation")?;
    let name = row.text("token's name")?;
    let kind = row.text("token's kind")?;
    let decide = row.truth("token's right to decide")?;
    let instance = row.optional_text("instance")?;
    let versions = row.optional_text("provisioner's versions")?;
    let kind = match (kind.as_str(), instance, versions) {
        ("gateway", None, None) => TokenKind::Gateway { decide },
        ("instance", Some(instance), None) => TokenKind::Instance { instance },
        ("provisioner", None, Some(versions)) => {
            let versions = serde_json::from_str(&versions)
                .map_err(|_| StoreError::Unreadable { what: "provisioner's versions" })?;
            TokenKind::Provisioner { versions }
        }
        ("operator", None, None) => TokenKind::Operator,
        ("policy_owner", None, None) => TokenKind::PolicyOwner,
        ("admin", None, None) => TokenKind::Admin,
        (_, Some(_) | None, _) => return Err(StoreError::Unreadable { what: "token's kind" }),
    };
    let created_at = row.time("time of creation")?;
    let revoked_at = row.optional_time("time of revocation")?;
    Ok(Token { id, organisation, name, kind, created_at, revoked_at })
}

pub(in crate::store) struct TokenByHash(pub(in crate::store) [u8; 32]);

impl Operation for TokenByHash {
    type Output = Option<Token>;
    const DOING: &'static str = "looking up a token";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let row = sql
            .row(statement!(tokens!("hash = $1 AND revoked_at IS NULL"), self.0.as_slice()))
            .await?;
        Ok(End::Keep(row.map(token).transpose()?))
    }
}

pub(in crate::store) struct GetToken {
    pub(in crate::store) organisation: String,
    pub(in crate::store) id: String,
}

impl Operation for GetToken {
    type Output = Option<Token>;
    const DOING: &'static str = "reading a token";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let row = sql
            .row(
                statement!(tokens!("organisation = $1 AND id = $2"), &self.organisation, &self.id,),
            )
            .await?;
        Ok(End::Keep(row.map(token).transpose()?))
    }
}

pub(in crate::store) struct ListTokens(pub(in crate::store) String);

impl Operation for ListTokens {
    type Output = Vec<Token>;
    const DOING: &'static str = "listing tokens";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let rows = sql
            .rows(statement!(tokens!("organisation = $1 ORDER BY created_at, id"), &self.0))
            .await?;
        Ok(End::Keep(rows.into_iter().map(token).collect::<Result<_, _>>()?))
    }
}

pub(in crate::store) struct RevokeToken {
    pub(in crate::store) organisation: String,
    pub(in crate::store) id: String,
    pub(in crate::store) now: Timestamp,
}

impl Operation for RevokeToken {
    type Output = bool;
    const DOING: &'static str = "revoking a token";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<bool>, StoreError> {
        let row = sql
            .row(statement!(
                "UPDATE tokens SET revoked_at = $3 \
                 WHERE organisation = $1 AND id = $2 AND revoked_at IS NULL RETURNING id",
                &self.organisation,
                &self.id,
                self.now,
            ))
            .await?;
        Ok(End::Keep(row.is_some()))
    }
}

/// Whoever changes the names of an agent does it alone.
fn lock_agent(organisation: &str, agent: &str) -> Statement {
    statement!(
        "INSERT INTO agents (organisation, agent, changes) VALUES ($1, $2, 1) \
         ON CONFLICT (organisation, agent) DO UPDATE SET changes = agents.changes + 1",
        organisation,
        agent,
    )
}

impl Operation for PutVersion {
    type Output = VersionPut;
    const DOING: &'static str = "storing an agent version";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<VersionPut>, StoreError> {
        let Self { organisation, agent, version, content, digest, by, now } = self;
        let mut answers = sql
            .batch(vec![
                lock_agent(organisation, agent),
                statement!(
                    "SELECT name FROM channels \
                     WHERE organisation = $1 AND agent = $2 AND name = $3",
                    organisation,
                    agent,
                    version,
                ),
                statement!(
                    "INSERT INTO agent_versions (organisation, agent, version, content, digest, \
                     created_by, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7) \
                     ON CONFLICT (organisation, agent, version) DO NOTHING RETURNING version",
                    organisation,
                    agent,
                    version,
                    content,
                    digest,
                    by,
                    *now,
                ),
                statement!(
                    "SELECT digest FROM agent_versions \
                     WHERE organisation = $1 AND agent = $2 AND version = $3",
                    organisation,
                    agent,
                    version,
                ),
            ])
            .await?
            .into_iter()
            .skip(1);
        let mut next = || answers.next().unwrap_or_default();
        let (channel, inserted, mut stored) = (next(), next(), next());
        if !channel.is_empty() {
            return Ok(End::Undo(VersionPut::NameIsChannel));
        }
        if !inserted.is_empty() {
            return Ok(End::Keep(VersionPut::Done));
        }
        let mut stored = stored.pop().ok_or(StoreError::Unreadable { what: "agent version" })?;
        let same = stored.text("version's digest")? == *digest;
        Ok(End::Undo(if same { VersionPut::Same } else { VersionPut::Exists }))
    }
}

macro_rules! versions {
    ($condition:literal) => {
        concat!(
            "SELECT agent, version, content, digest, created_by, created_at FROM agent_versions \
             WHERE organisation = $1 AND agent = $2",
            $condition
        )
    };
}

fn stored_version(mut row: Row) -> Result<StoredVersion, StoreError> {
    Ok(StoredVersion {
        agent: row.text("agent")?,
        version: row.text("version")?,
        content: row.text("version's content")?,
        digest: row.text("version's digest")?,
        by: row.text("version's author")?,
        created_at: row.time("time of creation")?,
    })
}

pub(in crate::store) struct GetVersion {
    pub(in crate::store) organisation: String,
    pub(in crate::store) agent: String,
    pub(in crate::store) name: String,
}

impl Operation for GetVersion {
    type Output = Option<StoredVersion>;
    const DOING: &'static str = "reading an agent version";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let row = sql
            .row(statement!(
                versions!(
                    " AND (version = $3 OR version = (SELECT version FROM channels \
                     WHERE organisation = $1 AND agent = $2 AND name = $3))"
                ),
                &self.organisation,
                &self.agent,
                &self.name,
            ))
            .await?;
        Ok(End::Keep(row.map(stored_version).transpose()?))
    }
}

pub(in crate::store) struct ListVersions {
    pub(in crate::store) organisation: String,
    pub(in crate::store) agent: String,
}

impl Operation for ListVersions {
    type Output = Vec<StoredVersion>;
    const DOING: &'static str = "listing agent versions";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let rows = sql
            .rows(statement!(
                versions!(" ORDER BY created_at, version"),
                &self.organisation,
                &self.agent,
            ))
            .await?;
        Ok(End::Keep(rows.into_iter().map(stored_version).collect::<Result<_, _>>()?))
    }
}

impl Operation for MoveChannel {
    type Output = ChannelMoved;
    const DOING: &'static str = "moving a channel";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<ChannelMoved>, StoreError> {
        let Self { organisation, agent, name, version, by, now } = self;
        let mut answers = sql
            .batch(vec![
                lock_agent(organisation, agent),
                statement!(versions!(" AND version = $3"), organisation, agent, version,),
                statement!(versions!(" AND version = $3"), organisation, agent, name,),
            ])
            .await?
            .into_iter()
            .skip(1);
        let mut next = || answers.next().unwrap_or_default();
        let (version_found, hidden) = (!next().is_empty(), !next().is_empty());
        if hidden {
            return Ok(End::Undo(ChannelMoved::NameIsVersion));
        }
        if !version_found {
            return Ok(End::Undo(ChannelMoved::VersionNotFound));
        }
        sql.rows(statement!(
            "INSERT INTO channels (organisation, agent, name, version, moved_by, moved_at) \
             VALUES ($1, $2, $3, $4, $5, $6) \
             ON CONFLICT (organisation, agent, name) DO UPDATE SET version = excluded.version, \
             moved_by = excluded.moved_by, moved_at = excluded.moved_at",
            organisation,
            agent,
            name,
            version,
            by,
            *now,
        ))
        .await?;
        Ok(End::Keep(ChannelMoved::Done))
    }
}

pub(in crate::store) struct ListChannels {
    pub(in crate::store) organisation: String,
    pub(in crate::store) agent: String,
}

impl Operation for ListChannels {
    type Output = Vec<Channel>;
    const DOING: &'static str = "listing channels";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let rows = sql
            .rows(statement!(
                "SELECT name, version, moved_by, moved_at FROM channels \
                 WHERE organisation = $1 AND agent = $2 ORDER BY name",
                &self.organisation,
                &self.agent,
            ))
            .await?;
        let channel = |mut row: Row| {
            Ok(Channel {
                name: row.text("channel")?,
                version: row.text("channel's version")?,
                by: row.text("channel's mover")?,
                moved_at: row.time("time of the move")?,
            })
        };
        Ok(End::Keep(rows.into_iter().map(channel).collect::<Result<_, StoreError>>()?))
    }
}

impl Operation for Switch {
    type Output = ();
    const DOING: &'static str = "switching automatic approval";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<()>, StoreError> {
        sql.rows(statement!(
            "INSERT INTO switches (organisation, agent, enabled, changed_by, changed_at) \
             VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (organisation, agent) DO UPDATE SET enabled = excluded.enabled, \
             changed_by = excluded.changed_by, changed_at = excluded.changed_at",
            &self.organisation,
            self.agent.as_deref().unwrap_or_default(),
            self.enabled,
            &self.by,
            self.at,
        ))
        .await?;
        Ok(End::Keep(()))
    }
}

pub(in crate::store) struct ListSwitches(pub(in crate::store) String);

impl Operation for ListSwitches {
    type Output = Vec<Switch>;
    const DOING: &'static str = "reading switches";

    async fn run(&self, sql: &mut dyn Sql) -> Result<End<Self::Output>, StoreError> {
        let rows = sql
            .rows(statement!(
                "SELECT organisation, agent, enabled, changed_by, changed_at FROM switches \
                 WHERE organisation = $1 ORDER BY agent",
                &self.0,
            ))
            .await?;
        let switch = |mut row: Row| {
            Ok(Switch {
                organisation: row.text("organisation")?,
                agent: Some(row.text("agent")?).filter(|agent| !agent.is_empty()),
                enabled: row.truth("switch")?,
                by: row.text("switcher")?,
                at: row.time("time of the switch")?,
            })
        };
        Ok(End::Keep(rows.into_iter().map(switch).collect::<Result<_, StoreError>>()?))
    }
}
