use super::*;
use crate::Error;
use crate::experiment::{Container, ContainerData, Experiment, Surroundings, Variables};
use crate::roster::{Allocation, Member};
use crate::scheduler::adaptive::Adaptive;
use crate::scheduler::levers::{Lever, Pair};
use crate::scheduler::{Decision, Scheduler, View};
use crosstalk_accuracy::Kind;
use crosstalk_collect::About;
use crosstalk_host::ControlGroup;
use crosstalk_interference::CorePlace;
use crosstalk_model::{Batch, Placement};
use crosstalk_simulate::Node;

const START_NS: u64 = 1_767_225_600_000_000_000;
/// Cgroups of simulated tasks are numbered from here.
const GROUPS: u64 = 1_000;
/// Slots that come in one batch.
const BATCH: usize = 100;

/// Would be pulled.
struct Anything;

impl Lever for Anything {
    fn name(&self) -> &'static str {
        "anything"
    }

    fn pull(&mut self, _: &Pair<'_>) -> Result<Option<String>, Error> {
        Ok(Some("held back".to_owned()))
    }

    fn release(&mut self, _: &Member) -> Result<(), Error> {
        Ok(())
    }
}

/// The first must not be slowed, the others are less and less important.
fn containers(count: usize) -> Vec<Container> {
    let mut text = "benchmark: {name: x}\n".to_owned();
    for index in 0..count {
        let critical = index == 0;
        text += &format!(
            "c{index}: {{index: {index}, command: sh, critical: {critical}, priority: -{index}}}\n"
        );
    }
    let around = Surroundings {
        cpus: [0].into_iter().collect(),
        path: vec!["/bin".into(), "/usr/bin".into()],
    };
    Experiment::parse("e.yaml", &text, &Variables::default(), &around).unwrap().containers
}

fn member(index: u32) -> Member {
    let nowhere = HostRoot::new("/nonexistent");
    Member {
        index,
        name: format!("c{index}").into(),
        round: 0,
        group: ControlGroup::named(&nowhere, "none"),
        group_id: Some(GROUPS + u64::from(index)),
        network_of: None,
        id: None,
        data: ContainerData::default(),
        allocation: Allocation::default(),
    }
}

/// As the source of counters delivers rows.
fn give(work: &mut Work, rows: Vec<TaskRow>) {
    static SOURCE: About =
        About { name: "counters", datasets: &[TaskRow::DATASET], metrics: &[], subjects: &[] };
    work.take_all(&[Message { source: &SOURCE, delivery: Delivery::Rows(Batch::new(rows)) }]);
}

/// Everything the adaptive scheduler decides in so many seconds of a simulated machine.
fn decisions(kind: Kind, seed: u64, seconds: usize) -> Vec<Decision> {
    let scenario = kind.scenario(seed, seed.is_multiple_of(2));
    let mut node = Node::new(&scenario, seed, START_NS);
    let (roster, known) = (Roster::default(), Arc::new(Mutex::new(Known::default())));
    let place = |core| CorePlace { physical: core, cache: 0, memory: 0 };
    let topology = Topology::new((0..scenario.machine.cores).map(place).collect());
    let containers = containers(scenario.workload.len());
    let mut work = Work::new(topology, roster.clone(), Arc::clone(&known), containers.len());
    containers.iter().for_each(|container| roster.add(member(container.index)));
    let mut adaptive = Adaptive::new(vec![Box::new(Anything)], &containers);
    let mut decided = Vec::new();
    let mut rows = Vec::new();
    for slot in 1..=seconds * 1_000 {
        let measured = node.step();
        for (task, reading) in &measured.tasks {
            let mut reading = *reading;
            reading.cgroup_id = GROUPS + *task as u64;
            rows.push(TaskRow::new(reading, Arc::new(Placement::default())));
        }
        if slot % BATCH == 0 {
            give(&mut work, std::mem::take(&mut rows));
        }
        if slot % 500 == 0 {
            work.detector.hand_over();
            work.conclude();
            let known = known.lock().unwrap().clone();
            let (running, slowed, vitals) = (roster.members(), known.slowed, known.vitals);
            let now = Duration::from_millis(slot as u64);
            decided.extend(adaptive.look(now, &View { running, slowed, vitals }));
        }
    }
    decided
}

