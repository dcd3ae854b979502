//! What the recorder takes while the machine rests.

use crate::Figure;
use crate::observer::Observer;
use std::fs;
use std::time::{Duration, Instant};

pub(crate) fn idle(length: Duration) -> Vec<Figure> {
    let watching = Observer::Crosstalk.start(&["--format", "parquet"]);
    let pid = watching.pid();
    eprintln!("resting for {} s", length.as_secs());
    let began = Instant::now();
    let cpu_before = cpu_seconds(pid);
    let mut resident = Vec::new();
    while began.elapsed() < length {
        #[allow(clippy::disallowed_methods)] // the pace of sampling
        std::thread::sleep(length / 20);
        resident.push(resident_mib(pid));
    }
    let share = (cpu_seconds(pid) - cpu_before) * 100.0 / began.elapsed().as_secs_f64();
    watching.stop();
    let most = resident.iter().copied().fold(0.0, f64::max);
    // Grown by more than a tenth between the first and the last quarter is not flat.
    let growth = resident[resident.len() - 1] / resident[resident.len() / 4];
    let seconds = length.as_secs();
    vec![
        Figure {
            what: format!("resting machine, {seconds} s: CPU of the recorder, of one core"),
            value: format!("{share:.2} %"),
            target: "below 2 %",
            met: Some(share < 2.0),
        },
        Figure {
            what: format!("resting machine, {seconds} s: largest resident set"),
            value: format!("{most:.1} MiB"),
            target: "below 64 MiB",
            met: Some(most < 64.0),
        },
        Figure {
            what: format!("resting machine, {seconds} s: resident set, end against first quarter"),
            value: format!("{growth:.2} x"),
            target: "flat (1.1 x)",
            met: Some(growth < 1.1),
        },
    ]
}

fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let after_name = stat.rsplit_once(')').expect("a name in parentheses").1;
    let fields: Vec<f64> = after_name.split_whitespace().filter_map(|f| f.parse().ok()).collect();
    // utime and stime are fields 14 and 15; the state (3) is not a number, so ppid (4) is first.
    (fields[10] + fields[11]) / 100.0
}

fn resident_mib(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").trim().parse::<f64>().expect("a number") / 1024.0
}
