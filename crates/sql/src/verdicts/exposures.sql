-- One row per bin, subject, neighbour and what they share (0 a core's threads, 1 a cache, 2 memory): the subject's time
-- in each slot multiplied by the neighbour's share of it on other cores. Cores that are not listed share a cache.
WITH beside AS (
    SELECT
        a.slot_start_ns,
        a.bin_ns,
        a.subject,
        a.core,
        CAST(a.on_cpu_ns AS DOUBLE) AS on_cpu_ns,
        least(CAST(a.on_cpu_ns AS DOUBLE) / {slot_ns}, CAST(1 AS DOUBLE)) AS share,
        c.physical,
        c.cache,
        c.memory
    FROM activity a
    LEFT JOIN cores c ON c.core = a.core
    WHERE a.lost = 0 AND a.on_cpu_ns > 0 AND {kept}
),
pairs AS (
    SELECT
        v.bin_ns,
        v.subject,
        n.subject AS neighbour,
        CASE
            WHEN v.physical IS NULL OR n.physical IS NULL THEN 1
            WHEN v.physical = n.physical THEN 0
            WHEN v.cache = n.cache THEN 1
            WHEN v.memory = n.memory THEN 2
        END AS way,
        v.on_cpu_ns * n.share AS ns_cores
    FROM beside v
    JOIN beside n ON n.slot_start_ns = v.slot_start_ns
    WHERE n.core <> v.core
)
SELECT bin_ns, subject, neighbour, way, sum(ns_cores) AS ns_cores
FROM pairs
WHERE way IS NOT NULL
GROUP BY bin_ns, subject, neighbour, way
