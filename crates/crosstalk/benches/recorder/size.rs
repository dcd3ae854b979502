//! How many bytes a row takes.

use crate::observer::Observer;
use crosstalk_figure::Figure;
use std::process::Command;

/// A switch storm beside computing processes, for long enough that a file's fixed part is small.
pub(crate) fn parquet() -> Vec<Figure> {
    let watching = Observer::Crosstalk.start(&["--format", "parquet"]);
    let status = Command::new("stress-ng")
        .args([
            "--switch",
            "2",
            "--cpu",
            "2",
            "--cpu-load",
            "40",
            "--pipe",
            "2",
            "--timeout",
            "60",
            "-q",
        ])
        .status()
        .expect("stress-ng runs");
    assert!(status.success());
    let (report, _dir) = watching.stop();
    let report = report.expect("a report");
    let tasks = report["files"]
        .as_array()
        .and_then(|files| files.iter().find(|f| f["dataset"] == "tasks"))
        .expect("a tasks file");
    let (bytes, rows) = (tasks["bytes"].as_f64(), tasks["rows"].as_f64());
    let each = bytes.expect("a size") / rows.expect("a count");
    vec![
        Figure::new(
            format!("Parquet bytes a `tasks` row ({} rows of a mixed load)", rows.unwrap_or(0.0)),
            format!("{each:.2}"),
        )
        .against("at most 8", each <= 8.0),
    ]
}
