//! The sampler on a real mount: what it reads, what a row says, and how it keeps to its budget.
#![allow(clippy::unwrap_used)]

mod machine;

use std::collections::BTreeMap;

use crosstalk_resctrl::pool::{Pool, PoolConfig, Scope, Subject, SubjectKey};
use crosstalk_resctrl::sampler::{
    CacheReading, ReadingState, Sampler, SamplerConfig, SlotReport, unix_now_ns,
};
use crosstalk_resctrl_sim::{Fault, Profile};
use machine::roles::{Actor, play};
use machine::{Machine, Sleeper, await_until, key, subject};

const SLOT: u64 = 1_000_000;
const SECOND: u64 = 1000 * SLOT;

#[test]
#[ignore = "not a test: the process that other tests start"]
fn become_a_role() {
    play();
}

struct Setup {
    machine: Machine,
    pool: Pool,
    sampler: Sampler,
    slot: u64,
}

impl Setup {
    fn new(profile: Profile, subjects: &[Subject]) -> Self {
        let machine = Machine::start(profile);
        let mut pool = Pool::start(machine.resctrl.clone(), PoolConfig::default()).unwrap();
        pool.update(subjects, SECOND).unwrap();
        let generous = SamplerConfig { slot_ns: SLOT, cpu_share: 1.0 };
        Self { machine, pool, sampler: Sampler::new(generous), slot: 0 }
    }

    fn sample(&mut self, ran: &[u32]) -> (SlotReport, Vec<CacheReading>) {
        // Far apart, so that the budget is full again.
        self.slot += 100 * SLOT;
        let keys: Vec<SubjectKey> = ran.iter().map(|pid| key(*pid)).collect();
        let mut rows = Vec::new();
        let report =
            self.sampler.sample(&self.pool.roster(), self.slot, &keys, &unix_now_ns, &mut rows);
        (report, rows)
    }

    fn group_path(&self, pid: u32) -> String {
        let id = self.pool.group_of(key(pid)).unwrap();
        let path = self.pool.roster().group(id).unwrap().group.path().to_owned();
        path.strip_prefix(self.machine.resctrl.root()).unwrap().display().to_string()
    }
}

#[test]
fn a_stream_shows_in_its_own_rows_and_not_in_those_of_a_sleeper() {
    let stream = Actor::start("stream:64");
    let sleeper = Sleeper::start();
    let subjects = [subject(stream.pid(), SECOND, None), subject(sleeper.pid(), 1, None)];
    let mut setup = Setup::new(Profile::small(), &subjects);
    let before = unix_now_ns();
    let (mut most, mut traffic) = (BTreeMap::new(), BTreeMap::new());
    await_until("the stream shows in the cache", || {
        for row in setup.sample(&[stream.pid(), sleeper.pid()]).1 {
            assert_eq!((row.state, row.scope), (ReadingState::Ok, Scope::Process));
            assert_eq!((row.l3_domain, row.process_start_ns), (0, 1));
            assert!(row.read_at_ns >= before);
            let occupancy = row.llc_occupancy_bytes.unwrap();
            let held = most.entry(row.pid).or_insert(0);
            *held = occupancy.max(*held);
            *traffic.entry(row.pid).or_insert(0) += row.mbm_total_bytes.unwrap_or(0);
        }
        let moved = traffic.get(&stream.pid()) > Some(&(8 << 20));
        moved && most.get(&stream.pid()) > Some(&(1 << 20))
    });
    let (busy, idle) = (traffic[&stream.pid()], traffic[&sleeper.pid()]);
    assert!(idle < busy / 2, "{idle} {busy}");
}

