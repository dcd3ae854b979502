//! Takes away what drivers that were killed have left.

use crate::Error;
use crate::runtime::Runtime;
use crate::scheduler::clean_groups;
use crate::store::{Outcome, RunStore};
use crosstalk_host::HostRoot;
use crosstalk_resctrl::Resctrl;
use crosstalk_resctrl::pool::{PoolConfig, sweep_abandoned};
use std::path::Path;

/// What was taken away, and what could not be.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// Cgroups, groups and containers that were removed, and runs that were finished.
    pub done: Vec<String>,
    /// What is left, and why.
    pub failed: Vec<Error>,
}

/// Removes what is left of drivers that are gone, and finishes the recordings of their runs.
pub fn clean(
    host: &HostRoot,
    runtimes: &[Box<dyn Runtime>],
    resctrl: Option<&Path>,
    runs: Option<&RunStore>,
) -> Cleaned {
    let mut cleaned = Cleaned::default();
    let mut take = |result: Result<Vec<String>, Error>| match result {
        Ok(names) => cleaned.done.extend(names),
        Err(error) => cleaned.failed.push(error),
    };
    runtimes.iter().for_each(|runtime| take(runtime.clean()));
    let mounted = match resctrl {
        Some(root) => Resctrl::open(root),
        None => Resctrl::locate(host),
    };
    // A machine without resctrl has no groups left.
    if let Ok(mounted) = mounted {
        take(clean_groups(&mounted, host));
        take(monitor_groups(&mounted, host));
    }
    if let Some(runs) = runs {
        take(finish_runs(runs, host));
    }
    cleaned
}

/// What the cache was read with has no driver in its name; a lock says whether its maker lives.
fn monitor_groups(mounted: &Resctrl, host: &HostRoot) -> Result<Vec<String>, Error> {
    let config = PoolConfig { host: host.clone(), ..PoolConfig::default() };
    Ok(match sweep_abandoned(mounted, &config)? {
        0 => Vec::new(),
        count => vec![format!("resctrl monitor groups: {count}")],
    })
}

fn finish_runs(runs: &RunStore, host: &HostRoot) -> Result<Vec<String>, Error> {
    let mut finished = Vec::new();
    for (dir, mut record) in runs.all() {
        if record.outcome.is_some() || record.goes_on(host) {
            continue;
        }
        crosstalk_recording::recover(&dir.data());
        record.outcome = Some(Outcome::Killed);
        dir.write(&record)?;
        finished.push(format!("run {}", record.id));
    }
    Ok(finished)
}
