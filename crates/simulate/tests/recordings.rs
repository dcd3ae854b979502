//! What a simulated recording promises: it adds up, it can be made again, and its labels are true to the model.

use crosstalk_recording::{Format, Reader};
use crosstalk_settings::Loader;
use crosstalk_simulate::{
    Cause, Machine, Node, Options, Pattern, SLOT_NS, Scenario, Workload, record,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

const START_NS: u64 = 1_767_225_600_000_000_000;

fn machine(cores: u32) -> Machine {
    Machine { cores, cores_per_cache: cores, cores_per_memory: cores, ..Machine::default() }
}

fn pair(neighbour: Workload) -> Scenario {
    let victim = Workload { cores: vec![0], ..Workload::serve("victim", 8 << 20) };
    Scenario { machine: machine(2), workload: vec![victim, neighbour], ..Scenario::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_slot_of_every_core_adds_up(
        seed in any::<u64>(),
        cores in 1_u32..6,
        counts in prop::collection::vec(1_u32..4, 1..5),
        stolen in 0.0..0.5_f64,
    ) {
        let kinds = [Workload::stream("s"), Workload::serve("v", 4 << 20), Workload::compute("c"), Workload::thrash("t")];
        let workload = counts
            .iter()
            .zip(kinds)
            .map(|(count, kind)| Workload { count: *count, ..kind })
            .collect();
        let mut scenario = Scenario { machine: machine(cores), workload, ..Scenario::default() };
        scenario.host.stolen = stolen;
        let mut node = Node::new(&scenario, seed, START_NS);
        let (mut waited, mut before) = (0_u64, 0);
        for slot in 0..2_000 {
            let measured = node.step();
            prop_assert_eq!(measured.start_ns, START_NS + slot * SLOT_NS);
            let mut busy: BTreeMap<u32, u64> = BTreeMap::new();
            for (_, reading) in &measured.tasks {
                *busy.entry(reading.core).or_default() += reading.on_cpu_ns;
                waited += reading.runq_wait_ns.unwrap_or(0);
                prop_assert!(reading.voluntary_switches <= reading.switches);
            }
            for core in &measured.slots {
                let sum = busy.get(&core.core).copied().unwrap_or(0) + core.idle_ns.unwrap_or(0);
                prop_assert_eq!(sum, SLOT_NS);
            }
            prop_assert_eq!(measured.slots.len(), cores as usize);
            before = before.max(measured.tasks.len());
        }
        // Waits that ended are no more than what the truth says was waited.
        let truth = node.take_truth();
        let true_waits: f64 =
            truth.lost_s.iter().filter(|(key, _)| key.2 == Cause::CpuTime).map(|(_, s)| s).sum();
        prop_assert!(waited as f64 / 1e9 <= true_waits + 1e-6, "{} {}", waited, true_waits);
        prop_assert!(before > 0);
    }
}

#[test]
fn a_stream_costs_who_needs_the_cache_and_a_computer_costs_nobody() {
    let lost = |neighbour: Workload| {
        let scenario = pair(Workload { cores: vec![1], ..neighbour });
        let mut node = Node::new(&scenario, 5, START_NS);
        (0..20_000).for_each(|_| {
            node.step();
        });
        let truth = node.take_truth();
        truth.dearer_s(0, 1) / truth.on_cpu_s[0]
    };
    assert!(lost(Workload::stream("stream")) > 0.1);
    assert!(lost(Workload::compute("compute")) < 0.001);
}

#[test]
fn who_shares_a_core_waits_and_finds_its_own_cache_cold() {
    let scenario = pair(Workload { cores: vec![0], ..Workload::thrash("thrash") });
    let mut node = Node::new(&scenario, 5, START_NS);
    (0..20_000).for_each(|_| {
        node.step();
    });
    let truth = node.take_truth();
    assert!(truth.waited_s(0, 1) > 0.1, "{truth:?}");
    assert!(truth.lost_s[&(0, 1, Cause::ColdCache)] > 0.0, "{truth:?}");
}

#[test]
fn the_same_seed_writes_the_same_rows_and_labels_and_every_node_differs() {
    let write = |seed: u64| {
        let out = tempfile::tempdir().expect("a folder");
        let options = Options {
            out: out.path().to_owned(),
            nodes: 2,
            duration: Duration::from_millis(1_700),
            seed,
            start_ns: START_NS,
            format: Format::Parquet,
        };
        let scenario = pair(Workload {
            cores: vec![1],
            pattern: Pattern::Steady,
            ..Workload::stream("stream")
        });
        let mut last = 0.0;
        let written = record(&scenario, &options, |now| {
            assert!(now.share >= last);
            last = now.share;
        });
        let written = written.expect("it can be written");
        assert_eq!(last, 1.0);
        let reader = Reader::open([out.path().display().to_string()]).expect("a recording");
        let rows = |dataset: &str, node: &str| {
            let scan = reader.scan(dataset).files(|file| file.node == node);
            let pieces = scan.pieces().map(|piece| piece.expect("readable").batch);
            pieces.map(|batch| format!("{:?}", batch.columns())).collect::<String>()
        };
        assert_eq!(reader.datasets(), ["probe", "slots", "steal", "tasks"]);
        assert_ne!(rows("tasks", "sim-0000"), rows("tasks", "sim-0001"));
        let labels = std::fs::read_to_string(out.path().join("labels/labels-sim-0000.jsonl"));
        let labels = labels.expect("labels");
        assert!(
            labels.contains("\"span\":\"recording\"") && labels.contains("\"stream\""),
            "{labels}"
        );
        assert!(written.labels > 0 && written.task_rows > 3_000);
        (rows("tasks", "sim-0000"), labels)
    };
    let (first, again, other) = (write(7), write(7), write(8));
    assert!(first == again && first.0 != other.0);
}

#[test]
fn a_scenario_is_read_from_a_file_and_what_is_wrong_is_said_with_its_line() {
    let load = |text: &str| Loader::new("simulate").text("s.yaml", text).load::<Scenario>();
    let good =
        "machine:\n  cores: 4\n  cache: 8MiB\nworkload:\n  - name: db\n    working_set: 6MiB\n";
    let scenario = load(good).expect("a scenario").config;
    assert_eq!((scenario.machine.cores, scenario.workload[0].working_set), (4, 6 << 20));
    for (bad, said) in [
        ("machine:\n  coers: 4\n", "s.yaml:2"),
        (
            "workload:\n  - name: a\n    cores: [99]\n",
            "s.yaml:3: workload[0].cores: there is no core 99",
        ),
        ("workload:\n  - name: a\n    follows: b\n", "no workload b stands above it"),
        ("machine:\n  cores: 0\n", "machine.cores"),
        ("workload: []\n", "0 processes"),
    ] {
        let error = load(bad).expect_err(bad).to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn what_is_lost_is_gone_from_the_rows_and_counted_in_its_slot() {
    let whole = pair(Workload { cores: vec![1], ..Workload::stream("stream") });
    let mut torn = whole.clone();
    torn.host.lost = 0.05;
    let rows = |scenario: &Scenario| {
        let mut node = Node::new(scenario, 7, START_NS);
        let (mut rows, mut lost, mut slots) = (0, 0, 0_u32);
        for _ in 0..4_000 {
            let measured = node.step();
            rows += measured.tasks.len();
            for slot in measured.slots.iter().filter(|slot| slot.lost > 0) {
                assert_eq!(slot.idle_ns, None);
                assert!(measured.tasks.iter().all(|(_, row)| row.core != slot.core));
                lost += slot.lost as usize;
                slots += 1;
            }
        }
        (rows, lost, f64::from(slots) / 8_000.0)
    };
    assert_eq!(rows(&whole).1, 0);
    let (kept, lost, share) = rows(&torn);
    assert!(kept > 1_000 && lost > 100, "{kept} {lost}");
    assert!((0.01..0.06).contains(&share), "{share}");
}
