"""Gathers what Crosstalk's verdicts are made from, run by run, with the files of SQL beside it.

    spark-submit job.py [FOLDER]

reads FOLDER/runs.json and FOLDER/sql, and writes FOLDER/gathered. FOLDER is the job's own unless told.
"""

import json
import os
import sys

from pyspark.sql import SparkSession

# As the streaming pass keeps them: all of up to three minutes, of longer runs a uniform sample.
STRETCHES = 18
MOST_LOST = 0.25
LOOK_BACK_SLOTS = 64
STEAL_NS = 2_000_000_000


def stretches(covered, stretch_ns):
    """Which stretches of a run are kept, from (bin_ns, slots, lost_slots) in order. The last bin is not whole."""
    order = []
    for bin_ns, slots, lost in covered[:-1]:
        start = bin_ns - bin_ns % stretch_ns
        if lost <= MOST_LOST * slots and (not order or order[-1] != start):
            order.append(start)
    kept, random = [], 0x9E3779B97F4A7C15
    for finished, start in enumerate(order[:-1], 1):
        if len(kept) < STRETCHES:
            kept.append(start)
            continue
        random ^= (random << 13) & 0xFFFFFFFFFFFFFFFF
        random ^= random >> 7
        random ^= (random << 17) & 0xFFFFFFFFFFFFFFFF
        place = random % finished
        if place < STRETCHES:
            kept.pop(place)
            kept.append(start)
    return kept + order[-1:]


def within(starts, stretch_ns, before, after):
    times = [f"(slot_start_ns >= {s - before} AND slot_start_ns < {s + stretch_ns + after})" for s in starts]
    return "(" + " OR ".join(times) + ")" if times else "1 = 0"


def gather(spark, folder, number, run):
    def statement(name, kept):
        text = open(os.path.join(folder, "sql", name + ".sql")).read()
        for key, value in {
            "kept": within(kept, run["stretch_ns"], 0, 0),
            "near": within(kept, run["stretch_ns"], LOOK_BACK_SLOTS * run["slot_ns"], 0),
            "told": within(kept, run["stretch_ns"], 0, STEAL_NS),
            "run": run["within"],
            "slot_ns": run["slot_ns"],
            "bin_ns": run["bin_ns"],
        }.items():
            text = text.replace("{" + key + "}", str(value))
        return spark.sql(text)

    def write(name, rows):
        rows.write.mode("overwrite").parquet(os.path.join(folder, "gathered", str(number), name))

    views = []

    def view(name, rows):
        rows.createOrReplaceTempView(name)
        views.append(name)

    for dataset, files in run["files"].items():
        view(dataset, spark.read.parquet(*files))
    for name, text in run["views"]:
        if text is not None:
            view(name, spark.sql(text))
    coverage = statement("coverage", []).cache()
    write("coverage", coverage)
    covered = coverage.select("bin_ns", "slots", "lost_slots").orderBy("bin_ns").collect()
    kept = stretches([tuple(row) for row in covered], run["stretch_ns"])
    write("bins", statement("bins", kept))
    write("names", statement("names", kept))
    for name in ["sums", "exposures", "waits"]:
        write(name, statement(name, kept))
    if "probe" in run["files"]:
        write("probe", statement("probe", kept))
        write("probe_exposures", statement("probe_exposures", kept))
    if "steal" in run["files"]:
        write("steal", statement("steal", kept))
    coverage.unpersist()
    # The next run must not find tables of this one.
    for name in views:
        spark.catalog.dropTempView(name)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    spark = SparkSession.builder.appName("crosstalk").getOrCreate()
    spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
    runs = json.load(open(os.path.join(folder, "runs.json")))["runs"]
    for number, run in enumerate(runs):
        gather(spark, folder, number, run)
        print(f"node {run['node']}, run {run['run']}: done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
