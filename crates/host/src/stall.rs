use crate::HostRoot;
use std::fs;
use std::path::{Path, PathBuf};

/// Time stalled, as the kernel adds it up (Documentation/accounting/psi.rst).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalled {
    /// At least one task stood still.
    pub some_ns: Option<u64>,
    /// All tasks that were not idle did; the node has none of it for the processor on some kernels.
    pub full_ns: Option<u64>,
}

impl Stalled {
    /// Where the kernel says how long tasks of the whole node stood still for want of `memory`, `cpu` or `io`.
    #[must_use]
    pub fn node_file(host: &HostRoot, resource: &str) -> PathBuf {
        host.path(format!("/proc/pressure/{resource}"))
    }

    /// Where it says so for the tasks of the cgroup in this folder.
    #[must_use]
    pub fn cgroup_file(folder: &Path, resource: &str) -> PathBuf {
        folder.join(format!("{resource}.pressure"))
    }

    /// What one of these files says now.
    #[must_use]
    pub fn read(file: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(file).ok()?)
    }

    /// The whole node's; `None` where the kernel does not keep it.
    #[must_use]
    pub fn of_node(host: &HostRoot, resource: &str) -> Option<Self> {
        Self::parse(&host.line(format!("/proc/pressure/{resource}"))?)
    }

    /// Reads a pressure file, lines of `some avg10=0.00 ... total=MICROSECONDS`; `None` if it has none.
    ///
    /// ```
    /// use crosstalk_host::Stalled;
    ///
    /// let read = Stalled::parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n").unwrap();
    /// assert_eq!((read.some_ns, read.full_ns), (Some(7_000), None));
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let total = |kind: &str| {
            let line = text.lines().find(|line| line.split(' ').next() == Some(kind))?;
            let word = line.split(' ').find_map(|word| word.strip_prefix("total="))?;
            word.parse::<u64>().ok()?.checked_mul(1_000)
        };
        let read = Self { some_ns: total("some"), full_ns: total("full") };
        (read != Self::default()).then_some(read)
    }

    /// What was added since `before`; a sum that went back is absent.
    pub fn since(self, before: Self) -> Self {
        let grown = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
        Self {
            some_ns: grown(self.some_ns, before.some_ns),
            full_ns: grown(self.full_ns, before.full_ns),
        }
    }
}
