//! Few RMIDs, many processes: who gets one, who shares, and how it stays right.
//!
//! The caller tells the pool which processes there are ([`Pool::update`], about once a second) and of deaths
//! between ([`Pool::exited`]). The pool makes monitor groups, moves threads into them and can say for
//! every process where it is measured and what that value covers ([`Pool::assignment`]).
//!
//! Decisions are pure ([`plan()`]); this module carries them out. It owns only monitor groups whose names have its
//! prefix; processes in monitor groups of other tools stay there and are not measured.

mod apply;
mod files;
mod instance;
mod limiter;
mod plan;
mod roster;
mod state;
mod subject;
mod surroundings;
mod threads;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crosstalk_host::HostRoot;

pub(crate) use files::MonitorFiles;
pub use instance::{sweep_abandoned, sweep_monitor_groups};
pub use plan::{Candidate, Plan, Purpose, Role, plan};
pub use roster::{MeasuredGroup, Roster};
pub use subject::{Assignment, Scope, Subject, SubjectKey};
pub use threads::{Moved, move_process};

use crate::{Error, MonitoringInfo, Resctrl};
use instance::InstanceLock;
use limiter::Limiter;
use state::OwnedGroup;

const SECOND: u64 = 1_000_000_000;

/// How a pool behaves; the default is right for most machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    /// Every group of the pool has a name that starts so.
    pub prefix: String,
    /// The most groups to own, however many RMIDs there are.
    pub max_groups: usize,
    /// Where the host's `/proc` is.
    pub host: HostRoot,
    /// After this long in quarantine an RMID is used again though lines of its last owner may be left.
    pub longest_quarantine_ns: u64,
    /// For so long rows of such an RMID are flagged stale.
    pub stale_for_ns: u64,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            prefix: "crosstalk-".to_owned(),
            max_groups: 1024,
            host: HostRoot::default(),
            longest_quarantine_ns: 10 * SECOND,
            stale_for_ns: 5 * SECOND,
        }
    }
}

/// What an update came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolReport {
    /// Groups in use, those in quarantine not counted.
    pub groups: usize,
    /// Groups without an owner whose cache lines have not all left.
    pub quarantined: usize,
    /// Groups the pool may own at this time.
    pub capacity: usize,
    /// Processes with an RMID of their own.
    pub alone: usize,
    /// Processes that share one by container.
    pub by_container: usize,
    /// Processes in a rest group.
    pub shared: usize,
    /// Processes left in a monitor group of another tool.
    pub foreign: usize,
    /// The first of these.
    pub foreign_named: Vec<Foreign>,
    /// Processes without any place, and those whose threads could not all be moved.
    pub incomplete: usize,
    /// The kernel had RMIDs in limbo only; tried again later.
    pub in_limbo: bool,
}

/// A process that is not measured because another tool does so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// The process id.
    pub pid: u32,
    /// Its name.
    pub comm: Arc<str>,
    /// The monitor group it was found in.
    pub group: String,
}

impl PoolReport {
    /// Processes left alone that are named; more are only counted.
    const MOST_NAMED: usize = 8;

    fn leave_alone(&mut self, subject: &Subject, group: &str) {
        self.foreign += 1;
        if self.foreign_named.len() < Self::MOST_NAMED {
            let (pid, comm) = (subject.key.pid, Arc::clone(&subject.comm));
            self.foreign_named.push(Foreign { pid, comm, group: group.to_owned() });
        }
    }
}

/// A process the pool knows.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) comm: Arc<str>,
    pub(crate) container: Option<Arc<str>>,
    pub(crate) group: Option<u32>,
}

/// Monitor groups over processes. Removes its groups when stopped or dropped.
#[derive(Debug)]
pub struct Pool {
    resctrl: Resctrl,
    config: PoolConfig,
    monitoring: Arc<MonitoringInfo>,
    limiter: Limiter,
    groups: BTreeMap<u32, OwnedGroup>,
    next_group: u32,
    known: HashMap<SubjectKey, Known>,
    by_pid: HashMap<u32, SubjectKey>,
    stopped: bool,
    _instance: InstanceLock,
}

