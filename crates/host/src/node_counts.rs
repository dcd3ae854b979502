//! What the kernel adds up for the whole node.

use crate::{CoreTime, HostError, HostRoot, NodeMemory, Stalled};

/// Sums since the machine started, and its memory now; what the kernel does not say is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// All cores together.
    pub cores: Option<CoreTime>,
    /// Context switches.
    pub switches: Option<u64>,
    /// Time tasks waited for a core.
    pub run_delay_ns: Option<u64>,
    /// Page faults.
    pub page_faults: Option<u64>,
    /// Memory.
    pub memory: NodeMemory,
    /// Time stalled for want of memory.
    pub memory_stalled: Option<Stalled>,
}

impl NodeCounts {
    /// Asks the kernel; `None` where there is no `/proc/stat`, and so no `/proc`.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn read(host: &HostRoot) -> Result<Option<Self>, HostError> {
        let Some(stat) = host.read(CoreTime::FILE)? else { return Ok(None) };
        let text = |path: &str| host.line(path).unwrap_or_default();
        Ok(Some(Self {
            run_delay_ns: run_delay_ns(&text("/proc/schedstat")),
            page_faults: count(&text("/proc/vmstat"), "pgfault "),
            memory: NodeMemory::read(host),
            memory_stalled: Stalled::of_node(host, "memory"),
            ..Self::of_stat(&stat)
        }))
    }

    fn of_stat(stat: &str) -> Self {
        let (cores, switches) = (CoreTime::of_machine(stat), count(stat, "ctxt "));
        Self { cores, switches, ..Self::default() }
    }
}

/// The number behind a name.
fn count(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// The eighth number of each `cpuN` line is the nanoseconds tasks waited (sched-stats.rst).
fn run_delay_ns(schedstat: &str) -> Option<u64> {
    let cores = schedstat.lines().filter(|line| line.starts_with("cpu"));
    let delay = |line: &str| line.split_ascii_whitespace().nth(8)?.parse::<u64>().ok();
    cores.map(delay).reduce(|a, b| a?.checked_add(b?)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, HostRoot) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("proc/pressure")).unwrap();
        for (file, text) in files {
            fs::write(folder.path().join("proc").join(file), text).unwrap();
        }
        let root = HostRoot::new(folder.path());
        (folder, root)
    }

    #[test]
    fn every_count_comes_from_its_file() {
        let (_folder, host) = host(&[
            ("stat", "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\nctxt 1000\n"),
            ("schedstat", "version 17\ncpu0 0 0 0 0 0 0 9 1000000 5\ncpu1 0 0 0 0 0 0 9 7 5\n"),
            ("vmstat", "nr_free_pages 1\npgfault 10\n"),
            ("meminfo", "MemTotal:  1000 kB\n"),
            ("pressure/memory", "some avg10=0.00 total=500\nfull avg10=0.00 total=1\n"),
        ]);
        let counts = NodeCounts::read(&host).unwrap().unwrap();
        assert_eq!(counts.cores.map(|cores| cores.busy_ns), Some(1_500_000_000));
        assert_eq!((counts.switches, counts.run_delay_ns), (Some(1_000), Some(1_000_007)));
        assert_eq!((counts.page_faults, counts.memory.total), (Some(10), Some(1_024_000)));
        assert_eq!(counts.memory_stalled.unwrap().some_ns, Some(500_000));
    }

    #[test]
    fn what_the_kernel_does_not_say_is_absent() {
        let (_folder, garbage) = host(&[
            ("stat", "cpu x y\nctxt -1\n"),
            ("schedstat", "cpu0 1 2\n"),
            ("meminfo", "MemTotal: many kB\n"),
            ("pressure/memory", ""),
        ]);
        assert_eq!(NodeCounts::read(&garbage).unwrap(), Some(NodeCounts::default()));
        let (_folder, nothing) = host(&[]);
        assert_eq!(NodeCounts::read(&nothing).unwrap(), None);
    }
}
