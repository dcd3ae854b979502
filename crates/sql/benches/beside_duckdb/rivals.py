"""Asks DuckDB and Polars the questions in ANSWERS/questions.json about the recording in FOLDER, TIMES times each.

    rivals.py FOLDER ANSWERS TIMES

Prints the best seconds of each as JSON, where an answer differs from ours, which is ANSWERS/NAME.parquet, how, and where
there is none, why. What is timed ends when the answer is held, as ours is: in Arrow by DuckDB, as its own table by Polars,
in its streaming engine, which alone bounds its memory.
"""

import json
import sys
import time

import duckdb
import polars as pl
from polars import col, lit

folder, answers, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
asked = json.load(open(f"{answers}/questions.json"))
questions = asked["questions"]
# Sums of numbers with a point are made in another order.
ALIKE = 1e-9
SLOT_NS = 1_000_000


def difference(question, answer):
    """How an answer differs from ours in its values, whatever the order of its rows; nothing if it does not."""
    ours = pl.read_parquet(f"{answers}/{question['name']}.parquet")
    if set(ours.columns) != set(answer.columns) or len(ours) != len(answer):
        return f"{len(answer)} rows of {answer.columns}, ours {len(ours)} of {ours.columns}"
    plain = lambda table: table.with_columns(
        pl.selectors.temporal().dt.epoch("us"), pl.selectors.decimal().cast(pl.Int64)
    )
    ours, answer = plain(ours), plain(answer.select(ours.columns))
    kinds = {name: kind if kind in (pl.String, pl.Float64) else pl.Int64 for name, kind in ours.schema.items()}
    ours, answer = (table.cast(kinds).sort(question["keys"]) for table in (ours, answer))
    for name, kind in kinds.items():
        a, b = ours[name], answer[name]
        same = a.eq_missing(b)
        if kind == pl.Float64:
            near = (a - b).abs() <= ALIKE * max(a.abs().max() or 0, 1)
            same = same | near.fill_null(False)
        if not same.all():
            at = same.arg_min()
            return f"column {name}, row {at}: {b[at]}, ours {a[at]}"
    return None


def told(ask, as_table=lambda answer: answer):
    seconds, differs, failed = {}, {}, {}
    for question in questions:
        name, best = question["name"], float("inf")
        # Polars panics with what is no Exception.
        try:
            for _ in range(times):
                began = time.monotonic()
                answer = ask(question)
                best = min(best, time.monotonic() - began)
            differs[name] = difference(question, as_table(answer))
            seconds[name] = best
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failed[name] = f"{type(error).__name__}: {error}"
    return {"seconds": seconds, "differs": differs, "failed": failed}


# DuckDB runs the very texts.
duck = duckdb.connect()
duck.execute("SET TimeZone = 'UTC'")
for table in ["tasks", "slots"]:
    files = f"read_parquet('{folder}/{table}/**/*.parquet', hive_partitioning = true, hive_types_autocast = 0)"
    duck.execute(f"CREATE VIEW {table} AS SELECT * FROM {files}")
for text in asked["views"] + [text for text in asked["prepare"] if " VIEW bursts " not in text]:
    duck.execute(text)

tasks = pl.scan_parquet(f"{folder}/tasks/**/*.parquet", hive_partitioning=True)
slot, pid, start = col("slot_start_ns"), col("pid"), col("process_start_ns")
number = start - start % 10_000_000 + pid
second = col("time").dt.truncate("1s").alias("second")
run = (col("node") == asked["node"]) & (col("run") == asked["run"])


def during(span, before=0):
    return slot.is_between(span[0] - before, span[1], closed="left")


def backs(slots):
    return pl.LazyFrame({"back": range(slots)}, schema={"back": pl.Int64})


def per_second():
    sums = ["voluntary_switches", "switches", "page_faults", "cycles", "instructions", "llc_misses"]
    return tasks.group_by("node", "run", second, "pid", "process_start_ns").agg(
        col("comm").max(),
        (col("on_cpu_ns").sum() / 1e9).alias("cores"),
        (col("runq_wait_ns").sum() / 1e6).alias("waited_ms"),
        *[col(name).sum() for name in sums],
        (col("instructions").sum() / col("cycles").sum().cast(pl.Float64)).alias("instructions_per_cycle"),
    )


def per_container():
    name = pl.coalesce(col("container_name"), col("container_id").str.slice(0, 12)).alias("container")
    return tasks.group_by("node", "run", second, name, "container_id", "pod_namespace", "pod_name").agg(
        col("workload").max(),
        number.n_unique().alias("processes"),
        (col("on_cpu_ns").sum() / 1e9).alias("cores"),
        (col("runq_wait_ns").sum() / 1e6).alias("waited_ms"),
        col("instructions").sum(),
        col("llc_misses").sum(),
        (col("instructions").sum() / col("cycles").sum().cast(pl.Float64)).alias("instructions_per_cycle"),
    )


