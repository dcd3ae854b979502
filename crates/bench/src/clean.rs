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

impl Cleaned {
    /// Nothing could be looked at.
    pub(crate) fn failure(error: Error) -> Self {
        Self { done: Vec::new(), failed: vec![error] }
    }

    /// What became of one thing; that it is left is no reason to leave the others.
    pub(crate) fn note(&mut self, what: String, gone: Result<(), Error>) {
        match gone {
            Ok(()) => self.done.push(what),
            Err(error) => self.failed.push(error),
        }
    }
}

/// Removes what is left of drivers that are gone, and finishes the recordings of their runs.
pub fn clean(
    host: &HostRoot,
    runtimes: &[Box<dyn Runtime>],
    resctrl: Option<&Path>,
    runs: Option<&RunStore>,
) -> Cleaned {
    let mut cleaned = Cleaned::default();
    let mut take = |more: Cleaned| {
        cleaned.done.extend(more.done);
        cleaned.failed.extend(more.failed);
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
fn monitor_groups(mounted: &Resctrl, host: &HostRoot) -> Cleaned {
    let config = PoolConfig { host: host.clone(), ..PoolConfig::default() };
    let mut cleaned = Cleaned::default();
    match sweep_abandoned(mounted, &config) {
        Ok(0) => {}
        Ok(count) => cleaned.done.push(format!("resctrl monitor groups: {count}")),
        Err(error) => cleaned.failed.push(error.into()),
    }
    cleaned
}

fn finish_runs(runs: &RunStore, host: &HostRoot) -> Cleaned {
    let mut cleaned = Cleaned::default();
    for (dir, mut record) in runs.all() {
        if record.outcome.is_some() || record.goes_on(host) {
            continue;
        }
        crosstalk_recording::recover(&dir.data());
        record.outcome = Some(Outcome::Killed);
        cleaned.note(format!("run {}", record.id), dir.write(&record));
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_that_cannot_be_removed_leaves_the_others_to_be() {
        let mut cleaned = Cleaned::default();
        for what in ["a", "b", "c"] {
            let reason = "busy".to_owned();
            let refused = Error::Container { container: what.to_owned(), reason };
            cleaned.note(what.to_owned(), if what == "b" { Err(refused) } else { Ok(()) });
        }
        assert_eq!((cleaned.done, cleaned.failed.len()), (vec!["a".to_owned(), "c".to_owned()], 1));
    }
}
