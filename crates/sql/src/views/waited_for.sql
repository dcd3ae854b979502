-- One row per process, holder and second: how long the holder had the core that the process waited for, for waits of up
-- to 8 slots that ended in that second. A wait lies within the time that others ran on the core, latest first.
WITH waits AS (
    SELECT
        w.node,
        w.run,
        w.slot_start_ns,
        w.time,
        w.core,
        w.pid,
        w.comm,
        w.runq_wait_ns AS wait_ns,
        w.slot_start_ns - o.back * {slot_ns} AS held_ns
    FROM tasks w
    CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7)) AS o(back)
    WHERE w.runq_wait_ns > 0 AND (o.back - 1) * {slot_ns} < w.runq_wait_ns
),
holders AS (
    SELECT
        w.node,
        w.run,
        w.slot_start_ns,
        w.time,
        w.core,
        w.pid,
        w.comm,
        w.wait_ns,
        w.held_ns,
        h.pid AS holder_pid,
        h.comm AS holder,
        h.on_cpu_ns,
        sum(h.on_cpu_ns) OVER (
            PARTITION BY w.node, w.run, w.core, w.slot_start_ns, w.pid, w.held_ns
        ) AS busy_ns,
        sum(h.on_cpu_ns) OVER (
            PARTITION BY w.node, w.run, w.core, w.slot_start_ns, w.pid
            ORDER BY w.held_ns DESC
            RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS busy_since_ns
    FROM waits w
    JOIN tasks h
        ON h.node = w.node AND h.run = w.run AND h.core = w.core AND h.slot_start_ns = w.held_ns
    WHERE h.pid <> w.pid AND h.on_cpu_ns > 0
)
SELECT
    node,
    run,
    date_trunc('second', time) AS second,
    pid,
    max(comm) AS comm,
    holder_pid,
    max(holder) AS holder,
    sum(
        (least(wait_ns, busy_since_ns) - least(wait_ns, busy_since_ns - busy_ns))
        * (CAST(on_cpu_ns AS DOUBLE) / busy_ns)
    ) / 1e6 AS waited_ms
FROM holders
GROUP BY node, run, date_trunc('second', time), pid, holder_pid
