//! The two data sets tell of the same milliseconds. Alone in its file: it has the machine to itself.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use std::process::{Command, Stdio};
use support::simulator::Simulator;
use support::*;

const BURSTS: usize = 30;
/// A burst shows at the latest so many slots after the one it began in.
const WITHIN: u64 = 2;
/// What the simulated memory moves in a fraction of a millisecond of streaming, and never for a process that rests.
const TRAFFIC: u64 = 1 << 20;

/// One burst as the recording shows it.
#[derive(Debug)]
struct Burst {
    /// Slots until it shows in `tasks` and in `cache`.
    tasks_after: Option<u64>,
    cache_after: Option<u64>,
    /// On a processor in the slots in which it must show.
    ran_ns: u64,
    /// The cache was read at least once in time.
    read: bool,
    /// A reading taken before the burst shows it.
    early: bool,
}

impl Burst {
    fn find(start: u64, tasks: &[Row], cache: &[Row]) -> Self {
        let first = start / SLOT_NS * SLOT_NS;
        let slots_after = |row: &&Row| {
            let slot = number(row, "slot_start_ns");
            (slot >= first).then(|| (slot - first) / SLOT_NS)
        };
        let soon = |row: &&Row| slots_after(row).is_some_and(|slots| slots <= WITHIN);
        let flows = |row: &&Row| row["mbm_total_bytes"].parse().is_ok_and(|b: u64| b >= TRAFFIC);
        let read_at = |row: &Row| number(row, "read_at_ns");
        let busy = tasks.iter().filter(|row| number(row, "on_cpu_ns") >= SLOT_NS / 4);
        Self {
            tasks_after: busy.filter_map(|row| slots_after(&row)).min(),
            cache_after: cache.iter().filter(flows).filter_map(|row| slots_after(&row)).min(),
            ran_ns: tasks.iter().filter(soon).map(|row| number(row, "on_cpu_ns")).sum(),
            read: cache.iter().filter(soon).any(|row| read_at(row) >= start + SLOT_NS),
            early: cache
                .iter()
                .filter(flows)
                .any(|row| (start - 4 * SLOT_NS..start).contains(&read_at(row))),
        }
    }

    /// The machine let the process run and the recorder read; elsewise nobody can see a burst in time.
    fn was_possible(&self) -> bool {
        self.ran_ns >= SLOT_NS && self.read
    }

    fn shows_in_time(&self) -> bool {
        let soon = |after: Option<u64>| after.is_some_and(|slots| slots <= WITHIN);
        soon(self.tasks_after) && soon(self.cache_after)
    }
}

/// Recordings that are taken before it is said that bursts show late: on a machine that is busy with other things neither the
/// recorder nor the simulator, a process like others, gets its turn in time.
const ROUNDS: usize = 3;

#[test]
fn bursts_show_in_both_data_sets_within_two_slots_and_never_before_they_began() {
    let simulator = Simulator::start();
    let mut late = Vec::new();
    for _ in 0..ROUNDS {
        let bursts = round(&simulator);
        let count = |is: &dyn Fn(&&Burst) -> bool| bursts.iter().filter(is).count();
        let possible = count(&|burst| burst.was_possible());
        let in_time = count(&|burst| burst.was_possible() && burst.shows_in_time());
        println!("{in_time} in time of {possible} possible of {BURSTS}");
        assert!(count(&|burst| burst.early) * 10 <= BURSTS, "shown before they began: {bursts:?}");
        if possible * 3 >= BURSTS && in_time * 10 >= possible * 9 {
            return;
        }
        late.push(bursts);
    }
    panic!("late in every round: {late:?}");
}

/// A recording of a process that works in bursts, and where each shows.
fn round(simulator: &Simulator) -> Vec<Burst> {
    let out = tempfile::tempdir().unwrap();
    let stream = Command::new(PYTHON)
        .args([&load("stream.py"), "64", &BURSTS.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = stream.id().to_string();
    // One process, and room to read it in every slot: here the simulator answers, at many times what
    // the kernel takes for a value.
    let args = ["--pid", &pid, "--cache-budget", "60", "--duration", "8s"];
    succeed(record(out.path(), &args).args(["--resctrl-root", simulator.root()]));
    let output = stream.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let starts: Vec<u64> = printed.lines().skip(1).map(|line| line.parse().unwrap()).collect();
    assert_eq!(starts.len(), BURSTS);
    let (tasks, cache) = (csv_rows(out.path(), "tasks"), csv_rows(out.path(), "cache"));
    starts.iter().map(|start| Burst::find(*start, &tasks, &cache)).collect()
}
