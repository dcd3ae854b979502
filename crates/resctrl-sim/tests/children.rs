//! Children in the group of their parent, on a real mount with real processes.
#![allow(clippy::unwrap_used)]

mod machine;

use crosstalk_host::{Clock, HostRoot, ProcStat};
use crosstalk_resctrl::pool::{Pool, PoolConfig, Scope, SubjectKey};
use crosstalk_resctrl::sampler::{CacheReading, ReadingState, SamplerConfig};
use crosstalk_resctrl::source::{CacheSource, Seen, SourceConfig};
use crosstalk_resctrl_sim::Profile;
use machine::{Machine, Shell, await_until};

const MS: u64 = 1_000_000;

fn seen(clock: &Clock, pid: u32) -> Seen {
    let start = ProcStat::of_process(&HostRoot::default(), pid).unwrap().start_boottime_ns();
    let key = SubjectKey { pid, process_start_ns: clock.process_start_ns(start.unwrap()) };
    Seen { key, comm: "sh".into(), container: None, parent: None, cpu_ns: MS }
}

#[test]
fn rows_hold_a_child_from_its_birth_until_it_has_a_group_of_its_own_and_say_so() {
    let machine = Machine::start(Profile::small());
    let clock = Clock::measure();
    let config = SourceConfig {
        pool: PoolConfig { stale_for_ns: 300 * MS, ..PoolConfig::default() },
        sampler: SamplerConfig { slot_ns: MS, cpu_share: 1.0 },
        clock: clock.clone(),
    };
    let pool = Pool::start(machine.resctrl.clone(), config.pool.clone()).unwrap();
    let mut source = CacheSource::start(pool, config).unwrap();
    let mut shell = Shell::start();
    let parent = seen(&clock, shell.pid());
    let of = |rows: &[CacheReading], pid: u32| -> Vec<CacheReading> {
        rows.iter().filter(|row| row.pid == pid).cloned().collect()
    };
    let mut rows = Vec::new();
    await_until("the parent is measured", || {
        source.saw(vec![parent.clone()]);
        rows.extend(source.take());
        !of(&rows, shell.pid()).is_empty()
    });
    assert!(rows.iter().all(|row| row.scope == Scope::Process), "it was alone");

    let child = shell.spawn_sleeper();
    let both = vec![parent, seen(&clock, child)];
    await_until("the child is measured by itself, and its parent is alone again", || {
        source.saw(both.clone());
        rows.extend(source.take());
        let last = of(&rows, shell.pid()).pop().unwrap();
        let alone = last.scope == Scope::Process && last.state == ReadingState::Ok;
        alone && !of(&rows, child).is_empty()
    });
    let first_own = of(&rows, child).iter().map(|row| row.read_at_ns).min().unwrap();
    let born = both[1].key.process_start_ns;
    let between = |row: &&CacheReading| (born..first_own).contains(&row.read_at_ns);
    let mixed = of(&rows, shell.pid());
    let mixed: Vec<&CacheReading> = mixed.iter().filter(between).collect();
    assert!(!mixed.is_empty(), "the child was placed before anything was read");
    assert!(mixed.iter().all(|row| row.scope == Scope::WithChildren), "{mixed:#?}");
    assert!(source.status().rows_with_children >= mixed.len() as u64);
    source.stop().unwrap();
}
