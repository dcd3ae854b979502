-- One row per process, neighbour and second: how long the neighbour ran on other cores in the very slots in which the
-- process ran. beside_ms is the process's time multiplied by the cores that the neighbour kept busy beside it.
SELECT
    v.node,
    v.run,
    v.second,
    v.pid,
    max(v.comm) AS comm,
    n.pid AS neighbour_pid,
    max(n.comm) AS neighbour,
    sum(v.on_cpu_ns * n.share) / 1e6 AS beside_ms
FROM (
    SELECT node, run, slot_start_ns, date_trunc('second', time) AS second, pid, comm, core, on_cpu_ns
    FROM tasks
    WHERE on_cpu_ns > 0 AND pid > 0
) v
JOIN (
    SELECT node, run, slot_start_ns, date_trunc('second', time) AS second, pid, comm, core,
        on_cpu_ns / CAST({slot_ns} AS DOUBLE) AS share
    FROM tasks
    WHERE on_cpu_ns > 0 AND pid > 0
) n
    ON n.node = v.node
    AND n.run = v.run
    AND n.second = v.second
    AND n.slot_start_ns = v.slot_start_ns
WHERE n.core <> v.core AND n.pid <> v.pid
GROUP BY v.node, v.run, v.second, v.pid, n.pid
