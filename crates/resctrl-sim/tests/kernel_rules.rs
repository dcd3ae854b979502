//! The simulator answers as `fs/resctrl` does: errno, words and tree, asked for through the real client on a real mount.
#![allow(clippy::unwrap_used)]

mod machine;

use std::fs;

use crosstalk_host::CpuSet;
use crosstalk_resctrl::{
    BandwidthUnit, CacheMask, Error, GroupKind, Mode, MonValue, Refusal, Resctrl, Schemata,
};
use crosstalk_resctrl_sim::{Fault, Profile};
use machine::{Machine, Sleeper};

/// The words and the reason of a refusal.
fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> (i32, Refusal, String) {
    match result.unwrap_err() {
        Error::Refused { errno, reason, status, .. } => (errno, reason, status),
        other => panic!("not a refusal: {other}"),
    }
}

fn write(resctrl: &Resctrl, text: &str) -> String {
    let group = resctrl.control_groups().unwrap().pop().unwrap();
    fs::write(group.path().join("schemata"), text).unwrap_err();
    resctrl.last_status()
}

#[test]
fn discovery_of_an_intel_machine() {
    let machine = Machine::start(Profile::intel_spr());
    let info = machine.resctrl.info().unwrap();
    assert_eq!(info.caches[0].resource, "L3");
    assert_eq!(info.caches[0].cbm_mask, CacheMask(0x7fff));
    assert!(!info.has_cdp());
    assert_eq!(info.bandwidth[0].unit, BandwidthUnit::Percent);
    let monitoring = info.monitoring.unwrap();
    assert_eq!(monitoring.num_rmids, 448);
    assert!(monitoring.occupancy && monitoring.total_bytes && monitoring.local_bytes);
    assert_eq!(monitoring.l3_bytes[&1], 105 << 20);
    assert_eq!(monitoring.domains.len(), 2);
    assert_eq!(monitoring.assignment, None);
}

#[test]
fn discovery_of_an_amd_machine_with_assignable_counters() {
    let machine = Machine::start(Profile { counters: Some(4), ..Profile::amd_genoa() });
    let info = machine.resctrl.info().unwrap();
    let resources: Vec<&str> = info.bandwidth.iter().map(|b| b.resource.as_str()).collect();
    assert_eq!(resources, ["MB", "SMBA"]);
    assert!(info.bandwidth.iter().all(|b| b.unit == BandwidthUnit::EighthGigabyte));
    assert!(info.caches[0].sparse_masks);
    let assignment = info.monitoring.unwrap().assignment.unwrap();
    assert_eq!(assignment.mode, "mbm_event");
    assert_eq!((assignment.counters[&11], assignment.available[&11]), (4, 2));

    let root = machine.resctrl.root_group();
    let first = root.create_monitor_group("first").unwrap();
    let second = root.create_monitor_group("second").unwrap();
    assert_eq!(first.read_event(0, "mbm_total_bytes").unwrap(), MonValue::Unavailable);
    assert!(matches!(first.read_event(0, "mbm_total_bytes").unwrap(), MonValue::Count(_)));
    assert_eq!(second.read_event(0, "mbm_total_bytes").unwrap(), MonValue::Unassigned);
    assert!(matches!(second.occupancy(0).unwrap(), MonValue::Count(_)));
}

#[test]
fn code_and_data_have_masks_of_their_own_with_cdp() {
    let machine = Machine::start(Profile { cdp: true, ..Profile::small() });
    let info = machine.resctrl.info().unwrap();
    assert!(info.has_cdp());
    assert_eq!(info.caches[0].num_closids, 2);
    let group = machine.resctrl.create_control_group("a").unwrap();
    let mut schemata = Schemata::default();
    schemata.set_cache("L3CODE", 0, CacheMask(0x3));
    group.write_schemata(&schemata).unwrap();
    let now = group.schemata().unwrap();
    assert_eq!(now.cache("L3CODE", 0), Some(CacheMask(0x3)));
    assert_eq!(now.cache("L3DATA", 0), Some(CacheMask(0xff)));
}

#[test]
fn sub_numa_nodes_add_up_to_the_domain() {
    let machine = Machine::start(Profile { sub_numa: 2, ..Profile::intel_spr() });
    let root = machine.resctrl.root_group();
    let domains = root.domains().unwrap();
    assert_eq!(domains[1].sub_domains, [2, 3]);
    let inner = root.mon_file(1, "mon_sub_L3_03/llc_occupancy");
    assert!(matches!(MonValue::parse(&fs::read(inner).unwrap()), MonValue::Count(_)));
}

