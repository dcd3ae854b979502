//! Cgroups that are made, limited, read and removed: v1, v2 and hybrid hosts alike.

mod hierarchy;
mod io_limits;
mod memory;
mod usage;

pub use io_limits::{Disk, IoLimits, disks};
pub use memory::{MemoryFiles, MemoryStat, charges_memory, swap_left};
pub(crate) use usage::value_of;
pub use usage::{GroupUsage, UsageFiles};

use crate::{CgroupHierarchy, CpuSet, HostRoot, walk_cgroups};
use hierarchy::{Hierarchy, hierarchies};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// How often a quota is filled again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QuotaPeriod {
    /// The kernel's own default, a tenth of a second.
    Usual,
    /// The longest the kernel takes, a second: few long bursts in place of many short ones. Each burst costs the
    /// neighbours on that core what they had in its caches, so few of them cost less.
    Longest,
}

impl QuotaPeriod {
    fn micros(self) -> u64 {
        match self {
            Self::Usual => 100_000,
            Self::Longest => 1_000_000,
        }
    }
}

/// The kernel takes no quota below a millisecond.
const LEAST_QUOTA_US: f64 = 1_000.0;
/// A cgroup is busy for a moment after its last process.
const LONGEST_REMOVAL: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(2);

/// Why a cgroup could not be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum ControlGroupError {
    /// There is nothing to make it in.
    #[error("no cgroup file system is mounted; mount -t cgroup2 none /sys/fs/cgroup")]
    NoHierarchy,
    /// The machine lacks the controller.
    #[error("no cgroup controller {0} on this machine")]
    NoController(&'static str),
    /// A file or folder refuses.
    #[error("{}: {source}{}", path.display(), way_out(source))]
    Refused {
        /// Which.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
}

fn way_out(source: &io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::PermissionDenied => "; run as root",
        ErrorKind::ReadOnlyFilesystem => "; cgroups must be mounted for writing",
        _ => "",
    }
}

fn refused(path: &Path) -> impl FnOnce(io::Error) -> ControlGroupError + '_ {
    move |source| ControlGroupError::Refused { path: path.to_owned(), source }
}

fn write(path: &Path, text: &str) -> Result<(), ControlGroupError> {
    fs::write(path, text).map_err(refused(path))
}

/// One cgroup: a folder of the same name in every hierarchy that limits or counts something.
#[derive(Clone, Debug)]
pub struct ControlGroup {
    folders: Vec<Folder>,
    /// The folder whose inode is the group's id in the data sets.
    named: Option<PathBuf>,
}

#[derive(Clone, Debug)]
struct Folder {
    path: PathBuf,
    controllers: Vec<String>,
    unified: bool,
}

impl ControlGroup {
    /// Makes a group of this name below the root of every hierarchy.
    ///
    /// # Errors
    /// No hierarchy is mounted, or one refuses: what was made so far is removed.
    pub fn create(host: &HostRoot, name: &str) -> Result<Self, ControlGroupError> {
        let all = hierarchies(host);
        if all.is_empty() {
            return Err(ControlGroupError::NoHierarchy);
        }
        let group = Self::at(host, &all, |_| Some(name.to_owned()));
        for (folder, hierarchy) in group.folders.iter().zip(&all) {
            if let Err(error) = hierarchy.make(&folder.path) {
                let _ = group.remove();
                return Err(error);
            }
        }
        Ok(group)
    }

    /// The group a process is in; `None` when there is no such process, or it is in none of its own.
    pub fn of_process(host: &HostRoot, pid: u32) -> Option<Self> {
        let text = host.line(format!("/proc/{pid}/cgroup"))?;
        let path_in = |hierarchy: &Hierarchy| {
            text.lines().find_map(|line| {
                let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
                let ours = match controllers {
                    "" => hierarchy.unified,
                    some => some.split(',').any(|c| hierarchy.controllers.iter().any(|h| h == c)),
                };
                let inside = path.trim_start_matches('/');
                (ours && !inside.is_empty()).then(|| inside.to_owned())
            })
        };
        let group = Self::at(host, &hierarchies(host), path_in);
        (!group.folders.is_empty()).then_some(group)
    }

    fn at(
        host: &HostRoot,
        all: &[Hierarchy],
        path_in: impl Fn(&Hierarchy) -> Option<String>,
    ) -> Self {
        let folder = |hierarchy: &Hierarchy| {
            let path = hierarchy.mount.join(path_in(hierarchy)?);
            let controllers = hierarchy.controllers.clone();
            Some(Folder { path, controllers, unified: hierarchy.unified })
        };
        let folders: Vec<Folder> = all.iter().filter_map(folder).collect();
        let mount = CgroupHierarchy::find(host).map(|found| host.path(found.mount));
        let mut paths = folders.iter().map(|folder| &folder.path);
        let named = mount.and_then(|mount| paths.find(|path| path.starts_with(&mount)).cloned());
        Self { folders, named }
    }

