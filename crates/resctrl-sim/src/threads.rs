//! The threads of this machine, seen from `/proc`: who was born, who ran and for how long.
//!
//! `/proc` does not say which thread made another. A new process is taken to come from its parent's main thread; a new
//! thread from its siblings, and where those are in different groups from the youngest, which is the case that a client
//! moving a process thread by thread must cope with. A process whose parent exited before it was first seen falls to the
//! reaper's group: the kernel would have kept it where its parent was.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use crosstalk_host::{
    Forks, HostRoot, ProcStat, RunQueue, Schedstat, SchedstatFile, lives, owner, processes,
    resident_bytes, thread_group, threads_of,
};

use crate::runtime::RunTime;
use crate::task_clock::TaskClock;

/// Files kept open to read run times from; further threads are opened for each read.
const MOST_OPEN_FILES: usize = 384;
/// Threads timed by a clock of their own at once.
const MOST_CLOCKS: usize = 256;
/// Threads that did not run lately and are looked at in one step.
const COLD_POLLS: usize = 32;
/// Steps for which a thread that ran is looked at every time.
const HOT_STEPS: u32 = 200;

/// The group a thread is in, as the simulated kernel numbers them.
pub(crate) type GroupId = u32;

#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) tgid: u32,
    pub(crate) group: GroupId,
    run: RunTime,
    file: Option<SchedstatFile>,
    hot: u32,
}

/// A thread that ran since it was last looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ran {
    pub(crate) tgid: u32,
    pub(crate) group: GroupId,
    pub(crate) cpu: u32,
    pub(crate) cpu_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Threads {
    host: HostRoot,
    known: HashMap<u32, Thread>,
    processes: HashMap<u32, BTreeSet<u32>>,
    births: Births,
    open_files: usize,
    clocks: usize,
    rotation: Vec<u32>,
    /// The kernel waits some 10 ms before the first clock of the machine counts; with this one open no other is first.
    _first_clock: Option<TaskClock>,
}

