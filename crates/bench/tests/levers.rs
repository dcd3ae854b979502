//! Levers of the adaptive scheduler for the cache and for memory bandwidth, on the simulator.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_bench::experiment::ContainerData;
use crosstalk_bench::scheduler::ResctrlGroups;
use crosstalk_bench::scheduler::levers::{Pair, all};
use crosstalk_bench::{Allocation, Driver, Member, PREFIX};
use crosstalk_host::{ControlGroup, HostRoot};
use crosstalk_interference::Resource;
use crosstalk_resctrl::{Group, Resctrl};
use crosstalk_resctrl_sim::{Profile, mount};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command};
use support::can_make_cgroups;

/// A process in a cgroup of its own, both gone in the end.
struct Running {
    child: Child,
    member: Member,
}

impl Running {
    fn new(index: u32, name: &str) -> Self {
        let host = HostRoot::default();
        let group =
            ControlGroup::create(&host, &Driver::own(&host).name(9, &format!("lever-{name}")));
        let group = group.unwrap();
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        group.join(child.id()).unwrap();
        let member = Member {
            index,
            name: name.into(),
            round: 9,
            group_id: group.id(),
            group,
            network_of: None,
            id: None,
            data: ContainerData::default(),
            allocation: Allocation::default(),
        };
        Self { child, member }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.member.group.kill();
        let _ = self.child.wait();
        let _ = self.member.group.remove();
    }
}

fn groups(root: &Path) -> Vec<Group> {
    let all = Resctrl::open(root).unwrap().control_groups().unwrap();
    all.into_iter().filter(|group| group.name().starts_with(PREFIX)).collect()
}

#[test]
fn an_aggressor_keeps_little_of_the_cache_and_of_bandwidth_and_gets_all_of_it_back() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let simulator = match mount(Profile::small(), folder.path()) {
        Ok(simulator) => simulator,
        Err(error) => return support::skip(error),
    };
    let root = folder.path();
    let host = HostRoot::default();
    let mounted = Resctrl::open(root).unwrap();
    let made = ResctrlGroups::new(mounted, &host, Driver::own(&host));
    let mut levers = all(&host, Some(made), &[]).unwrap();
    let names: Vec<&str> = levers.iter().map(|lever| lever.name()).collect();
    assert_eq!(names, ["cache mask", "memory bandwidth", "cpu quota", "pinning"], "in that order");
    let (victim, noisy) = (Running::new(0, "victim"), Running::new(1, "noisy"));
    let unknown = BTreeMap::new();
    let pair = |resource| Pair {
        victim: &victim.member,
        aggressor: &noisy.member,
        resource,
        uses_cores: Some(1.0),
        moves: &unknown,
    };
    // Neither helps against who takes processor time.
    for lever in &mut levers[..2] {
        assert_eq!(lever.pull(&pair(Resource::CpuTime)).unwrap(), None);
    }
    assert!(groups(root).is_empty());

    let [mask, bandwidth, ..] = &mut levers[..] else { panic!("{names:?}") };
    let told = mask.pull(&pair(Resource::CacheOrMemory)).unwrap().unwrap();
    let group = groups(root).pop().unwrap();
    assert_eq!(group.schemata().unwrap().cache("L3", 0).unwrap().ways(), 2, "of 8: {told}");
    assert_eq!(group.tasks().unwrap(), [noisy.child.id()]);
    let given = noisy.member.allocation.get().unwrap();
    assert!(given.cache.as_deref().unwrap().starts_with("L3:0=3"), "{given:?}");

    // A command that somebody else starts in its cgroup, as an engine does, is held back too.
    let mut command = Command::new("sleep").arg("600").spawn().unwrap();
    noisy.member.group.join(command.id()).unwrap();
    mask.tend().unwrap();
    assert!(group.tasks().unwrap().contains(&command.id()), "{:?}", group.tasks());
    command.kill().unwrap();
    command.wait().unwrap();

    // Both at once, and each is taken back by itself.
    bandwidth.pull(&pair(Resource::MemoryBandwidth)).unwrap().unwrap();
    let limited = groups(root)[0].schemata().unwrap();
    assert_eq!((groups(root).len(), limited.bandwidth("MB", 0)), (1, Some(20)), "{limited}");
    assert_eq!(limited.cache("L3", 0).unwrap().ways(), 2, "the mask is still there");
    mask.release(&noisy.member).unwrap();
    let limited = groups(root)[0].schemata().unwrap();
    assert_eq!(limited.cache("L3", 0).unwrap().ways(), 8, "{limited}");
    assert_eq!(limited.bandwidth("MB", 0), Some(20), "the other's limit is not taken back");
    bandwidth.release(&noisy.member).unwrap();
    assert!(groups(root).is_empty() && noisy.member.allocation.get().is_none());
    let back = Resctrl::open(root).unwrap().root_group().tasks().unwrap();
    assert!(back.contains(&noisy.child.id()), "it is with all others again");

    // A round that ends leaves none.
    mask.pull(&pair(Resource::Cache)).unwrap().unwrap();
    assert_eq!(groups(root).len(), 1);
    mask.finish().unwrap();
    assert!(groups(root).is_empty());
    drop(levers);
    simulator.unmount().unwrap();
}

#[test]
fn where_bandwidth_is_limited_in_bytes_it_is_a_share_of_what_the_aggressor_moves() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let simulator = match mount(Profile::amd_genoa(), folder.path()) {
        Ok(simulator) => simulator,
        Err(error) => return support::skip(error),
    };
    let (root, host) = (folder.path(), HostRoot::default());
    let made = ResctrlGroups::new(Resctrl::open(root).unwrap(), &host, Driver::own(&host));
    let mut levers = all(&host, Some(made), &[]).unwrap();
    let bandwidth = &mut levers[1];
    assert_eq!(bandwidth.name(), "memory bandwidth");
    let (victim, noisy) = (Running::new(2, "victim-amd"), Running::new(3, "noisy-amd"));
    let (unknown, idle) = (BTreeMap::new(), BTreeMap::from([(0, 1e6)]));
    let moved = BTreeMap::from([(0, 8e9), (3, 2e9)]);
    let pair = |moves| Pair {
        victim: &victim.member,
        aggressor: &noisy.member,
        resource: Resource::MemoryBandwidth,
        uses_cores: Some(1.0),
        moves,
    };
    // A share of the highest limit there is, 256 GB/s, would hold nobody back.
    assert_eq!(bandwidth.pull(&pair(&unknown)).unwrap(), None);
    let why = bandwidth.lacks(&pair(&unknown)).unwrap();
    assert!(why.contains("what noisy-amd moves is not measured"), "{why}");
    assert_eq!(bandwidth.pull(&pair(&idle)).unwrap(), None, "it moves less than the least limit");
    assert_eq!(bandwidth.lacks(&pair(&idle)), None);
    assert!(groups(root).is_empty());
    let limited_to = bandwidth.pull(&pair(&moved)).unwrap().unwrap();
    let limited = groups(root)[0].schemata().unwrap();
    let limits = [0, 3, 7].map(|domain| limited.bandwidth("MB", domain));
    // A fifth, in eighths of a GB/s; where it moved nothing, as where it moved most.
    assert_eq!(limits, [Some(12), Some(3), Some(12)], "{limited_to}");
    bandwidth.release(&noisy.member).unwrap();
    assert!(groups(root).is_empty());
    drop(levers);
    simulator.unmount().unwrap();
}
