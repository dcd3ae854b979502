//! Who is there now, for everybody who measures or decides.

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
