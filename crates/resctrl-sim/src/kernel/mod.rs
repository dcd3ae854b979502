//! The rules of `fs/resctrl`: groups, RMIDs, limits and the text of the last refusal.
//!
//! Every operation answers as the kernel's does: the same errno, and the same words in `last_cmd_status`.

mod assignment;
mod cpus;
mod groups;
mod monitor;
mod rmid;
mod schemata;
pub(crate) mod tasks;
pub(crate) mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Instant;

use crosstalk_host::HostRoot;
use fuser::Errno;

use crate::model::CacheModel;
use crate::profile::{Bandwidth, Profile};
use crate::threads::{GroupId, Threads};
use rmid::Rmids;

pub(crate) const ROOT: GroupId = 0;

/// What a monitoring file can be made to say instead of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `Unavailable`.
    Unavailable,
    /// `Error`.
    Error,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Event {
    Occupancy,
    Total,
    Local,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Root,
    Control,
    Monitor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Shareable,
    Exclusive,
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The control group of a monitor group, the root of a control group.
    parent: GroupId,
    closid: usize,
    rmid: usize,
    mode: Mode,
    cpus: BTreeSet<u32>,
    fault: Option<Fault>,
}

/// The limits of one class of service, by resource and then domain.
#[derive(Debug, Clone)]
struct Limits {
    /// `L3`, or `L3CODE` and `L3DATA`.
    masks: Vec<Vec<u64>>,
    /// `MB`, and `SMBA` on AMD.
    bandwidth: Vec<Vec<u64>>,
}

#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) profile: Profile,
    pub(crate) groups: BTreeMap<GroupId, Group>,
    next_group: GroupId,
    closids: Vec<Option<Limits>>,
    rmids: Rmids,
    limbo_held: bool,
    threshold: u64,
    status: String,
    pub(crate) threads: Threads,
    model: CacheModel,
    resident: HashMap<u32, (Instant, u64)>,
    online: BTreeSet<u32>,
    clock: monitor::Clock,
    /// Counters assigned under ABMC: RMID, event, domain.
    assigned: BTreeSet<(usize, Event, usize)>,
    assign_on_mkdir: bool,
    /// Bandwidth counters read at least once since their RMID was given out.
    read_before: HashSet<(usize, usize)>,
}

impl Kernel {
    pub(crate) fn new(profile: Profile, host: HostRoot) -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let online: BTreeSet<u32> = (0..u32::try_from(count).unwrap_or(1)).collect();
        let mut threads = Threads::new(host);
        threads.scan();
        let root = Group {
            name: String::new(),
            kind: Kind::Root,
            parent: ROOT,
            closid: 0,
            rmid: 0,
            mode: Mode::Shareable,
            cpus: online.clone(),
            fault: None,
        };
        let mut closids = vec![None; profile.closids()];
        closids[0] = Some(Limits::unlimited(&profile));
        let mut kernel = Self {
            groups: BTreeMap::from([(ROOT, root)]),
            next_group: 1,
            closids,
            rmids: Rmids::new(profile.num_rmids),
            limbo_held: false,
            threshold: profile.threshold(),
            status: String::new(),
            threads,
            model: CacheModel::new(&profile),
            resident: HashMap::new(),
            online,
            clock: monitor::Clock::start(),
            assigned: BTreeSet::new(),
            assign_on_mkdir: true,
            read_before: HashSet::new(),
            profile,
        };
        kernel.assign_counters(0);
        kernel
    }

    /// A refusal: the kernel's words for `last_cmd_status`, and the errno.
    fn refuse<T>(&mut self, errno: Errno, words: impl AsRef<str>) -> Result<T, Errno> {
        self.status.push_str(words.as_ref());
        self.status.push('\n');
        Err(errno)
    }

    pub(crate) fn group(&self, id: GroupId) -> Result<&Group, Errno> {
        // kernfs answers so for a file that is open while its directory was removed.
        self.groups.get(&id).ok_or(Errno::ENODEV)
    }

    /// The group a name means in `directory`: a control group in the root, a monitor group in a `mon_groups`.
    pub(crate) fn find(&self, parent: GroupId, kind: Kind, name: &str) -> Option<GroupId> {
        let is_it =
            |group: &Group| group.parent == parent && group.kind == kind && group.name == name;
        self.groups.iter().find(|(_, group)| is_it(group)).map(|(id, _)| *id)
    }

    pub(crate) fn children(&self, parent: GroupId, kind: Kind) -> Vec<(GroupId, String)> {
        let is_child = |group: &Group| group.parent == parent && group.kind == kind;
        let children = self.groups.iter().filter(|(_, group)| is_child(group));
        children.map(|(id, group)| (*id, group.name.clone())).collect()
    }

    /// Makes every monitoring file of a group say a word; `None` lets it say numbers again.
    pub(crate) fn set_fault(&mut self, path: &str, fault: Option<Fault>) -> bool {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let id = match parts[..] {
            [] => Some(ROOT),
            ["mon_groups", name] => self.find(ROOT, Kind::Monitor, name),
            [name] => self.find(ROOT, Kind::Control, name),
            [control, "mon_groups", name] => self
                .find(ROOT, Kind::Control, control)
                .and_then(|parent| self.find(parent, Kind::Monitor, name)),
            _ => None,
        };
        let group = id.and_then(|id| self.groups.get_mut(&id));
        group.map(|group| group.fault = fault).is_some()
    }

    fn cache_resources(&self) -> &'static [&'static str] {
        if self.profile.cdp { &["L3DATA", "L3CODE"] } else { &["L3"] }
    }

    fn bandwidth_resources(&self) -> &'static [&'static str] {
        match self.profile.bandwidth {
            Bandwidth::Percent { .. } => &["MB"],
            Bandwidth::EighthGigabyte => &["MB", "SMBA"],
        }
    }

    fn highest_bandwidth(&self) -> u64 {
        highest_bandwidth(&self.profile)
    }
}

fn highest_bandwidth(profile: &Profile) -> u64 {
    match profile.bandwidth {
        Bandwidth::Percent { .. } => 100,
        Bandwidth::EighthGigabyte => 2048,
    }
}

impl Limits {
    fn unlimited(profile: &Profile) -> Self {
        let domains = profile.l3_domains.len();
        let caches = if profile.cdp { 2 } else { 1 };
        let bandwidths = if profile.bandwidth == Bandwidth::EighthGigabyte { 2 } else { 1 };
        Self {
            masks: vec![vec![profile.full_mask(); domains]; caches],
            bandwidth: vec![vec![highest_bandwidth(profile); domains]; bandwidths],
        }
    }
}
