//! What the ten questions cost as a recording grows, from one row on.
//!
//! The first row stands alone; then seconds of a node are simulated. Beyond ten million rows the same files are the runs
//! of one node over and over, by links: every row is read and summed, and nothing takes hours to simulate.

use super::{ours_alone, queries, simulate};
use crosstalk_figure::Figure;
use crosstalk_recording::{Metadata, ParquetFile, Reader};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Rows that are simulated at most.
const SIMULATED: u64 = 10_000_000;

pub(super) fn figures(longest: u64) -> Result<Vec<Figure>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let second = folder.path().join("second");
    let a_second = simulate(&second, Duration::from_secs(1))?;
    let mut figures = Vec::new();
    let mut rows = 1;
    let mut largest = (PathBuf::new(), 0);
    while rows <= longest {
        let place = folder.path().join(rows.to_string());
        let really = if rows < a_second {
            first_rows(&second, &place, rows as usize)?
        } else if rows <= SIMULATED {
            largest = (
                place.clone(),
                simulate(&place, Duration::from_secs_f64(rows as f64 / a_second as f64))?,
            );
            largest.1
        } else {
            let times = rows / SIMULATED;
            linked(&largest.0, &place, times)?;
            largest.1 * times
        };
        figures.push(figure(&place, really)?);
        rows *= 10;
    }
    Ok(figures)
}

fn figure(place: &Path, rows: u64) -> Result<Figure, Box<dyn Error>> {
    let told = ours_alone(place)?;
    let seconds: Option<f64> = queries().map(|(name, _)| told["seconds"][name].as_f64()).sum();
    let seconds = seconds.ok_or("a question was not answered")?;
    let peak = told["peak_bytes"].as_u64().unwrap_or(0) as f64 / f64::from(1 << 20);
    let each = 1e9 * seconds / rows as f64;
    let text = format!("{:.1} ms, {each:.1} ns a row; {peak:.0} MiB", 1e3 * seconds);
    Ok(Figure::new(format!("all ten of {rows} rows"), text))
}

/// The first rows of a recording's tasks.
fn first_rows(from: &Path, into: &Path, rows: usize) -> Result<u64, Box<dyn Error>> {
    let reader = Reader::open([from.to_str().ok_or("no text")?])?;
    let piece = reader.scan("tasks").pieces().next().ok_or("no rows")??;
    let batch = piece.batch.slice(0, rows.min(piece.batch.num_rows()));
    let name = piece.file.path.strip_prefix(from.to_str().unwrap_or_default());
    let target = into.join(name.ok_or("no name")?.trim_start_matches('/'));
    fs::create_dir_all(target.parent().ok_or("no folder")?)?;
    let about: Metadata = piece.file.metadata()?;
    let mut file = ParquetFile::create(&target, &batch.schema(), &about)?;
    file.write(&batch)?;
    Ok(file.finish()?.rows)
}

/// The tasks of a recording as so many runs.
fn linked(from: &Path, into: &Path, times: u64) -> Result<(), Box<dyn Error>> {
    let reader = Reader::open([from.to_str().ok_or("no text")?])?;
    for file in reader.scan("tasks").chosen() {
        let name = Path::new(&file.path).file_name().ok_or("no name")?;
        for run in 0..times {
            let folder = into.join(format!("tasks/node={}/run={}-{run}", file.node, file.run));
            fs::create_dir_all(&folder)?;
            fs::hard_link(&file.path, folder.join(name))?;
        }
    }
    Ok(())
}
