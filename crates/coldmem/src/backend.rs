//! Which back ends there are on this machine, and what each can and cannot see.

use crate::age::ColdBoundary;
use crate::damon::{self, Found};
use crate::kidled::file as kidled;
use crate::mglru;
use crosstalk_host::{
    Capability, CgroupHierarchy, HostRoot, MemoryFiles, Verdict, charges_memory, walk_cgroups,
};
use serde::Serialize;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::str::FromStr;

/// What tells how long memory has been idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The scanner of Alibaba's and Anolis' kernels.
    Kidled,
    /// The kernel's access monitor, on physical addresses.
    Damon,
    /// Generations of the kernel's multi-generational lists.
    Mglru,
    /// No ages: what at most can be cold.
    Bounds,
}

/// A word that names no back end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no back end; write kidled, damon, mglru or bounds")]
pub struct UnknownBackend(pub String);

impl Backend {
    /// All of them, the best first.
    pub const ALL: [Self; 4] = [Self::Kidled, Self::Damon, Self::Mglru, Self::Bounds];

    /// The word in columns, labels and settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kidled => "kidled",
            Self::Damon => "damon",
            Self::Mglru => "mglru",
            Self::Bounds => "bounds",
        }
    }

    /// Whether it knows active from inactive and locked memory, as kidled's rows do; others know only kinds.
    pub const fn tells_rows_apart(self) -> bool {
        matches!(self, Self::Kidled | Self::Bounds)
    }

    /// The name of its row among the machine's capabilities.
    const fn capability(self) -> &'static str {
        match self {
            Self::Kidled => "cold memory, kidled",
            Self::Damon => "cold memory, DAMON",
            Self::Mglru => "cold memory, MGLRU",
            Self::Bounds => "cold memory, bounds",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Backend {
    type Err = UnknownBackend;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|backend| backend.name() == text);
        found.ok_or_else(|| UnknownBackend(text.to_owned()))
    }
}

/// Whether ages reach as far back as the boundary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum WarmUp {
    /// They do, or there is nothing to wait for.
    #[default]
    Ready,
    /// It has not watched for long enough.
    Warming {
        /// So far.
        watched_s: u64,
        /// For the boundary.
        needed_s: u64,
    },
    /// It watches only once it is started.
    NotStarted,
    /// It will never tell of anything so old.
    OutOfReach {
        /// The greatest age it tells.
        reaches_s: u64,
        /// For the boundary.
        needed_s: u64,
    },
}

impl WarmUp {
    pub(crate) fn after(watched_s: u64, boundary: &ColdBoundary) -> Self {
        Self::of_seconds(watched_s, boundary.age.as_secs())
    }

    pub(crate) fn of_seconds(watched_s: u64, needed_s: u64) -> Self {
        if watched_s >= needed_s { Self::Ready } else { Self::Warming { watched_s, needed_s } }
    }

    /// The one of two that has further to go: a sum reaches as far back as the least of its parts.
    #[must_use]
    pub(crate) fn worse(self, other: Self) -> Self {
        let rank = |warm_up| match warm_up {
            Self::Ready => (0, 0),
            Self::Warming { watched_s, needed_s } => (1, needed_s.saturating_sub(watched_s)),
            Self::NotStarted => (2, 0),
            Self::OutOfReach { .. } => (3, 0),
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

impl fmt::Display for WarmUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Warming { watched_s, needed_s } => {
                write!(f, "warming up: has watched {watched_s} s of {needed_s} s")
            }
            Self::NotStarted => f.write_str("not started"),
            Self::OutOfReach { reaches_s, needed_s } => {
                write!(f, "never: ages are told up to {reaches_s} s, not {needed_s} s")
            }
        }
    }
}

/// How a back end stands here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probed {
    /// Which.
    pub backend: Backend,
    /// Whether it works, and what would help.
    #[serde(flatten)]
    pub capability: Capability,
    /// How finely it tells ages apart.
    pub resolution: String,
    /// What it costs.
    pub overhead: &'static str,
    /// Whether its ages reach back far enough.
    pub warm_up: WarmUp,
}

/// Looks for every back end. It only reads.
pub fn probe(host: &HostRoot, boundary: &ColdBoundary) -> [Probed; 4] {
    let hierarchy = CgroupHierarchy::find(host);
    [
        probe_kidled(host, hierarchy.as_ref(), boundary),
        probe_damon(host, hierarchy.as_ref(), boundary),
        probe_mglru(host, boundary),
        probe_bounds(host, hierarchy.as_ref()),
    ]
}

