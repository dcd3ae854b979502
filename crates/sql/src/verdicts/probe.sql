-- One row per bin: bursts of the memory probe, and the sum of the logarithms of what they cost.
SELECT bin_ns, count(*) AS bursts, sum(ln(cost)) AS log_cost
FROM bursts
WHERE {kept}
GROUP BY bin_ns