#[test]
fn schemata_are_refused_in_the_words_of_the_kernel() {
    let machine = Machine::start(Profile::intel_spr());
    let resctrl = &machine.resctrl;
    resctrl.create_control_group("a").unwrap();
    assert_eq!(write(resctrl, "L3\n"), "Missing ':'");
    assert_eq!(write(resctrl, "L3:\n"), "Missing 'L3' value");
    assert_eq!(write(resctrl, "L9:0=1\n"), "Unknown or unsupported resource name 'L9'");
    assert_eq!(write(resctrl, "L3:x=1\n"), "Missing '=' or non-numeric domain");
    assert_eq!(write(resctrl, "L3:0=1;0=1\n"), "Duplicate domain 0");
    assert_eq!(write(resctrl, "L3:0=xyz\n"), "Non-hex character in the mask xyz");
    assert_eq!(write(resctrl, "L3:0=ffff\n"), "Mask out of range");
    assert_eq!(write(resctrl, "L3:0=5\n"), "The mask 5 has non-consecutive 1-bits");
    assert_eq!(write(resctrl, "MB:0=abc\n"), "Invalid MB value abc");
    assert_eq!(write(resctrl, "MB:0=5\n"), "MB value 5 out of range [10,100]");
    assert_eq!(write(resctrl, "L3:7=1\n"), "");

    let group = resctrl.control_groups().unwrap().pop().unwrap();
    let before = group.schemata().unwrap();
    fs::write(group.path().join("schemata"), "L3:0=1\nMB:0=1000\n").unwrap_err();
    assert_eq!(group.schemata().unwrap(), before, "nothing is applied when one line is wrong");
    fs::write(group.path().join("schemata"), "MB:1=33\n").unwrap();
    assert_eq!(group.schemata().unwrap().bandwidth("MB", 1), Some(40));
    assert_eq!(group.size().unwrap()["L3"][&0], 105 << 20);
}

#[test]
fn an_exclusive_group_keeps_others_out() {
    let machine = Machine::start(Profile::small());
    let a = machine.resctrl.create_control_group("a").unwrap();
    assert_eq!(refused(a.set_mode(&Mode::Exclusive)).1, Refusal::Overlap);
    assert_eq!(machine.resctrl.last_status(), "Schemata overlaps");
    let mask = |bits| {
        let mut schemata = Schemata::default();
        schemata.set_cache("L3", 0, CacheMask(bits));
        schemata
    };
    machine.resctrl.root_group().write_schemata(&mask(0x0f)).unwrap();
    a.write_schemata(&mask(0xf0)).unwrap();
    a.set_mode(&Mode::Exclusive).unwrap();
    assert_eq!(a.mode().unwrap(), Mode::Exclusive);
    let b = machine.resctrl.create_control_group("b").unwrap();
    assert_eq!(b.schemata().unwrap().cache("L3", 0), Some(CacheMask(0x0f)));
    let (_, reason, words) = refused(b.write_schemata(&mask(0x1f)));
    assert_eq!((reason, words.as_str()), (Refusal::Overlap, "Overlaps with exclusive group"));
    let usage = fs::read_to_string(machine.resctrl.root().join("info/L3/bit_usage")).unwrap();
    assert_eq!(usage, "0=EEEESSSS\n");
    assert_eq!(refused(b.set_mode(&Mode::Other("odd".into()))).2, "Unknown or unsupported mode");
}

#[test]
fn classes_and_rmids_run_out_in_the_words_of_the_kernel() {
    let machine = Machine::start(Profile { num_rmids: 5, ..Profile::small() });
    let resctrl = &machine.resctrl;
    let groups: Vec<_> =
        ["a", "b", "c"].map(|name| resctrl.create_control_group(name).unwrap()).into();
    let (errno, reason, words) = refused(resctrl.create_control_group("d"));
    assert_eq!((errno, reason, words.as_str()), (28, Refusal::OutOfClosids, "Out of CLOSIDs"));
    groups[0].create_monitor_group("m").unwrap();
    let (errno, reason, words) = refused(groups[1].create_monitor_group("m"));
    assert_eq!((errno, reason, words.as_str()), (28, Refusal::OutOfRmids, "Out of RMIDs"));
    groups[0].remove().unwrap();
    let (errno, reason, _) = refused(groups[1].create_monitor_group("m"));
    assert_eq!((errno, reason), (16, Refusal::RmidsInLimbo));
    machine.await_limbo(0);
    groups[1].create_monitor_group("m").unwrap();
}

