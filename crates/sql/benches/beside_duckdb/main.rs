//! Ten questions to the same Parquet files, asked of crosstalk-sql, DuckDB and Polars in one run; what they and verdicts
//! cost as recordings grow; and what a second executor of a Ballista cluster brings.
//!
//! A node of 36 cores is simulated for two minutes, some 3.9 million rows of tasks (`--minutes N`). Each engine is a process
//! of its own, asks every question three times and keeps the best (`--quick`: once); all must answer with the same values. Rivals are
//! started by `rivals.py` with the tools that `make readers` installs, and Polars.
//!
//! Then a long recording, ten minutes or with `--hour` the hour that is promised in 1 GiB, is asked the same once, and judged
//! as `analyze --engine datafusion` does; and recordings of 1 row, and of ten times more each time up to `--longest`
//! (10,000,000 unless told; 1000000000 is the whole table). `--quick` has one minute, one minute and 100,000 rows.
//! A part that fails is a line that says so, and the others are measured.

#[cfg(feature = "ballista-node")]
mod cluster;
mod lengths;
mod long;
mod ours;
mod questions;
mod rivals;

use crosstalk_figure::{Figure, Section, has, is_asked_for};
use crosstalk_recording::Format;
use crosstalk_simulate::{Options as Simulation, Scenario, record};
use serde_json::Value;
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const START_NS: u64 = 1_767_225_600_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(folder) = after("--ours") {
        println!("{}", ours::answer(&folder, after("--answers").as_deref())?);
        return Ok(());
    }
    if let Some(folder) = after("--verdicts") {
        println!("{}", ours::judge(&folder)?);
        return Ok(());
    }
    if !is_asked_for() {
        return Ok(());
    }
    let is_quick = has("--quick");
    let minutes: f64 = number("--minutes", if is_quick { 1.0 } else { 2.0 })?;
    let most: u64 = number("--longest", if is_quick { 100_000 } else { 10_000_000 })?;
    let long = match (has("--hour"), is_quick) {
        (true, _) => 60.0,
        (false, true) => 1.0,
        (false, false) => 10.0,
    };
    let mut section = Section::new("SQL");
    let folder = tempfile::tempdir()?;
    let rows = simulate(folder.path(), Duration::from_secs_f64(60.0 * minutes))?;
    let text = format!("{:.1} million rows of tasks", rows as f64 / 1e6);
    section.add(Figure::new(format!("{minutes} min of 36 cores"), text));
    section.extend(told("beside DuckDB and Polars", rivals::figures(folder.path())));
    #[cfg(feature = "ballista-node")]
    section.extend(told("Ballista", cluster::figures(folder.path())));
    drop(folder);
    let folder = tempfile::tempdir()?;
    match long::Long::simulate(folder.path(), long) {
        Ok(long) => {
            section.extend(told("memory", long.figures()));
            section.extend(told("cost against length", lengths::figures(most, &long)));
        }
        Err(error) => section.extend(told("memory and cost against length", Err(error))),
    }
    Ok(section.finish()?)
}

/// How often a question is asked, the best being kept.
fn times() -> usize {
    if has("--quick") { 1 } else { 3 }
}

/// What follows a name on the command line.
fn after(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

fn number<T: std::str::FromStr>(name: &str, otherwise: T) -> Result<T, String> {
    let wrong = |text: &str| format!("{name}: \"{text}\" is no number");
    after(name).map_or(Ok(otherwise), |text| text.parse().map_err(|_| wrong(&text)))
}

/// The figures of a part, or that it failed, so that the other parts are still measured.
fn told(what: &str, part: Result<Vec<Figure>, Box<dyn Error>>) -> Vec<Figure> {
    let how = if part.is_ok() { "done" } else { "failed" };
    eprintln!("{what}: {how}");
    part.unwrap_or_else(|error| {
        let why = error.to_string().replace(['\n', '|'], " ");
        vec![Figure::new(what, why).against("an answer", false)]
    })
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

/// What this program says when it is started with these arguments: a process of its own, so that its memory is its own.
fn alone(what: &str, folder: &Path, more: &[&str]) -> Result<Value, Box<dyn Error>> {
    child(Command::new(std::env::current_exe()?).arg(what).arg(folder).args(more))
}

fn child(command: &mut Command) -> Result<Value, Box<dyn Error>> {
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{}: {}", output.status, said.trim()).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn mebibytes(bytes: &Value) -> f64 {
    bytes.as_u64().map_or(f64::INFINITY, |bytes| bytes as f64 / f64::from(1 << 20))
}
