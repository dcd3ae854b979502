//! Who gets an RMID of its own, who shares: a pure decision.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::subject::SubjectKey;

/// A busy process keeps its RMID against one that is this much busier in parts of two: three halves. Moving costs
/// the old lines, which stay with the old RMID, so places must not flip at every tick.
const KEEP: (u64, u64) = (3, 2);

/// What a group is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// Everything without a better place.
    Rest,
    /// The processes of a container that have no RMID of their own.
    Container(String),
    /// One process.
    Process(SubjectKey),
}

/// A group the plan wants: its purpose, below a control group (the empty name is the root).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Role {
    /// Monitor groups take only threads of their own control group.
    pub control: String,
    /// What it is for.
    pub purpose: Purpose,
}

/// One process to place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Which process.
    pub key: SubjectKey,
    /// The control group its threads are in.
    pub control: String,
    /// Its container.
    pub container: Option<String>,
    /// Nanoseconds on a processor in the recent past.
    pub recent_cpu_ns: u64,
    /// Whether it has an RMID of its own now.
    pub has_own: bool,
}

impl Candidate {
    fn weight(&self) -> u128 {
        let keep = if self.has_own { KEEP } else { (1, 1) };
        // In halves, so that the two sorts of candidates compare exactly.
        u128::from(self.recent_cpu_ns) * u128::from(keep.0) * 2 / u128::from(keep.1)
    }

    fn own(&self) -> Role {
        Role { control: self.control.clone(), purpose: Purpose::Process(self.key) }
    }

    fn container_role(&self) -> Option<Role> {
        let container = self.container.clone()?;
        Some(Role { control: self.control.clone(), purpose: Purpose::Container(container) })
    }

    fn rest(&self) -> Role {
        Role { control: self.control.clone(), purpose: Purpose::Rest }
    }
}

/// The groups to have, the most needed first, and each process's role; a process without one cannot be measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order they should be made: rest groups, containers, then processes from the busiest.
    pub roles: Vec<Role>,
    /// Where each process belongs.
    pub places: BTreeMap<SubjectKey, Role>,
}

/// Spreads at most `capacity` groups over the candidates.
///
/// While there are enough every process has its own. Beyond that the busiest keep theirs, the others share one group for
/// each container, and processes without a container share the rest group of their control group. Where even the
/// containers are too many, the busiest of those keep theirs. One group is always the root's rest group, so that a
/// process born between two plans has a place at once.
///
/// ```
/// use crosstalk_resctrl::pool::{Candidate, Purpose, SubjectKey, plan};
/// let candidate = |pid, recent_cpu_ns| Candidate {
///     key: SubjectKey { pid, process_start_ns: 1 },
///     control: String::new(),
///     container: None,
///     recent_cpu_ns,
///     has_own: false,
/// };
/// let plan = plan(vec![candidate(1, 10), candidate(2, 900), candidate(3, 20)], 2);
/// let busiest = SubjectKey { pid: 2, process_start_ns: 1 };
/// assert_eq!(plan.places[&busiest].purpose, Purpose::Process(busiest));
/// assert_eq!(plan.roles.len(), 2);
/// ```
#[must_use]
pub fn plan(mut candidates: Vec<Candidate>, capacity: usize) -> Plan {
    candidates.sort_by(|a, b| {
        let order = b.weight().cmp(&a.weight());
        order.then(b.has_own.cmp(&a.has_own)).then(a.key.cmp(&b.key))
    });
    let root_rest = Role { control: String::new(), purpose: Purpose::Rest };
    if capacity == 0 {
        return Plan::default();
    }
    let own = owners(&candidates, capacity, &root_rest);
    let (owners, others) = candidates.split_at(own);
    let containers = if own > 0 {
        others.iter().filter_map(Candidate::container_role).collect()
    } else {
        busiest_containers(others, capacity, &root_rest)
    };
    let mut rests = BTreeSet::from([root_rest]);
    let mut places = BTreeMap::new();
    for candidate in others {
        let container = candidate.container_role().filter(|role| containers.contains(role));
        let role = container.unwrap_or_else(|| candidate.rest());
        let fits = role.purpose != Purpose::Rest
            || rests.contains(&role)
            || rests.len() + containers.len() < capacity;
        if fits {
            if role.purpose == Purpose::Rest {
                rests.insert(role.clone());
            }
            places.insert(candidate.key, role);
        }
    }
    let mut roles: Vec<Role> = rests.into_iter().chain(containers).collect();
    for owner in owners {
        roles.push(owner.own());
        places.insert(owner.key, owner.own());
    }
    Plan { roles, places }
}

/// How many of the busiest can have their own, with groups left for all the others.
fn owners(candidates: &[Candidate], capacity: usize, root_rest: &Role) -> usize {
    let mut shared = HashSet::from([root_rest.clone()]);
    let mut own = candidates.len();
    while own > 0 && own + shared.len() > capacity {
        own -= 1;
        let displaced = &candidates[own];
        shared.insert(displaced.container_role().unwrap_or_else(|| displaced.rest()));
    }
    own
}

