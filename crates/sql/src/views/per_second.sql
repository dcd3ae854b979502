-- One row per process and second: cores kept busy, waits, switches, faults and counters; absent where not counted.
SELECT
    node,
    run,
    date_trunc('second', time) AS second,
    pid,
    process_start_ns,
    max(comm) AS comm,
    sum(on_cpu_ns) / 1e9 AS cores,
    sum(runq_wait_ns) / 1e6 AS waited_ms,
    sum(voluntary_switches) AS voluntary_switches,
    sum(switches) AS switches,
    sum(page_faults) AS page_faults,
    sum(cycles) AS cycles,
    sum(instructions) AS instructions,
    sum(llc_misses) AS llc_misses,
    sum(instructions) / nullif(CAST(sum(cycles) AS DOUBLE), 0) AS instructions_per_cycle
FROM tasks
GROUP BY node, run, date_trunc('second', time), pid, process_start_ns
