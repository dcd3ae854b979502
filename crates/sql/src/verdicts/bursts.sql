-- Bursts of the memory probe: what is written back is slowed most by a stream; where lines cannot be flushed, latency
-- has to do.
SELECT b.slot_start_ns, b.slot_start_ns - b.slot_start_ns % {bin_ns} AS bin_ns, b.core, b.cost
FROM (
    SELECT
        p.slot_start_ns,
        p.core,
        CASE WHEN max(p.write_back_ns) OVER () IS NULL THEN p.latency_ns ELSE p.write_back_ns END AS cost
    FROM probe p
    WHERE {run}
) b
LEFT JOIN lossy l ON l.lossy_ns = b.slot_start_ns
WHERE l.lossy_ns IS NULL AND b.cost > 0 AND b.core IS NOT NULL
