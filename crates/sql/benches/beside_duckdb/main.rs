//! Ten questions to the same Parquet files, asked of crosstalk-sql, DuckDB and Polars in one run.
//!
//! A node of 36 cores is simulated for two minutes, some 3.7 million rows of tasks; `-- --minutes N` says otherwise, and
//! 60 is the hour that is promised in 1 GiB. Each engine is a process of its own, asks every question three times and
//! keeps the best; rivals are started by `rivals.py` with the tools that `make readers` installs, and Polars.

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
    let minutes: u64 = after("--minutes").map_or(Ok(2), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let options = Simulation {
        out: folder.path().to_owned(),
        nodes: 1,
        duration: Duration::from_secs(60 * minutes),
        seed: 1,
        start_ns: START_NS,
        format: Format::Parquet,
    };
    let written = record(&Scenario::default(), &options, |_| {})?;
    let rivals = rivals(folder.path())?;
    let place = folder.path().display().to_string();
    let ours = child(Command::new(std::env::current_exe()?).args(["--ours", &place]))?;
    let mut section = Section::new("SQL");
    let rows = format!("{:.1} million rows of tasks", written.task_rows as f64 / 1e6);
    section.add(Figure::new(format!("{minutes} min of 36 cores"), rows));
    let (mut sums, mut worst) = ([0.0; 3], (String::new(), 0.0));
    for (name, _) in queries() {
        let seconds = |from: &Value| from["seconds"][name].as_f64();
        let times = [seconds(&ours), seconds(&rivals["duckdb"]), seconds(&rivals["polars"])];
        let [Some(own), Some(duckdb), polars] = times else {
            return Err(format!("{name}: not answered: {times:?}").into());
        };
        let fastest = polars.map_or(duckdb, |polars| polars.min(duckdb));
        for (sum, time) in sums.iter_mut().zip([own, duckdb, polars.unwrap_or(duckdb)]) {
            *sum += time;
        }
        if own / fastest > worst.1 {
            worst = (name.to_owned(), own / fastest);
        }
        let shown =
            |time: Option<f64>| time.map_or("-".to_owned(), |s| format!("{:.0} ms", s * 1e3));
        let text =
            format!("{}; DuckDB {}, Polars {}", shown(times[0]), shown(times[1]), shown(polars));
        section.add(Figure::new(name, text));
    }
    let fastest = sums[1].min(sums[2]);
    let text = format!("{:.2} s; DuckDB {:.2} s, Polars {:.2} s", sums[0], sums[1], sums[2]);
    section.add(
        Figure::new("all ten", text).against("not slower than the faster", sums[0] <= fastest),
    );
    let text = format!("{:.2} x, {}", worst.1, worst.0);
    section.add(
        Figure::new("the worst beside the faster of the two", text)
            .against("at most 1.5 x", worst.1 <= 1.5),
    );
    let peak = ours["peak_bytes"].as_u64().unwrap_or(0);
    let text = format!("{:.0} MiB", peak as f64 / f64::from(1 << 20));
    section.add(Figure::new("memory, greatest", text).against("at most 1 GiB", peak <= MOST_BYTES));
    Ok(section.finish()?)
}

fn queries() -> impl Iterator<Item = (&'static str, &'static str)> {
    QUERIES.split("\n-- ").filter_map(|one| one.trim_start_matches("-- ").split_once('\n'))
}

fn ours(folder: &str) -> Result<Value, Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let places = [folder.to_owned()];
    let session = runtime.block_on(Session::open(&places, &Options::default()))?;
    let mut seconds = serde_json::Map::new();
    for (name, query) in queries() {
        let mut best = f64::MAX;
        for _ in 0..TIMES {
            let began = Instant::now();
            let rows = runtime.block_on(session.collect(query.trim().trim_end_matches(';')))?;
            best = best.min(began.elapsed().as_secs_f64());
            drop(rows);
        }
        seconds.insert(name.to_owned(), json!(best));
    }
    Ok(json!({ "seconds": seconds, "peak_bytes": process::peak_bytes(std::process::id()) }))
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
