//! Where the threads of the machine are before the pool acts.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use super::instance::is_ours;
use crate::{Error, Group, Resctrl};

/// What others have arranged, and the pool leaves as it is.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    /// The root and every control group.
    pub(super) control_groups: Vec<Group>,
    /// Control group by thread; threads of the root are not in it.
    controls: HashMap<u32, String>,
    /// Processes with a thread in a monitor group of another tool.
    pub(super) foreign: HashSet<u32>,
}

impl Surroundings {
    pub(super) fn look(resctrl: &Resctrl, prefix: &str, proc: &Path) -> Result<Self, Error> {
        let mut around = Self { control_groups: resctrl.control_groups()?, ..Self::default() };
        let mut foreign = Vec::new();
        for control in &around.control_groups {
            let name = control.name();
            if !name.is_empty() {
                let tasks = unless_gone(control, Group::tasks)?;
                around.controls.extend(tasks.into_iter().map(|tid| (tid, name.clone())));
            }
            for group in unless_gone(control, Group::monitor_groups)? {
                if !is_ours(&group.name(), prefix) {
                    foreign.extend(unless_gone(&group, Group::tasks)?);
                }
            }
        }
        around.foreign.extend(foreign.into_iter().filter_map(|tid| process_of(proc, tid)));
        Ok(around)
    }

    /// The control group a thread is in; the empty name is the root.
    pub(super) fn control_of(&self, tid: u32) -> &str {
        self.controls.get(&tid).map_or("", String::as_str)
    }
}

/// What a group says; nothing where another tool has just removed it.
fn unless_gone<T: Default>(
    group: &Group,
    ask: impl FnOnce(&Group) -> Result<T, Error>,
) -> Result<T, Error> {
    match ask(group) {
        // A root that is gone is a mount that is gone. Others may even have been made again by now.
        Err(error) if error.is_gone() && group.parent().is_some() => Ok(T::default()),
        other => other,
    }
}

/// `Tgid` of `/proc/TID/status`; none once the thread has exited.
fn process_of(proc: &Path, tid: u32) -> Option<u32> {
    let status = fs::read_to_string(proc.join(format!("{tid}/status"))).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_belongs_to_the_process_that_its_status_names() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("8")).unwrap();
        fs::write(proc.path().join("8/status"), "Name:\tTgid: 9\nTgid:\t7\nPid:\t8\n").unwrap();
        assert_eq!(process_of(proc.path(), 8), Some(7));
        assert_eq!(process_of(proc.path(), 9), None);
    }
}
