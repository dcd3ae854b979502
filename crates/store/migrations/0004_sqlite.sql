ALTER TABLE pod ADD COLUMN started_at BIGINT;
ALTER TABLE pod ADD COLUMN replica_role TEXT;
ALTER TABLE workload ADD COLUMN started_at BIGINT;
ALTER TABLE training_reporter ADD COLUMN replica_role TEXT;
