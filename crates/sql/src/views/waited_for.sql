-- One row per process, holder and second: how long the holder had the core that the process waited for, for waits of up
-- to 8 slots that ended in that second. A wait lies within the time that others ran on the core, latest first. A pid that
-- was used again is another process: one is the time it began, in steps of 10 ms, with its pid in the last seven digits.
WITH waits AS (
    SELECT
        w.node,
        w.run,
        w.slot_start_ns,
        w.time,
        w.core,
        w.pid,
        w.process_start_ns,
        w.process_start_ns - w.process_start_ns % 10000000 + w.pid AS process,
        w.comm,
        w.runq_wait_ns AS wait_ns,
        w.slot_start_ns - o.back * {slot_ns} AS held_ns
    FROM tasks w
    CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7)) AS o(back)
    WHERE w.runq_wait_ns > 0 AND (o.back - 1) * {slot_ns} < w.runq_wait_ns
),
held AS (
    SELECT
        node,
        run,
        slot_start_ns,
        core,
        pid,
        process_start_ns,
        process_start_ns - process_start_ns % 10000000 + pid AS process,
        comm,
        on_cpu_ns
    FROM tasks
    WHERE on_cpu_ns > 0
),
holders AS (
    SELECT
        w.node,
        w.run,
        w.time,
        w.core,
        w.pid,
        w.process_start_ns,
        w.process,
        w.comm,
        w.wait_ns,
        w.held_ns,
        h.pid AS holder_pid,
        h.process_start_ns AS holder_start_ns,
        h.process AS holder_process,
        h.comm AS holder,
        h.on_cpu_ns,
        sum(h.on_cpu_ns) OVER (
            PARTITION BY w.node, w.run, w.core, w.time, w.process, w.held_ns
        ) AS busy_ns,
        sum(h.on_cpu_ns) OVER (
            PARTITION BY w.node, w.run, w.core, w.time, w.process
            ORDER BY w.held_ns DESC
            RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS busy_since_ns
    FROM waits w
    JOIN held h
        ON h.node = w.node AND h.run = w.run AND h.core = w.core AND h.slot_start_ns = w.held_ns
    WHERE h.process <> w.process
)
SELECT
    node,
    run,
    date_trunc('second', time) AS second,
    max(pid) AS pid,
    max(process_start_ns) AS process_start_ns,
    max(comm) AS comm,
    max(holder_pid) AS holder_pid,
    max(holder_start_ns) AS holder_start_ns,
    max(holder) AS holder,
    sum(
        (least(wait_ns, busy_since_ns) - least(wait_ns, busy_since_ns - busy_ns))
        * (CAST(on_cpu_ns AS DOUBLE) / busy_ns)
    ) / 1e6 AS waited_ms
FROM holders
GROUP BY node, run, date_trunc('second', time), process, holder_process
