-- What every other statistic stands on: who ran where in which slot of one run, and whether rows of the slot were lost.
-- A process is the time it began, in steps of 10 ms, with its pid in the last seven digits; a subject is a process, or the
-- container, pod or workload it belongs to.
SELECT
    t.slot_start_ns,
    t.slot_start_ns - t.slot_start_ns % {bin_ns} AS bin_ns,
    {subject} AS subject,
    t.process_start_ns - t.process_start_ns % 10000000 + t.pid AS process,
    t.pid,
    t.comm,
    t.core,
    {cgroup_id} AS cgroup_id,
    t.on_cpu_ns,
    {runq_wait_ns} AS runq_wait_ns,
    {voluntary_switches} AS voluntary_switches,
    {cycles} AS cycles,
    {instructions} AS instructions,
    {llc_misses} AS llc_misses,
    {freq_mhz} AS freq_mhz,
    {lost} AS lost
FROM {tasks}
WHERE t.pid > 0 AND {run}
