//! Approvals as rows and back. Words and JSON in columns are ours: the domain's types know neither.

use serde::{Deserialize, Serialize};

use super::{Row, Statement, statement};
use crate::decide::BlockedBy;
use crate::decide::novelty::{Finding, Kind, Resemblance};
use crate::decide::policy::{Class, Mode};
use crate::decide::prompt::Cuts;
use crate::decide::request::{Door, Origin};
use crate::decide::state::ToolIdentity;
use crate::decide::verdict::Tokens;
use crate::store::wake::Key;
use crate::store::{
    Approval, CallOutcome, Claim, Claimant, Execution, ExecutionStatus, Facts, JudgeRecord,
    NewCallOutcome, Resolution, Standing, Status, StoreError,
};

/// The columns of an approval that [`approval`] reads, in its order.
macro_rules! approval_columns {
    () => {
        "id, organisation, door, instance, agent, version, surface, conversation, turn, call_id, \
         member, origin, label, tool, definition, tool_version, class, mode, timeout_seconds, \
         pause_reason, pause_sentence, judged, findings, detectors, arguments_digest, \
         lists_digest, policy_digest, latency_ms, created_at, deadline_at, status, decided_by, \
         decided_at, decision_reason, start_by, claim_caller, claim_key, claimed_at, execution, \
         executed_at, revision"
    };
}
pub(super) use approval_columns;

/// An approval of the organisation ($1) by its id ($2).
pub(super) const APPROVAL: &str =
    concat!("SELECT ", approval_columns!(), " FROM approvals WHERE organisation = $1 AND id = $2");

/// Reads a row of [`approval_columns`].
pub(super) fn approval(mut row: Row) -> Result<Approval, StoreError> {
    let row = &mut row;
    let facts = facts(row)?;
    let status = row.word("status", Status::from_word)?;
    let by = row.optional_text("decider")?;
    let at = row.optional_time("decision's time")?;
    let reason = row.optional_text("decision's reason")?;
    let start_by = row.optional_time("start-by time")?;
    let decision = at.map(|at| Resolution { by, at, reason, start_by });
    if decision.is_some() == (status == Status::Pending) {
        return Err(StoreError::Unreadable { what: "decision" });
    }
    let caller = row.optional_text("claim")?;
    let key = row.optional_text("claim's key")?;
    let at = row.optional_time("claim's time")?;
    let claim = match (caller, key, at) {
        (Some(caller), Some(key), Some(at)) => {
            Some(Claim { claimant: Claimant { caller, key }, at })
        }
        (None, None, None) => None,
        (Some(_) | None, _, _) => return Err(StoreError::Unreadable { what: "claim" }),
    };
    let execution = row.optional_word("execution", ExecutionStatus::from_word)?;
    let at = row.optional_time("execution's time")?;
    let execution = execution.zip(at).map(|(status, at)| Execution { status, at });
    let revision = row.integer("revision")?;
    Ok(Approval { facts, status, decision, claim, execution, revision })
}

fn facts(row: &mut Row) -> Result<Facts, StoreError> {
    // Members stand in the order of the columns.
    Ok(Facts {
        id: row.text("approval's id")?,
        organisation: row.text("organisation")?,
        door: row.word("door", door_from_word)?,
        instance: row.optional_text("instance")?,
        agent: row.text("agent")?,
        version: row.text("version")?,
        surface: row.text("surface")?,
        conversation: row.text("conversation")?,
        turn: row.text("turn")?,
        call_id: row.text("call's id")?,
        user: row.optional_text("user")?,
        tool: tool(row)?,
        tool_version: row.optional_text("tool's version")?,
        class: row.optional_word("class", Class::from_word)?,
        mode: row.word("mode", Mode::from_word)?,
        timeout_seconds: row.optional_count("time limit")?,
        pause_reason: row.optional_text("pause's reason")?,
        pause_sentence: row.optional_text("pause's sentence")?,
        judged: row
            .optional_text("judge's record")?
            .as_deref()
            .map(judged_from_json)
            .transpose()?,
        findings: findings_from_json(&row.text("findings")?)?,
        detectors: row.text("detectors' version")?,
        arguments_digest: row.text("arguments' digest")?,
        lists_digest: row.optional_text("lists' digest")?,
        policy_digest: row.optional_text("policy's digest")?,
        latency_ms: u64::try_from(row.integer("latency")?)
            .map_err(|_| StoreError::Unreadable { what: "latency" })?,
        created_at: row.time("time of recording")?,
        deadline_at: row.time("deadline")?,
    })
}

