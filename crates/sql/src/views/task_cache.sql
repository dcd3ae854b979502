-- One row per process, L3 cache and slot in which its cache was read: what it did in the slot, all cores together, and
-- what it held and moved. A process that did not run in the slot has 0 time on cores; rows of one group_id, l3_domain
-- and read_at_ns tell one value for several processes.
SELECT
    c.node,
    c.run,
    c.time,
    c.slot_start_ns,
    c.pid,
    c.process_start_ns,
    c.comm,
    c.l3_domain,
    c.group_id,
    c.read_at_ns,
    c.state,
    c.llc_occupancy_bytes,
    c.mbm_total_bytes,
    c.mbm_local_bytes,
    coalesce(t.on_cpu_ns, 0) AS on_cpu_ns,
    t.instructions,
    t.llc_misses
FROM cache c
LEFT JOIN (
    SELECT
        node,
        run,
        slot_start_ns,
        pid,
        process_start_ns,
        sum(on_cpu_ns) AS on_cpu_ns,
        sum(instructions) AS instructions,
        sum(llc_misses) AS llc_misses
    FROM tasks
    GROUP BY node, run, slot_start_ns, pid, process_start_ns
) t
    ON t.node = c.node
    AND t.run = c.run
    AND t.slot_start_ns = c.slot_start_ns
    AND t.pid = c.pid
    AND t.process_start_ns = c.process_start_ns