def neighbours():
    ran = tasks.filter(run, during(asked["joined"]), col("on_cpu_ns") > 0, pid > 0)
    who = [number.alias("who"), "pid", "process_start_ns", "comm", "core"]
    of = ran.select("node", "run", "slot_start_ns", second, *who, "on_cpu_ns")
    near = ran.select("node", "run", "slot_start_ns", *who, (col("on_cpu_ns") / float(SLOT_NS)).alias("share"))
    pairs = of.join(near, on=["node", "run", "slot_start_ns"], suffix="_n")
    return (
        pairs.filter(col("core_n") != col("core"), col("who_n") != col("who"))
        .group_by("node", "run", "second", "who", "who_n")
        .agg(
            pid.max(),
            start.max(),
            col("comm").max(),
            col("pid_n").max().alias("neighbour_pid"),
            col("process_start_ns_n").max().alias("neighbour_start_ns"),
            col("comm_n").max().alias("neighbour"),
            ((col("on_cpu_ns") * col("share")).sum() / 1e6).alias("beside_ms"),
        )
        .drop("who", "who_n")
    )


def since(ran, key):
    """What others ran in a slot that was looked back on, since it, and in all of them."""
    by_slot = ran.group_by(*key, "held").agg(col("ns").sum().alias("busy")).sort("held", descending=True)
    return by_slot.with_columns(
        col("busy").cum_sum().over(key).alias("since"), col("busy").sum().over(key).alias("all")
    )


def waited_for():
    who = [number.alias("who"), "pid", "process_start_ns", "comm"]
    waits = tasks.filter(run, during(asked["joined"]), col("runq_wait_ns") > 0).select(
        "node", "run", "slot_start_ns", second, "core", *who, "runq_wait_ns"
    )
    looks = (
        waits.join(backs(8), how="cross")
        .filter((col("back") - 1) * SLOT_NS < col("runq_wait_ns"))
        .with_columns((slot - col("back") * SLOT_NS).alias("held"))
    )
    holders = tasks.filter(run, during(asked["joined"], 8 * SLOT_NS), col("on_cpu_ns") > 0).select(
        "node", "run", "core", slot.alias("held"), *who, col("on_cpu_ns").alias("ns")
    )
    ran = looks.join(holders, on=["node", "run", "core", "held"], suffix="_h").filter(col("who_h") != col("who"))
    key = ["node", "run", "core", "slot_start_ns", "who"]
    wait, busy = col("runq_wait_ns"), col("busy")
    share = pl.min_horizontal(wait, col("since")) - pl.min_horizontal(wait, col("since") - busy)
    return (
        ran.join(since(ran, key), on=[*key, "held"])
        .group_by("node", "run", "second", "who", "who_h")
        .agg(
            pid.max(),
            start.max(),
            col("comm").max(),
            col("pid_h").max().alias("holder_pid"),
            col("process_start_ns_h").max().alias("holder_start_ns"),
            col("comm_h").max().alias("holder"),
            ((share * (col("ns").cast(pl.Float64) / busy)).sum() / 1e6).alias("waited_ms"),
        )
        .drop("who", "who_h")
    )


bins = (slot - slot % 40_000_000).alias("bin_ns")
process = number.alias("subject")
activity = tasks.filter(run, pid > 0).with_columns(bins, process)


def coverage():
    return (
        activity.group_by("bin_ns", "slot_start_ns")
        .agg(pl.len().alias("task_rows"))
        .group_by("bin_ns")
        .agg(
            pl.len().alias("slots"),
            col("task_rows").sum(),
            lit(0).alias("lost_slots"),
            slot.min().alias("first_ns"),
            slot.max().alias("last_ns"),
        )
    )


def bins_of_subjects():
    each = activity.group_by("bin_ns", "subject").agg(
        col("on_cpu_ns").sum(), slot.min().alias("first_ns"), pid.min().alias("first_pid")
    )
    return each.sort("bin_ns", "first_ns", "first_pid")


def names():
    return activity.group_by("subject", "comm").agg(slot.max().alias("last_ns"))


