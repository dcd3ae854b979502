//! Moving a whole process: every thread, again until no new one appears.

use std::collections::{BTreeSet, HashSet};
use std::fs;

use crosstalk_host::{HostRoot, ProcStat};

use crate::{Error, Group};

/// A process that makes threads faster than they can be moved is given up on until the next update.
const MOST_ROUNDS: usize = 32;

/// Listings in one round before what was found so far is taken.
const MOST_LISTINGS: usize = 16;

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

/// The threads of a process, as far as they could be seen.
#[derive(Debug, Default)]
struct Listed {
    tids: BTreeSet<u32>,
    whole: bool,
}

/// Lists the threads of a process; none once it has exited.
///
/// The kernel ends a listing early when the thread it has just shown exits, so under churn most of a process can be
/// missing. The number of threads in `stat` tells: the list is read again until it has as many.
fn threads_of(host: &HostRoot, pid: u32) -> Listed {
    let directory = host.path(format!("/proc/{pid}/task"));
    let mut listed = Listed::default();
    for _ in 0..MOST_LISTINGS {
        let Ok(entries) = fs::read_dir(&directory) else { return Listed::default() };
        let before = listed.tids.len();
        let numbers = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        let current: Vec<u32> = numbers.collect();
        listed.tids.extend(&current);
        let stat = ProcStat::of_process(host, pid);
        let Some(count) = stat.and_then(|stat| stat.threads()) else { return Listed::default() };
        let count = count as usize;
        // Several listings together may be whole where none is alone, once they bring nothing new.
        listed.whole = current.len() >= count
            || (before > 0 && listed.tids.len() >= count && listed.tids.len() == before);
        if listed.whole {
            break;
        }
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_listed_whole() {
        let listed = threads_of(&HostRoot::default(), std::process::id());
        assert!(listed.tids.contains(&std::process::id()));
    }

    #[test]
    fn an_exited_process_has_no_threads() {
        assert!(threads_of(&HostRoot::default(), u32::MAX).tids.is_empty());
    }
}
