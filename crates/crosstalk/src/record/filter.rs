//! Which rows are kept.

use super::{Args, bad};
use anyhow::Result;
use crosstalk_counters::Clocks;
use crosstalk_host::HostRoot;
use crosstalk_identity::{Cgroup, Cgroups};
use crosstalk_model::{ProcessId, TaskReading};

/// Keeps rows by process and by cgroup; with neither given, all of them.
pub(super) struct Filter {
    processes: Vec<ProcessId>,
    cgroup: Option<String>,
}

impl Filter {
    /// Checks that what is asked for exists.
    pub(super) fn new(args: &Args, host: &HostRoot) -> Result<Self> {
        let clocks = Clocks::measure();
        let processes: Result<Vec<ProcessId>> =
            args.pid.iter().map(|pid| process(host, &clocks, *pid)).collect();
        let cgroup = match &args.cgroup {
            None => None,
            Some(path) => Some(Cgroups::new(host).find(path).ok_or_else(|| {
                bad(format!(
                    "--cgroup {path}: there is no such cgroup; list them with systemd-cgls"
                ))
            })?),
        };
        Ok(Self { processes: processes?, cgroup })
    }

    pub(super) fn keeps(&self, reading: &TaskReading, cgroup: &Cgroup) -> bool {
        let by_pid = self.processes.is_empty() || self.processes.contains(&reading.process);
        let by_cgroup = self.cgroup.as_deref().is_none_or(|wanted| {
            let path = cgroup.path.as_deref().unwrap_or_default();
            path.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        by_pid && by_cgroup
    }
}

/// The process that has this pid now: one that gets the pid later is another.
fn process(host: &HostRoot, clocks: &Clocks, pid: u32) -> Result<ProcessId> {
    let stat = host.line(format!("/proc/{pid}/stat"));
    let Some(start_ns) = stat.as_deref().and_then(start_boottime_ns) else {
        return Err(bad(format!("--pid {pid}: there is no such process; list them with ps -e")));
    };
    let status = host.line(format!("/proc/{pid}/status")).unwrap_or_default();
    let leader = status.lines().find_map(|line| line.strip_prefix("Tgid:")).map(str::trim);
    match leader {
        Some(leader) if leader != pid.to_string() => Err(bad(format!(
            "--pid {pid}: this is a thread of process {leader}; use --pid {leader}"
        ))),
        _ => Ok(ProcessId { pid, start_ns: clocks.process_start_ns(start_ns) }),
    }
}

/// Field 22 of `/proc/PID/stat`, in ticks of 10 ms since boot.
fn start_boottime_ns(stat: &str) -> Option<u64> {
    let after_name = stat.rsplit_once(')')?.1;
    let ticks: u64 = after_name.split_whitespace().nth(22 - 3)?.parse().ok()?;
    ticks.checked_mul(10_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_found_behind_any_name() {
        let rest = "S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 0 0";
        assert_eq!(start_boottime_ns(&format!("42 (a) b ) {rest}")), Some(7_770_000_000));
        assert_eq!(start_boottime_ns("42 (x) S"), None);
        assert_eq!(start_boottime_ns(""), None);
    }
}
