-- One row per slot, core and process of subjects that a quota stopped, now or at another time: how long it waited for the
-- core, whatever for.
WITH stopped AS (
    SELECT DISTINCT a.subject
    FROM (SELECT DISTINCT cgroup_id FROM throttling WHERE throttled_ns > 0 AND {looked} AND {run}) c
    JOIN activity a ON a.cgroup_id = c.cgroup_id
    WHERE {looked}
)
SELECT a.slot_start_ns, a.core, a.process, a.pid, a.subject, a.runq_wait_ns AS wait_ns
FROM stopped s
JOIN activity a ON a.subject = s.subject
WHERE a.lost = 0 AND a.runq_wait_ns > 0 AND {looked}
