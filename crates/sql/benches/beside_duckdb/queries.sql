-- rows of each node
SELECT node, count(*) AS rows, count(DISTINCT pid) AS processes FROM tasks GROUP BY node;

-- busiest processes
SELECT pid, comm, sum(on_cpu_ns) AS ns FROM tasks GROUP BY pid, comm ORDER BY ns DESC LIMIT 10;

-- per second
SELECT date_trunc('second', time) AS second, pid, sum(on_cpu_ns) AS on_cpu_ns, sum(runq_wait_ns) AS waited_ns,
    sum(instructions) AS instructions, sum(cycles) AS cycles
FROM tasks GROUP BY date_trunc('second', time), pid;

-- per container
SELECT date_trunc('second', time) AS second, container_name, count(DISTINCT pid) AS processes,
    sum(on_cpu_ns) AS on_cpu_ns
FROM tasks GROUP BY date_trunc('second', time), container_name;

-- one second of one process
SELECT slot_start_ns, core, on_cpu_ns FROM tasks
WHERE slot_start_ns >= 1767225630000000000 AND slot_start_ns < 1767225631000000000 AND comm = 'redis'
ORDER BY slot_start_ns;

-- longest waits
SELECT slot_start_ns, pid, core, runq_wait_ns FROM tasks WHERE runq_wait_ns > 100000
ORDER BY runq_wait_ns DESC, slot_start_ns, pid LIMIT 100;

-- verdicts: bins
SELECT slot_start_ns - slot_start_ns % 40000000 AS bin_ns, process_start_ns - process_start_ns % 10000000 + pid AS subject,
    sum(on_cpu_ns) AS on_cpu_ns, min(slot_start_ns) AS first_ns
FROM tasks GROUP BY slot_start_ns - slot_start_ns % 40000000, process_start_ns - process_start_ns % 10000000 + pid;

-- verdicts: coverage
SELECT bin_ns, count(*) AS slots, sum(n) AS task_rows FROM (
    SELECT slot_start_ns - slot_start_ns % 40000000 AS bin_ns, slot_start_ns, count(*) AS n
    FROM tasks GROUP BY slot_start_ns - slot_start_ns % 40000000, slot_start_ns
) s GROUP BY bin_ns;

-- verdicts: sums
SELECT slot_start_ns - slot_start_ns % 40000000 AS bin_ns, pid, core, sum(on_cpu_ns) AS on_cpu_ns,
    sum(voluntary_switches) AS voluntary_switches, sum(cycles) AS cycles, sum(instructions) AS instructions,
    sum(llc_misses) AS llc_misses
FROM tasks GROUP BY slot_start_ns - slot_start_ns % 40000000, pid, core;

-- verdicts: exposures of ten seconds
SELECT v.slot_start_ns - v.slot_start_ns % 40000000 AS bin_ns, v.pid AS pid, n.pid AS neighbour,
    sum(v.on_cpu_ns * (n.on_cpu_ns / 1e6)) AS ns_cores
FROM tasks v JOIN tasks n ON n.slot_start_ns = v.slot_start_ns AND n.node = v.node AND n.run = v.run
WHERE n.core <> v.core AND v.slot_start_ns >= 1767225630000000000 AND v.slot_start_ns < 1767225640000000000
GROUP BY v.slot_start_ns - v.slot_start_ns % 40000000, v.pid, n.pid;
