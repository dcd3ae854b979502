-- Time stolen from cores as it was read: a row tells of the time before it.
SELECT slot_start_ns, covers_ns, core, stolen_ns
FROM steal
WHERE stolen_ns IS NOT NULL AND {told} AND {run}
