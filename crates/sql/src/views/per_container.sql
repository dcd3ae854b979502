-- One row per container and second, as its pod and its id say which one it is; processes in no container are summed under
-- an absent name.
SELECT
    node,
    run,
    date_trunc('second', time) AS second,
    coalesce(container_name, substr(container_id, 1, 12)) AS container,
    container_id,
    pod_namespace,
    pod_name,
    max(workload) AS workload,
    count(DISTINCT process_start_ns - process_start_ns % 10000000 + pid) AS processes,
    sum(on_cpu_ns) / 1e9 AS cores,
    sum(runq_wait_ns) / 1e6 AS waited_ms,
    sum(instructions) AS instructions,
    sum(llc_misses) AS llc_misses,
    sum(instructions) / nullif(CAST(sum(cycles) AS DOUBLE), 0) AS instructions_per_cycle
FROM tasks
GROUP BY
    node,
    run,
    date_trunc('second', time),
    coalesce(container_name, substr(container_id, 1, 12)),
    container_id,
    pod_namespace,
    pod_name