#[test]
fn the_sum_over_all_groups_is_never_more_than_the_cache() {
    let streams = [Actor::start("stream:64"), Actor::start("stream:32"), Actor::start("stream:8")];
    let subjects: Vec<Subject> =
        streams.iter().map(|actor| subject(actor.pid(), SECOND, None)).collect();
    let setup = Setup::new(Profile::small(), &subjects);
    let root = setup.machine.resctrl.root_group();
    await_until("the cache is nearly full", || {
        // A control group's file is the sum of its own RMID and of those of all its monitor groups.
        let sum = root.occupancy(0).unwrap().count().unwrap();
        assert!(sum <= 16 << 20, "{sum}");
        sum > 14 << 20
    });
    drop(streams);
    for _ in 0..200 {
        let before = root.occupancy(0).unwrap().count().unwrap();
        assert!(before <= 16 << 20);
    }
}

#[test]
fn words_become_states_and_their_values_are_absent() {
    let sleeper = Sleeper::start();
    let mut setup = Setup::new(Profile::small(), &[subject(sleeper.pid(), 1, None)]);
    let path = setup.group_path(sleeper.pid());
    for (fault, state) in
        [(Fault::Unavailable, ReadingState::Unavailable), (Fault::Error, ReadingState::Error)]
    {
        assert!(setup.machine.simulator.set_fault(&path, Some(fault)));
        let (_, rows) = setup.sample(&[sleeper.pid()]);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].state, state);
        assert_eq!((rows[0].llc_occupancy_bytes, rows[0].mbm_total_bytes), (None, None));
    }
    setup.machine.simulator.set_fault(&path, None);
    setup.sample(&[sleeper.pid()]);
    let (_, rows) = setup.sample(&[sleeper.pid()]);
    assert_eq!(rows[0].state, ReadingState::Ok);
    assert!(rows[0].mbm_total_bytes.is_some());
}

#[test]
fn a_counter_that_is_not_assigned_is_a_state_beside_a_measured_occupancy() {
    let sleeper = Sleeper::start();
    let profile = Profile { counters: Some(2), ..Profile::small() };
    let mut setup = Setup::new(profile, &[subject(sleeper.pid(), 1, None)]);
    let (_, rows) = setup.sample(&[sleeper.pid()]);
    assert_eq!(rows[0].state, ReadingState::Unassigned);
    assert!(rows[0].llc_occupancy_bytes.is_some());
    assert_eq!(rows[0].mbm_total_bytes, None);
}

#[test]
fn a_process_that_did_not_run_and_holds_nothing_is_not_read() {
    let sleeper = Sleeper::start();
    let mut setup = Setup::new(Profile::small(), &[subject(sleeper.pid(), 1, None)]);
    await_until("its lines have left the cache", || setup.sample(&[]).0.due == 0);
    let (report, rows) = setup.sample(&[]);
    assert_eq!((report.reads, rows.len()), (0, 0));
    let (report, rows) = setup.sample(&[sleeper.pid()]);
    assert_eq!((report.reads, rows.len()), (3, 1));
}

#[test]
fn a_shared_value_is_told_for_each_process_that_ran_and_names_its_group() {
    let sleepers: Vec<Sleeper> = (0..6).map(|_| Sleeper::start()).collect();
    let subjects: Vec<Subject> =
        sleepers.iter().map(|sleeper| subject(sleeper.pid(), 0, Some("web"))).collect();
    let profile = Profile { num_rmids: 3, ..Profile::small() };
    let mut setup = Setup::new(profile, &subjects);
    let (_, rows) = setup.sample(&[sleepers[0].pid(), sleepers[3].pid()]);
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.scope == Scope::Container));
    assert_eq!(rows[0].group, rows[1].group);
    assert_eq!(rows[0].llc_occupancy_bytes, rows[1].llc_occupancy_bytes);
}

#[test]
fn a_process_that_exits_between_reads_ends_without_an_error() {
    let mut stream = Actor::start("stream:16");
    let sleeper = Sleeper::start();
    let subjects = [subject(stream.pid(), SECOND, None), subject(sleeper.pid(), 1, None)];
    let mut setup = Setup::new(Profile::small(), &subjects);
    let both = [stream.pid(), sleeper.pid()];
    assert_eq!(setup.sample(&both).1.len(), 2);
    stream.kill();
    // Its exit is not known yet: its group is still there, and so is its value.
    let (report, rows) = setup.sample(&both);
    assert_eq!((report.gone, rows.len()), (0, 2));
    setup.pool.exited(key(stream.pid()), 2 * SECOND);
    let (_, rows) = setup.sample(&both);
    assert_eq!(rows.iter().map(|row| row.pid).collect::<Vec<_>>(), [sleeper.pid()]);
}

