-- One row per bin, neighbour and what it shares with the core of the probe: shares of slots that the neighbour ran beside
-- its bursts.
WITH beside AS (
    SELECT
        a.slot_start_ns,
        a.subject,
        a.core,
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
        b.bin_ns,
        n.subject AS neighbour,
        CASE
            WHEN c.physical IS NULL OR n.physical IS NULL THEN 1
            WHEN c.physical = n.physical THEN 0
            WHEN c.cache = n.cache THEN 1
            WHEN c.memory = n.memory THEN 2
        END AS way,
        n.share
    FROM bursts b
    LEFT JOIN cores c ON c.core = b.core
    JOIN beside n ON n.slot_start_ns = b.slot_start_ns
    WHERE n.core <> b.core
)
SELECT bin_ns, neighbour, way, sum(share) AS cores
FROM pairs
WHERE way IS NOT NULL
GROUP BY bin_ns, neighbour, way