impl Pool {
    /// Takes the mount for this instance and removes what one that crashed left behind.
    ///
    /// # Errors
    /// [`Error::AlreadyRunning`] where another instance lives; [`Error::NoMonitoring`]; a read error.
    pub fn start(resctrl: Resctrl, config: PoolConfig) -> Result<Self, Error> {
        let instance = InstanceLock::take(&resctrl, &config.host)?;
        sweep_monitor_groups(&resctrl, &config.prefix)?;
        let monitoring = resctrl
            .info()?
            .monitoring
            .ok_or_else(|| Error::NoMonitoring { path: resctrl.root().to_owned() })?;
        // The root has an RMID already.
        let ceiling = (monitoring.num_rmids as usize).saturating_sub(1).min(config.max_groups);
        Ok(Self {
            resctrl,
            config,
            monitoring: Arc::new(monitoring),
            limiter: Limiter::new(ceiling),
            groups: BTreeMap::new(),
            next_group: 0,
            known: HashMap::new(),
            by_pid: HashMap::new(),
            stopped: false,
            _instance: instance,
        })
    }

    /// What the machine can monitor.
    #[must_use]
    pub fn monitoring(&self) -> &MonitoringInfo {
        &self.monitoring
    }

    /// Where a process is measured; `None` where it is not.
    #[must_use]
    pub fn assignment(&self, key: SubjectKey) -> Option<Assignment> {
        let id = self.known.get(&key)?.group?;
        let group = self.groups.get(&id)?;
        Some(Assignment { group: id, scope: group.scope(), stale: group.stale_until_ns.is_some() })
    }

    /// The group a process is in.
    #[must_use]
    pub fn group_of(&self, key: SubjectKey) -> Option<u32> {
        self.known.get(&key)?.group
    }

    /// A process has exited; its RMID goes into quarantine.
    pub fn exited(&mut self, key: SubjectKey, now_ns: u64) {
        if self.by_pid.get(&key.pid) == Some(&key) {
            self.by_pid.remove(&key.pid);
        }
        let Some(id) = self.known.remove(&key).and_then(|known| known.group) else { return };
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.members.remove(&key);
        let was_own = matches!(&group.role, Some(Role { purpose: Purpose::Process(_), .. }));
        if was_own && group.members.is_empty() {
            group.free(now_ns);
        }
    }

    /// Whether the file system is still there: a group can be gone for other reasons.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        self.resctrl.root().join("info").exists()
    }

    /// Removes every group of the pool and lets another instance start.
    ///
    /// # Errors
    /// Groups are left: the mount refuses. A mount that is gone has none left.
    pub fn stop(mut self) -> Result<usize, Error> {
        self.clear()
    }

    fn clear(&mut self) -> Result<usize, Error> {
        self.stopped = true;
        self.groups.clear();
        match sweep_monitor_groups(&self.resctrl, &self.config.prefix) {
            Err(error) if error.is_gone() => Ok(0),
            other => other,
        }
    }

    fn remember(&mut self, subject: &Subject) {
        let replaced = self.by_pid.insert(subject.key.pid, subject.key);
        // A reused number: the exit of its former owner was not heard of.
        if let Some(old) = replaced.filter(|old| *old != subject.key) {
            self.leave(old);
            self.known.remove(&old);
        }
        let known = self.known.entry(subject.key).or_insert_with(|| Known {
            comm: Arc::clone(&subject.comm),
            container: None,
            group: None,
        });
        known.comm.clone_from(&subject.comm);
        known.container.clone_from(&subject.container);
    }

    fn find(&self, role: &Role) -> Option<u32> {
        let has_it = |group: &OwnedGroup| group.role.as_ref() == Some(role);
        self.groups.iter().find(|(_, group)| has_it(group)).map(|(id, _)| *id)
    }

    fn leave(&mut self, key: SubjectKey) {
        let Some(known) = self.known.get_mut(&key) else { return };
        if let Some(group) = known.group.take().and_then(|id| self.groups.get_mut(&id)) {
            group.members.remove(&key);
        }
    }

    fn join(&mut self, key: SubjectKey, id: u32) {
        self.leave(key);
        let (Some(known), Some(group)) = (self.known.get_mut(&key), self.groups.get_mut(&id))
        else {
            return;
        };
        known.group = Some(id);
        group.members.insert(key);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.stopped {
            // What cannot be removed now is swept by the next start.
            let _ = self.clear();
        }
    }
}
