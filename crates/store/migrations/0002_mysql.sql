ALTER TABLE training_run ADD COLUMN line_interval BIGINT;
ALTER TABLE training_reporter ADD COLUMN last_at BIGINT;
ALTER TABLE training_reporter ADD COLUMN start_at BIGINT;
