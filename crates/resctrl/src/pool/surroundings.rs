//! Where the threads of the machine are before the pool acts.

use std::collections::HashMap;

use crosstalk_host::{HostRoot, thread_group};

use super::instance::is_ours;
use crate::{Error, Group, Resctrl};

/// What others have arranged, and the pool leaves as it is.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    /// The root and every control group.
    pub(super) control_groups: Vec<Group>,
    /// Control group by thread; threads of the root are not in it.
    controls: HashMap<u32, String>,
    /// Processes with a thread in a monitor group of another tool, and its name.
    pub(super) foreign: HashMap<u32, String>,
}

impl Surroundings {
    pub(super) fn look(resctrl: &Resctrl, prefix: &str, host: &HostRoot) -> Result<Self, Error> {
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
                    let tasks = unless_gone(&group, Group::tasks)?;
                    foreign.extend(tasks.into_iter().map(|tid| (tid, group.name())));
                }
            }
        }
        let process_of = |(tid, group)| Some((thread_group(host, tid)?, group));
        around.foreign.extend(foreign.into_iter().filter_map(process_of));
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
