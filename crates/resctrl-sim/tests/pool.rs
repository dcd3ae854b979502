//! The pool on a real mount with real processes: few RMIDs, births and deaths, limbo, crashes, rivals.
#![allow(clippy::unwrap_used)]

mod machine;

use std::collections::HashSet;
use std::fs;

use crosstalk_host::HostRoot;
use crosstalk_resctrl::pool::{Pool, PoolConfig, Scope, Subject, move_process};
use crosstalk_resctrl::{Error, Group};
use crosstalk_resctrl_sim::{Fault, Profile};
use machine::roles::{Actor, play};
use machine::{Machine, Shell, Sleeper, await_until, key, subject};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLISECOND;

#[test]
#[ignore = "not a test: the process that other tests start"]
fn become_a_role() {
    play();
}

fn start(machine: &Machine) -> Pool {
    Pool::start(machine.resctrl.clone(), PoolConfig::default()).unwrap()
}

fn own_groups(machine: &Machine) -> Vec<String> {
    let controls = machine.resctrl.control_groups().unwrap();
    let groups = controls.iter().flat_map(|control| control.monitor_groups().unwrap());
    groups.map(|group| group.name()).filter(|name| name.starts_with("crosstalk-")).collect()
}

fn group_of(pool: &Pool, pid: u32) -> Group {
    let id = pool.group_of(key(pid)).unwrap();
    pool.roster().group(id).unwrap().group.clone()
}

fn threads(pid: u32) -> HashSet<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    entries.flatten().map(|e| e.file_name().to_str().unwrap().parse().unwrap()).collect()
}

#[test]
fn two_hundred_processes_share_thirty_two_rmids() {
    let machine = Machine::start(Profile::small());
    let mut pool = start(&machine);
    let sleepers: Vec<Sleeper> = (0..200).map(|_| Sleeper::start()).collect();
    let subjects: Vec<Subject> = sleepers
        .iter()
        .enumerate()
        .map(|(n, sleeper)| {
            let container = match n {
                0..40 => Some("web"),
                40..80 => Some("db"),
                _ => None,
            };
            subject(sleeper.pid(), n as u64 * MILLISECOND, container)
        })
        .collect();
    let report = pool.update(&subjects, SECOND).unwrap();
    assert_eq!(report.capacity, 31);
    assert_eq!(report.groups, 31);
    assert_eq!((report.alone, report.by_container, report.shared), (28, 80, 92));
    assert_eq!((report.incomplete, report.foreign), (0, 0));
    for (n, subject) in subjects.iter().enumerate() {
        let assignment = pool.assignment(subject.key).unwrap();
        let wanted = match n {
            172.. => Scope::Process,
            0..80 => Scope::Container,
            _ => Scope::Shared,
        };
        assert_eq!(assignment.scope, wanted, "process {n}");
    }
    for view in pool.roster().groups() {
        let members: HashSet<u32> = view.members.iter().map(|(key, _)| key.pid).collect();
        let tasks: HashSet<u32> = view.group.tasks().unwrap().into_iter().collect();
        assert_eq!(members, tasks, "{}", view.group.path().display());
    }
    assert_eq!(pool.stop().unwrap(), 31);
    assert_eq!(own_groups(&machine), Vec::<String>::new());
}

#[test]
fn a_fork_storm_leaves_the_parent_alone_in_its_group() {
    let machine = Machine::start(Profile { num_rmids: 8, ..Profile::small() });
    let mut pool = start(&machine);
    let mut shell = Shell::start();
    let parent = shell.pid();
    pool.update(&[subject(parent, SECOND, None)], SECOND).unwrap();
    assert_eq!(pool.assignment(key(parent)).unwrap().scope, Scope::Process);
    let mut children = Vec::new();
    for _ in 0..60 {
        children.push(shell.spawn_sleeper());
    }
    // One that has exited before it can be moved is no error, and shares until its exit is told.
    let gone: u32 = shell.ask("true & pid=$!; wait $pid; echo $pid").parse().unwrap();
    let mut subjects = vec![subject(parent, SECOND, None), subject(gone, 0, None)];
    subjects.extend(children.iter().map(|child| subject(*child, u64::from(*child), None)));
    let report = pool.update(&subjects, 2 * SECOND).unwrap();
    assert_eq!((report.alone, report.shared, report.incomplete), (6, 56, 0));
    assert_eq!(group_of(&pool, parent).tasks().unwrap(), [parent]);
    assert_eq!(pool.assignment(key(parent)).unwrap().scope, Scope::Process);
}