#[test]
fn with_no_interference_nothing_is_done_in_20_runs() {
    for seed in 1..=20 {
        let decided = decisions(Kind::NoInterference, seed, 30);
        assert!(decided.is_empty(), "run {seed}: {decided:#?}");
    }
}

#[test]
fn who_takes_the_core_of_who_must_not_be_slowed_is_held_back() {
    // Which shows that the runs above could have been acted upon.
    let decided = decisions(Kind::CpuContention, 1, 30);
    let acted = decided.iter().find(|decision| decision.what == "acted").unwrap();
    assert_eq!(acted.victim.as_deref(), Some("c0"), "{decided:#?}");
}

#[test]
fn who_comes_to_a_machine_full_of_strangers_is_noticed_at_once() {
    const MS: u64 = 1_000_000;
    let (roster, known) = (Roster::default(), Arc::new(Mutex::new(Known::default())));
    let mut work = Work::new(Topology::one_cache(2), roster.clone(), Arc::clone(&known), 2);
    (0..2).for_each(|index| roster.add(member(index)));
    let mut machine = Node::new(&Kind::CpuContention.scenario(1, false), 1, START_NS);
    let template = std::iter::repeat_with(|| machine.step().tasks.first().map(|task| task.1));
    let template = template.take(1_000).flatten().next().unwrap();
    let row = |ms: u64, core, (pid, group): (u32, u64), on_cpu_ns, wait_ns| {
        let mut reading = template;
        (reading.slot_start_ns, reading.cgroup_id, reading.core) =
            (START_NS + ms * MS, group, core);
        reading.process = crosstalk_model::ProcessId { pid, start_ns: 1 };
        (reading.on_cpu_ns, reading.runq_wait_ns) = (on_cpu_ns, Some(wait_ns));
        TaskRow::new(reading, Arc::new(Placement::default()))
    };
    // Twenty processes of a build have kept the other core busy for ten seconds; then a container comes to the victim's.
    let mut named = None;
    for ms in 0..14_000u64 {
        let has_come = ms >= 10_000;
        let mut rows = vec![row(ms, 1, (100 + (ms % 20) as u32, 1), MS, 0)];
        let wait_ns = if has_come { MS / 2 } else { 0 };
        rows.push(row(ms, 0, (1, GROUPS), MS / 4, wait_ns));
        rows.extend(has_come.then(|| row(ms, 0, (2, GROUPS + 1), MS / 2, 0)));
        give(&mut work, rows);
        if ms % 500 == 0 {
            work.detector.hand_over();
            work.conclude();
            let slowed = known.lock().unwrap().slowed.clone();
            if named.is_none()
                && slowed.iter().any(|one| (one.victim, &one.aggressors[..]) == (0, &[1]))
            {
                named = Some(ms);
            }
        }
    }
    assert!((10_000..=12_000).contains(&named.unwrap()), "{named:?}");
}

#[test]
fn a_loss_of_the_round_before_is_none_of_the_next() {
    let scenario = Kind::CpuContention.scenario(1, false);
    let mut node = Node::new(&scenario, 1, START_NS);
    let (roster, known) = (Roster::default(), Arc::new(Mutex::new(Known::default())));
    let topology = Topology::one_cache(scenario.machine.cores);
    let count = scenario.workload.len();
    let mut work = Work::new(topology, roster.clone(), Arc::clone(&known), count);
    (0..count as u32).for_each(|index| roster.add(member(index)));
    let mut rows = Vec::new();
    let mut step = |work: &mut Work| {
        for (task, reading) in &node.step().tasks {
            let mut reading = *reading;
            reading.cgroup_id = GROUPS + *task as u64;
            rows.push(TaskRow::new(reading, Arc::new(Placement::default())));
        }
        give(work, std::mem::take(&mut rows));
    };
    (0..20_000).for_each(|_| step(&mut work));
    work.detector.hand_over();
    work.conclude();
    assert!(!known.lock().unwrap().slowed.is_empty(), "which shows that there was one");
    work.watch_round(1);
    (0..500).for_each(|_| step(&mut work));
    work.detector.hand_over();
    work.conclude();
    let known = known.lock().unwrap();
    assert_eq!((known.round, known.slowed.len()), (1, 0), "half a second tells too little");
}
