//! A kdamond of our own: set up, asked, and taken down again.

use super::filters::{self, MOST, Refusals};
use super::{Found, KDAMONDS, REGIONS, SAMPLES, aggregation, find, lease, old};
use crate::age::ColdBoundary;
use crosstalk_host::{HostRoot, WithFix, system_ram};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Why DAMON cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DamonError {
    /// The kernel does not have it.
    #[error("the kernel has no DAMON in sysfs")]
    Absent,
    /// The kernel's DAMON does not tell which regions are idle.
    #[error("{}", old(.0))]
    Old(String),
    /// Somebody else uses it.
    #[error("DAMON is left alone: {0}")]
    Taken(String),
    /// Nobody says where memory is.
    #[error("/proc/iomem shows no System RAM")]
    NoMemory,
    /// The kernel refused a value.
    #[error("{}: cannot write \"{value}\": {source}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What was to be written.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file that should be there cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Pages cannot be told apart by cgroup by the kernel.
    #[error("this kernel's filters do not count what passes them")]
    NoFilters,
    /// The kernel is not asked of so many.
    #[error("{0} cgroups are more than the {MOST} that filters are asked of")]
    TooMany(usize),
}

/// What tells pages apart at any number of cgroups.
pub(crate) const PAGES: &str = "let /proc/kpagecgroup and /proc/kpageflags be read: root, CONFIG_PROC_PAGE_MONITOR, CONFIG_MEMCG";

impl WithFix for DamonError {
    fn fix(&self) -> Option<&str> {
        Some(match self {
            Self::Absent | Self::Old(_) => {
                "a kernel from 6.2 with CONFIG_DAMON_PADDR and CONFIG_DAMON_SYSFS is needed"
            }
            Self::Taken(_) => "stop whoever uses it, or choose another back end",
            Self::NoMemory | Self::Unreadable { .. } => "run as root",
            Self::Refused { .. } => "run as root, and look at the kernel's log",
            Self::NoFilters | Self::TooMany(_) => PAGES,
        })
    }
}

/// A range of physical addresses that was not used for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its first byte.
    pub start: u64,
    /// Behind its last byte.
    pub end: u64,
    /// For how long it has not been used.
    pub idle_ms: u64,
}

/// The number of the kernel thread; -1 while none runs.
const PID: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/pid";

/// A running kdamond of our own. It is taken down when this is dropped.
#[derive(Debug)]
pub struct Session {
    pub(super) host: HostRoot,
    aggregation: Duration,
    began: Instant,
    /// The number of our kernel thread, once it runs.
    kdamond: Option<String>,
    /// Where filters that count are; absent before 6.14.
    pub(super) filters: Option<&'static str>,
    /// Whom the kernel refuses to ask of.
    pub(super) refused: Refusals,
}

/// What to write where below `kdamonds`, in order, so that idle regions of these ranges are followed.
pub(super) fn set_up(ranges: &[(u64, u64)], aggregation: Duration) -> Vec<(String, String)> {
    let aggregation_us = aggregation.as_micros() as u64;
    let context = |file: &str| format!("0/contexts/0/{file}");
    let mut writes = vec![
        ("nr_kdamonds".to_owned(), "1".to_owned()),
        ("0/contexts/nr_contexts".to_owned(), "1".to_owned()),
        (context("operations"), "paddr".to_owned()),
        (context("monitoring_attrs/intervals/sample_us"), (aggregation_us / SAMPLES).to_string()),
        (context("monitoring_attrs/intervals/aggr_us"), aggregation_us.to_string()),
        (context("monitoring_attrs/nr_regions/max"), REGIONS.1.to_string()),
        (context("monitoring_attrs/nr_regions/min"), REGIONS.0.to_string()),
        (context("targets/nr_targets"), "1".to_owned()),
        (context("targets/0/regions/nr_regions"), ranges.len().to_string()),
    ];
    for (at, (start, end)) in ranges.iter().enumerate() {
        writes.push((context(&format!("targets/0/regions/{at}/start")), start.to_string()));
        writes.push((context(&format!("targets/0/regions/{at}/end")), end.to_string()));
    }
    writes.push((context("schemes/nr_schemes"), "1".to_owned()));
    writes.extend(access_pattern(&context("schemes/0")));
    writes.push(("0/state".to_owned(), "on".to_owned()));
    writes
}

/// Makes a scheme one that counts what is idle, and does nothing to the pages.
pub(super) fn access_pattern(scheme: &str) -> [(String, String); 4] {
    [
        ("action", "stat".to_owned()),
        ("access_pattern/sz/max", u64::MAX.to_string()),
        ("access_pattern/nr_accesses/max", "0".to_owned()),
        ("access_pattern/age/max", u32::MAX.to_string()),
    ]
    .map(|(file, value)| (format!("{scheme}/{file}"), value))
}

