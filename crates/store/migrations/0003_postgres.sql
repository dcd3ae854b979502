ALTER TABLE workload ADD COLUMN IF NOT EXISTS group_uid TEXT;
CREATE INDEX IF NOT EXISTS workload_group ON workload (group_uid, uid);