/// The containers that can have their own group where nobody has an RMID alone.
fn busiest_containers(others: &[Candidate], capacity: usize, root_rest: &Role) -> BTreeSet<Role> {
    let mut activity: BTreeMap<Role, u128> = BTreeMap::new();
    let mut rests = HashSet::from([root_rest.clone()]);
    for candidate in others {
        match candidate.container_role() {
            Some(role) => *activity.entry(role).or_default() += candidate.weight(),
            None => {
                rests.insert(candidate.rest());
            }
        }
    }
    let mut ranked: Vec<(Role, u128)> = activity.into_iter().collect();
    ranked.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    while !ranked.is_empty() && ranked.len() + rests.len() > capacity {
        if let Some((role, _)) = ranked.pop() {
            rests.insert(Role { purpose: Purpose::Rest, ..role });
        }
    }
    ranked.into_iter().map(|(role, _)| role).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(pid: u32, recent_cpu_ns: u64, container: Option<&str>) -> Candidate {
        Candidate {
            key: SubjectKey { pid, process_start_ns: 1 },
            control: String::new(),
            container: container.map(str::to_owned),
            recent_cpu_ns,
            has_own: false,
        }
    }

    fn purpose(plan: &Plan, pid: u32) -> &Purpose {
        &plan.places[&SubjectKey { pid, process_start_ns: 1 }].purpose
    }

    #[test]
    fn every_process_has_its_own_while_there_are_enough() {
        let plan = plan((0..7).map(|pid| candidate(pid, 0, Some("a"))).collect(), 8);
        assert!((0..7).all(|pid| matches!(purpose(&plan, pid), Purpose::Process(_))));
    }

    #[test]
    fn the_busiest_keep_their_own_and_the_others_share_by_container() {
        let candidates =
            (0..10).map(|pid| candidate(pid, u64::from(pid) * 1000, (pid < 6).then_some("web")));
        let plan = plan(candidates.collect(), 5);
        assert!((7..10).all(|pid| matches!(purpose(&plan, pid), Purpose::Process(_))));
        assert_eq!(purpose(&plan, 6), &Purpose::Rest);
        assert!((0..6).all(|pid| *purpose(&plan, pid) == Purpose::Container("web".into())));
    }

    #[test]
    fn too_many_containers_leave_the_idle_ones_to_the_rest() {
        let names = ["a", "b", "c", "d"];
        let candidates =
            (0..8).map(|pid| candidate(pid, u64::from(pid), Some(names[pid as usize / 2])));
        let plan = plan(candidates.collect(), 3);
        assert_eq!(purpose(&plan, 7), &Purpose::Container("d".into()));
        assert_eq!(purpose(&plan, 0), &Purpose::Rest);
        assert_eq!(plan.roles.len(), 3);
    }

    #[test]
    fn a_little_busier_is_not_enough_to_take_a_place() {
        let mut owner = candidate(1, 1000, None);
        owner.has_own = true;
        let keeps = plan(vec![owner.clone(), candidate(2, 1400, None)], 2);
        assert!(matches!(purpose(&keeps, 1), Purpose::Process(_)));
        let loses = plan(vec![owner, candidate(2, 1600, None)], 2);
        assert!(matches!(purpose(&loses, 2), Purpose::Process(_)));
    }

    fn any_candidates() -> impl Strategy<Value = Vec<Candidate>> {
        let one = (0u64..1000, 0u8..4, proptest::option::of(0u8..6), any::<bool>());
        proptest::collection::vec(one, 0..60).prop_map(|all| {
            let numbered = all.into_iter().enumerate();
            numbered
                .map(|(index, (recent_cpu_ns, control, container, has_own))| Candidate {
                    key: SubjectKey { pid: index as u32, process_start_ns: 1 },
                    control: if control == 0 { String::new() } else { format!("c{control}") },
                    container: container.map(|name| name.to_string()),
                    recent_cpu_ns,
                    has_own,
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn a_plan_stays_within_capacity_and_places_everybody_it_can(
            candidates in any_candidates(), capacity in 0usize..40
        ) {
            let plan = plan(candidates.clone(), capacity);
            prop_assert!(plan.roles.len() <= capacity);
            let unique: BTreeSet<_> = plan.roles.iter().collect();
            prop_assert_eq!(unique.len(), plan.roles.len());
            for (key, role) in &plan.places {
                prop_assert!(plan.roles.contains(role));
                let candidate = candidates.iter().find(|c| c.key == *key).unwrap();
                prop_assert_eq!(&candidate.control, &role.control);
                match &role.purpose {
                    Purpose::Process(owner) => prop_assert_eq!(owner, key),
                    Purpose::Container(name) => prop_assert_eq!(Some(name), candidate.container.as_ref()),
                    Purpose::Rest => {}
                }
            }
            // Four control groups at most: with one rest group each everybody has a place.
            if capacity >= 4 {
                prop_assert_eq!(plan.places.len(), candidates.len());
            }
        }

        #[test]
        fn an_owner_is_never_less_busy_than_one_who_shares(
            candidates in any_candidates(), capacity in 1usize..40
        ) {
            let plan = plan(candidates.clone(), capacity);
            let weights = |own: bool| {
                candidates.iter().filter_map(|c| {
                    let has = matches!(plan.places.get(&c.key)?.purpose, Purpose::Process(_));
                    (has == own).then(|| c.weight())
                }).collect::<Vec<_>>()
            };
            if let (Some(least), Some(most)) = (weights(true).into_iter().min(), weights(false).into_iter().max()) {
                prop_assert!(least >= most);
            }
        }
    }
}