#[test]
fn a_process_without_any_rmid_is_not_measured() {
    let machine = Machine::start(Profile { num_rmids: 3, ..Profile::small() });
    let control = machine.resctrl.create_control_group("tenant").unwrap();
    let sleeper = Sleeper::start();
    control.move_task(sleeper.pid()).unwrap();
    let mut pool = start(&machine);
    let report = pool.update(&[subject(sleeper.pid(), 1, None)], SECOND).unwrap();
    assert_eq!((report.capacity, report.incomplete), (1, 1));
    assert_eq!(pool.assignment(key(sleeper.pid())), None);
}

#[test]
fn threads_born_while_their_process_is_moved_are_moved_too() {
    let machine = Machine::start(Profile::small());
    let group = machine.resctrl.root_group().create_monitor_group("m").unwrap();
    let actor = Actor::start("threads");
    for _ in 0..5 {
        let moved = move_process(&group, &HostRoot::default(), actor.pid()).unwrap();
        assert!(moved.complete, "{moved:?}");
        let before = threads(actor.pid());
        let inside: HashSet<u32> = group.tasks().unwrap().into_iter().collect();
        let after = threads(actor.pid());
        let outside: Vec<&u32> =
            before.intersection(&after).filter(|tid| !inside.contains(tid)).collect();
        assert_eq!(outside, Vec::<&u32>::new());
        machine.resctrl.root_group().move_task(actor.pid()).unwrap();
    }
}

#[test]
fn groups_of_a_killed_instance_are_swept_and_a_living_one_is_not_disturbed() {
    let machine = Machine::start(Profile::small());
    let foreign = machine.resctrl.root_group().create_monitor_group("somebody-elses").unwrap();
    let mut first = Actor::start(&format!("pool:{}", machine.resctrl.root().display()));
    assert_eq!(own_groups(&machine).len(), 2);
    match Pool::start(machine.resctrl.clone(), PoolConfig::default()) {
        Err(Error::AlreadyRunning { holder, .. }) => assert_eq!(holder, Some(first.pid())),
        other => panic!("a second instance must be refused, not {other:?}"),
    }
    assert_eq!(own_groups(&machine).len(), 2, "the refused instance swept nothing");
    first.kill();
    assert_eq!(own_groups(&machine).len(), 2, "a killed process leaves its groups");
    let pool = start(&machine);
    assert_eq!(own_groups(&machine), Vec::<String>::new());
    drop(pool);
    assert!(foreign.path().is_dir());
}

#[test]
fn limbo_is_waited_out() {
    let machine = Machine::start(Profile { num_rmids: 3, ..Profile::small() });
    let sleeper = Sleeper::start();
    let subjects = [subject(sleeper.pid(), SECOND, None)];
    let mut pool = start(&machine);
    assert_eq!(pool.update(&subjects, SECOND).unwrap().alone, 1);
    machine.simulator.hold_limbo(true);
    pool.stop().unwrap();
    assert_eq!(machine.simulator.in_limbo(), 2);

    let mut pool = start(&machine);
    let mut now = 2 * SECOND;
    let report = pool.update(&subjects, now).unwrap();
    assert!(report.in_limbo && report.alone == 0, "{report:?}");
    assert_eq!(pool.assignment(key(sleeper.pid())), None, "absent, not zero");
    let again = pool.update(&subjects, now + MILLISECOND).unwrap();
    assert!(!again.in_limbo, "asked again before the pause was over");
    machine.simulator.hold_limbo(false);
    await_until("the RMIDs are free again", || {
        now += 5 * SECOND;
        pool.update(&subjects, now).unwrap().alone == 1
    });
}

#[test]
fn exhaustion_shrinks_the_pool_and_groups_of_others_stay() {
    let machine = Machine::start(Profile { num_rmids: 8, ..Profile::small() });
    let root = machine.resctrl.root_group();
    let sleepers: Vec<Sleeper> = (0..6).map(|_| Sleeper::start()).collect();
    let foreign: Vec<Group> =
        (0..4).map(|n| root.create_monitor_group(&format!("other-{n}")).unwrap()).collect();
    foreign[0].move_task(sleepers[0].pid()).unwrap();
    let mut pool = start(&machine);
    let subjects: Vec<Subject> =
        sleepers.iter().map(|sleeper| subject(sleeper.pid(), SECOND, None)).collect();
    let report = pool.update(&subjects, SECOND).unwrap();
    assert_eq!((report.capacity, report.groups), (3, 3));
    assert_eq!((report.alone, report.shared, report.foreign), (2, 3, 1));
    let named = &report.foreign_named[0];
    assert_eq!((named.pid, named.group.as_str()), (sleepers[0].pid(), "other-0"));
    assert_eq!(foreign[0].tasks().unwrap(), [sleepers[0].pid()]);
    pool.stop().unwrap();
    assert_eq!(root.monitor_groups().unwrap().len(), 4);
}

