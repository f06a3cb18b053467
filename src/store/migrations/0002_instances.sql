-- Instances of the approval protocol, what changed them, and their notifications.

CREATE TABLE instances (
    id TEXT NOT NULL PRIMARY KEY,
    organisation TEXT NOT NULL,
    name TEXT NOT NULL,
    agent TEXT NOT NULL,
    -- A version, or a channel that stands for one.
    version TEXT NOT NULL,
    -- The operator's own choice; NULL: the version's default.
    mode TEXT,
    trusted_context BIGINT NOT NULL,
    -- The token that provisioned it.
    provisioner TEXT NOT NULL,
    -- Its own token, and what that is derived from.
    token TEXT NOT NULL,
    token_key TEXT NOT NULL,
    token_nonce TEXT NOT NULL,
    -- All four or none.
    url TEXT,
    registration TEXT,
    secret_key TEXT,
    secret BYTEA,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- The row stays as the record of the deletion.
    deleted_at BIGINT
) /*sqlite: STRICT */;
CREATE INDEX instances_organisations ON instances (organisation, created_at, id);
CREATE INDEX instances_deleted ON instances (deleted_at) WHERE deleted_at IS NOT NULL;

-- Requests that make or change an instance, by their idempotency keys. One is begun until
-- `committed_at` is set; whoever takes it over raises `attempt`: a lower one cannot be committed.
CREATE TABLE changes (
    -- The digest of organisation, caller, operation and key.
    id TEXT NOT NULL PRIMARY KEY,
    organisation TEXT NOT NULL,
    -- `create` or `update`.
    operation TEXT NOT NULL,
    digest TEXT NOT NULL,
    instance TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    -- What a repeat is answered; it holds no secret.
    response TEXT,
    committed_at BIGINT,
    created_at BIGINT NOT NULL
) /*sqlite: STRICT, WITHOUT ROWID */;
CREATE INDEX changes_ages ON changes (created_at);

-- One a request that ended while its instance had a receiver.
CREATE TABLE notifications (
    request TEXT NOT NULL PRIMARY KEY,
    organisation TEXT NOT NULL,
    instance TEXT NOT NULL,
    decided_at BIGINT NOT NULL,
    -- Attempts that were begun; the last one alone may end it.
    attempts BIGINT NOT NULL,
    -- When the next attempt may begin; while one runs, when it is given up.
    next_at BIGINT NOT NULL,
    -- When it was acknowledged, given up or dropped.
    ended_at BIGINT
) /*sqlite: STRICT, WITHOUT ROWID */;
CREATE INDEX notifications_due ON notifications (next_at) WHERE ended_at IS NULL;
CREATE INDEX notifications_instances ON notifications (instance) WHERE ended_at IS NULL;

-- Escalations of an instance's requests, as far back as they count.
CREATE TABLE escalations (
    instance TEXT NOT NULL,
    at BIGINT NOT NULL,
    request TEXT NOT NULL,
    PRIMARY KEY (instance, at, request)
) /*sqlite: STRICT, WITHOUT ROWID */;

CREATE INDEX approvals_instances ON approvals (instance, id)
    WHERE status = 'pending' AND instance IS NOT NULL;