fn probe_kidled(
    host: &HostRoot,
    hierarchy: Option<&CgroupHierarchy>,
    boundary: &ColdBoundary,
) -> Probed {
    let name = Backend::Kidled.capability();
    let mut resolution = "the kernel's buckets, in scan periods".to_owned();
    let mut warm_up = WarmUp::NotStarted;
    let read = hierarchy.and_then(|h| kidled::read_any(&host.path(&h.mount)));
    let period = host.line("/sys/kernel/mm/kidled/scan_period_in_seconds");
    let start = "echo 120 > /sys/kernel/mm/kidled/scan_period_in_seconds";
    let capability = match (read, period.as_deref()) {
        (Some(Err(error)), _) => Capability::new(name, Verdict::Failing, error.to_string())
            .fix("report the file: this version of kidled is not known"),
        (Some(Ok(_)), Some("0")) => {
            Capability::new(name, Verdict::Absent, "kidled is there and switched off").fix(start)
        }
        (Some(Ok(idle)), _) if idle.info.buckets.is_empty() => {
            Capability::new(name, Verdict::Absent, "kidled has no valid bucket")
                .fix("give kidled its buckets, as the kernel documents it")
        }
        (Some(Ok(idle)), _) => {
            let info = &idle.info;
            let seconds = info.scan_period_in_seconds;
            resolution = format!("scan periods of {seconds} s in {} buckets", info.buckets.len());
            warm_up = info.warm_up(boundary);
            let found = format!("{}: {} scans", idle.name, info.page_scans);
            match warm_up {
                WarmUp::OutOfReach { reaches_s, .. } => {
                    let found = format!("{found}; {warm_up}");
                    let fix = format!("choose an age of up to {reaches_s} s, or later buckets");
                    Capability::new(name, Verdict::Limited, found).fix(fix)
                }
                _ => Capability::new(name, Verdict::Ok, found),
            }
        }
        (None, Some(_)) => Capability::new(name, Verdict::Absent, "no cgroup has kidled's file")
            .fix("mount the memory cgroup hierarchy"),
        (None, None) => Capability::new(name, Verdict::Absent, "the kernel has no kidled")
            .fix("an Anolis or Alibaba Cloud Linux kernel with CONFIG_KIDLED"),
    };
    let overhead = "one file a cgroup; kidled itself scans all pages once a period";
    Probed { backend: Backend::Kidled, capability, resolution, overhead, warm_up }
}

fn probe_damon(
    host: &HostRoot,
    hierarchy: Option<&CgroupHierarchy>,
    boundary: &ColdBoundary,
) -> Probed {
    let name = Backend::Damon.capability();
    let capability = match damon::find(host) {
        Found::Absent => Capability::new(name, Verdict::Absent, "the kernel has no DAMON in sysfs")
            .fix(DAMON_KERNEL),
        Found::Old(release) => {
            Capability::new(name, Verdict::Absent, damon::old(&release)).fix(DAMON_KERNEL)
        }
        Found::Taken(whose) => Capability::new(name, Verdict::Absent, whose)
            .fix("it is left alone; DAMON serves one user of its sysfs at a time"),
        Found::Free if damon::can_join(host) => {
            let found = "free; used when chosen, and by `coldmem show` where nothing else tells";
            Capability::new(name, Verdict::Ok, found)
        }
        Found::Free => without_pages(name, host, hierarchy),
    };
    Probed {
        backend: Backend::Damon,
        capability,
        resolution: format!("aggregations of {:?}", damon::aggregation(boundary)),
        overhead: match damon::can_join(host) || !damon::can_filter(host) {
            true => {
                "a kernel thread, in an emulated guest about 1 % of a core for an age of 5 min and 10 % for one of 8 s; \
                 and 16 bytes read for each idle page"
            }
            false => {
                "a kernel thread, in an emulated guest about 1 % of a core for an age of 5 min and 10 % for one of 8 s; \
                 and in each look two walks over all idle pages for each cgroup"
            }
        },
        warm_up: WarmUp::NotStarted,
    }
}

/// The kernel that DAMON is used on.
const DAMON_KERNEL: &str = "a kernel from 6.2 with CONFIG_DAMON_PADDR and CONFIG_DAMON_SYSFS";

