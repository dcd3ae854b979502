-- Slots of which rows were lost: nothing is concluded from them.
SELECT DISTINCT slot_start_ns FROM slots WHERE lost > 0 AND {run}
