//! Which kind of file it is, by its first lines.

use super::{Progress, ProgressError, json, log};
use crosstalk_training_log::timestamp;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

/// More than this is no answer of the processor.
const MOST_JSON: u64 = 256 << 20;
/// Longer lines are cut: nobody prints them.
const MOST_LINE: u64 = 1 << 20;

pub(super) fn read(path: &str, zone_seconds: i64) -> Result<Progress, ProgressError> {
    let io = |source| ProgressError::Io { path: path.to_owned(), source };
    let open = || File::open(path).map(BufReader::new).map_err(io);
    let first = Lines(open()?).find(|line| line.as_ref().map_or(true, |l| !l.trim().is_empty()));
    let no = |reason: String| ProgressError::NoProgress { path: path.to_owned(), reason };
    let first = first.ok_or_else(|| no("it is empty".to_owned()))?.map_err(io)?;
    let mut progress = Progress::new(path);
    let is_object = serde_json::from_str::<serde_json::Value>(&first).ok();
    if first.trim_start().starts_with('{') && is_object.is_none_or(|o| o.get("points").is_some()) {
        let mut text = String::new();
        open()?.take(MOST_JSON).read_to_string(&mut text).map_err(io)?;
        json::series(&text, &mut progress).map_err(no)?;
    } else if let Some(columns) = Columns::of(&first) {
        for (at, line) in Lines(open()?).enumerate().skip(1) {
            let line = line.map_err(io)?;
            columns
                .take(&line, &mut progress)
                .map_err(|why| no(format!("line {}: {why}", at + 1)))?;
        }
    } else {
        let (mut training, mut total) = (log::Log::new(zone_seconds), json::Total::default());
        for line in Lines(open()?) {
            let line = line.map_err(io)?;
            match json::line(&line, &mut total, &mut progress) {
                json::Line::Taken => {}
                json::Line::Log(text, at_ns) => training.take(&text, at_ns),
                json::Line::Other => training.take(&line, None),
            }
        }
        training.finish(&mut progress).map_err(no)?;
    }
    progress.points.sort_by_key(|point| point.at_ns);
    progress.iterations.sort_by_key(|iteration| iteration.end_ns);
    if progress.points.len() < 2 {
        return Err(no(
            "it tells of no progress: neither JSON lines with unix_ns and pieces, nor a CSV with columns time and \
             units, nor a training log with a time in each line"
                .to_owned(),
        ));
    }
    Ok(progress)
}

/// Lines of bounded length, whatever bytes they are.
struct Lines<R>(R);

impl<R: BufRead> Iterator for Lines<R> {
    type Item = std::io::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = Vec::new();
        let read = (&mut self.0).take(MOST_LINE).read_until(b'\n', &mut line);
        match read {
            Ok(0) => None,
            Ok(_) => Some(Ok(String::from_utf8_lossy(&line).into_owned())),
            Err(error) => Some(Err(error)),
        }
    }
}

/// A CSV's header: where its time and its units are.
struct Columns {
    time: usize,
    units: usize,
}

impl Columns {
    fn of(header: &str) -> Option<Self> {
        let names: Vec<String> =
            header.trim().split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
        let find = |known: &[&str]| names.iter().position(|name| known.contains(&name.as_str()));
        let time = find(&["time", "unix_ns", "timestamp", "at", "date"])?;
        Some(Self { time, units: find(&["units", "done", "requests", "count", "pieces"])? })
    }

    fn take(&self, line: &str, progress: &mut Progress) -> Result<(), String> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let cells: Vec<&str> = line.trim().split(',').map(str::trim).collect();
        let cell = |at: usize| cells.get(at).copied().ok_or("it has too few columns");
        let at_ns = timestamp::parse(cell(self.time)?).map_err(|error| error.to_string())?;
        let units = cell(self.units)?;
        let units: f64 =
            units.parse().map_err(|_| format!("{units:?} is not a number of units"))?;
        progress.add(at_ns.unsigned_abs(), units);
        Ok(())
    }
}