/// Reads origin, label, name and definition.
pub(super) fn tool(row: &mut Row) -> Result<ToolIdentity, StoreError> {
    let origin = row.word("tool's origin", origin_from_word)?;
    let server_label = row.optional_text("server's label")?.filter(|label| !label.is_empty());
    let name = row.text("tool's name")?;
    let definition = row.text("definition's digest")?;
    Ok(ToolIdentity { origin, server_label, name, definition })
}

/// The statement that stores a new approval.
pub(super) fn insert_approval(facts: &Facts, standing: &Standing) -> Statement {
    let (status, by, reason, start_by) = match standing {
        Standing::Pending => (Status::Pending, None, None, None),
        Standing::Approved { by, reason, start_by } => {
            (Status::Approved, Some(by), reason.as_ref(), Some(*start_by))
        }
        Standing::Rejected { by, reason } => (Status::Rejected, Some(by), reason.as_ref(), None),
    };
    let decided_at = by.map(|_| facts.created_at);
    statement!(
        concat!(
            "INSERT INTO approvals (",
            approval_columns!(),
            ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, \
             $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, \
             $34, $35, NULL, NULL, NULL, NULL, NULL, 1)"
        ),
        &facts.id,
        &facts.organisation,
        door_word(facts.door),
        facts.instance.as_ref(),
        &facts.agent,
        &facts.version,
        &facts.surface,
        &facts.conversation,
        &facts.turn,
        &facts.call_id,
        facts.user.as_ref(),
        origin_word(facts.tool.origin),
        facts.tool.server_label.as_ref(),
        &facts.tool.name,
        &facts.tool.definition,
        facts.tool_version.as_ref(),
        facts.class.map(Class::as_str),
        facts.mode.as_str(),
        facts.timeout_seconds,
        facts.pause_reason.as_ref(),
        facts.pause_sentence.as_ref(),
        facts.judged.as_ref().map(judged_to_json),
        findings_to_json(&facts.findings),
        &facts.detectors,
        &facts.arguments_digest,
        facts.lists_digest.as_ref(),
        facts.policy_digest.as_ref(),
        i64::try_from(facts.latency_ms).unwrap_or(i64::MAX),
        facts.created_at,
        facts.deadline_at,
        status.as_str(),
        by,
        decided_at,
        reason,
        start_by,
    )
}

/// What changes when an approval does.
pub(super) fn changes(facts: &Facts) -> [Key; 3] {
    let Facts { organisation, surface, conversation, id, .. } = facts;
    [
        Key::Approval(id.clone()),
        Key::conversation(organisation, surface, conversation),
        Key::organisation(organisation),
    ]
}

/// The word of a call that has an approval, which its detail names.
pub(super) const APPROVAL_OUTCOME: &str = "approval";

/// The columns of a call's outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutcomeColumns {
    pub(super) word: &'static str,
    pub(super) detail: Option<String>,
    pub(super) seconds: Option<u32>,
}

impl OutcomeColumns {
    pub(super) fn of(outcome: &NewCallOutcome) -> Self {
        let (word, detail, seconds) = match outcome {
            NewCallOutcome::Execute => ("execute", None, None),
            NewCallOutcome::ExecuteSandboxed { timeout_seconds } => {
                ("sandboxed", None, Some(*timeout_seconds))
            }
            NewCallOutcome::Blocked(BlockedBy::Policy) => ("blocked", None, None),
            NewCallOutcome::Blocked(BlockedBy::Mode(mode)) => {
                ("blocked", Some(mode.as_str().to_owned()), None)
            }
            NewCallOutcome::Approval(approval) => {
                (APPROVAL_OUTCOME, Some(approval.facts.id.clone()), None)
            }
        };
        Self { word, detail, seconds }
    }
}

/// An outcome as its row has it: an approval is named, not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StoredOutcome {
    Whole(CallOutcome),
    Approval(String),
}

/// Reads word, detail and seconds; `None` while the call's request is begun.
pub(super) fn outcome(row: &mut Row) -> Result<Option<StoredOutcome>, StoreError> {
    let word = row.optional_text("call's outcome")?;
    let detail = row.optional_text("call's detail")?;
    let seconds = row.optional_count("call's time limit")?;
    let unreadable = StoreError::Unreadable { what: "call's outcome" };
    let Some(word) = word else { return Ok(None) };
    let outcome = match (word.as_str(), detail, seconds) {
        ("execute", None, None) => StoredOutcome::Whole(CallOutcome::Execute),
        ("sandboxed", None, Some(timeout_seconds)) => {
            StoredOutcome::Whole(CallOutcome::ExecuteSandboxed { timeout_seconds })
        }
        ("blocked", None, None) => StoredOutcome::Whole(CallOutcome::Blocked(BlockedBy::Policy)),
        ("blocked", Some(mode), None) => {
            let mode = Mode::from_word(&mode).ok_or(unreadable)?;
            StoredOutcome::Whole(CallOutcome::Blocked(BlockedBy::Mode(mode)))
        }
        (APPROVAL_OUTCOME, Some(id), None) => StoredOutcome::Approval(id),
        (_, Some(_) | None, _) => return Err(unreadable),
    };
    Ok(Some(outcome))
}