def sums():
    on_cpu, cycles, instructions = col("on_cpu_ns"), col("cycles"), col("instructions")
    counted = cycles.is_not_null() & instructions.is_not_null()
    return (
        activity.filter(during(asked["kept"]))
        .group_by("bin_ns", "subject", "core")
        .agg(
            on_cpu.sum(),
            col("voluntary_switches").sum(),
            col("runq_wait_ns").sum().alias("wait_ns"),
            counted.sum().alias("counted_rows"),
            cycles.filter(instructions.is_not_null()).sum(),
            instructions.filter(cycles.is_not_null()).sum(),
            on_cpu.filter(counted).sum().alias("counted_ns"),
            col("llc_misses").filter(counted).sum(),
            (counted & col("llc_misses").is_null()).sum().alias("rows_without_misses"),
            (col("freq_mhz").cast(pl.Float64) * on_cpu).sum().alias("freq_mhz_ns"),
            on_cpu.filter(col("freq_mhz").is_not_null()).sum().alias("freq_ns"),
        )
    )


def exposures():
    cores = pl.LazyFrame(asked["cores"], schema=["core", "physical", "cache", "memory"], orient="row")
    on_cpu = col("on_cpu_ns").cast(pl.Float64)
    beside = (
        activity.filter(during(asked["joined"]), col("on_cpu_ns") > 0)
        .join(cores.cast(pl.Int64), on="core", how="left")
        .select(
            "slot_start_ns", "bin_ns", "subject", "core", "physical", "cache", "memory", on_cpu.alias("ns"),
            pl.min_horizontal(on_cpu / SLOT_NS, lit(1.0)).alias("share"),
        )
    )
    same = lambda name: col(name) == col(name + "_n")
    way = (
        pl.when(col("physical").is_null() | col("physical_n").is_null()).then(1)
        .when(same("physical")).then(0)
        .when(same("cache")).then(1)
        .when(same("memory")).then(2)
    )
    return (
        beside.join(beside.drop("bin_ns", "ns"), on="slot_start_ns", suffix="_n")
        .filter(col("core_n") != col("core"))
        .with_columns(way.alias("way"))
        .filter(col("way").is_not_null())
        .group_by("bin_ns", "subject", col("subject_n").alias("neighbour"), "way")
        .agg((col("ns") * col("share_n")).sum().alias("ns_cores"))
    )


def waits():
    who = ["slot_start_ns", "core", "process"]
    waited = activity.filter(during(asked["joined"]), col("runq_wait_ns") > 0).select(
        "slot_start_ns", "bin_ns", "core", "subject", col("subject").alias("process"), col("runq_wait_ns").alias("wait")
    )
    tenancies = (
        activity.filter(during(asked["joined"], 64 * SLOT_NS), col("on_cpu_ns") > 0)
        .group_by(slot.alias("held"), "core", "subject")
        .agg(col("on_cpu_ns").sum().cast(pl.Float64).alias("ns"))
    )
    looks = (
        waited.join(backs(64), how="cross")
        .filter((col("back") - 1) * SLOT_NS < col("wait"))
        .with_columns((slot - col("back") * SLOT_NS).alias("held"), col("wait").cast(pl.Float64))
    )
    ran = looks.join(tenancies, on=["core", "held"], suffix="_h").filter(col("subject_h") != col("subject"))
    wait, ns, busy, every = col("wait"), col("ns"), col("busy"), col("all")
    best = (pl.min_horizontal(wait, col("since")) - pl.min_horizontal(wait, col("since") - busy)) * ns / busy
    longest = 64.0 * SLOT_NS
    shares = (
        ran.join(since(ran, who), on=[*who, "held"])
        .group_by("bin_ns", *who, "subject", col("subject_h").alias("holder"))
        .agg(
            wait.max(),
            every.max(),
            pl.when(wait > longest).then(wait / longest).otherwise(1.0).max().alias("beyond"),
            ns.sum(),
            best.sum().alias("best"),
        )
    )
    best, beyond = col("best"), col("beyond")
    low = pl.max_horizontal(lit(0.0), pl.min_horizontal(pl.min_horizontal(wait, every) - (every - ns), best))
    return shares.group_by("bin_ns", "subject", "holder").agg(
        slot.min().alias("first_ns"),
        (best * beyond).sum().alias("held_ns"),
        (low * beyond).sum().alias("low_ns"),
        (pl.max_horizontal(pl.min_horizontal(wait, ns), best) * beyond).sum().alias("high_ns"),
    )


equivalents = [per_second, per_container, neighbours, waited_for, coverage, bins_of_subjects, names, sums, exposures, waits]
by_name = {question["name"]: equivalent for question, equivalent in zip(questions, equivalents, strict=True)}
by_duckdb = told(lambda question: duck.sql(question["text"]).to_arrow_table(), pl.from_arrow)
by_polars = told(lambda question: by_name[question["name"]]().collect(engine="streaming"))
print(json.dumps({"duckdb": by_duckdb, "polars": by_polars}))
