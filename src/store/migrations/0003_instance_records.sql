-- More about instances: their calls, whatever conversation and turn they name, who set them, and how
-- busy their receivers are.

ALTER TABLE calls ADD COLUMN instance TEXT;
-- Of an instance's call: whether the judge was asked about it; while its request is begun, whether
-- it may be.
ALTER TABLE calls ADD COLUMN judged BIGINT NOT NULL DEFAULT 0;
CREATE INDEX calls_instances ON calls (instance, created_at) WHERE instance IS NOT NULL;

-- Every change of what an administrator sets on an instance. It outlives the instance.
CREATE TABLE instance_settings (
    instance TEXT NOT NULL,
    -- Counts the instance's changes, from 1.
    number BIGINT NOT NULL,
    organisation TEXT NOT NULL,
    changed_by TEXT NOT NULL,
    changed_at BIGINT NOT NULL,
    -- NULL: the version's default.
    mode_before TEXT,
    mode TEXT,
    trusted_before BIGINT NOT NULL,
    trusted BIGINT NOT NULL,
    PRIMARY KEY (instance, number)
) /*sqlite: STRICT, WITHOUT ROWID */;
CREATE INDEX instance_settings_ages ON instance_settings (changed_at);

-- The receiver's host; NULL without a receiver.
ALTER TABLE instances ADD COLUMN host TEXT;
UPDATE instances SET host = url;
ALTER TABLE notifications ADD COLUMN host TEXT NOT NULL DEFAULT '';
UPDATE notifications SET host = COALESCE((SELECT url FROM instances WHERE id = instance), '');
-- Until when an attempt takes one of the host's places.
ALTER TABLE notifications ADD COLUMN busy_until BIGINT;
CREATE INDEX notifications_busy ON notifications (busy_until) WHERE busy_until IS NOT NULL;
