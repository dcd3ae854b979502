"""Asks DuckDB and Polars the questions in a file of SQL, each three times; prints the best seconds and the rows as JSON."""

import json
import sys
import time

import duckdb
import polars as pl

folder, path = sys.argv[1:3]
files = f"{folder}/tasks/**/*.parquet"
queries = [one.lstrip("- ").split("\n", 1) for one in ("\n" + open(path).read()).split("\n-- ") if one.strip()]


def told(ask):
    """The best time of each question and how many rows it was answered with."""
    seconds, rows = {}, {}
    for name, text in queries:
        seconds[name] = float("inf")
        for _ in range(3):
            began = time.monotonic()
            answer = ask(name, text)
            seconds[name] = min(seconds[name], time.monotonic() - began)
            rows[name] = len(answer)
    return {"seconds": seconds, "rows": rows}


duck = duckdb.connect()
duck.execute(f"CREATE VIEW tasks AS SELECT * FROM read_parquet('{files}', hive_partitioning = true)")

tasks = pl.scan_parquet(files, hive_partitioning=True)
slot, second = pl.col("slot_start_ns"), pl.col("time").dt.truncate("1s").alias("second")
bins = (slot - slot % 40_000_000).alias("bin_ns")
ten = tasks.filter(slot.is_between(1767225630000000000, 1767225640000000000, closed="left")).select(
    "node", "run", "slot_start_ns", "pid", "core", "on_cpu_ns"
)
asked = {
    "rows of each node": tasks.group_by("node").agg(pl.len(), pl.col("pid").n_unique()),
    "busiest processes": tasks.group_by("pid", "comm").agg(pl.col("on_cpu_ns").sum()).top_k(10, by="on_cpu_ns"),
    "per second": tasks.group_by(second, "pid").agg(
        pl.col("on_cpu_ns", "runq_wait_ns", "instructions", "cycles").sum()
    ),
    "per container": tasks.group_by(second, "container_name").agg(pl.col("pid").n_unique(), pl.col("on_cpu_ns").sum()),
    "one second of one process": tasks.filter(
        slot.is_between(1767225630000000000, 1767225631000000000, closed="left"), pl.col("comm") == "redis"
    )
    .select("slot_start_ns", "core", "on_cpu_ns")
    .sort("slot_start_ns"),
    "longest waits": tasks.filter(pl.col("runq_wait_ns") > 100_000)
    .select("slot_start_ns", "pid", "core", "runq_wait_ns")
    .top_k(100, by="runq_wait_ns"),
    "verdicts: bins": tasks.group_by(
        bins, (pl.col("process_start_ns") - pl.col("process_start_ns") % 10_000_000 + pl.col("pid")).alias("subject")
    ).agg(pl.col("on_cpu_ns").sum(), slot.min()),
    "verdicts: coverage": tasks.group_by(bins, "slot_start_ns").agg(pl.len()).group_by("bin_ns").agg(
        pl.len().alias("slots"), pl.col("len").sum()
    ),
    "verdicts: sums": tasks.group_by(bins, "pid", "core").agg(
        pl.col("on_cpu_ns", "voluntary_switches", "cycles", "instructions", "llc_misses").sum()
    ),
    "verdicts: exposures of ten seconds": ten.join(ten, on=["node", "run", "slot_start_ns"], suffix="_n")
    .filter(pl.col("core") != pl.col("core_n"))
    .group_by(bins, "pid", "pid_n")
    .agg((pl.col("on_cpu_ns") * (pl.col("on_cpu_ns_n") / 1e6)).sum()),
}
by_duckdb = told(lambda _, text: duck.sql(text).to_arrow_table())
by_polars = told(lambda name, _: asked[name].collect(engine="streaming"))
print(json.dumps({"duckdb": by_duckdb, "polars": by_polars}))
