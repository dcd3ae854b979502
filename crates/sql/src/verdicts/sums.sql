-- One row per bin, subject and core: sums of what was measured; of counters, over the rows that have them.
SELECT
    bin_ns,
    subject,
    core,
    sum(on_cpu_ns) AS on_cpu_ns,
    sum(voluntary_switches) AS voluntary_switches,
    sum(runq_wait_ns) AS wait_ns,
    sum(CASE WHEN cycles IS NOT NULL AND instructions IS NOT NULL THEN 1 ELSE 0 END) AS counted_rows,
    sum(CASE WHEN instructions IS NOT NULL THEN cycles END) AS cycles,
    sum(CASE WHEN cycles IS NOT NULL THEN instructions END) AS instructions,
    sum(CASE WHEN cycles IS NOT NULL AND instructions IS NOT NULL THEN on_cpu_ns ELSE 0 END) AS counted_ns,
    sum(CASE WHEN cycles IS NOT NULL AND instructions IS NOT NULL THEN llc_misses END) AS llc_misses,
    sum(
        CASE WHEN cycles IS NOT NULL AND instructions IS NOT NULL AND llc_misses IS NULL THEN 1 ELSE 0 END
    ) AS rows_without_misses,
    sum(CAST(freq_mhz AS DOUBLE) * on_cpu_ns) AS freq_mhz_ns,
    sum(CASE WHEN freq_mhz IS NOT NULL THEN on_cpu_ns ELSE 0 END) AS freq_ns
FROM activity
WHERE lost = 0 AND {kept}
GROUP BY bin_ns, subject, core
