-- One row per second in which rows were lost while recording, or a tick was late: how many, and by how much.
SELECT
    node,
    run,
    date_trunc('second', time) AS second,
    sum(lost) AS lost_rows,
    max(tick_late_ns) / 1e6 AS latest_tick_ms
FROM slots
GROUP BY node, run, date_trunc('second', time)
HAVING sum(lost) > 0 OR max(tick_late_ns) > 1000000
