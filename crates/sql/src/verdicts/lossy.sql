-- Slots of which rows were lost: nothing is concluded from them. The name is its own:
-- DataFusion 55.2 mistakes columns of one name for each other above a right join.
SELECT DISTINCT slot_start_ns AS lossy_ns FROM slots WHERE lost > 0 AND {run}
