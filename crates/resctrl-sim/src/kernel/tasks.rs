//! The `tasks` file: threads by number, one or several.

use fuser::Errno;

use super::{Kernel, Kind};
use crate::threads::GroupId;

/// Who writes: a number 0 means the writer, and only root may move threads of others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
}

impl Kernel {
    pub(crate) fn write_tasks(
        &mut self,
        id: GroupId,
        text: &str,
        caller: Caller,
    ) -> Result<(), Errno> {
        self.status.clear();
        self.group(id)?;
        // Threads made before this write belong where their maker was.
        self.threads.scan_if_forked();
        for part in text.split('\n').next().unwrap_or("").split(',') {
            let word = part.trim();
            let Ok(tid) = word.parse::<i32>() else {
                return self.refuse(Errno::EINVAL, format!("Task list parsing error pid {word}"));
            };
            let Ok(tid) = u32::try_from(tid) else {
                return self.refuse(Errno::EINVAL, format!("Invalid pid {tid}"));
            };
            if let Err(errno) = self.move_task(id, tid, caller) {
                return self.refuse(errno, format!("Error while processing task {tid}"));
            }
        }
        Ok(())
    }

    fn move_task(&mut self, id: GroupId, tid: u32, caller: Caller) -> Result<(), Errno> {
        let target = self.group(id)?;
        let control = if target.kind == Kind::Monitor { Some(target.parent) } else { None };
        let tid = if tid == 0 { caller.pid } else { tid };
        let Some(thread) = self.threads.live(tid) else {
            return self.refuse(Errno::ESRCH, format!("No task {tid}"));
        };
        let now_in = thread.group;
        if caller.uid != 0 && self.threads.owner(tid) != Some(caller.uid) {
            return self.refuse(Errno::EPERM, format!("No permission to move task {tid}"));
        }
        if control.is_some_and(|control| self.control_of(now_in) != control) {
            return self.refuse(Errno::EINVAL, "Can't move task to different control group");
        }
        if let Some(thread) = self.threads.live(tid) {
            thread.group = id;
        }
        Ok(())
    }

    /// The control group a group belongs to.
    fn control_of(&self, id: GroupId) -> GroupId {
        match self.groups.get(&id) {
            Some(group) if group.kind == Kind::Monitor => group.parent,
            _ => id,
        }
    }

    /// A control group lists the threads of its monitor groups too.
    pub(crate) fn show_tasks(&mut self, id: GroupId) -> Result<String, Errno> {
        self.group(id)?;
        self.threads.scan_if_forked();
        let is_monitor = self.group(id)?.kind == Kind::Monitor;
        let is_member = |group| if is_monitor { group == id } else { self.control_of(group) == id };
        let tids = self.threads.in_groups(is_member);
        Ok(tids.iter().map(|tid| format!("{tid}\n")).collect())
    }
}
