//! Takes away what drivers that were killed have left.

use crate::Error;
use crate::identity::{Driver, Standing, Whose};
use crate::runtime::Runtime;
use crate::scheduler::clean_groups;
use crate::store::{Outcome, RunStore};
use crosstalk_host::HostRoot;
use crosstalk_resctrl::Resctrl;
use crosstalk_resctrl::pool::{PoolConfig, sweep_abandoned};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// What was taken away, and what could not be.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// Cgroups, groups and containers that were removed, and runs that were finished.
    pub done: Vec<String>,
    /// What is left, and why.
    pub failed: Vec<Error>,
    /// What was left alone, since whether its driver is gone cannot be seen from here.
    pub elsewhere: Vec<String>,
}

impl Cleaned {
    /// What was left alone and why, in a line.
    pub fn let_be(&self) -> Option<String> {
        (!self.elsewhere.is_empty()).then(|| {
            format!(
                "left alone, for its driver is of another machine, boot or PID namespace and may be at it: {}; \
                 crosstalk bench clean --elsewhere removes it",
                self.elsewhere.join(", ")
            )
        })
    }

    /// Nothing could be looked at.
    pub(crate) fn failure(error: Error) -> Self {
        Self { failed: vec![error], ..Self::default() }
    }

    /// Whether what this driver has left is to be taken away; if nobody here can tell, it is noted.
    pub(crate) fn takes(
        &mut self,
        driver: Driver,
        whose: Whose,
        host: &HostRoot,
        what: impl FnOnce() -> String,
    ) -> bool {
        match driver.standing(host) {
            Standing::Lives => false,
            Standing::Gone => true,
            Standing::Elsewhere if whose == Whose::GoneAndElsewhere => true,
            Standing::Elsewhere => {
                self.elsewhere.push(what());
                false
            }
        }
    }

    /// What became of one thing; that it is left is no reason to leave the others.
    pub(crate) fn note(&mut self, what: String, gone: Result<(), Error>) {
        match gone {
            Ok(()) => self.done.push(what),
            Err(error) => self.failed.push(error),
        }
    }
}

/// Removes what is left of drivers that are gone, and finishes the recordings of their runs. An engine, a control group
/// file system and a folder of runs may be shared with drivers that cannot be seen from here; `whose` says what becomes of theirs.
/// An engine that does not answer is not waited for for long, and not at all once `stop` is set.
pub fn clean(
    host: &HostRoot,
    runtimes: &[Box<dyn Runtime>],
    resctrl: Option<&Path>,
    runs: Option<&RunStore>,
    whose: Whose,
    stop: &AtomicBool,
) -> Cleaned {
    let mut cleaned = Cleaned::default();
    let mut take = |more: Cleaned| {
        cleaned.done.extend(more.done);
        cleaned.failed.extend(more.failed);
        cleaned.elsewhere.extend(more.elsewhere);
    };
    runtimes.iter().for_each(|runtime| take(runtime.clean(whose, stop)));
    let mounted = match resctrl {
        Some(root) => Resctrl::open(root),
        None => Resctrl::locate(host),
    };
    // A machine without resctrl has no groups left.
    if let Ok(mounted) = mounted {
        take(clean_groups(&mounted, host, whose));
        take(monitor_groups(&mounted, host));
    }
    if let Some(runs) = runs {
        take(finish_runs(runs, host, whose));
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

fn finish_runs(runs: &RunStore, host: &HostRoot, whose: Whose) -> Cleaned {
    let mut cleaned = Cleaned::default();
    for (dir, mut record) in runs.all() {
        let is_to_be = match record.standing(host) {
            None | Some(Standing::Lives) => false,
            Some(Standing::Gone) => true,
            Some(Standing::Elsewhere) => {
                if whose != Whose::GoneAndElsewhere {
                    cleaned.elsewhere.push(format!("run {}", record.id));
                }
                whose == Whose::GoneAndElsewhere
            }
        };
        if !is_to_be {
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