#[test]
fn exits_and_births_while_another_thread_reads_do_no_harm() {
    let machine = Machine::start(Profile::small());
    let mut pool = Pool::start(machine.resctrl.clone(), PoolConfig::default()).unwrap();
    let mut sampler = Sampler::new(SamplerConfig { slot_ns: SLOT, cpu_share: 1.0 });
    let (sender, receiver) = std::sync::mpsc::channel::<u32>();
    let churn = std::thread::spawn(move || {
        for _ in 0..150 {
            let sleeper = Sleeper::start();
            sender.send(sleeper.pid()).unwrap();
        }
    });
    let mut subjects = Vec::new();
    let mut slot = 0;
    let mut rows = Vec::new();
    // Every process in the list is being killed while it is moved and read.
    while let Ok(pid) = receiver.recv() {
        slot += SLOT;
        subjects.push(subject(pid, u64::from(pid), None));
        if subjects.len() > 20 {
            pool.exited(subjects.remove(0).key, slot);
        }
        pool.update(&subjects, slot).unwrap();
        let ran: Vec<SubjectKey> = subjects.iter().map(|subject| subject.key).collect();
        sampler.sample(&pool.roster(), slot, &ran, &unix_now_ns, &mut rows);
    }
    churn.join().unwrap();
    assert!(rows.iter().all(|row| row.state != ReadingState::Error));
}

#[test]
fn a_mount_that_goes_away_gives_rows_of_state_error() {
    let sleeper = Sleeper::start();
    let mut setup = Setup::new(Profile::small(), &[subject(sleeper.pid(), 1, None)]);
    setup.sample(&[sleeper.pid()]);
    let Setup { machine, pool, mut sampler, slot } = setup;
    machine.simulator.unmount().unwrap();
    let mut rows = Vec::new();
    let ran = [key(sleeper.pid())];
    let report = sampler.sample(&pool.roster(), slot + 100 * SLOT, &ran, &unix_now_ns, &mut rows);
    assert_eq!(report.gone, 1);
    assert_eq!((rows[0].state, rows[0].llc_occupancy_bytes), (ReadingState::Error, None));
}

#[test]
fn beyond_the_budget_everybody_has_the_same_number_of_turns() {
    let sleepers: Vec<Sleeper> = (0..20).map(|_| Sleeper::start()).collect();
    let subjects: Vec<Subject> =
        sleepers.iter().map(|sleeper| subject(sleeper.pid(), 1, None)).collect();
    let setup = Setup::new(Profile::small(), &subjects);
    let mut sampler = Sampler::new(SamplerConfig { slot_ns: SLOT, cpu_share: 0.05 });
    let ran: Vec<SubjectKey> = subjects.iter().map(|subject| subject.key).collect();
    let (mut turns, mut cpu_ns, slots) = (BTreeMap::new(), 0, 2000);
    let roster = setup.pool.roster();
    for slot in 0..slots {
        let mut rows = Vec::new();
        let report = sampler.sample(&roster, slot * SLOT, &ran, &unix_now_ns, &mut rows);
        cpu_ns += report.cpu_ns;
        for row in rows {
            *turns.entry(row.pid).or_insert(0u32) += 1;
        }
    }
    assert_eq!(turns.len(), 20, "nobody is left out");
    let (least, most) = (turns.values().min().unwrap(), turns.values().max().unwrap());
    assert!(most - least <= 1, "{turns:?}");
    assert!(u64::from(*most) < slots, "the budget was not reached, so this proves nothing");
    let share = cpu_ns as f64 / (slots * SLOT) as f64;
    assert!(share < 0.06, "{share}");
}
