//! Moving a whole process: every thread, again until no new one appears.

use std::collections::HashSet;

use crosstalk_host::{HostRoot, threads_of};

use crate::{Error, Group};

/// A process that makes threads faster than they can be moved is given up on until the next update.
const MOST_ROUNDS: usize = 32;

/// What moving a process came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Threads moved.
    pub threads: usize,
    /// No thread was outside the group at the last look.
    pub complete: bool,
    /// The process has exited.
    pub exited: bool,
}

/// Moves every thread of `pid` into `group`.
///
/// A thread born of one that was not moved yet is in the old group, so the list is read again until everyone in it is
/// also in the group's `tasks`.
///
/// # Errors
/// The kernel refuses for another reason than an exited thread.
pub fn move_process(group: &Group, host: &HostRoot, pid: u32) -> Result<Moved, Error> {
    let mut inside = group.tasks()?.into_iter().collect();
    settle(group, host, pid, |_| true, &mut inside)
}

/// As [`move_process`] for the threads that belong here, knowing who was inside a moment ago; those found inside are
/// added.
pub(crate) fn settle(
    group: &Group,
    host: &HostRoot,
    pid: u32,
    belongs: impl Fn(u32) -> bool,
    inside: &mut HashSet<u32>,
) -> Result<Moved, Error> {
    let mut moved = Moved::default();
    for round in 0..MOST_ROUNDS {
        let listed = threads_of(host, pid);
        if listed.tids.is_empty() {
            moved.exited = true;
            break;
        }
        // Nobody is taken out: one once seen inside and no longer there has exited, and what it made is inside.
        if round > 0 {
            inside.extend(group.tasks()?);
        }
        // The newest first: one that was just made may be about to make the next.
        let newest_first = listed.tids.iter().rev();
        let outside: Vec<u32> =
            newest_first.copied().filter(|tid| !inside.contains(tid) && belongs(*tid)).collect();
        if outside.is_empty() && listed.whole {
            moved.complete = true;
            break;
        }
        moved.threads += group.move_tasks(&outside)?;
    }
    Ok(moved)
}
