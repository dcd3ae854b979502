-- One row per bin and subject, in the order in which they first ran: time on cores.
SELECT
    bin_ns,
    subject,
    sum(on_cpu_ns) AS on_cpu_ns,
    min(slot_start_ns) AS first_ns,
    min(pid) AS first_pid
FROM activity
WHERE lost = 0
GROUP BY bin_ns, subject
ORDER BY bin_ns, first_ns, first_pid
