-- One row per bin: its slots, its rows, how many of its slots rows were lost of, its first and last slot.
SELECT
    bin_ns,
    count(*) AS slots,
    sum(task_rows) AS task_rows,
    sum(lost) AS lost_slots,
    min(slot_start_ns) AS first_ns,
    max(slot_start_ns) AS last_ns
FROM (
    SELECT bin_ns, slot_start_ns, count(*) AS task_rows, max(lost) AS lost
    FROM activity
    GROUP BY bin_ns, slot_start_ns
) s
GROUP BY bin_ns
