//! The processor beside vmagent: the same load, the same sink, four labels added by both, queue on disk for both.
//!
//! `cargo bench -p crosstalk-processor --bench beside_vmagent [-- rounds]`
//!
//! Prints samples per CPU-second and peak memory of each and their ratios, and beside them what snappy and the disk alone take
//! for the same bodies: no processor that keeps them on disk can be faster. CPU time is the process's own, so that what
//! else the machine does matters little; the two run one after the other, twice, in turn. And it says what one instance delivers
//! to a store that takes its time, where the round trip is the limit.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "beside_vmagent/floor.rs"]
mod floor;
#[path = "beside_vmagent/load.rs"]
mod load;
#[path = "beside_vmagent/measure.rs"]
mod measure;
#[path = "beside_vmagent/sink.rs"]
mod sink;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crosstalk_figure::{Figure, Section, process};
use measure::{Cost, Measured};
use sink::Sink;

/// 100,000 series in requests of 10,000 samples.
const SERIES: usize = 100_000;
const SAMPLES_PER_REQUEST: usize = 10_000;

/// How long a store takes to answer that is far away.
const FAR: Duration = Duration::from_millis(100);

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|text| text != "--bench").collect();
    if arguments.is_empty() && !crosstalk_figure::is_asked_for() {
        return;
    }
    if let [mode, config, ..] = &arguments[..]
        && mode == "processor"
    {
        return run_processor(Path::new(config));
    }
    let rounds = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(30);
    let folder = tempfile::tempdir().unwrap();
    let requests = load::requests(SERIES, SAMPLES_PER_REQUEST);
    let bytes: usize = requests.iter().map(Vec::len).sum();
    println!(
        "{SERIES} series, {} requests of {SAMPLES_PER_REQUEST} samples a round, {} KiB each, {rounds} rounds",
        requests.len(),
        bytes / requests.len() / 1024
    );
    let mut ours = Cost::default();
    let mut theirs = Cost::default();
    for turn in 0..2 {
        let folder = folder.path().join(turn.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        let near = || Sink::start(Duration::ZERO);
        theirs.add(measured("vmagent", &folder, rounds, &requests, near(), vmagent));
        ours.add(measured("crosstalk", &folder, rounds, &requests, near(), processor));
    }
    let apart = folder.path().join("far");
    std::fs::create_dir_all(&apart).unwrap();
    let far = measured("far store", &apart, rounds, &requests, Sink::start(FAR), processor);
    let faster = ours.per_cpu_second() / theirs.per_cpu_second();
    let smaller = ours.peak_bytes as f64 / theirs.peak_bytes as f64;
    let mut section = Section::new("The processor beside vmagent");
    for (name, cost) in [("crosstalk", &ours), ("vmagent", &theirs)] {
        let value = format!(
            "{:.0} samples per CPU-second, at most {} MiB",
            cost.per_cpu_second(),
            cost.peak_bytes >> 20
        );
        section.add(Figure::new(format!("{SERIES} series, four labels added: {name}"), value));
    }
    section.extend([
        Figure::new("samples per CPU-second, to vmagent's", format!("{faster:.2} x"))
            .against("at least 4 x", faster >= 4.0),
        Figure::new("peak memory, to vmagent's", format!("{smaller:.2} x"))
            .against("at most 0.25 x", smaller <= 0.25),
    ]);
    section.add(Figure::new(
        format!(
            "one instance to a store that answers after {} ms, 4 requests in flight",
            FAR.as_millis()
        ),
        format!("{:.0} samples per second", far.samples as f64 / far.seconds),
    ));
    let plain = load::enriched(SERIES, SAMPLES_PER_REQUEST);
    section
        .extend(limits(&floor::measured(folder.path(), &requests, &plain, SERIES, rounds), &ours));
    section.finish().unwrap();
}

/// What is possible, and how far from it we are.
fn limits(floor: &floor::Floor, ours: &Cost) -> [Figure; 4] {
    let value = |samples: f64, of: &str| format!("{samples:.0} samples per {of}");
    let share = ours.per_cpu_second() / floor.all_per_cpu_second;
    let of_disk = ours.per_second() / floor.disk_per_second;
    [
        Figure::new("snappy alone, in and out", value(floor.snappy_per_cpu_second, "CPU-second")),
        Figure::new(
            "snappy and writing to disk alone",
            value(floor.all_per_cpu_second, "CPU-second"),
        ),
        Figure::new("crosstalk, of that", format!("{:.0} %", 100.0 * share)),
        Figure::new(
            "the disk alone, a sync for every two requests; crosstalk reaches of that, with two senders",
            format!("{}; {:.0} %", value(floor.disk_per_second, "second"), 100.0 * of_disk),
        ),
    ]
}

fn measured(
    name: &str,
    folder: &Path,
    rounds: usize,
    requests: &[Vec<u8>],
    sink: Sink,
    command: fn(&Path, SocketAddr, SocketAddr) -> Command,
) -> Measured {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut child = command(folder, address, sink.address).stderr(Stdio::null()).spawn().unwrap();
    load::wait_until_up(address);
    load::send(address, requests, 1);
    sink.wait_for((requests.len() * SAMPLES_PER_REQUEST) as u64);
    let before = process::cpu_seconds(child.id());
    let began = std::time::Instant::now();
    load::send(address, requests, rounds);
    let samples = (rounds * requests.len() * SAMPLES_PER_REQUEST) as u64;
    sink.wait_for(samples + (requests.len() * SAMPLES_PER_REQUEST) as u64);
    let measured = Measured {
        samples,
        seconds: began.elapsed().as_secs_f64(),
        cpu_seconds: process::cpu_seconds(child.id()) - before,
        peak_bytes: process::peak_bytes(child.id()),
    };
    child.kill().unwrap();
    child.wait().unwrap();
    println!(
        "{name:>9}: {:>9.0} samples per CPU-second, peak {:>4} MiB",
        measured.per_cpu_second(),
        measured.peak_bytes >> 20
    );
    measured
}

fn vmagent(folder: &Path, listen: SocketAddr, sink: SocketAddr) -> Command {
    let relabel = folder.join("relabel.yml");
    let rules: String = ["pod_name", "pod_uid", "workload_name", "workload_uid"]
        .map(|label| format!("- {{target_label: {label}, replacement: 0f3c9d1e-{label}}}\n"))
        .concat();
    std::fs::write(&relabel, rules).unwrap();
    let mut command = Command::new("vmagent");
    command
        .arg(format!("-httpListenAddr={listen}"))
        .arg(format!("-remoteWrite.url=http://{sink}/api/v1/write"))
        .arg(format!("-remoteWrite.relabelConfig={}", relabel.display()))
        .arg(format!("-remoteWrite.tmpDataPath={}", folder.join("vmagent").display()))
        .arg("-loggerLevel=ERROR");
    command
}

fn processor(folder: &Path, listen: SocketAddr, sink: SocketAddr) -> Command {
    let pods = folder.join("pods.yaml");
    std::fs::write(&pods, load::pods()).unwrap();
    let config = folder.join("processor.toml");
    let text = format!(
        "listen = \"{listen}\"\ndata_dir = \"{}\"\n[cache]\nstatic_file = \"{}\"\n[[endpoint]]\nname = \"sink\"\nurl = \"http://{sink}/api/v1/write\"\n",
        folder.join("data").display(),
        pods.display()
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("processor").arg(config);
    command
}

fn run_processor(config: &Path) {
    let config =
        crosstalk_settings::Loader::new("processor").file(Some(config)).load().unwrap().config;
    crosstalk_processor::run(config).unwrap();
}