/// Words for the variants of an enum, both ways: a new variant stops the build here.
macro_rules! words {
    ($kind:ident, $to_word:ident, $from_word:ident, $($variant:ident = $word:literal),+ $(,)?) => {
        pub(super) const fn $to_word(value: $kind) -> &'static str {
            match value {
                $($kind::$variant => $word,)+
            }
        }

        fn $from_word(word: &str) -> Option<$kind> {
            match word {
                $($word => Some($kind::$variant),)+
                _ => None,
            }
        }
    };
}

words!(
    Door,
    door_word,
    door_from_word,
    Gateway = "gateway",
    Aap = "aap",
    Proxy = "proxy",
    Hook = "hook",
);

words!(
    Origin,
    origin_word,
    origin_from_word,
    Builtin = "builtin",
    Catalog = "catalog",
    Function = "function",
    Connector = "connector",
);

words!(
    Kind,
    kind_word,
    kind_from_word,
    Email = "email",
    Link = "link",
    Iban = "iban",
    BankAccount = "bank_account",
    Encoded = "encoded",
    Budget = "budget",
);

#[derive(Serialize, Deserialize)]
struct JudgedRow {
    model: String,
    reason: Option<String>,
    prompt_digest: String,
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    shortened: usize,
    dropped: usize,
    characters: usize,
}

fn judged_to_json(record: &JudgeRecord) -> String {
    let JudgeRecord { model, reason, prompt_digest, tokens, cuts } = record.clone();
    let Tokens { input, output, cached } = tokens;
    let Cuts { shortened, dropped, characters } = cuts;
    to_json(&JudgedRow {
        model,
        reason,
        prompt_digest,
        input,
        output,
        cached,
        shortened,
        dropped,
        characters,
    })
}

fn judged_from_json(text: &str) -> Result<JudgeRecord, StoreError> {
    let JudgedRow {
        model,
        reason,
        prompt_digest,
        input,
        output,
        cached,
        shortened,
        dropped,
        characters,
    } = from_json(text, "judge's record")?;
    let tokens = Tokens { input, output, cached };
    let cuts = Cuts { shortened, dropped, characters };
    Ok(JudgeRecord { model, reason, prompt_digest, tokens, cuts })
}

#[derive(Serialize, Deserialize)]
struct FindingRow {
    kind: String,
    item: String,
    pointer: String,
    found: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host_known: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    look_alike: Option<String>,
}

fn findings_to_json(findings: &[Finding]) -> String {
    let rows: Vec<FindingRow> = findings
        .iter()
        .map(|finding| {
            let Finding { kind, item, pointer, found, resembles } = finding.clone();
            let (host_known, look_alike) = match resembles {
                Some(Resemblance::HostKnown(known)) => (Some(known), None),
                Some(Resemblance::LookAlike(known)) => (None, Some(known)),
                None => (None, None),
            };
            let kind = kind_word(kind).to_owned();
            FindingRow { kind, item, pointer, found, host_known, look_alike }
        })
        .collect();
    to_json(&rows)
}

fn findings_from_json(text: &str) -> Result<Vec<Finding>, StoreError> {
    let rows: Vec<FindingRow> = from_json(text, "finding")?;
    rows.into_iter()
        .map(|row| {
            let FindingRow { kind, item, pointer, found, host_known, look_alike } = row;
            let kind =
                kind_from_word(&kind).ok_or(StoreError::Unreadable { what: "finding's kind" })?;
            let resembles = match (host_known, look_alike) {
                (Some(known), _) => Some(Resemblance::HostKnown(known)),
                (None, Some(known)) => Some(Resemblance::LookAlike(known)),
                (None, None) => None,
            };
            Ok(Finding { kind, item, pointer, found, resembles })
        })
        .collect()
}

// Rows of strings and numbers always have a form as JSON; an empty text would be unreadable later.
fn to_json<T: Serialize>(row: &T) -> String {
    serde_json::to_string(row).unwrap_or_default()
}

// The cause is left out: it may quote the row.
fn from_json<'a, T: Deserialize<'a>>(text: &'a str, what: &'static str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|_| StoreError::Unreadable { what })
}
