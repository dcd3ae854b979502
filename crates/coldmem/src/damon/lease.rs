//! Whose the running kdamond is. A process that was killed cannot take its own down; the note it left says that the next
//! one may.

use super::KDAMONDS;
use super::session::write;
use crosstalk_host::{HostRoot, ProcStat, own_pid};
use std::fs;

const FILE: &str = "/run/crosstalk-damon";

/// Notes that the kdamond that runs now is this process's. Where that cannot be noted, nobody sweeps it.
pub(super) fn note(host: &HostRoot) {
    let own = own_pid(host);
    let start = own.and_then(|own| ProcStat::of_process(host, own)?.start_boottime_ns());
    if let (Some(own), Some(start), Some(kdamond)) = (own, start, kdamond(host)) {
        let _ = fs::write(host.path(FILE), format!("{kdamond} {own} {start}\n"));
    }
}

/// Forgets the note.
pub(super) fn forget(host: &HostRoot) {
    let _ = fs::remove_file(host.path(FILE));
}

/// Takes down a kdamond of ours whose process is gone, and leaves any other alone.
pub(super) fn sweep(host: &HostRoot) {
    let Some(note) = host.line(FILE) else { return };
    let mut words = note.split(' ').map(str::parse::<u64>);
    let (Some(Ok(noted)), Some(Ok(owner)), Some(Ok(start))) =
        (words.next(), words.next(), words.next())
    else {
        return;
    };
    let lives = || {
        let stat = ProcStat::of_process(host, u32::try_from(owner).ok()?)?;
        stat.start_boottime_ns().filter(|now| *now == start)
    };
    if kdamond(host) == Some(noted) && lives().is_none() {
        let _ = write(host, "0/state", "off");
        let _ = write(host, "nr_kdamonds", "0");
        forget(host);
    }
}

/// The number of the only kdamond, while it runs.
fn kdamond(host: &HostRoot) -> Option<u64> {
    let line = |file: &str| host.line(format!("{KDAMONDS}/{file}"));
    line("nr_kdamonds").filter(|count| count == "1")?;
    line("0/state").filter(|state| state == "on")?;
    line("0/pid")?.parse().ok()
}
