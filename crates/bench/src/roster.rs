//! Who is there now, for everybody who measures or decides.

use crate::experiment::ContainerData;
use crosstalk_host::ControlGroup;
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

/// The members now. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Roster(Arc<Mutex<Vec<Member>>>);

impl Roster {
    /// Adds one.
    pub fn add(&self, member: Member) {
        self.locked().push(member);
    }

    /// Takes one out.
    pub fn remove(&self, index: u32) {
        self.locked().retain(|member| member.index != index);
    }

    /// All of them.
    pub fn members(&self) -> Vec<Member> {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Member>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