impl Threads {
    pub(crate) fn new(host: HostRoot) -> Self {
        Self {
            births: Births::new(&host),
            host,
            known: HashMap::new(),
            processes: HashMap::new(),
            open_files: 0,
            clocks: 0,
            rotation: Vec::new(),
            _first_clock: TaskClock::open(std::process::id()).ok(),
        }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Thread> {
        self.known.values_mut()
    }

    pub(crate) fn in_groups(&self, is_member: impl Fn(GroupId) -> bool) -> Vec<u32> {
        let members = self.known.iter().filter(|(_, thread)| is_member(thread.group));
        let mut tids: Vec<u32> = members.map(|(tid, _)| *tid).collect();
        tids.sort_unstable();
        tids
    }

    /// The thread, if it is alive now.
    pub(crate) fn live(&mut self, tid: u32) -> Option<&mut Thread> {
        if !lives(&self.host, tid) {
            self.forget(tid);
            return None;
        }
        if !self.known.contains_key(&tid) {
            self.scan();
        }
        if !self.known.contains_key(&tid) {
            self.insert_one(tid);
        }
        self.known.get_mut(&tid)
    }

    pub(crate) fn owner(&self, tid: u32) -> Option<u32> {
        owner(&self.host, tid)
    }

    /// Looks for new threads, unless the kernel's count of forks says there are none.
    pub(crate) fn scan_if_forked(&mut self) {
        if self.births.happened() {
            self.scan();
        }
    }

    /// Finds every thread; new ones get the group of whoever made them.
    pub(crate) fn scan(&mut self) {
        self.merge(list(&self.host));
    }

    /// Takes over a listing, which may have been made a moment ago.
    pub(crate) fn merge(&mut self, listing: Listing) {
        let mut seen = BTreeSet::new();
        for (pid, tids) in listing {
            for tid in tids {
                seen.insert(tid);
                if self.known.get(&tid).is_none_or(|thread| thread.tgid != pid) {
                    let group = self.inherited(pid);
                    self.insert(tid, pid, group);
                }
            }
        }
        // A listing ends early when the thread it has just shown exits: not listed is not gone.
        let unseen = self.known.keys().filter(|tid| !seen.contains(tid)).copied();
        let gone: Vec<u32> = unseen.filter(|tid| !lives(&self.host, *tid)).collect();
        for tid in gone {
            self.forget(tid);
        }
    }

    /// A thread that no listing showed.
    fn insert_one(&mut self, tid: u32) {
        if let Some(tgid) = thread_group(&self.host, tid) {
            let group = self.inherited(tgid);
            self.insert(tid, tgid, group);
        }
    }

    fn inherited(&self, tgid: u32) -> GroupId {
        let youngest = self.processes.get(&tgid).and_then(|tids| tids.last());
        let maker = youngest.copied().or_else(|| self.parent(tgid));
        maker.and_then(|tid| self.known.get(&tid)).map_or(0, |thread| thread.group)
    }

    fn parent(&self, pid: u32) -> Option<u32> {
        ProcStat::of_process(&self.host, pid)?.parent()
    }

    fn insert(&mut self, tid: u32, tgid: u32, group: GroupId) {
        self.forget(tid);
        let thread = Thread { tgid, group, run: RunTime::default(), file: None, hot: HOT_STEPS };
        self.known.insert(tid, thread);
        self.processes.entry(tgid).or_default().insert(tid);
        self.rotation.push(tid);
    }

    fn forget(&mut self, tid: u32) {
        let Some(thread) = self.known.remove(&tid) else { return };
        self.open_files -= usize::from(thread.file.is_some());
        self.clocks -= usize::from(thread.run.has_clock());
        if let Some(tids) = self.processes.get_mut(&thread.tgid) {
            tids.remove(&tid);
            if tids.is_empty() {
                self.processes.remove(&thread.tgid);
            }
        }
    }

    /// Who ran since the last look. Threads that ran lately are looked at every time, the others in turn.
    pub(crate) fn ran(&mut self) -> Vec<Ran> {
        self.rotation.retain(|tid| self.known.contains_key(tid));
        let turn = self.rotation.len().min(COLD_POLLS);
        let hot = self.known.iter().filter(|(_, thread)| thread.hot > 0).map(|(tid, _)| *tid);
        let mut due: BTreeSet<u32> = hot.collect();
        due.extend(&self.rotation[..turn]);
        self.rotation.rotate_left(turn);
        due.into_iter().filter_map(|tid| self.look(tid)).collect()
    }

    fn look(&mut self, tid: u32) -> Option<Ran> {
        let thread = self.known.get_mut(&tid)?;
        thread.hot = thread.hot.saturating_sub(1);
        let tgid = thread.tgid;
        let (had_clock, by_clock) = (thread.run.has_clock(), thread.run.by_clock());
        self.clocks -= usize::from(had_clock && !thread.run.has_clock());
        let cpu_ns = match by_clock {
            Some(ran) => ran,
            None => match schedstat(&self.host, tid, thread, &mut self.open_files) {
                Ok(schedstat) => {
                    let (ran_ns, ran) = thread.run.by_schedstat(schedstat?);
                    if ran && self.clocks < MOST_CLOCKS {
                        // Not allowed, or no file left: schedstat goes on, late by up to a tick.
                        if let Ok(clock) = TaskClock::open(tid) {
                            thread.run.watch(clock);
                            self.clocks += 1;
                        }
                    }
                    ran_ns
                }
                Err(error) if has_exited(&error) => {
                    self.forget(tid);
                    return None;
                }
                // Any other error, such as too many open files, says nothing about the thread.
                Err(_) => return None,
            },
        };
        if cpu_ns == 0 {
            return None;
        }
        thread.hot = HOT_STEPS;
        let cpu = ProcStat::of_thread(&self.host, tgid, tid)?.core()?;
        Some(Ran { tgid, group: thread.group, cpu, cpu_ns })
    }

    /// Resident bytes of a process: the most it can have in a cache.
    pub(crate) fn resident_bytes(&self, tgid: u32) -> u64 {
        resident_bytes(&self.host, tgid).unwrap_or(0)
    }
}

/// The threads of every process. Parents mostly have lower numbers: known before their children ask.
pub(crate) type Listing = BTreeMap<u32, BTreeSet<u32>>;

/// Lists every thread there is. This takes many times as long as a step, so the file system must not wait for it.
pub(crate) fn list(host: &HostRoot) -> Listing {
    let all = processes(host).into_iter().flatten();
    all.map(|pid| (pid, threads_of(host, pid).tids)).collect()
}

/// Whether threads were born since it was last asked.
#[derive(Debug)]
pub(crate) struct Births {
    queue: Option<RunQueue>,
    last: Option<Forks>,
}

impl Births {
    pub(crate) fn new(host: &HostRoot) -> Self {
        Self { queue: RunQueue::open(host).ok(), last: None }
    }

    /// Also where the kernel does not say: then they have to be looked for.
    pub(crate) fn happened(&mut self) -> bool {
        let forks = self.queue.as_ref().and_then(|queue| queue.forks().ok());
        let before = std::mem::replace(&mut self.last, forks);
        forks.is_none() || forks != before
    }
}

/// Run time and number of runs from `schedstat`; `None` where it does not hold numbers.
fn schedstat(
    host: &HostRoot,
    tid: u32,
    thread: &mut Thread,
    open_files: &mut usize,
) -> io::Result<Option<Schedstat>> {
    if let Some(file) = &thread.file {
        return file.read();
    }
    let file = SchedstatFile::open(host, thread.tgid, tid)?;
    let read = file.read()?;
    if *open_files < MOST_OPEN_FILES {
        *open_files += 1;
        thread.file = Some(file);
    }
    Ok(read)
}

fn has_exited(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_its_children_are_seen() {
        let mut threads = Threads::new(HostRoot::default());
        threads.scan();
        let me = std::process::id();
        threads.live(me).unwrap().group = 7;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        threads.scan_if_forked();
        assert_eq!(threads.live(child.id()).map(|thread| thread.group), Some(7));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(threads.live(child.id()).is_none());
    }
}
