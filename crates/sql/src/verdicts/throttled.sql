-- One row per reading and subject that a quota stopped: for how long, summed over cores. Whoever runs in the cgroup is
-- stopped with it; of more than 64 those that came first are remembered.
WITH stops AS (
    SELECT slot_start_ns, cgroup_id, throttled_ns
    FROM throttling
    WHERE throttled_ns > 0 AND {looked} AND {run}
),
met AS (
    SELECT a.cgroup_id, a.subject, min(a.slot_start_ns) AS first_ns
    FROM (SELECT DISTINCT cgroup_id FROM stops) c
    JOIN activity a ON a.cgroup_id = c.cgroup_id
    WHERE {looked}
    GROUP BY a.cgroup_id, a.subject
),
members AS (
    SELECT
        cgroup_id,
        subject,
        first_ns,
        row_number() OVER (PARTITION BY cgroup_id ORDER BY first_ns, subject) AS place
    FROM met
)
SELECT s.slot_start_ns, m.subject, sum(s.throttled_ns) AS throttled_ns
FROM stops s
JOIN members m ON m.cgroup_id = s.cgroup_id
LEFT JOIN lossy l ON l.lossy_ns = s.slot_start_ns
WHERE l.lossy_ns IS NULL AND m.place <= 64 AND m.first_ns <= s.slot_start_ns + CAST(2000000000 AS BIGINT)
GROUP BY s.slot_start_ns, m.subject
