"""Gathers what Crosstalk's verdicts are made from, run by run, with the files of SQL beside it.

    spark-submit job.py [FOLDER]

reads FOLDER/runs.json and FOLDER/sql, and writes FOLDER/gathered. FOLDER is the job's own unless told. A run that cannot
be read is told with the files that it fails at, and left out; the exit code is then 1.
"""

import json
import os
import shutil
import sys

from pyspark.sql import SparkSession

# As the streaming pass keeps them: all of up to three minutes, of longer runs a uniform sample.
STRETCHES = 18
MOST_LOST = 0.25
LOOK_BACK_SLOTS = 64
STEAL_NS = 2_000_000_000
QUOTA_NS = 1_000_000_000


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


def own_quota(stops, waits, bin_ns):
    """What of each wait was for the waiter's own quota, as the streaming pass has it: a reading explains the waits that
    follow it, and what is left of it when a bin ends is kept up to the latest reading, or the length of a bin."""
    events = [(slot, 0, 0, 0, 0, subject, ns) for slot, subject, ns in stops]
    events += [(slot, 1, pid, core, process, subject, ns) for slot, core, process, pid, subject, ns in waits]
    state, own = {}, []
    for slot, is_wait, _, core, process, subject, ns in sorted(events):
        left, told, latest, bin_at = state.get(subject, (0, 0, 0, 0))
        if slot // bin_ns != bin_at:
            told, latest = 0, told or latest
            left = min(left, max(latest, bin_ns))
        if is_wait:
            part = min(left, ns)
            left -= part
            if part > 0:
                own.append((slot, core, process, part))
        else:
            left, told = left + ns, told + ns
        state[subject] = (left, told, latest, slot // bin_ns)
    return own


def within(starts, stretch_ns, before, after):
    times = [f"(slot_start_ns >= {s - before} AND slot_start_ns < {s + stretch_ns + after})" for s in starts]
    return "(" + " OR ".join(times) + ")" if times else "1 = 0"


def gather(spark, folder, number, run, views):
    def statement(name, kept):
        text = open(os.path.join(folder, "sql", name + ".sql")).read()
        for key, value in {
            "kept": within(kept, run["stretch_ns"], 0, 0),
            "near": within(kept, run["stretch_ns"], LOOK_BACK_SLOTS * run["slot_ns"], 0),
            "told": within(kept, run["stretch_ns"], 0, STEAL_NS),
            "looked": within(kept, run["stretch_ns"], QUOTA_NS, 0),
            "waiting": run["waiting"],
            "wait_ns": run["wait_ns"],
            "run": run["within"],
            "slot_ns": run["slot_ns"],
            "bin_ns": run["bin_ns"],
        }.items():
            text = text.replace("{" + key + "}", str(value))
        return spark.sql(text)

    def write(name, rows):
        rows.write.mode("overwrite").parquet(os.path.join(folder, "gathered", str(number), name))

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
    if "throttling" in run["files"]:
        stops, waits = statement("throttled", kept).cache(), statement("throttled_waits", kept).cache()
        write("throttled", stops)
        write("throttled_waits", waits)
        own = own_quota(map(tuple, stops.collect()), map(tuple, waits.collect()), run["bin_ns"])
        columns = "at_ns BIGINT, at_core BIGINT, who BIGINT, own_ns BIGINT"
        view("own_quota", spark.createDataFrame(own, columns))
        stops.unpersist()
        waits.unpersist()
    for name in ["sums", "exposures", "waits"]:
        write(name, statement(name, kept))
    if "probe" in run["files"]:
        write("probe", statement("probe", kept))
        write("probe_exposures", statement("probe_exposures", kept))
    if "steal" in run["files"]:
        write("steal", statement("steal", kept))
    coverage.unpersist()


def damaged(spark, run):
    """Files of a run that cannot be read, each with the reason."""
    for files in run["files"].values():
        for file in files:
            try:
                spark.read.parquet(file).agg({"slot_start_ns": "max"}).collect()
            except Exception as error:
                yield f"{file}: {in_a_line(error)}"


def in_a_line(error):
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    spark = SparkSession.builder.appName("crosstalk").getOrCreate()
    spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
    runs = json.load(open(os.path.join(folder, "runs.json")))["runs"]
    failed = 0
    for number, run in enumerate(runs):
        name, views = f"node {run['node']}, run {run['run']}", []
        try:
            gather(spark, folder, number, run, views)
            print(f"{name}: done", flush=True)
        except Exception as error:
            # The other runs are not to blame. What was written of this one would be judged as if it were all.
            failed += 1
            shutil.rmtree(os.path.join(folder, "gathered", str(number)), ignore_errors=True)
            for why in list(damaged(spark, run)) or [in_a_line(error)]:
                print(f"{name}: left out: {why}", file=sys.stderr, flush=True)
        finally:
            # The next run must not find tables of this one.
            for view in views:
                spark.catalog.dropTempView(view)
    spark.stop()
    if failed:
        sys.exit(f"{failed} of {len(runs)} runs are left out")


if __name__ == "__main__":
    main()
