//! Which rows are kept.

use crosstalk_host::{Clock, HostRoot, ProcStat, WithFix, thread_group};
use crosstalk_inventory::Cgroups;
use crosstalk_model::ProcessId;

/// Keeps rows by process and by cgroup; with neither given, all of them.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    processes: Vec<ProcessId>,
    cgroup: Option<String>,
}

/// What was asked for does not exist.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// No process has this number.
    #[error("--pid {0}: there is no such process")]
    NoProcess(u32),
    /// The number is a thread's.
    #[error("--pid {thread}: this is a thread of process {process}")]
    Thread {
        /// The thread.
        thread: u32,
        /// Its process.
        process: u32,
        /// The way out.
        fix: String,
    },
    /// The hierarchy has no such cgroup.
    #[error("--cgroup {0}: there is no such cgroup")]
    NoCgroup(String),
}

impl WithFix for FilterError {
    fn fix(&self) -> Option<&str> {
        Some(match self {
            Self::NoProcess(_) => "list them with ps -e",
            Self::Thread { fix, .. } => fix,
            Self::NoCgroup(_) => "list them with systemd-cgls",
        })
    }
}

impl Filter {
    /// Keeps these processes and this cgroup with all below it.
    ///
    /// # Errors
    /// One of them does not exist.
    pub fn new(
        pids: &[u32],
        cgroup: Option<&str>,
        host: &HostRoot,
        clock: &Clock,
    ) -> Result<Self, FilterError> {
        let processes: Result<Vec<ProcessId>, FilterError> =
            pids.iter().map(|pid| process(host, clock, *pid)).collect();
        let find = |path: &str| {
            let found = Cgroups::new(host).find(path);
            found.ok_or_else(|| FilterError::NoCgroup(path.to_owned()))
        };
        Ok(Self { processes: processes?, cgroup: cgroup.map(find).transpose()? })
    }

    pub(crate) fn keeps(&self, process: ProcessId, path: Option<&str>) -> bool {
        let by_pid = self.processes.is_empty() || self.processes.contains(&process);
        let by_cgroup = self.cgroup.as_deref().is_none_or(|wanted| {
            let rest = path.unwrap_or_default().strip_prefix(wanted);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        by_pid && by_cgroup
    }
}

/// The process that has this pid now: one that gets the pid later is another.
fn process(host: &HostRoot, clock: &Clock, pid: u32) -> Result<ProcessId, FilterError> {
    let start = ProcStat::of_process(host, pid).and_then(|stat| stat.start_boottime_ns());
    let start_ns = clock.process_start_ns(start.ok_or(FilterError::NoProcess(pid))?);
    match thread_group(host, pid) {
        Some(process) if process != pid => {
            let fix = format!("use --pid {process}");
            Err(FilterError::Thread { thread: pid, process, fix })
        }
        _ => Ok(ProcessId { pid, start_ns }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_keeps_what_is_below_it_and_not_what_only_begins_like_it() {
        let filter = Filter { processes: Vec::new(), cgroup: Some("/a".to_owned()) };
        let process = ProcessId { pid: 1, start_ns: 2 };
        for (path, kept) in
            [(Some("/a"), true), (Some("/a/b"), true), (Some("/ab"), false), (None, false)]
        {
            assert_eq!(filter.keeps(process, path), kept, "{path:?}");
        }
    }

    #[test]
    fn a_pid_that_was_used_again_is_another_process() {
        let process = ProcessId { pid: 1, start_ns: 2 };
        let filter = Filter { processes: vec![process], cgroup: None };
        assert!(filter.keeps(process, None));
        assert!(!filter.keeps(ProcessId { start_ns: 3, ..process }, None));
    }
}
