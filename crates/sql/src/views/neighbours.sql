-- One row per process, neighbour and second: how long the neighbour ran on other cores in the very slots in which the
-- process ran. beside_ms is the process's time multiplied by the cores that the neighbour kept busy beside it. A pid that
-- was used again is another process: one is the time it began, in steps of 10 ms, with its pid in the last seven digits.
SELECT
    v.node,
    v.run,
    v.second,
    max(v.pid) AS pid,
    max(v.process_start_ns) AS process_start_ns,
    max(v.comm) AS comm,
    max(n.pid) AS neighbour_pid,
    max(n.process_start_ns) AS neighbour_start_ns,
    max(n.comm) AS neighbour,
    sum(v.on_cpu_ns * n.share) / 1e6 AS beside_ms
FROM (
    SELECT node, run, slot_start_ns, date_trunc('second', time) AS second, pid, process_start_ns, comm, core, on_cpu_ns,
        process_start_ns - process_start_ns % 10000000 + pid AS process
    FROM tasks
    WHERE on_cpu_ns > 0 AND pid > 0
) v
JOIN (
    SELECT node, run, slot_start_ns, date_trunc('second', time) AS second, pid, process_start_ns, comm, core,
        process_start_ns - process_start_ns % 10000000 + pid AS process,
        on_cpu_ns / CAST({slot_ns} AS DOUBLE) AS share
    FROM tasks
    WHERE on_cpu_ns > 0 AND pid > 0
) n
    ON n.node = v.node
    AND n.run = v.run
    AND n.second = v.second
    AND n.slot_start_ns = v.slot_start_ns
WHERE n.core <> v.core AND n.process <> v.process
GROUP BY v.node, v.run, v.second, v.process, n.process
