//! A long recording: what SQL and verdicts hold in memory.

use super::{alone, mebibytes, questions, simulate};
use crosstalk_figure::Figure;
use serde_json::Value;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MOST_MIB: f64 = 1024.0;

pub(super) struct Long {
    pub(super) folder: PathBuf,
    pub(super) rows: u64,
    minutes: f64,
    /// What the ten questions took.
    asked: Result<Value, String>,
}

impl Long {
    pub(super) fn simulate(folder: &Path, minutes: f64) -> Result<Self, Box<dyn Error>> {
        let rows = simulate(folder, Duration::from_secs_f64(60.0 * minutes))?;
        let asked = alone("--ours", folder, &[]).map_err(|error| error.to_string());
        Ok(Self { folder: folder.to_owned(), rows, minutes, asked })
    }

    pub(super) fn asked(&self) -> Result<&Value, Box<dyn Error>> {
        self.asked.as_ref().map_err(|error| error.clone().into())
    }

    pub(super) fn figures(&self) -> Result<Vec<Figure>, Box<dyn Error>> {
        let name = format!("{} min, {:.1} million rows", self.minutes, self.rows as f64 / 1e6);
        let figure = |what: &str, told: &Value, seconds: f64| {
            let peak = mebibytes(&told["peak_bytes"]);
            Figure::new(
                format!("{name}: memory, {what}"),
                format!("{peak:.0} MiB in {seconds:.1} s"),
            )
            .against("at most 1 GiB", peak <= MOST_MIB)
        };
        let failed = |what: &str, error: Box<dyn Error>| {
            let why = error.to_string().replace(['\n', '|'], " ");
            Figure::new(format!("{name}: {what}"), why).against("an answer", false)
        };
        // The memory of all is not that of joins over all of it.
        let asked_of = format!(
            "the ten questions, {} of them of ten seconds of it as in the table above",
            questions::in_part()
        );
        let asked = match self.asked() {
            Ok(told) => figure(&asked_of, told, seconds(told)?),
            Err(error) => failed(&asked_of, error),
        };
        let judged = match alone("--verdicts", &self.folder, &[]) {
            Ok(told) => figure(
                "analyze --engine datafusion",
                &told,
                told["seconds"].as_f64().unwrap_or(0.0),
            ),
            Err(error) => failed("analyze --engine datafusion", error),
        };
        Ok(vec![asked, judged])
    }
}

/// What all ten took.
pub(super) fn seconds(told: &Value) -> Result<f64, String> {
    let all: Option<f64> = questions::names().map(|name| told["seconds"][name].as_f64()).sum();
    all.ok_or_else(|| "a question was not answered".to_owned())
}
