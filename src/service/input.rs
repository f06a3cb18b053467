//! What was judged, as it is sealed beside its approval: the arguments' exact text, where each value
//! was first seen, the evidence, and what the judge was shown. A person reads it to decide, and an
//! auditor to check; it goes when `retention.inputs` ends.
//!
//! It is a JSON document with a version. It never passes through a log, an error or a listing.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::keys::{Bound, KeyError, KeyRing, OpenError, Part};
use super::{Code, Refusal, Service};
use crate::decide::Traced;
use crate::decide::prompt::{self, Prompt};
use crate::decide::verdict::Evidence;
use crate::host::report::{EvidenceReport, ProvenanceReport};
use crate::store::{Approval, Facts, Sealed};

/// The version of the document that this program writes.
pub const VERSION: u32 = 1;

/// What was judged.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedInput {
    /// [`VERSION`].
    pub version: u32,
    /// The exact text of the arguments: what runs, and what the `hmac` covers.
    pub arguments: String,
    /// Where each argument's value was first seen.
    pub provenance: Vec<Provenance>,
    /// The quotes that authorised an automatic approval, as code found them.
    pub evidence: Vec<Quote>,
    /// What the judge was shown; `None` when it was not asked.
    pub prompt: Option<Shown>,
    /// For the approval protocol: the rest of the request, which is echoed exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aap: Option<Echo>,
    /// The key that it is sealed under; it stands beside the document, not in it.
    #[serde(skip)]
    pub key_id: String,
}

/// Nothing of it may reach a log by way of `Debug`.
impl std::fmt::Debug for SealedInput {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SealedInput").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// A request of the approval protocol, beside its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo {
    /// The tool.
    pub tool: String,
    /// The MCP server's alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The decision window, as it was asked for.
    pub timeout: String,
    /// What the agent says for itself: a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_reasoning: Option<String>,
    /// The context's exact text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// Where an argument's value was first seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// JSON pointer (RFC 6901) of the argument.
    pub pointer: String,
    /// `user`, `pasted`, `instructions`, `environment`, `allow`, `soft_deny`, `result`, `nowhere`, or
    /// `untraced` for what is not looked for.
    pub source: String,
    /// The source's number, from 1, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// For a result: the tool that gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// A quote and what it covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    /// `user`, `instructions` or `allow`.
    pub source: String,
    /// The source's number, from 1.
    pub index: usize,
    /// The quote.
    pub quote: String,
    /// JSON pointers of arguments; the empty pointer is the call as such.
    pub covers: Vec<String>,
}

/// Why what was judged cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// It is no longer kept.
    NotKept,
    /// It is sealed under a key that the ring lacks.
    KeyMissing {
        /// The key's id, which is no secret.
        key_id: String,
    },
    /// It is not what was sealed, or a newer program wrote it.
    Unreadable,
}

/// What the judge was shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// SHA-256 of the whole prompt, the rules included.
    pub digest: String,
    /// [`prompt::text_digest`] of the rules and the answer's schema, which are the same for every
    /// call and not kept here.
    pub rules: String,
    /// Lists, instructions, conversation, tool, facts and call, as they were sent.
    pub text: String,
}

impl Shown {
    /// A prompt as it is kept.
    #[must_use]
    pub fn new(prompt: &Prompt) -> Self {
        static RULES: OnceLock<String> = OnceLock::new();
        let rules = RULES.get_or_init(prompt::text_digest).clone();
        Self { digest: prompt.digest.clone(), rules, text: prompt.user.clone() }
    }
}

impl SealedInput {
    /// What was judged, before it is sealed.
    #[must_use]
    pub fn new(
        arguments: &str,
        provenance: Vec<Traced>,
        evidence: &[Evidence],
        prompt: Option<Shown>,
    ) -> Self {
        let provenance = provenance.into_iter().map(|traced| {
            let ProvenanceReport { pointer, source, index, tool } = ProvenanceReport::new(traced);
            Provenance { pointer, source: source.to_owned(), index, tool }
        });
        let evidence = evidence.iter().map(|evidence| {
            let EvidenceReport { source, index, quote, covers } = EvidenceReport::new(evidence);
            Quote { source: source.to_owned(), index, quote, covers }
        });
        Self {
            version: VERSION,
            arguments: arguments.to_owned(),
            provenance: provenance.collect(),
            evidence: evidence.collect(),
            prompt,
            aap: None,
            key_id: String::new(),
        }
    }

