-- One row per bin, subject and holder: how long the holder had the core that the subject waited for, with bounds.
--
-- A core for which somebody waits is not idle, and who waits does not run: a wait of length w lies within the time that
-- others ran on the core, latest first. Whoever ran n of b held it for at least w - (b - n) and at most min(w, n).
-- 64 slots are looked back on; what was waited longer is divided as the last of it is. What was waited for one's own
-- quota is left out: where there are quotas, the rows of activity come joined with it.
WITH waits AS (
    SELECT a.slot_start_ns, a.bin_ns, a.core, a.subject, a.process, {wait_ns} AS wait_ns
    FROM {waiting}
    WHERE a.lost = 0 AND {wait_ns} > 0 AND {kept}
),
tenancies AS (
    SELECT
        slot_start_ns,
        core,
        subject,
        CAST(sum(on_cpu_ns) AS DOUBLE) AS ns
    FROM activity
    WHERE lost = 0 AND on_cpu_ns > 0 AND {near}
    GROUP BY slot_start_ns, core, subject
),
looks AS (
    SELECT w.*, w.slot_start_ns - o.back * CAST({slot_ns} AS BIGINT) AS held_slot_ns
    FROM waits w
    CROSS JOIN (
        VALUES
            (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15), (16), (17),
            (18), (19), (20), (21), (22), (23), (24), (25), (26), (27), (28), (29), (30), (31), (32), (33),
            (34), (35), (36), (37), (38), (39), (40), (41), (42), (43), (44), (45), (46), (47), (48), (49),
            (50), (51), (52), (53), (54), (55), (56), (57), (58), (59), (60), (61), (62), (63)
    ) AS o(back)
    WHERE (o.back - 1) * CAST({slot_ns} AS BIGINT) < w.wait_ns
),
ran AS (
    SELECT
        l.slot_start_ns,
        l.bin_ns,
        l.core,
        l.process,
        l.subject,
        t.subject AS holder,
        CAST(l.wait_ns AS DOUBLE) AS wait_ns,
        t.ns,
        sum(t.ns) OVER (PARTITION BY l.slot_start_ns, l.core, l.process, l.held_slot_ns) AS busy_ns,
        sum(t.ns) OVER (
            PARTITION BY l.slot_start_ns, l.core, l.process
            ORDER BY l.held_slot_ns DESC
            RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS since_ns,
        sum(t.ns) OVER (PARTITION BY l.slot_start_ns, l.core, l.process) AS all_ns
    FROM looks l
    JOIN tenancies t ON t.core = l.core AND t.slot_start_ns = l.held_slot_ns
    WHERE t.subject <> l.subject
),
shares AS (
    SELECT
        bin_ns,
        slot_start_ns,
        core,
        process,
        subject,
        holder,
        max(wait_ns) AS wait_ns,
        max(all_ns) AS all_ns,
        max(
            CASE
                WHEN wait_ns > CAST(64 AS DOUBLE) * {slot_ns} THEN wait_ns / (CAST(64 AS DOUBLE) * {slot_ns})
                ELSE CAST(1 AS DOUBLE)
            END
        ) AS beyond,
        sum(ns) AS ns,
        sum((least(wait_ns, since_ns) - least(wait_ns, since_ns - busy_ns)) * ns / busy_ns) AS best_ns
    FROM ran
    GROUP BY bin_ns, slot_start_ns, core, process, subject, holder
)
SELECT
    bin_ns,
    subject,
    holder,
    min(slot_start_ns) AS first_ns,
    sum(best_ns * beyond) AS held_ns,
    sum(greatest(CAST(0 AS DOUBLE), least(least(wait_ns, all_ns) - (all_ns - ns), best_ns)) * beyond) AS low_ns,
    sum(greatest(least(wait_ns, ns), best_ns) * beyond) AS high_ns
FROM shares
GROUP BY bin_ns, subject, holder
