-- Tables of the service, in PostgreSQL's words. For SQLite the words in `/*sqlite: … */` become
-- live, what stands between `/*postgres*/` and `/*end*/` goes, BIGINT is INTEGER and BYTEA is BLOB
-- (src/store/migrations.rs).
--
-- Times are milliseconds since 1970. Truth values are 0 and 1. A column that may be empty text
-- instead of NULL says so: keys hold no NULL.

CREATE TABLE tokens (
    id TEXT NOT NULL PRIMARY KEY,
    organisation TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- SHA-256 of the token; the token itself is nowhere.
    hash BYTEA NOT NULL UNIQUE,
    may_decide BIGINT NOT NULL,
    instance TEXT,
    -- A provisioner's agents and versions, as JSON: [["agent", "version"]].
    versions TEXT,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
) /*sqlite: STRICT */;
CREATE UNIQUE INDEX tokens_names ON tokens (organisation, kind, name) WHERE revoked_at IS NULL;

CREATE TABLE agent_versions (
    organisation TEXT NOT NULL,
    agent TEXT NOT NULL,
    version TEXT NOT NULL,
    content TEXT NOT NULL,
    digest TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organisation, agent, version)
) /*sqlite: STRICT */;

CREATE TABLE channels (
    organisation TEXT NOT NULL,
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    moved_by TEXT NOT NULL,
    moved_at BIGINT NOT NULL,
    PRIMARY KEY (organisation, agent, name)
) /*sqlite: STRICT, WITHOUT ROWID */;

-- Who changes the names of an agent takes its row here first, so that no version and channel of one
-- name come about at once.
CREATE TABLE agents (
    organisation TEXT NOT NULL,
    agent TEXT NOT NULL,
    changes BIGINT NOT NULL,
    PRIMARY KEY (organisation, agent)
) /*sqlite: STRICT, WITHOUT ROWID */;

CREATE TABLE switches (
    organisation TEXT NOT NULL,
    -- Empty: all agents of the organisation.
    agent TEXT NOT NULL,
    enabled BIGINT NOT NULL,
    changed_by TEXT NOT NULL,
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (organisation, agent)
) /*sqlite: STRICT, WITHOUT ROWID */;

CREATE TABLE conversations (
    organisation TEXT NOT NULL,
    surface TEXT NOT NULL,
    id TEXT NOT NULL,
    -- The mode that a person last picked.
    mode TEXT,
    escalations BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    -- Its id comes first, because some look for that alone.
    PRIMARY KEY (organisation, id, surface)
) /*sqlite: STRICT, WITHOUT ROWID */;

CREATE TABLE turns (
    organisation TEXT NOT NULL,
    surface TEXT NOT NULL,
    conversation TEXT NOT NULL,
    id TEXT NOT NULL,
    mode TEXT NOT NULL,
    requests BIGINT NOT NULL,
    judged BIGINT NOT NULL,
    sandbox_calls BIGINT NOT NULL,
    sandbox_seconds BIGINT NOT NULL,
    continuation TEXT,
    continuation_failed BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organisation, id, surface, conversation)
) /*sqlite: STRICT, WITHOUT ROWID */;

-- Requests for a judgement and their idempotency keys. A request is begun until `recorded_at` is
-- set. Whoever takes one over, or ends it, raises `attempt`: a lower one cannot be recorded.
CREATE TABLE requests (
    -- The digest of organisation, caller, endpoint and key.
    id TEXT NOT NULL PRIMARY KEY,
    organisation TEXT NOT NULL,
    digest TEXT NOT NULL,
    surface TEXT NOT NULL,
    conversation TEXT NOT NULL,
    turn TEXT NOT NULL,
    -- Calls that are its own to judge.
    calls BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    recorded_at BIGINT,
    judged BIGINT NOT NULL,
    sandbox_calls BIGINT NOT NULL,
    sandbox_seconds BIGINT NOT NULL,
    created_at BIGINT NOT NULL
) /*sqlite: STRICT, WITHOUT ROWID */;
CREATE INDEX requests_ages ON requests (created_at);