#[test]
fn groups_are_made_moved_and_removed_only_where_they_may_be() {
    let machine = Machine::start(Profile::small());
    let resctrl = &machine.resctrl;
    let root = resctrl.root_group();
    let a = resctrl.create_control_group("a").unwrap();
    let m = root.create_monitor_group("m").unwrap();
    assert_eq!(m.kind(), GroupKind::Monitor);
    let place = |path: &str| fs::create_dir(resctrl.root().join(path)).unwrap_err().raw_os_error();
    assert_eq!(place("info/x"), Some(1));
    assert_eq!(place("mon_groups/m/x"), Some(1));
    assert_eq!(place("a/x"), Some(1));
    assert_eq!(place("x\ny"), Some(22));
    assert_eq!(place("a"), Some(17));
    assert_eq!(fs::remove_dir(resctrl.root().join("info")).unwrap_err().raw_os_error(), Some(1));

    assert_eq!(refused(a.move_to(&root, "a")).2, "Source must be a MON group");
    let to_root = fs::rename(m.path(), resctrl.root().join("m")).unwrap_err();
    assert_eq!(to_root.raw_os_error(), Some(1));
    assert_eq!(resctrl.last_status(), "Destination must be a mon_groups subdirectory");
    m.set_cpus(&CpuSet::from_iter([0])).unwrap();
    assert_eq!(refused(m.move_to(&a, "m")).2, "Cannot move a MON group that monitors CPUs");
    m.set_cpus(&CpuSet::default()).unwrap();

    let sleeper = Sleeper::start();
    m.move_task(sleeper.pid()).unwrap();
    let moved = m.move_to(&a, "n").unwrap();
    assert_eq!(moved.tasks().unwrap(), [sleeper.pid()]);
    assert_eq!(
        a.tasks().unwrap(),
        [sleeper.pid()],
        "a control group lists its monitor groups' tasks"
    );
    a.remove().unwrap();
    assert!(moved.tasks().unwrap_err().is_gone());
    assert!(root.tasks().unwrap().contains(&sleeper.pid()));
}

#[test]
fn tasks_are_refused_in_the_words_of_the_kernel() {
    let machine = Machine::start(Profile::small());
    let root = machine.resctrl.root_group();
    let a = machine.resctrl.create_control_group("a").unwrap();
    let m = root.create_monitor_group("m").unwrap();
    let (errno, reason, words) = refused(m.move_task(4_000_000));
    assert_eq!((errno, reason), (3, Refusal::NoTask));
    assert!(words.starts_with("No task 4000000"), "{words}");
    let sleepers = [Sleeper::start(), Sleeper::start()];
    a.move_task(sleepers[0].pid()).unwrap();
    let (_, reason, words) = refused(m.move_task(sleepers[0].pid()));
    assert_eq!(reason, Refusal::OtherControlGroup);
    assert!(words.starts_with("Can't move task to different control group"), "{words}");
    let list = |text: &str| fs::write(a.path().join("tasks"), text).unwrap_err().raw_os_error();
    assert_eq!(list("abc\n"), Some(22));
    assert_eq!(machine.resctrl.last_status(), "Task list parsing error pid abc");
    assert_eq!(list("-4\n"), Some(22));
    assert_eq!(machine.resctrl.last_status(), "Invalid pid -4");
    let several = format!("{},4000000\n", sleepers[1].pid());
    assert_eq!(list(&several), Some(3));
    assert!(a.tasks().unwrap().contains(&sleepers[1].pid()), "earlier moves of a list stay");
}

#[test]
fn processors_are_refused_in_the_words_of_the_kernel() {
    let machine = Machine::start(Profile::small());
    let root = machine.resctrl.root_group();
    let a = machine.resctrl.create_control_group("a").unwrap();
    let m = a.create_monitor_group("m").unwrap();
    let cpu = CpuSet::from_iter([0]);
    assert_eq!(refused(a.set_cpus(&CpuSet::from_iter([4000]))).2, "Can only assign online CPUs");
    let words = refused(m.set_cpus(&cpu)).2;
    assert_eq!(words, "Can only add CPUs to mongroup that belong to parent");
    a.set_cpus(&cpu).unwrap();
    m.set_cpus(&cpu).unwrap();
    assert_eq!(m.cpus().unwrap(), cpu);
    assert_eq!(refused(root.set_cpus(&CpuSet::default())).2, "Can't drop CPUs from default group");
    fs::write(a.path().join("cpus"), "zz\n").unwrap_err();
    assert_eq!(machine.resctrl.last_status(), "Bad CPU list/mask");
    a.remove().unwrap();
    assert!(root.cpus().unwrap().iter().any(|cpu| cpu == 0));
}

#[test]
fn a_child_is_born_into_the_group_of_its_parent() {
    let machine = Machine::start(Profile::small());
    let group = machine.resctrl.root_group().create_monitor_group("m").unwrap();
    let mut shell = machine::Shell::start();
    group.move_task(shell.pid()).unwrap();
    let child = shell.spawn_sleeper();
    let tasks = group.tasks().unwrap();
    assert!(tasks.contains(&child), "{child} is not in {tasks:?}");
}

#[test]
fn words_instead_of_numbers_can_be_asked_for() {
    let machine = Machine::start(Profile::small());
    let group = machine.resctrl.root_group().create_monitor_group("m").unwrap();
    assert!(machine.simulator.set_fault("mon_groups/m", Some(Fault::Unavailable)));
    assert_eq!(group.occupancy(0).unwrap(), MonValue::Unavailable);
    assert!(machine.simulator.set_fault("mon_groups/m", Some(Fault::Error)));
    assert_eq!(group.occupancy(0).unwrap(), MonValue::Error);
    assert!(machine.simulator.set_fault("mon_groups/m", None));
    assert!(matches!(group.occupancy(0).unwrap(), MonValue::Count(_)));
    assert!(!machine.simulator.set_fault("mon_groups/nobody", None));
}
