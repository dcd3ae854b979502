//! Which processes and threads there are.

use crate::{HostError, HostRoot, page_bytes};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Listings of one process before what was found so far is taken.
const MOST_LISTINGS: usize = 16;

/// The number of every process.
///
/// # Errors
/// The host's `/proc` cannot be listed.
pub fn processes(host: &HostRoot) -> Result<impl Iterator<Item = u32> + use<>, HostError> {
    let path = host.path("/proc");
    numbers(&path).map_err(|source| HostError { path, source })
}

/// Whether there is a process or thread with this number.
#[must_use]
pub fn lives(host: &HostRoot, tid: u32) -> bool {
    host.path(format!("/proc/{tid}")).exists()
}

/// The user a process or thread belongs to; `None` once it is gone.
#[must_use]
pub fn owner(host: &HostRoot, tid: u32) -> Option<u32> {
    fs::metadata(host.path(format!("/proc/{tid}"))).ok().map(|meta| meta.uid())
}

/// This process as the host's `/proc` counts: our own number may be another namespace's.
#[must_use]
pub fn own_pid(host: &HostRoot) -> Option<u32> {
    fs::read_link(host.path("/proc/self")).ok()?.to_str()?.parse().ok()
}

/// Resident memory of a process; cheaper than all of its `stat`, for which the kernel asks every thread.
#[must_use]
pub fn resident_bytes(host: &HostRoot, pid: u32) -> Option<u64> {
    let mut text = [0; 256];
    let mut file = File::open(host.path(format!("/proc/{pid}/statm"))).ok()?;
    let length = file.read(&mut text).ok()?;
    let pages = std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace().nth(1)?;
    pages.parse::<u64>().ok()?.checked_mul(page_bytes())
}

/// The threads of a process, as far as they could be seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadList {
    /// Their numbers; none once the process has exited.
    pub tids: BTreeSet<u32>,
    /// They are as many as the process had.
    pub whole: bool,
}

/// Lists the threads of a process.
///
/// The kernel ends a listing early when the thread it has just shown exits, so under churn most of a process can be
/// missing. The folder has a link for every thread: it is listed again until there are as many.
#[must_use]
pub fn threads_of(host: &HostRoot, pid: u32) -> ThreadList {
    let folder = host.path(format!("/proc/{pid}/task"));
    let mut found = ThreadList::default();
    for _ in 0..MOST_LISTINGS {
        let Ok(listed) = numbers(&folder) else { return ThreadList::default() };
        let before = found.tids.len();
        let mut shown = 0;
        found.tids.extend(listed.inspect(|_| shown += 1));
        let Some(count) = thread_count(&folder) else { return ThreadList::default() };
        // Several listings together may be whole where none is alone, once they bring nothing new.
        let together = before > 0 && found.tids.len() >= count && found.tids.len() == before;
        found.whole = shown >= count || together;
        if found.whole {
            break;
        }
    }
    found
}

/// A folder has two links beside those of what it holds.
fn thread_count(folder: &Path) -> Option<usize> {
    let links = fs::metadata(folder).ok()?.nlink();
    usize::try_from(links.saturating_sub(2)).ok()
}

fn numbers(folder: &Path) -> io::Result<impl Iterator<Item = u32> + use<>> {
    let entries = fs::read_dir(folder)?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn every_thread_of_this_process_is_listed_and_those_of_an_exited_one_are_not() {
        let (host, me) = (HostRoot::default(), std::process::id());
        let running = Barrier::new(4);
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| (running.wait(), running.wait()));
            }
            running.wait();
            let listed = threads_of(&host, me);
            assert!(listed.tids.contains(&me) && listed.tids.len() >= 4, "{listed:?}");
            assert!(listed.whole, "{listed:?}");
            running.wait();
        });
        assert_eq!(threads_of(&host, u32::MAX), ThreadList::default());
    }

    #[test]
    fn this_process_is_among_all_and_has_an_owner_and_memory() {
        let (host, me) = (HostRoot::default(), std::process::id());
        assert!(processes(&host).unwrap().any(|pid| pid == me));
        assert!(lives(&host, me) && !lives(&host, u32::MAX));
        assert_eq!(own_pid(&host), Some(me));
        assert_eq!(owner(&host, me), Some(rustix::process::geteuid().as_raw()));
        assert!(resident_bytes(&host, me).is_some_and(|bytes| bytes >= page_bytes()));
        assert_eq!((owner(&host, u32::MAX), resident_bytes(&host, u32::MAX)), (None, None));
    }

    #[test]
    fn a_host_without_proc_says_where_it_was_looked_for() {
        let elsewhere = tempfile::tempdir().unwrap();
        let error = processes(&HostRoot::new(elsewhere.path())).err().unwrap().to_string();
        assert!(error.contains("/proc: "), "{error}");
    }
}
