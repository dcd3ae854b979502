//! DAMON on physical addresses, through sysfs (Documentation/admin-guide/mm/damon/usage.rst).
//!
//! Its sysfs has room for one user: where anybody has set it up, running or not, it is left as it is.

mod filters;
mod lease;
mod pages;
mod session;
#[cfg(test)]
mod tests;

pub use filters::Filtered;
pub(crate) use filters::MOST as MOST_FILTERED;
pub use pages::PageAges;
pub(crate) use session::PAGES;
pub use session::{DamonError, Region, Session};

use crate::age::ColdBoundary;
use crosstalk_host::{HostRoot, Kernel};
use std::fs::File;
use std::time::Duration;

pub(crate) const KDAMONDS: &str = "/sys/kernel/mm/damon/admin/kdamonds";
/// Looks at a region that are added up to say how often it is used.
const SAMPLES: u64 = 10;
/// How finely memory is divided. Reading a region takes three files.
const REGIONS: (u64, u64) = (300, 1_000);

/// Time after which looks are added up; the unit of ages. A short boundary needs short ones, for [`settling`]
/// takes many; a long one need not pay for them.
pub fn aggregation(boundary: &ColdBoundary) -> Duration {
    (boundary.age / 20).clamp(Duration::from_millis(200), Duration::from_secs(2))
}

/// How long it takes until regions follow what is used; ages begin then. In a guest with 6.12 all idle bytes were found after 30
/// aggregations, but a fifth of them was told too young, for a region that was used in part is as young as that part.
pub fn settling(boundary: &ColdBoundary) -> Duration {
    60 * aggregation(boundary)
}

/// How long it has to watch until its ages reach the boundary.
pub fn watching(boundary: &ColdBoundary) -> Duration {
    boundary.age + settling(boundary)
}

/// Whether DAMON can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The kernel does not have it.
    Absent,
    /// The kernel of this release has it, but does not tell which regions are idle.
    Old(String),
    /// Somebody else has set it up; this says what is known of it.
    Taken(String),
    /// Nobody has.
    Free,
}

/// Takes down what a killed process of ours left running, if that is what runs.
pub fn sweep(host: &HostRoot) {
    lease::sweep(host);
}

/// Looks who has DAMON. It only reads.
pub fn find(host: &HostRoot) -> Found {
    let Some(count) = host.line(format!("{KDAMONDS}/nr_kdamonds")) else { return Found::Absent };
    // Setting it up works from 5.18 on; regions that a scheme was applied to are told since 6.2 (44467bbb7e81).
    if !is_from(host, (6, 2)) {
        return Found::Old(Kernel::read(host).release.unwrap_or_else(|| "unknown".to_owned()));
    }
    let of = |at: u64, file: &str| host.line(format!("{KDAMONDS}/{at}/{file}")).unwrap_or_default();
    let count: u64 = count.parse().unwrap_or(0);
    if count > 0 {
        // The number is a kernel's, or a mangled file's: a few are enough to know.
        let on = (0..count.min(16)).find(|at| of(*at, "state") == "on");
        let action = |at| of(at, "contexts/0/schemes/0/action");
        return Found::Taken(match on {
            Some(at) => format!(
                "kdamond {at} (pid {}) of somebody else is running on {} with action \"{}\"",
                of(at, "pid"),
                of(at, "contexts/0/operations"),
                action(at),
            ),
            None => format!("somebody else has set up {count} kdamonds, none of them running"),
        });
    }
    // These modules run a context of their own, beside which none of sysfs can be started.
    for module in ["damon_reclaim", "damon_lru_sort", "damon_stat"] {
        let enabled = host.line(format!("/sys/module/{module}/parameters/enabled"));
        if enabled.as_deref() == Some("Y") {
            return Found::Taken(format!("the kernel's {module} is running"));
        }
    }
    Found::Free
}

/// Whether pages can be told apart by cgroup and kind.
pub fn can_join(host: &HostRoot) -> bool {
    let opens = |file: &str| File::open(host.path(file)).is_ok();
    opens(pages::CGROUPS) && opens(pages::FLAGS)
}

/// Whether a kernel's filters can tell pages apart by cgroup: those from 6.14 count what passes them.
pub fn can_filter(host: &HostRoot) -> bool {
    is_from(host, (6, 14))
}

fn is_from(host: &HostRoot, version: (u32, u32)) -> bool {
    let release = Kernel::read(host).release.unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= version
}

/// What is said of a kernel before 6.2.
pub(crate) fn old(release: &str) -> String {
    format!("DAMON of kernel {release} does not tell which regions are idle")
}
