CREATE TABLE IF NOT EXISTS workload (
    uid VARCHAR(255) NOT NULL PRIMARY KEY,
    name VARCHAR(255),
    namespace VARCHAR(255),
    kind VARCHAR(64),
    created_at BIGINT,
    ended_at BIGINT
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS pod (
    uid VARCHAR(255) NOT NULL PRIMARY KEY,
    name VARCHAR(255) NOT NULL,
    namespace VARCHAR(255) NOT NULL,
    node VARCHAR(255),
    created_at BIGINT,
    deleted_at BIGINT
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS container (
    id VARCHAR(255) NOT NULL PRIMARY KEY,
    pod_uid VARCHAR(255) NOT NULL,
    name VARCHAR(255) NOT NULL,
    INDEX container_pod (pod_uid)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS device (
    node VARCHAR(255) NOT NULL,
    label VARCHAR(64) NOT NULL,
    name VARCHAR(255) NOT NULL,
    pod_uid VARCHAR(255) NOT NULL,
    PRIMARY KEY (node, label, name),
    INDEX device_pod (pod_uid)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS pod_workload (
    pod_uid VARCHAR(255) NOT NULL,
    workload_uid VARCHAR(255) NOT NULL,
    PRIMARY KEY (pod_uid, workload_uid)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS training_run (
    workload_uid VARCHAR(255) NOT NULL,
    serial BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    first_iteration BIGINT,
    last_iteration BIGINT,
    PRIMARY KEY (workload_uid, serial)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS training_reporter (
    workload_uid VARCHAR(255) NOT NULL,
    run_serial BIGINT NOT NULL,
    pod_uid VARCHAR(255) NOT NULL,
    data_source VARCHAR(64) NOT NULL,
    last_iteration BIGINT NOT NULL,
    PRIMARY KEY (workload_uid, run_serial, pod_uid, data_source)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS training_performance (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    pod_uuid VARCHAR(255) NOT NULL,
    workload_uid VARCHAR(255) NOT NULL,
    iteration BIGINT NOT NULL,
    serial BIGINT NOT NULL,
    performance LONGTEXT NOT NULL,
    created_at BIGINT NOT NULL,
    data_source VARCHAR(64) NOT NULL,
    UNIQUE (workload_uid, serial, data_source, iteration)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS workload_event (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    workload_uid VARCHAR(255) NOT NULL,
    type VARCHAR(64) NOT NULL,
    run_serial BIGINT NOT NULL,
    iteration BIGINT NOT NULL,
    pod_uid VARCHAR(255),
    nearest_workload_uid VARCHAR(255),
    created_at BIGINT NOT NULL,
    UNIQUE (workload_uid, type, run_serial, iteration)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS event_stream (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    workload_uid VARCHAR(255),
    pod_uid VARCHAR(255),
    type VARCHAR(64) NOT NULL,
    run_serial BIGINT,
    iteration BIGINT,
    message LONGTEXT,
    created_at BIGINT NOT NULL,
    INDEX event_stream_workload (workload_uid, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