    /// Names of groups directly below a root that begin with `prefix`.
    pub fn list(host: &HostRoot, prefix: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for hierarchy in hierarchies(host) {
            for entry in fs::read_dir(&hierarchy.mount).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with(prefix) && entry.path().is_dir() {
                    found.insert(name);
                }
            }
        }
        found
    }

    /// A group of this name that may have been made, in whole or in part, by [`ControlGroup::create`].
    pub fn named(host: &HostRoot, name: &str) -> Self {
        Self::at(host, &hierarchies(host), |_| Some(name.to_owned()))
    }

    /// The number by which data sets call it.
    pub fn id(&self) -> Option<u64> {
        Some(fs::metadata(self.named.as_ref()?).ok()?.ino())
    }

    /// Puts a process, with all its threads, into it.
    ///
    /// # Errors
    /// There is no such process, or the kernel refuses.
    pub fn join(&self, pid: u32) -> Result<(), ControlGroupError> {
        let text = pid.to_string();
        self.folders.iter().try_for_each(|f| write(&f.path.join("cgroup.procs"), &text))
    }

    /// The processes in it and below.
    pub fn processes(&self) -> BTreeSet<u32> {
        self.numbers("cgroup.procs", "cgroup.procs")
    }

    /// Their threads.
    pub fn threads(&self) -> BTreeSet<u32> {
        self.numbers("tasks", "cgroup.threads")
    }

    fn numbers(&self, v1: &str, v2: &str) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        for folder in &self.folders {
            walk_cgroups(&folder.path, |inside| {
                let file = folder.path.join(inside).join(if folder.unified { v2 } else { v1 });
                let text = fs::read_to_string(file).unwrap_or_default();
                found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
                true
            });
        }
        found
    }

    /// Lets it run on these CPUs only.
    ///
    /// # Errors
    /// There is no cpuset controller, or no such CPU.
    pub fn set_cpus(&self, cpus: &CpuSet) -> Result<(), ControlGroupError> {
        write(&self.file("cpuset", "cpuset.cpus")?.1, &cpus.to_string())
    }

    /// The CPUs it may run on; `None` where nothing says.
    pub fn cpus(&self) -> Option<CpuSet> {
        let (unified, file) = self.file("cpuset", "cpuset.cpus").ok()?;
        let file = if unified { file.with_file_name("cpuset.cpus.effective") } else { file };
        CpuSet::parse_list(&fs::read_to_string(file).ok()?)
    }

    /// Lets it use so many cores' worth of time of each period, or as much as there is.
    ///
    /// # Errors
    /// There is no cpu controller, or the kernel refuses.
    pub fn set_quota(
        &self,
        cores: Option<f64>,
        period: QuotaPeriod,
    ) -> Result<(), ControlGroupError> {
        let period = period.micros();
        let quota = cores.map(|cores| (cores * period as f64).max(LEAST_QUOTA_US) as u64);
        let (unified, file) = self.file("cpu", "cpu.cfs_quota_us")?;
        if unified {
            let quota = quota.map_or("max".to_owned(), |us| us.to_string());
            return write(&file.with_file_name("cpu.max"), &format!("{quota} {period}"));
        }
        write(&file.with_file_name("cpu.cfs_period_us"), &period.to_string())?;
        write(&file, &quota.map_or("-1".to_owned(), |us| us.to_string()))
    }

    /// Lets it charge so many bytes of memory at most.
    ///
    /// # Errors
    /// There is no memory controller, or the kernel refuses.
    pub fn set_memory(&self, bytes: u64) -> Result<(), ControlGroupError> {
        let (unified, file) = self.file("memory", "memory.limit_in_bytes")?;
        let file = if unified { file.with_file_name("memory.max") } else { file };
        write(&file, &bytes.to_string())
    }

    fn folder(&self, controller: &str) -> Option<&Folder> {
        self.folders.iter().find(|f| f.controllers.iter().any(|c| c == controller))
    }

    fn file(
        &self,
        controller: &'static str,
        name: &str,
    ) -> Result<(bool, PathBuf), ControlGroupError> {
        let folder = self.folder(controller);
        let folder = folder.ok_or(ControlGroupError::NoController(controller))?;
        Ok((folder.unified, folder.path.join(name)))
    }

    /// Its counters, with files kept open.
    pub fn usage_files(&self) -> UsageFiles {
        UsageFiles::open(self)
    }

    /// Sends a signal to every process in it.
    pub fn signal(&self, signal: Signal) {
        for pid in self.processes() {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // One that has ended meanwhile needs no signal.
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Asks every process in it to end.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills every process in it, those that are forked meanwhile included; answers whether none is left.
    pub fn kill(&self) -> bool {
        let began = Instant::now();
        loop {
            let at_once = self.folders.iter().filter(|folder| folder.unified);
            // Since Linux 5.14; where it is missing, one by one until none is left.
            at_once.for_each(|folder| drop(fs::write(folder.path.join("cgroup.kill"), "1")));
            self.signal(Signal::KILL);
            if self.processes().is_empty() {
                return true;
            }
            if began.elapsed() > LONGEST_REMOVAL {
                return false;
            }
            pause();
        }
    }

    /// Removes it, and groups that were made inside it. Kill its processes first.
    ///
    /// # Errors
    /// A folder cannot be removed.
    pub fn remove(&self) -> Result<(), ControlGroupError> {
        self.folders.iter().try_for_each(|folder| {
            let mut inside = Vec::new();
            walk_cgroups(&folder.path, |path| {
                inside.push(folder.path.join(path));
                true
            });
            // Each comes before those it holds.
            inside.iter().rev().try_for_each(|path| remove(path))
        })
    }
}

fn remove(path: &Path) -> Result<(), ControlGroupError> {
    let began = Instant::now();
    loop {
        match fs::remove_dir(path) {
            Err(e) if e.kind() == ErrorKind::ResourceBusy && began.elapsed() < LONGEST_REMOVAL => {
                pause();
            }
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(refused(path)(e)),
            _ => return Ok(()),
        }
    }
}

fn pause() {
    #[allow(clippy::disallowed_methods)] // the kernel tells nobody when it is done with a cgroup
    thread::sleep(LOOK);
}

#[cfg(test)]
mod tests;
