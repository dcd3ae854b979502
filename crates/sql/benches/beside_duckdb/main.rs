//! Ten questions to the same Parquet files, asked of crosstalk-sql, DuckDB and Polars in one run, and what they cost as
//! recordings grow.
//!
//! A node of 36 cores is simulated for two minutes, some 3.9 million rows of tasks; `-- --minutes N` says otherwise, and
//! 60 is the hour that is promised in 1 GiB. Each engine is a process of its own, asks every question three times and
//! keeps the best; all must answer with as many rows. Rivals are started by `rivals.py` with the tools that `make readers`
//! installs, and Polars. Then the same questions are asked of 1 row, and of ten times more each time up to `--longest`
//! (10,000,000 unless told; 1000000000 is the whole table).

mod lengths;

use crosstalk_figure::{Figure, Section, is_asked_for, process};
use crosstalk_recording::Format;
use crosstalk_simulate::{Options as Simulation, Scenario, record};
use crosstalk_sql::{Options, Session};
use serde_json::{Value, json};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const TIMES: usize = 3;
/// The queries, one file: a name in a comment, then the text. Both engines that take SQL run it as it is.
const QUERIES: &str = include_str!("queries.sql");
const MOST_BYTES: u64 = 1 << 30;
const START_NS: u64 = 1_767_225_600_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    if let Some(folder) = after("--ours") {
        println!("{}", ours(&folder)?);
        return Ok(());
    }
    if !is_asked_for() {
        return Ok(());
    }
    let minutes: f64 = after("--minutes").map_or(Ok(2.0), |text| text.parse())?;
    let longest: u64 = after("--longest").map_or(Ok(10_000_000), |text| text.parse())?;
    let mut section = Section::new("SQL");
    let folder = tempfile::tempdir()?;
    let rows = simulate(folder.path(), Duration::from_secs_f64(60.0 * minutes))?;
    let text = format!("{:.1} million rows of tasks", rows as f64 / 1e6);
    section.add(Figure::new(format!("{minutes} min of 36 cores"), text));
    beside_rivals(folder.path(), &mut section)?;
    drop(folder);
    section.extend(lengths::figures(longest)?);
    Ok(section.finish()?)
}

/// Records a simulated node of 36 cores; answers its rows of tasks.
fn simulate(out: &Path, duration: Duration) -> Result<u64, Box<dyn Error>> {
    let options = Simulation {
        out: out.to_owned(),
        nodes: 1,
        duration,
        seed: 1,
        start_ns: START_NS,
        format: Format::Parquet,
    };
    Ok(record(&Scenario::default(), &options, |_| {})?.task_rows)
}

fn beside_rivals(folder: &Path, section: &mut Section) -> Result<(), Box<dyn Error>> {
    let rivals = rivals(folder)?;
    let ours = ours_alone(folder)?;
    let (mut sums, mut worst) = ([0.0; 3], (String::new(), 0.0));
    for (name, _) in queries() {
        let all = [&ours, &rivals["duckdb"], &rivals["polars"]];
        let times = all.map(|from| from["seconds"][name].as_f64());
        let rows = all.map(|from| from["rows"][name].as_u64());
        let [Some(own), Some(duckdb), Some(polars)] = times else {
            return Err(format!("{name}: not answered: {times:?}").into());
        };
        if rows.iter().any(|one| *one != rows[0]) {
            return Err(format!("{name}: not the same question, by its rows: {rows:?}").into());
        }
        for (sum, time) in sums.iter_mut().zip([own, duckdb, polars]) {
            *sum += time;
        }
        let ratio = own / duckdb.min(polars);
        if ratio > worst.1 {
            worst = (name.to_owned(), ratio);
        }
        let [own, duckdb, polars] = [own, duckdb, polars].map(|seconds| 1e3 * seconds);
        let text =
            format!("{own:.1} ms; DuckDB {duckdb:.1} ms, Polars {polars:.1} ms: {ratio:.2} x");
        section.add(Figure::new(name, text));
    }
    let fastest = sums[1].min(sums[2]);
    let [own, duckdb, polars] = sums;
    let text = format!("{own:.3} s; DuckDB {duckdb:.3} s, Polars {polars:.3} s");
    section.add(Figure::new("all ten", text).against("not slower than the faster", own <= fastest));
    let text = format!("{:.2} x, {}", worst.1, worst.0);
    section.add(
        Figure::new("the worst beside the faster of the two", text)
            .against("at most 1.5 x", worst.1 <= 1.5),
    );
    let peak = ours["peak_bytes"].as_u64().unwrap_or(u64::MAX);
    let text = format!("{:.0} MiB", peak as f64 / f64::from(1 << 20));
    section.add(Figure::new("memory, greatest", text).against("at most 1 GiB", peak <= MOST_BYTES));
    Ok(())
}

fn queries() -> impl Iterator<Item = (&'static str, &'static str)> {
    QUERIES.split("\n-- ").filter_map(|one| one.trim_start_matches("-- ").split_once('\n'))
}

/// Our answers, by a process of their own, so that its memory is theirs.
fn ours_alone(folder: &Path) -> Result<Value, Box<dyn Error>> {
    child(Command::new(std::env::current_exe()?).arg("--ours").arg(folder))
}

fn ours(folder: &str) -> Result<Value, Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let places = [folder.to_owned()];
    let session = runtime.block_on(Session::open(&places, &Options::default()))?;
    let (mut seconds, mut rows) = (serde_json::Map::new(), serde_json::Map::new());
    for (name, query) in queries() {
        let mut best = f64::MAX;
        for _ in 0..TIMES {
            let began = Instant::now();
            let answer = runtime.block_on(session.collect(query.trim().trim_end_matches(';')))?;
            best = best.min(began.elapsed().as_secs_f64());
            let count: usize = answer.iter().map(|batch| batch.num_rows()).sum();
            rows.insert(name.to_owned(), json!(count));
        }
        seconds.insert(name.to_owned(), json!(best));
    }
    let peak = process::peak_bytes(std::process::id());
    Ok(json!({ "seconds": seconds, "rows": rows, "peak_bytes": peak }))
}

fn rivals(folder: &Path) -> Result<Value, Box<dyn Error>> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let bench = own.join("benches/beside_duckdb");
    let mut command = Command::new(own.join("../../target/readers/bin/python"));
    command.arg(bench.join("rivals.py")).arg(folder).arg(bench.join("queries.sql"));
    child(&mut command)
}

fn child(command: &mut Command) -> Result<Value, Box<dyn Error>> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
