//! How fast a recording is analysed, beside reading its columns alone, and in how much memory.
//!
//! A node of 36 cores is simulated for 5 and for 10 minutes, some 31 rows a millisecond; `-- --hour` adds a whole hour,
//! which takes 3 GB of disk, and `-- --quick` has 1 and 2 minutes. Each step is a process of its own, so that its memory is its own.

use crosstalk_analysis::{Question, analyze};
use crosstalk_figure::{Figure, Section, has, is_asked_for, process};
use crosstalk_recording::{Format, Reader};
use crosstalk_simulate::{Options, Scenario, record};
use serde_json::{Value, json};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the pass reads.
const COLUMNS: [(&str, &[&str]); 4] = [
    (
        "tasks",
        &[
            "slot_start_ns",
            "pid",
            "process_start_ns",
            "comm",
            "core",
            "freq_mhz",
            "cycles",
            "instructions",
            "llc_misses",
            "on_cpu_ns",
            "runq_wait_ns",
            "voluntary_switches",
        ],
    ),
    ("slots", &["slot_start_ns", "lost"]),
    ("probe", &["slot_start_ns", "core", "write_back_ns", "latency_ns"]),
    ("steal", &["slot_start_ns", "covers_ns", "core", "stolen_ns"]),
];
const MOST_BYTES: u64 = 256 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--part") {
        let minutes = arguments[at + 3].parse()?;
        println!("{}", part(&arguments[at + 1], Path::new(&arguments[at + 2]), minutes)?);
        return Ok(());
    }
    if !is_asked_for() {
        return Ok(());
    }
    let mut section = Section::new("Analysis");
    let lengths: &[u64] = match (has("--hour"), has("--quick")) {
        (true, _) => &[5, 10, 60],
        (false, true) => &[1, 2],
        (false, false) => &[5, 10],
    };
    let mut peaks = Vec::new();
    for &minutes in lengths {
        let folder = tempfile::tempdir()?;
        let run = |part: &str| child(part, folder.path(), minutes);
        let made = run("simulate")?;
        // Read once before, so that neither is first to touch the disk.
        run("read")?;
        let rate = |done: &Value| {
            done["rows"].as_f64().unwrap_or(0.0) / done["seconds"].as_f64().unwrap_or(1.0) / 1e6
        };
        let mut pairs: Vec<(Value, Value)> = Vec::new();
        for _ in 0..if minutes < 60 { 3 } else { 1 } {
            pairs.push((run("read")?, run("analyze")?));
        }
        pairs.sort_by(|a, b| (rate(&a.1) / rate(&a.0)).total_cmp(&(rate(&b.1) / rate(&b.0))));
        let (read, analysed) = &pairs[pairs.len() / 2];
        let (alone, whole) = (rate(read), rate(analysed));
        let rows = made["rows"].as_u64().unwrap_or(0);
        let name = format!("{minutes} min of 36 cores");
        let written = format!(
            "{:.1} million rows of tasks at {:.2} million a second",
            rows as f64 / 1e6,
            rate(&made)
        );
        section.add(Figure::new(format!("{name}: simulated and written"), written));
        section.add(Figure::new(
            format!("{name}: the columns read alone"),
            format!("{alone:.2} million rows a second"),
        ));
        let share = whole / alone;
        section.add(
            Figure::new(
                format!("{name}: analysed"),
                format!("{whole:.2} million rows a second, {share:.2} of that"),
            )
            .against("at least half", share >= 0.5),
        );
        // Reading alone is one thread, analysing two: what both take of the processor does not depend on that.
        let cpu = |done: &Value| done["cpu_seconds"].as_f64().unwrap_or(0.0);
        section.add(Figure::new(
            format!("{name}: processor time, read and analysed"),
            format!(
                "{:.1} s and {:.1} s, {:.2} of it",
                cpu(read),
                cpu(analysed),
                cpu(read) / cpu(analysed).max(0.01)
            ),
        ));
        let peak = analysed["peak_bytes"].as_u64().unwrap_or(0);
        peaks.push(peak);
        section.add(
            Figure::new(
                format!("{name}: memory at most"),
                format!("{:.0} MiB", peak as f64 / 1048576.0),
            )
            .against("at most 256 MiB", peak <= MOST_BYTES),
        );
    }
    let growth = *peaks.last().unwrap_or(&0) as f64 / *peaks.first().unwrap_or(&1) as f64 - 1.0;
    section.add(
        Figure::new(
            "growth of memory from the shortest to the longest",
            format!("{:+.0} %", 100.0 * growth),
        )
        .against("none to speak of: at most 10 %", growth <= 0.1),
    );
    section.finish()?;
    Ok(())
}

fn child(part: &str, folder: &Path, minutes: u64) -> Result<Value, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--part", part])
        .arg(folder)
        .arg(minutes.to_string())
        .output()?;
    if !output.status.success() {
        return Err(format!("{part}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn part(part: &str, folder: &Path, minutes: u64) -> Result<Value, Box<dyn Error>> {
    let place = [folder.display().to_string()];
    let began = Instant::now();
    let rows = match part {
        "simulate" => {
            let options = Options {
                out: folder.to_owned(),
                nodes: 1,
                duration: Duration::from_secs(60 * minutes),
                seed: 1,
                start_ns: 1_767_225_600_000_000_000,
                format: Format::Parquet,
            };
            record(&Scenario::default(), &options, |_| {})?.task_rows
        }
        "read" => {
            let reader = Reader::open(&place)?;
            let mut rows = 0;
            for (dataset, columns) in COLUMNS {
                let scan = reader.scan(dataset).columns(columns.iter().copied());
                // As the pass does: what lost nothing is not read by either.
                let scan = if dataset == "slots" { scan.with_some("lost") } else { scan };
                for piece in scan.pieces() {
                    let read = piece?.batch.num_rows() as u64;
                    rows += if dataset == "tasks" { read } else { 0 };
                }
            }
            rows
        }
        _ => {
            let question = Question::default();
            let report = analyze(&place, &question, |_| {})?;
            report.runs.iter().map(|run| run.rows).sum()
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    let cpu_seconds = process::cpu_seconds(std::process::id());
    let peak_bytes = process::peak_bytes(std::process::id());
    Ok(
        json!({ "rows": rows, "seconds": seconds, "cpu_seconds": cpu_seconds, "peak_bytes": peak_bytes }),
    )
}
