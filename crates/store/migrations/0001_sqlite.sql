CREATE TABLE IF NOT EXISTS workload (
    uid TEXT NOT NULL PRIMARY KEY,
    name TEXT,
    namespace TEXT,
    kind TEXT,
    created_at BIGINT,
    ended_at BIGINT
);
CREATE TABLE IF NOT EXISTS pod (
    uid TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    namespace TEXT NOT NULL,
    node TEXT,
    created_at BIGINT,
    deleted_at BIGINT
);
CREATE TABLE IF NOT EXISTS container (
    id TEXT NOT NULL PRIMARY KEY,
    pod_uid TEXT NOT NULL,
    name TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS container_pod ON container (pod_uid);
CREATE TABLE IF NOT EXISTS device (
    node TEXT NOT NULL,
    label TEXT NOT NULL,
    name TEXT NOT NULL,
    pod_uid TEXT NOT NULL,
    PRIMARY KEY (node, label, name)
);
CREATE INDEX IF NOT EXISTS device_pod ON device (pod_uid);
CREATE TABLE IF NOT EXISTS pod_workload (
    pod_uid TEXT NOT NULL,
    workload_uid TEXT NOT NULL,
    PRIMARY KEY (pod_uid, workload_uid)
);
CREATE TABLE IF NOT EXISTS training_run (
    workload_uid TEXT NOT NULL,
    serial BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    first_iteration BIGINT,
    last_iteration BIGINT,
    PRIMARY KEY (workload_uid, serial)
);
CREATE TABLE IF NOT EXISTS training_reporter (
    workload_uid TEXT NOT NULL,
    run_serial BIGINT NOT NULL,
    pod_uid TEXT NOT NULL,
    data_source TEXT NOT NULL,
    last_iteration BIGINT NOT NULL,
    PRIMARY KEY (workload_uid, run_serial, pod_uid, data_source)
);
CREATE TABLE IF NOT EXISTS training_performance (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    pod_uuid TEXT NOT NULL,
    workload_uid TEXT NOT NULL,
    iteration BIGINT NOT NULL,
    serial BIGINT NOT NULL,
    performance TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    data_source TEXT NOT NULL,
    UNIQUE (workload_uid, serial, data_source, iteration)
);
CREATE TABLE IF NOT EXISTS workload_event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workload_uid TEXT NOT NULL,
    type TEXT NOT NULL,
    run_serial BIGINT NOT NULL,
    iteration BIGINT NOT NULL,
    pod_uid TEXT,
    nearest_workload_uid TEXT,
    created_at BIGINT NOT NULL,
    UNIQUE (workload_uid, type, run_serial, iteration)
);
CREATE TABLE IF NOT EXISTS event_stream (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workload_uid TEXT,
    pod_uid TEXT,
    type TEXT NOT NULL,
    run_serial BIGINT,
    iteration BIGINT,
    message TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS event_stream_workload ON event_stream (workload_uid, id);
