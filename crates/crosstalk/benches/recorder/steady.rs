//! What the recorder takes while the machine rests.

use crate::observer::Observer;
use crosstalk_figure::Figure;
use crosstalk_figure::process::{cpu_seconds, resident_bytes};
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
        resident.push(resident_bytes(pid) as f64 / 1048576.0);
    }
    let share = (cpu_seconds(pid) - cpu_before) * 100.0 / began.elapsed().as_secs_f64();
    watching.stop();
    let most = resident.iter().copied().fold(0.0, f64::max);
    // Grown by more than a tenth between the first and the last quarter is not flat.
    let growth = resident[resident.len() - 1] / resident[resident.len() / 4];
    let seconds = length.as_secs();
    vec![
        Figure::new(
            format!("resting machine, {seconds} s: CPU of the recorder, of one core"),
            format!("{share:.2} %"),
        )
        .against("below 2 %", share < 2.0),
        Figure::new(
            format!("resting machine, {seconds} s: largest resident set"),
            format!("{most:.1} MiB"),
        )
        .against("below 64 MiB", most < 64.0),
        Figure::new(
            format!("resting machine, {seconds} s: resident set, end against first quarter"),
            format!("{growth:.2} x"),
        )
        .against("flat (1.1 x)", growth < 1.1),
    ]
}