    /// Seals it for its approval.
    ///
    /// # Errors
    /// The machine gives no random numbers.
    pub fn seal(
        &self,
        keys: &KeyRing,
        organisation: &str,
        approval: &str,
    ) -> Result<Sealed, KeyError> {
        // Strings, numbers and lists: there is nothing in it that JSON cannot hold.
        let plain = serde_json::to_vec(self).unwrap_or_default();
        keys.seal(organisation, approval, Part::Input, &plain)
    }

    /// Opens what was sealed for an approval.
    ///
    /// # Errors
    /// Its key is not in the ring; it is not what was sealed, or a newer program wrote it.
    pub fn open(
        keys: &KeyRing,
        organisation: &str,
        approval: &str,
        sealed: &Sealed,
    ) -> Result<Self, Missing> {
        let plain = keys.open(organisation, approval, Part::Input, sealed);
        let plain = plain.map_err(|error| match error {
            OpenError::KeyGone => Missing::KeyMissing { key_id: sealed.key_id.clone() },
            OpenError::Changed => Missing::Unreadable,
        })?;
        let input: Self = serde_json::from_slice(&plain).map_err(|_| Missing::Unreadable)?;
        if input.version != VERSION {
            return Err(Missing::Unreadable);
        }
        Ok(Self { key_id: sealed.key_id.clone(), ..input })
    }
}

/// What the `hmac` of an approval covers.
#[must_use]
pub fn bound<'a>(facts: &'a Facts, arguments: &'a str) -> Bound<'a> {
    Bound {
        organisation: &facts.organisation,
        approval: &facts.id,
        conversation: &facts.conversation,
        call_id: &facts.call_id,
        server_label: facts.tool.server_label.as_deref(),
        tool: &facts.tool.name,
        arguments,
    }
}

impl Service {
    /// What was judged; `None` when it is no longer kept.
    ///
    /// # Errors
    /// The store fails, or what is kept cannot be opened.
    pub async fn open_input(&self, approval: &Approval) -> Result<Option<SealedInput>, Refusal> {
        let Facts { organisation, id, .. } = &approval.facts;
        let sealed = self.store.sealed(organisation, id).await?.input;
        match self.read_input(&approval.facts, sealed.as_ref()) {
            Ok(input) => Ok(Some(input)),
            Err(Missing::NotKept) => Ok(None),
            Err(Missing::KeyMissing { .. } | Missing::Unreadable) => {
                Err(Refusal::new(Code::InternalError, "What was judged cannot be opened."))
            }
        }
    }

    /// What was judged, or why it cannot be read, which is logged here.
    pub(super) fn read_input(
        &self,
        facts: &Facts,
        sealed: Option<&Sealed>,
    ) -> Result<SealedInput, Missing> {
        let Facts { organisation, id, .. } = facts;
        let sealed = sealed.ok_or(Missing::NotKept)?;
        SealedInput::open(&self.keys, organisation, id, sealed).inspect_err(|missing| {
            let key = sealed.key_id.as_str();
            tracing::error!(approval = id, key, ?missing, "a sealed input cannot be opened");
        })
    }

    /// The `hmac` of an approval whose input is sealed under that key: the same as long as the key is
    /// in the ring; afterwards one that is as good.
    #[must_use]
    pub fn hmac(&self, facts: &Facts, arguments: &str, key_id: &str) -> String {
        let bound = bound(facts, arguments);
        let hmac = self.keys.hmac(key_id, &bound);
        hmac.or_else(|| self.keys.hmac(self.keys.active(), &bound)).unwrap_or_default()
    }
}
