//! What it costs to watch 20 containers at 50 ms: processor time and memory of the driver itself.

use crosstalk_bench::experiment::{Surroundings, Variables};
use crosstalk_bench::live::Silent;
use crosstalk_bench::runtime::Processes;
use crosstalk_bench::store::{RunRecord, RunStore};
use crosstalk_bench::{Experiment, Options, run};
use crosstalk_figure::{Figure, Section};
use crosstalk_host::HostRoot;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const CONTAINERS: u32 = 20;
const SECONDS: u32 = 15;

/// Containers that do next to nothing: what is left is what watching costs.
fn measure(perf: bool) -> RunRecord {
    let mut text = format!(
        "benchmark: {{name: cost, max_t: {SECONDS}, \
         data: {{profilefrequency: 50, perf: {perf}, probe: false, rdt: false}}}}\n"
    );
    for index in 0..CONTAINERS {
        let command = "sh -c 'while :; do echo tick; sleep 1; done'";
        let _ =
            writeln!(text, "c{index}: {{index: {index}, progress: lines, command: {command:?}}}");
    }
    let host = HostRoot::default();
    let around = Surroundings::of(&host);
    let experiment = Experiment::parse("cost.yaml", &text, &Variables::default(), &around);
    let experiment = experiment.expect("a valid experiment");
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options {
        runs: RunStore::at(folder.path()),
        runtimes: vec![Box::new(Processes::new(&host))],
        host,
        resctrl: None,
        grace: Duration::from_secs(1),
        stop: Arc::new(AtomicBool::new(false)),
    };
    run(&experiment, &text, &options, &mut Silent).expect("a run").1
}

fn main() -> std::io::Result<()> {
    let mut section = Section::new("The benchmark driver");
    // The second runs in a process that has grown already, so memory is told of the first alone.
    for (perf, what) in
        [(false, "20 containers at 50 ms"), (true, "the same with every process at 1 ms")]
    {
        let record = measure(perf);
        let (cpu, most) = record.cost.expect("a run that ended");
        let seconds = record.ended_ns.map_or(0, |end| end - record.began_ns) as f64 / 1e9;
        let share = cpu / seconds * 100.0;
        let figure =
            Figure::new(format!("{what}: processor time"), format!("{share:.2} % of a core"));
        section.add(if perf { figure } else { figure.against("below 5 %", share < 5.0) });
        let mib = most as f64 / (1 << 20) as f64;
        let figure = Figure::new(format!("{what}: memory"), format!("{mib:.0} MiB"));
        section.add(figure.against("below 50 MiB", mib < 50.0));
    }
    section.finish()
}
