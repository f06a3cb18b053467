//! What `approver serve --dev` makes for one run: a database, and a token of each kind.

use std::fmt::Write as _;
use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;

use crate::config::{Config, Origin};
use crate::service::tokens::Made;
use crate::service::{Refusal, Service, ids};
use crate::store::{Sqlite, SqliteSettings, Store, TokenKind};

/// A judgement to try: a call that the person asked for, of the agent in `examples/frameworks`.
const JUDGEMENT: &str = r#"{"agent":"desk","version":"1","user":"you","conversation":{"id":"try","surface":"responses","items":[{"type":"message","role":"user","content":"Note on C-1042: call back Monday."}],"person_items":[0]},"turn":{"id":"turn-1"},"tools":[],"calls":[{"call_id":"call-1","tool":"note_add","arguments":"{\"customer\":\"C-1042\",\"text\":\"call back Monday\"}"}]}"#;

/// A folder for a database that nobody keeps.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// A new folder, unless the settings name a store.
    pub(super) fn unless_stored(config: &Config) -> anyhow::Result<Option<Self>> {
        if config.serve.store.url.origin != Origin::Default {
            return Ok(None);
        }
        let path = std::env::temp_dir().join(format!("approver-dev-{}", ids::uuid()));
        DirBuilder::new().mode(0o700).create(&path).context("cannot make a temporary folder")?;
        Ok(Some(Self(path)))
    }

    /// The store in it.
    pub(super) async fn store(&self) -> anyhow::Result<Arc<dyn Store>> {
        let settings = SqliteSettings::new(&self.0.join("approver.db"));
        Ok(Arc::new(Sqlite::open(settings).await?))
    }

    /// Removes it.
    pub(super) fn remove(self) {
        if std::fs::remove_dir_all(&self.0).is_err() {
            tracing::warn!(folder = %self.0.display(), "a temporary folder is left behind");
        }
    }
}

/// Tokens that end with the run.
pub(super) struct Tokens(Vec<Made>);

impl Tokens {
    /// One of each kind, for the organisation. Names are new in each run, so that tokens of a run
    /// that was killed are in nobody's way.
    pub(super) async fn create(
        service: &Service,
        organisation: &str,
        provision: &[(String, String)],
    ) -> anyhow::Result<Self> {
        let kinds = [
            TokenKind::Gateway { decide: true },
            TokenKind::Operator,
            TokenKind::PolicyOwner,
            TokenKind::Admin,
            TokenKind::Provisioner { versions: provision.to_vec() },
        ];
        let run = ids::uuid();
        let run = run.split('-').next().unwrap_or_default();
        let mut made = Vec::with_capacity(kinds.len());
        for kind in kinds {
            let name = format!("dev-{}-{run}", kind.as_str());
            let token = service.create_token(organisation, &name, kind).await;
            made.push(token.map_err(|Refusal { message, .. }| anyhow::anyhow!(message))?);
        }
        Ok(Self(made))
    }

    /// Each token on a line of its own, and how to use them.
    pub(super) fn shown(&self, address: SocketAddr) -> String {
        let mut text = String::from("# Throw-away tokens; they end with this process.\n");
        for Made { token, text: secret } in &self.0 {
            let _written = writeln!(text, "{}={secret}", token.kind.as_str());
        }
        let _written = write!(
            text,
            "# Store an agent, and see what a conversation in auto mode makes of its tools:\n\
             # curl -X PUT http://{address}/v1/agents/desk/versions/1 \\\n\
             #   -H \"Authorization: Bearer $policy_owner\" -H 'Content-Type: application/json' \\\n\
             #   -d @examples/frameworks/agent.json\n\
             # curl http://{address}/v1/agents/desk/versions/1/policy \\\n\
             #   -H \"Authorization: Bearer $operator\"\n\
             # Ask about a call, as a gateway does. Without a judge it waits for a person.\n\
             # curl http://{address}/v1/judgements -H \"Authorization: Bearer $gateway\" \\\n\
             #   -H 'Content-Type: application/json' -H 'Idempotency-Key: try-1' \\\n\
             #   -d '{JUDGEMENT}'\n"
        );
        text
    }

    /// Ends them all.
    pub(super) async fn revoke(&self, service: &Service) {
        for Made { token, .. } in &self.0 {
            if service.revoke_token(&token.organisation, &token.id).await.is_err() {
                tracing::warn!(token = token.id, "a throw-away token could not be ended");
            }
        }
    }
}
