-- One row per subject and name that one of its processes had: when it last had it.
SELECT subject, comm, max(slot_start_ns) AS last_ns
FROM activity
GROUP BY subject, comm