impl Session {
    /// Starts a kdamond over all memory.
    ///
    /// # Errors
    /// DAMON is not there, somebody else uses it, or the kernel refuses. Nothing is left behind then.
    pub fn start(host: &HostRoot, boundary: &ColdBoundary) -> Result<Self, DamonError> {
        let aggregation = aggregation(boundary);
        match find(host) {
            Found::Absent => return Err(DamonError::Absent),
            Found::Old(release) => return Err(DamonError::Old(release)),
            Found::Taken(whose) => return Err(DamonError::Taken(whose)),
            Found::Free => {}
        }
        let ranges = system_ram(host);
        if ranges.is_empty() {
            return Err(DamonError::NoMemory);
        }
        let mut writes = set_up(&ranges, aggregation).into_iter();
        // Until the first write has succeeded there is nothing of ours to take down.
        if let Some((file, value)) = writes.next() {
            write(host, &file, &value)?;
        }
        let began = Instant::now();
        let (host_of, refused) = (host.clone(), Refusals::new());
        let mut session =
            Self { host: host_of, aggregation, began, kdamond: None, filters: None, refused };
        writes.try_for_each(|(file, value)| write(host, &file, &value))?;
        session.kdamond = host.line(PID);
        session.filters = filters::folder(host);
        lease::note(host);
        Ok(session)
    }

    /// The number that is there now, where it is not that of our kernel thread: somebody stopped ours, or runs another.
    fn taken_by(&self) -> Option<String> {
        let now = self.host.line(PID).unwrap_or_default();
        self.kdamond.as_ref().filter(|ours| **ours != now).map(|_| now)
    }

    /// What is not ours is neither changed nor read as if it were.
    pub(super) fn check_ours(&self) -> Result<(), DamonError> {
        match self.taken_by() {
            None => Ok(()),
            Some(pid) => Err(DamonError::Taken(format!(
                "our kdamond was stopped by somebody else (pid is {pid} now)"
            ))),
        }
    }

    /// For how long it has been running.
    pub fn watched_s(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// The regions that were not used in their last aggregation.
    ///
    /// # Errors
    /// Somebody stopped or changed it.
    pub fn idle_regions(&mut self) -> Result<Vec<Region>, DamonError> {
        self.check_ours()?;
        write(&self.host, "0/state", "update_schemes_tried_regions")?;
        let mut found = Vec::new();
        self.each_region(0, |region| {
            let (start, end) = (region.number("start")?, region.number("end")?);
            found.push(Region { start, end, idle_ms: region.idle_ms()? });
            Some(())
        })?;
        write(&self.host, "0/state", "clear_schemes_tried_regions")?;
        Ok(found)
    }

    /// Looks at each region that a scheme was applied to. One that is not whole was taken away meanwhile.
    pub(super) fn each_region(
        &self,
        scheme: usize,
        mut look: impl FnMut(Tried<'_>) -> Option<()>,
    ) -> Result<(), DamonError> {
        let folder = format!("{KDAMONDS}/0/contexts/0/schemes/{scheme}/tried_regions");
        let path = self.host.path(&folder);
        let entries = fs::read_dir(&path)
            .map_err(|source| DamonError::Unreadable { path: path.clone(), source })?;
        for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir())) {
            let folder = format!("{folder}/{}", entry.file_name().to_string_lossy());
            let _ = look(Tried { session: self, folder });
        }
        Ok(())
    }
}

/// A region that a scheme was applied to: each number is a file.
pub(super) struct Tried<'a> {
    session: &'a Session,
    folder: String,
}

impl Tried<'_> {
    pub(super) fn number(&self, file: &str) -> Option<u64> {
        self.session.host.line(format!("{}/{file}", self.folder))?.parse().ok()
    }

    /// For how long it has not been used.
    pub(super) fn idle_ms(&self) -> Option<u64> {
        let aggregation_ms = self.session.aggregation.as_millis() as u64;
        Some(self.number("age")?.saturating_mul(aggregation_ms))
    }
}

impl Session {
    /// Whether ours was only switched off: nobody has made anything else of what we set up.
    fn was_switched_off(&self) -> bool {
        let is = |file: &str, value: &str| {
            self.host.line(format!("{KDAMONDS}/{file}")).is_some_and(|line| line == value)
        };
        let aggregation_us = self.aggregation.as_micros().to_string();
        is("nr_kdamonds", "1")
            && is("0/state", "off")
            && is("0/contexts/0/operations", "paddr")
            && is("0/contexts/0/monitoring_attrs/intervals/aggr_us", &aggregation_us)
            && is("0/contexts/0/schemes/0/action", "stat")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.taken_by().is_some() && !self.was_switched_off() {
            return;
        }
        // Off is refused where it was never on. What cannot be taken down is found, and named, at the next start.
        let _ = write(&self.host, "0/state", "off");
        let _ = write(&self.host, "nr_kdamonds", "0");
        lease::forget(&self.host);
    }
}

pub(super) fn write(host: &HostRoot, file: &str, value: &str) -> Result<(), DamonError> {
    let path = host.path(format!("{KDAMONDS}/{file}"));
    fs::write(&path, value).map_err(|source| refused(path, value, source))
}

/// EBUSY is what the kernel says while anybody's kdamond runs.
pub(super) fn refused(path: PathBuf, value: &str, source: io::Error) -> DamonError {
    if source.kind() == ErrorKind::ResourceBusy {
        return DamonError::Taken("the kernel says it is busy (EBUSY)".to_owned());
    }
    DamonError::Refused { path, value: value.to_owned(), source }
}
