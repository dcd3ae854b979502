//! The pool beside other tools on the same mount: their groups and threads stay as they are, and what they remove is
//! no reason to give up.
#![allow(clippy::unwrap_used)]

mod machine;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crosstalk_resctrl::pool::{Pool, PoolConfig, Scope, Subject};
use crosstalk_resctrl_sim::{Fault, Profile};
use machine::{Machine, Sleeper, await_until, key, subject};

const SECOND: u64 = 1_000_000_000;

fn start(machine: &Machine) -> Pool {
    Pool::start(machine.resctrl.clone(), PoolConfig::default()).unwrap()
}

/// A process of two threads that rest until it is dropped.
struct Pair(Child);

impl Pair {
    fn start() -> Self {
        let rest = "import threading, time\n\
                    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n\
                    print(flush=True)\ntime.sleep(600)";
        let mut python = Command::new("/usr/bin/python3");
        let mut child = python.args(["-c", rest]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn second(&self) -> u32 {
        let entries = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let mut tids = entries.flatten().map(|e| e.file_name().to_str().unwrap().parse().unwrap());
        tids.find(|tid| *tid != self.pid()).unwrap()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn groups_of_others_that_come_and_go_do_not_end_an_update() {
    let machine = Machine::start(Profile::small());
    let mut pool = start(&machine);
    let sleeper = Sleeper::start();
    let subjects = [subject(sleeper.pid(), SECOND, None)];
    let (root, over) = (machine.resctrl.root_group(), AtomicBool::new(false));
    let control = machine.resctrl.create_control_group("theirs").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for parent in [&root, &control] {
                    let group = parent.create_monitor_group("passing");
                    let _ = group.map(|group| group.remove());
                }
            }
        });
        let updated: Vec<_> = (1..200).map(|n| pool.update(&subjects, n * SECOND / 10)).collect();
        over.store(true, Ordering::Relaxed);
        // They may have had every RMID at the time, so that nobody was measured; that is no error.
        let errors: Vec<_> = updated.into_iter().filter_map(Result::err).collect();
        assert!(errors.is_empty(), "{errors:?}");
    });
    let mut now_ns = 30 * SECOND;
    await_until("RMIDs are free again", || {
        now_ns += SECOND;
        pool.update(&subjects, now_ns).unwrap().alone == 1
    });
}

#[test]
fn a_group_that_somebody_removed_while_nobody_owned_it_is_forgotten() {
    let profile = Profile { num_rmids: 4, ..Profile::small() };
    let machine = Machine::start(profile);
    let mut pool = start(&machine);
    let sleepers: Vec<Sleeper> = (0..4).map(|_| Sleeper::start()).collect();
    let all: Vec<Subject> =
        sleepers.iter().map(|sleeper| subject(sleeper.pid(), SECOND, None)).collect();
    let report = pool.update(&all[..2], SECOND).unwrap();
    assert_eq!((report.capacity, report.alone), (3, 2));
    let groups: Vec<_> = pool.roster().groups().map(|view| view.group.clone()).collect();
    pool.exited(all[0].key, 2 * SECOND);
    pool.exited(all[1].key, 2 * SECOND);
    for group in groups {
        group.remove().unwrap();
    }
    // Long after any of them would be used again.
    for second in 3..40 {
        pool.update(&all[2..], second * SECOND).unwrap();
    }
    machine.await_limbo(0);
    let report = pool.update(&all[2..], 60 * SECOND).unwrap();
    assert_eq!(report.alone, 2, "{report:?}");
}

#[test]
fn a_process_with_a_thread_in_a_group_of_another_tool_is_left_alone() {
    let machine = Machine::start(Profile::small());
    let other = machine.resctrl.root_group().create_monitor_group("other").unwrap();
    let pair = Pair::start();
    let (pid, second) = (pair.pid(), pair.second());
    other.move_task(second).unwrap();
    let mut pool = start(&machine);
    let report = pool.update(&[subject(pid, SECOND, None)], SECOND).unwrap();
    assert_eq!((report.foreign, report.alone), (1, 0));
    assert_eq!(other.tasks().unwrap(), [second]);
}

#[test]
fn a_process_with_a_thread_in_another_control_group_is_measured_without_that_one() {
    let machine = Machine::start(Profile::small());
    let control = machine.resctrl.create_control_group("slow").unwrap();
    let pair = Pair::start();
    let (pid, second) = (pair.pid(), pair.second());
    control.move_task(second).unwrap();
    let mut pool = start(&machine);
    let report = pool.update(&[subject(pid, SECOND, None)], SECOND).unwrap();
    assert_eq!((report.alone, report.incomplete), (1, 0));
    let home = pool.assignment(key(pid)).unwrap();
    assert_eq!(home.scope, Scope::Process);
    let tasks = pool.roster().group(home.group).unwrap().group.tasks().unwrap();
    assert!(tasks.contains(&pid) && !tasks.contains(&second), "{tasks:?}");
    assert_eq!(control.tasks().unwrap(), [second]);
}

#[test]
fn a_newcomer_displaces_one_owner_and_no_more_while_it_waits() {
    let profile = Profile { num_rmids: 8, ..Profile::small() };
    let machine = Machine::start(profile);
    let mut pool = start(&machine);
    let sleepers: Vec<Sleeper> = (0..10).map(|_| Sleeper::start()).collect();
    let busy = |n: usize, cpu_ns: u64| subject(sleepers[n].pid(), cpu_ns, None);
    let mut subjects: Vec<Subject> = (0..9).map(|n| busy(n, (n as u64 + 1) * SECOND)).collect();
    let alone = pool.update(&subjects, SECOND).unwrap().alone;
    assert_eq!(alone, 6, "one of seven groups is for the rest");
    // Nobody can see their caches run empty, so that whoever needs one of them has to wait.
    for view in pool.roster().groups() {
        let path = view.group.path().strip_prefix(machine.resctrl.root()).unwrap();
        assert!(machine.simulator.set_fault(path.to_str().unwrap(), Some(Fault::Unavailable)));
    }
    subjects.push(busy(9, 100 * SECOND));
    for tenth in 0..20 {
        let report = pool.update(&subjects, 2 * SECOND + tenth * SECOND / 10).unwrap();
        assert!(report.alone >= alone - 1, "{report:?} at {tenth}");
    }
    let report = pool.update(&subjects, 60 * SECOND).unwrap();
    assert_eq!(report.alone, alone, "{report:?}");
}