-- Every call that was ever judged, by digest. `outcome` is NULL while its request is begun.
CREATE TABLE calls (
    organisation TEXT NOT NULL,
    surface TEXT NOT NULL,
    conversation TEXT NOT NULL,
    turn TEXT NOT NULL,
    call_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    request TEXT NOT NULL,
    -- What makes a repeated write a repeated write; NULL once it is known not to count.
    identity TEXT,
    outcome TEXT,
    -- The mode that blocks, or an approval's id.
    detail TEXT,
    timeout_seconds BIGINT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organisation, surface, conversation, turn, call_id)
) /*sqlite: STRICT, WITHOUT ROWID */;
CREATE INDEX calls_ages ON calls (created_at);

-- Definitions of gateways' tools, as conversations met them.
CREATE TABLE definitions (
    organisation TEXT NOT NULL,
    surface TEXT NOT NULL,
    conversation TEXT NOT NULL,
    origin TEXT NOT NULL,
    -- Empty: no label.
    label TEXT NOT NULL,
    name TEXT NOT NULL,
    definition TEXT NOT NULL,
    -- Whether calls under this definition need not wait for it.
    pinned BIGINT NOT NULL,
    -- Whether it is the one that was met last.
    latest BIGINT NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (organisation, surface, conversation, origin, label, name, definition)
) /*sqlite: STRICT */;

CREATE TABLE grants (
    approval TEXT NOT NULL PRIMARY KEY,
    organisation TEXT NOT NULL,
    surface TEXT NOT NULL,
    conversation TEXT NOT NULL,
    door TEXT NOT NULL,
    -- Empty: no instance.
    instance TEXT NOT NULL,
    agent TEXT NOT NULL,
    origin TEXT NOT NULL,
    label TEXT NOT NULL,
    name TEXT NOT NULL,
    definition TEXT NOT NULL,
    created_at BIGINT NOT NULL
) /*sqlite: STRICT, WITHOUT ROWID */;
CREATE INDEX grants_conversations ON grants (organisation, surface, conversation);

CREATE TABLE approvals (
    id TEXT NOT NULL PRIMARY KEY,
    organisation TEXT NOT NULL,
    door TEXT NOT NULL,
    instance TEXT,
    agent TEXT NOT NULL,
    version TEXT NOT NULL,
    surface TEXT NOT NULL,
    conversation TEXT NOT NULL,
    turn TEXT NOT NULL,
    call_id TEXT NOT NULL,
    member TEXT,
    origin TEXT NOT NULL,
    label TEXT,
    tool TEXT NOT NULL,
    definition TEXT NOT NULL,
    tool_version TEXT,
    class TEXT,
    mode TEXT NOT NULL,
    timeout_seconds BIGINT,
    pause_reason TEXT,
    pause_sentence TEXT,
    -- The question and the answer, as JSON; NULL when nobody was asked.
    judged TEXT,
    -- As JSON.
    findings TEXT NOT NULL,
    detectors TEXT NOT NULL,
    arguments_digest TEXT NOT NULL,
    lists_digest TEXT,
    policy_digest TEXT,
    latency_ms BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    deadline_at BIGINT NOT NULL,
    status TEXT NOT NULL,
    decided_by TEXT,
    decided_at BIGINT,
    decision_reason TEXT,
    start_by BIGINT,
    claim_caller TEXT,
    claim_key TEXT,
    claimed_at BIGINT,
    execution TEXT,
    executed_at BIGINT,
    revision BIGINT NOT NULL
) /*sqlite: STRICT */;
CREATE INDEX approvals_agents ON approvals (organisation, agent, created_at, id);
CREATE INDEX approvals_pending ON approvals (deadline_at, id) WHERE status = 'pending';
CREATE INDEX approvals_waiting ON approvals (organisation, agent, created_at, id)
    WHERE status = 'pending';
CREATE INDEX approvals_ages ON approvals (created_at, id);

-- What is kept sealed, each part until its retention ends.
CREATE TABLE sealed (
    -- When the approval was recorded: what comes together stands together.
    created_at BIGINT NOT NULL,
    approval TEXT NOT NULL,
    -- `input` or `output`.
    part TEXT NOT NULL,
    key_id TEXT NOT NULL,
    ciphertext BYTEA NOT NULL,
    PRIMARY KEY (created_at, approval, part)
) /*sqlite: STRICT */;
/*postgres*/
-- Ciphertext cannot be compressed, and the usual input of a call fits into its row.
ALTER TABLE sealed ALTER COLUMN ciphertext SET STORAGE EXTERNAL;
ALTER TABLE sealed SET (toast_tuple_target = 4080);
/*end*/
