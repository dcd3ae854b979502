//! Who is there now, for everybody who measures or decides.

use crate::experiment::ContainerData;
use crosstalk_host::{ControlGroup, GroupUsage, monotonic_ns};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A container that is prepared or runs.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its index in the experiment.
    pub index: u32,
    /// Its name.
    pub name: Arc<str>,
    /// The round.
    pub round: u32,
    /// Its cgroup.
    pub group: ControlGroup,
    /// The cgroup's number in the data sets.
    pub group_id: Option<u64>,
    /// A process inside, whose network is the container's own; absent where it is the host's.
    pub network_of: Option<u32>,
    /// What its engine calls it.
    pub id: Option<Arc<str>>,
    /// What is collected of it.
    pub data: ContainerData,
    /// What of the cache and of memory's bandwidth it was given.
    pub allocation: Allocation,
}

/// The limits of the control group that a container is in. Clones share it; of one that was put nowhere nothing is known.
#[derive(Clone, Debug, Default)]
pub struct Allocation(Arc<Mutex<Option<Allocated>>>);

/// Limits as resctrl writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocated {
    /// Ways of caches, such as `L3:0=f;1=f`.
    pub cache: Option<Arc<str>>,
    /// Bandwidth, such as `MB:0=30;1=30`.
    pub bandwidth: Option<Arc<str>>,
}

impl Allocation {
    /// From now on these; `None` where it was taken out again.
    pub fn set(&self, now: Option<Allocated>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// What they are.
    pub fn get(&self) -> Option<Allocated> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a cgroup had used at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// When, on the monotonic clock.
    pub at_ns: u64,
    /// What.
    pub usage: GroupUsage,
}

impl Used {
    fn now(group: &ControlGroup) -> Self {
        Self { at_ns: monotonic_ns(), usage: group.usage_files().read() }
    }
}

/// A member from when it came until it left. What it had used is read at both ends, for its cgroup may be gone before
/// anybody looks again.
#[derive(Clone, Debug)]
pub struct Stay {
    /// Who.
    pub member: Member,
    /// When it came.
    pub came: Used,
    /// When it left; absent while it is there.
    pub left: Option<Used>,
}

/// The members now. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Roster(Arc<Mutex<Stays>>);

#[derive(Debug, Default)]
struct Stays {
    here: Vec<Stay>,
    /// The last that left, and how many had left before the first of them.
    left: VecDeque<Stay>,
    forgotten: u64,
}

/// Of so many that left it is remembered; whoever asks does so a few times a second.
const REMEMBERED: usize = 1_024;

impl Roster {
    /// Adds one.
    pub fn add(&self, member: Member) {
        let came = Used::now(&member.group);
        self.locked().here.push(Stay { member, came, left: None });
    }

    /// Takes one out.
    pub fn remove(&self, index: u32) {
        let mut stays = self.locked();
        let Some(at) = stays.here.iter().position(|stay| stay.member.index == index) else {
            return;
        };
        let mut stay = stays.here.remove(at);
        stay.left = Some(Used::now(&stay.member.group));
        stays.left.push_back(stay);
        if stays.left.len() > REMEMBERED {
            stays.left.pop_front();
            stays.forgotten += 1;
        }
    }

    /// All of them.
    pub fn members(&self) -> Vec<Member> {
        self.locked().here.iter().map(|stay| stay.member.clone()).collect()
    }

    /// Those who are there, and those who left since `seen` had; `seen` is then how many have.
    pub fn stays(&self, seen: &mut u64) -> Vec<Stay> {
        let stays = self.locked();
        let skip = seen.saturating_sub(stays.forgotten) as usize;
        *seen = stays.forgotten + stays.left.len() as u64;
        stays.left.iter().skip(skip).chain(&stays.here).cloned().collect()
    }

    fn locked(&self) -> MutexGuard<'_, Stays> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