#[test]
fn a_process_in_a_control_group_is_measured_inside_it() {
    let machine = Machine::start(Profile::small());
    let control = machine.resctrl.create_control_group("tenant").unwrap();
    let sleeper = Sleeper::start();
    control.move_task(sleeper.pid()).unwrap();
    let mut pool = start(&machine);
    pool.update(&[subject(sleeper.pid(), 1, None)], SECOND).unwrap();
    let group = group_of(&pool, sleeper.pid());
    assert!(group.path().starts_with(control.path()));
    assert!(control.tasks().unwrap().contains(&sleeper.pid()), "its limits still hold");
    // Somebody moves it away: the next update follows.
    machine.resctrl.root_group().move_task(sleeper.pid()).unwrap();
    pool.update(&[subject(sleeper.pid(), 1, None)], 2 * SECOND).unwrap();
    let group = group_of(&pool, sleeper.pid());
    assert!(!group.path().starts_with(control.path()));
    assert_eq!(group.tasks().unwrap(), [sleeper.pid()]);
}

#[test]
fn a_freed_rmid_is_quarantined_and_flagged_if_it_must_be_used_before_it_has_drained() {
    let machine = Machine::start(Profile { num_rmids: 3, ..Profile::small() });
    let (first, heir) = (Sleeper::start(), Sleeper::start());
    let mut pool = start(&machine);
    pool.update(&[subject(first.pid(), SECOND, None)], SECOND).unwrap();
    // A group that says no number is not known to be empty, however busy this machine is.
    let name = group_of(&pool, first.pid()).name();
    assert!(machine.simulator.set_fault(&format!("mon_groups/{name}"), Some(Fault::Unavailable)));
    pool.exited(key(first.pid()), SECOND);
    drop(first);
    let heirs = [subject(heir.pid(), 1, None)];
    let report = pool.update(&heirs, 2 * SECOND).unwrap();
    assert_eq!((report.quarantined, report.alone, report.shared), (1, 0, 1));
    pool.update(&heirs, 12 * SECOND).unwrap();
    let assignment = pool.assignment(key(heir.pid())).unwrap();
    assert_eq!((assignment.scope, assignment.stale), (Scope::Process, true));
    pool.update(&heirs, 18 * SECOND).unwrap();
    assert!(!pool.assignment(key(heir.pid())).unwrap().stale);
}

#[test]
fn a_drained_rmid_goes_to_the_next_process_without_a_flag() {
    let machine = Machine::start(Profile { num_rmids: 3, ..Profile::small() });
    let (first, heir) = (Sleeper::start(), Sleeper::start());
    let mut pool = start(&machine);
    pool.update(&[subject(first.pid(), SECOND, None)], SECOND).unwrap();
    let before = pool.group_of(key(first.pid()));
    pool.exited(key(first.pid()), SECOND);
    drop(first);
    let heirs = [subject(heir.pid(), 1, None)];
    await_until("the heir has an RMID of its own", || {
        pool.update(&heirs, 2 * SECOND).unwrap().alone == 1
    });
    let assignment = pool.assignment(key(heir.pid())).unwrap();
    assert_eq!((Some(assignment.group), assignment.stale), (before, false));
}

#[test]
fn a_mount_that_goes_away_is_an_error_and_not_a_panic() {
    let machine = Machine::start(Profile::small());
    let sleeper = Sleeper::start();
    let mut pool = start(&machine);
    let subjects = [subject(sleeper.pid(), 1, None)];
    pool.update(&subjects, SECOND).unwrap();
    machine.simulator.unmount().unwrap();
    let error = pool.update(&subjects, 2 * SECOND).unwrap_err();
    assert!(error.is_gone(), "{error}");
    assert_eq!(pool.stop().unwrap(), 0);
}

#[test]
fn a_group_that_somebody_removed_is_made_again() {
    let machine = Machine::start(Profile::small());
    let sleeper = Sleeper::start();
    let mut pool = start(&machine);
    let subjects = [subject(sleeper.pid(), 1, None)];
    pool.update(&subjects, SECOND).unwrap();
    group_of(&pool, sleeper.pid()).remove().unwrap();
    pool.update(&subjects, 2 * SECOND).unwrap();
    pool.update(&subjects, 3 * SECOND).unwrap();
    assert_eq!(group_of(&pool, sleeper.pid()).tasks().unwrap(), [sleeper.pid()]);
}
