-- Calls of an instance, whatever conversation and turn they name.

ALTER TABLE calls ADD COLUMN instance TEXT;
-- Of an instance's call: whether the judge was asked about it; while its request is begun, whether
-- it may be.
ALTER TABLE calls ADD COLUMN judged BIGINT NOT NULL DEFAULT 0;
CREATE INDEX calls_instances ON calls (instance, created_at) WHERE instance IS NOT NULL;
