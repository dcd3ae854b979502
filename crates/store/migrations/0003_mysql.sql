ALTER TABLE workload ADD COLUMN group_uid VARCHAR(255), ADD INDEX workload_group (group_uid, uid);
