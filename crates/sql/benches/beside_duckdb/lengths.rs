//! What the ten questions cost as a recording grows, from one row on.
//!
//! The first rows stand alone; then seconds of a node are simulated. Beyond ten million rows it is the long recording that
//! was simulated anyway, as so many runs of one node as there have to be, by links: every row is read and summed, and neither
//! hours nor disks are filled. The table says so.

use super::long::{Long, seconds};
use super::{alone, mebibytes, simulate};
use crosstalk_figure::Figure;
use crosstalk_recording::{ParquetFile, Reader};
use serde_json::Value;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Rows that are simulated for this alone.
const SIMULATED: u64 = 10_000_000;

pub(super) fn figures(longest: u64, long: &Long) -> Result<Vec<Figure>, Box<dyn Error>> {
    // Links do not cross from one disk to another: it lies beside the long recording.
    let folder = tempfile::tempdir_in(long.folder.parent().ok_or("no folder")?)?;
    let second = folder.path().join("second");
    let a_second = simulate(&second, Duration::from_secs(1))?;
    let mut figures = Vec::new();
    let mut rows = 1;
    while rows <= longest {
        let place = folder.path().join(rows.to_string());
        let asked = asked(rows, &place, (&second, a_second), long);
        // What is too long for this machine takes nothing from what was measured.
        figures.push(asked.unwrap_or_else(|error| {
            let why = error.to_string().replace(['\n', '|'], " ");
            Figure::new(format!("all ten of {rows} rows"), why).against("an answer", false)
        }));
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        rows = rows.saturating_mul(10);
    }
    Ok(figures)
}

fn asked(
    rows: u64,
    place: &Path,
    (second, a_second): (&Path, u64),
    long: &Long,
) -> Result<Figure, Box<dyn Error>> {
    let times = rows.div_ceil(long.rows.max(1));
    if rows < a_second {
        let really = first_rows(second, place, rows as usize)?;
        figure(&alone("--ours", place, &["--times", "3"])?, really, "")
    } else if rows <= SIMULATED {
        let really = simulate(place, Duration::from_secs_f64(rows as f64 / a_second as f64))?;
        figure(&alone("--ours", place, &[])?, really, "")
    } else if times <= 1 {
        figure(long.asked()?, long.rows, "")
    } else {
        linked(&long.folder, place, times)?;
        let copies = format!(" ({times} runs, by links to the files of one)");
        figure(&alone("--ours", place, &[])?, long.rows * times, &copies)
    }
}

fn figure(told: &Value, rows: u64, of: &str) -> Result<Figure, Box<dyn Error>> {
    let seconds = seconds(told)?;
    let peak = mebibytes(&told["peak_bytes"]);
    let each = 1e9 * seconds / rows as f64;
    let text = format!("{:.1} ms, {each:.1} ns a row; {peak:.0} MiB", 1e3 * seconds);
    Ok(Figure::new(format!("all ten of {rows} rows{of}"), text))
}

/// The first rows of a recording's tasks.
fn first_rows(from: &Path, into: &Path, rows: usize) -> Result<u64, Box<dyn Error>> {
    let reader = Reader::open([from.to_str().ok_or("no text")?])?;
    let piece = reader.scan("tasks").pieces().next().ok_or("no rows")??;
    let batch = piece.batch.slice(0, rows.min(piece.batch.num_rows()));
    let name = piece.file.path.strip_prefix(from.to_str().unwrap_or_default());
    let target = into.join(name.ok_or("no name")?.trim_start_matches('/'));
    fs::create_dir_all(target.parent().ok_or("no folder")?)?;
    let mut file = ParquetFile::create(&target, &batch.schema(), &piece.file.metadata()?)?;
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