/// DAMON where it is not told which cgroup a page belongs to.
fn without_pages(
    name: &'static str,
    host: &HostRoot,
    hierarchy: Option<&CgroupHierarchy>,
) -> Capability {
    let missing = "/proc/kpagecgroup or kpageflags cannot be read";
    if !damon::can_filter(host) {
        let found = format!("whose pages are idle is not known: {missing}");
        return Capability::new(name, Verdict::Absent, found).fix(damon::PAGES);
    }
    let mut charged = 0;
    if let Some(root) = hierarchy.map(|hierarchy| host.path(&hierarchy.mount)) {
        walk_cgroups(&root, |inside| {
            charged += usize::from(charges_memory(&root.join(inside)));
            charged <= damon::MOST_FILTERED
        });
    }
    let most = damon::MOST_FILTERED;
    if charged > most {
        let found = format!("more than the {most} cgroups that filters are asked of; {missing}");
        return Capability::new(name, Verdict::Absent, found).fix(damon::PAGES);
    }
    let found = format!("free, by filters of up to {most} cgroups; {missing}");
    Capability::new(name, Verdict::Limited, found).fix(damon::PAGES)
}

fn probe_mglru(host: &HostRoot, boundary: &ColdBoundary) -> Probed {
    let name = Backend::Mglru.capability();
    let file = host.path(mglru::FILE);
    let mut warm_up = WarmUp::NotStarted;
    let capability = match (fs::read_to_string(&file), mglru::state(host)) {
        (_, None) => Capability::new(name, Verdict::Absent, "the kernel has no MGLRU")
            .fix("a kernel from 6.1 with CONFIG_LRU_GEN"),
        (_, Some(false)) => {
            Capability::new(name, Verdict::Absent, "MGLRU is there and switched off")
                .fix("echo y > /sys/kernel/mm/lru_gen/enabled")
        }
        (Err(error), _) => {
            let fix = match error.kind() {
                ErrorKind::NotFound => "mount -t debugfs none /sys/kernel/debug",
                _ => "run as root, on a kernel whose lockdown allows debugfs",
            };
            let found = format!("{}: {error}", file.display());
            Capability::new(name, Verdict::Absent, found).fix(fix)
        }
        (Ok(text), _) => match mglru::parse(&text) {
            Err(error) => Capability::new(name, Verdict::Failing, error.to_string()),
            Ok(all) => {
                let lists = all.iter().map(|list| list.warm_up(boundary));
                let ready = lists.clone().filter(|list| *list == WarmUp::Ready).count();
                warm_up = lists.fold(WarmUp::Ready, WarmUp::worse);
                // Root may write wherever it may read; asking costs nothing and changes nothing.
                let ageing = fs::OpenOptions::new().write(true).open(&file).is_ok();
                let may = if ageing { "may" } else { "may not" };
                let found = format!(
                    "{} lists, {ready} of them reach back {} s; ageing {may} be asked for; tells only of page cache that is mapped",
                    all.len(),
                    boundary.age.as_secs(),
                );
                let verdict = if ageing { Verdict::Ok } else { Verdict::Limited };
                Capability::new(name, verdict, found)
            }
        },
    };
    Probed {
        backend: Backend::Mglru,
        capability,
        resolution: "at most four generations; without ageing they move only under pressure"
            .to_owned(),
        overhead: "one file; ageing walks the page tables of the cgroup",
        warm_up,
    }
}

fn probe_bounds(host: &HostRoot, hierarchy: Option<&CgroupHierarchy>) -> Probed {
    let name = Backend::Bounds.capability();
    let root = hierarchy.map(|hierarchy| host.path(&hierarchy.mount));
    let capability = match root {
        Some(root) if matches!(MemoryFiles::default().stat(&root), Ok(Some(_))) => {
            let found = "memory.stat of every cgroup: at most, not how much";
            Capability::new(name, Verdict::Limited, found)
                .fix("kidled, DAMON or MGLRU would tell ages")
        }
        Some(root) => {
            let found = format!("memory.stat in {} cannot be read", root.display());
            Capability::new(name, Verdict::Absent, found).fix("boot with cgroup_enable=memory")
        }
        None => Capability::new(name, Verdict::Absent, "no cgroup file system is mounted")
            .fix("mount -t cgroup2 none /sys/fs/cgroup"),
    };
    Probed {
        backend: Backend::Bounds,
        capability,
        resolution: "none: inactive and active lists, not ages".to_owned(),
        overhead: "one file a cgroup",
        warm_up: WarmUp::Ready,
    }
}
