//! What is recorded opens in the tools people have: DuckDB, pandas, and whatever reads RFC 4180.

mod support;

use std::path::PathBuf;
use std::process::Command;
use support::*;

/// Python with DuckDB, pandas and PyArrow, as `make readers` installs it.
fn python() -> PathBuf {
    let python =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/readers/bin/python"));
    assert!(python.exists(), "DuckDB and pandas are not installed; run: make readers");
    python
}

const SCRIPT: &str = r#"
import csv, glob, sys
import duckdb, pandas

folder, ending, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
files = sorted(glob.glob(f"{folder}/tasks/**/*.{ending}", recursive=True))
assert files, "no files"

# DuckDB: counts agree, and the two data sets join into slots that add up.
tasks, slots = f"'{folder}/tasks/**/*.{ending}'", f"'{folder}/slots/**/*.{ending}'"
assert duckdb.sql(f"SELECT count(*) FROM {tasks}").fetchall()[0][0] == rows
whole = duckdb.sql(f"""
    SELECT count(*), count(*) FILTER (WHERE idle_ns + coalesce(busy, 0) = 1000000)
    FROM {slots} LEFT JOIN (
        SELECT slot_start_ns, core, sum(on_cpu_ns) AS busy FROM {tasks} GROUP BY ALL
    ) USING (slot_start_ns, core)
    WHERE lost = 0""").fetchall()[0]
assert whole[0] == whole[1] > 1000, whole

# Whose rows they are, and their time as a time, without a cast.
kinds = dict(duckdb.sql(f"DESCRIBE SELECT * FROM {tasks}").project("column_name, column_type").fetchall())
assert kinds["time"].startswith("TIMESTAMP"), kinds
assert kinds["slot_start_ns"] == kinds["pid"] == kinds["on_cpu_ns"] == "BIGINT", kinds
assert duckdb.sql(f"SELECT count(DISTINCT (node, run)) FROM {tasks}").fetchall() == [(1,)]
same = f"SELECT count(*) FROM {tasks} WHERE epoch_ns(time) <> slot_start_ns"
assert duckdb.sql(same).fetchall() == [(0,)]

# pandas: the same rows, absent values absent.
read = pandas.read_csv if ending == "csv" else pandas.read_parquet
frame = pandas.concat(read(file) for file in files)
if ending == "parquet":
    whole = pandas.read_parquet(f"{folder}/tasks")
    assert len(whole) == rows and {"node", "run"} <= set(whole.columns)
    assert str(whole.time.dtype) == "datetime64[us, UTC]", whole.time.dtype
    import pyarrow.parquet
    kinds = {str(kind) for kind in pyarrow.parquet.read_schema(files[0]).types}
    # What Spark takes as it is: no unsigned integer and no nanoseconds.
    assert kinds <= {"int64", "double", "bool", "string", "timestamp[us, tz=UTC]"}, kinds
assert len(frame) == rows, (len(frame), rows)
assert frame.on_cpu_ns.max() <= 1_000_000
assert frame.pod_name.isna().all()
assert (frame.slot_start_ns % 1_000_000 == 0).all()

if ending == "csv":
    with open(files[0], newline="") as file:
        lines = list(csv.reader(file, strict=True))
    assert len({len(line) for line in lines}) == 1, "every line has the same number of fields"
"#;

#[test]
fn duckdb_and_pandas_read_both_formats_and_the_data_sets_join() {
    for format in ["csv", "parquet"] {
        let out = tempfile::tempdir().unwrap();
        let output = succeed(&mut record(out.path(), &["--duration", "2s", "--format", format]));
        let (_, report) = split_report(&output);
        let checked = Command::new(python())
            .args(["-c", SCRIPT, out.path().to_str().unwrap(), format])
            .arg(report["rows"].to_string())
            .output()
            .unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}
