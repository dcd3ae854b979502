//! What it costs to watch 20 containers at 50 ms: processor time and memory of the driver itself.
//!
//! The target is of collecting what containers use and get done. What every process does in every millisecond, the cache by
//! process and a database besides are more than that, and are told as they are.

use crosstalk_bench::experiment::{Surroundings, Variables};
use crosstalk_bench::live::Silent;
use crosstalk_bench::runtime::Processes;
use crosstalk_bench::store::{RunRecord, RunStore};
use crosstalk_bench::{Experiment, Options, run};
use crosstalk_figure::{Figure, Section};
use crosstalk_host::HostRoot;
use crosstalk_resctrl_sim::{Profile, mount};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const CONTAINERS: u32 = 20;
const SECONDS: u32 = 15;
/// The argument that makes this program the other side of what is measured.
const STAND_INS: &str = "--stand-ins";

/// Containers that do next to nothing: what is left is what watching costs.
fn measure(data: &str, scheduler: &str, resctrl: Option<PathBuf>) -> RunRecord {
    let mut text = format!(
        "benchmark: {{name: cost, max_t: {SECONDS}, scheduler: {{implementation: {scheduler}}}, \
         data: {{profilefrequency: 50, probe: false, {data}}}}}\n"
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
        resctrl,
        grace: Duration::from_secs(1),
        stop: Arc::new(AtomicBool::new(false)),
    };
    run(&experiment, &text, &options, &mut Silent).expect("a run").1
}

/// The resctrl simulator and a database, as a process of their own: what they cost is not the driver's.
struct StandIns {
    child: Child,
    port: u16,
    mounted: tempfile::TempDir,
}

impl StandIns {
    /// `None` where there is no FUSE.
    fn start() -> std::io::Result<Option<Self>> {
        let mounted = tempfile::tempdir()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(STAND_INS).arg(mounted.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let Ok(port) = line.trim().parse() else {
            child.wait()?;
            return Ok(None);
        };
        Ok(Some(Self { child, port, mounted }))
    }

    fn stop(mut self) -> std::io::Result<()> {
        // It ends with its input.
        drop(self.child.stdin.take());
        self.child.wait().map(|_| ())
    }
}

/// The other process: says its port, and ends when nobody holds its input any more.
fn stand_in(folder: &Path) -> std::io::Result<()> {
    let simulator = mount(Profile::small(), folder).map_err(std::io::Error::other)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    simulator.unmount().map_err(std::io::Error::other)
}

/// Takes whatever is written, as a database does.
fn answer(stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line.trim().is_empty() {
                break;
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink())?;
        writer.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
    }
}

fn tell(section: &mut Section, what: &str, record: &RunRecord, is_aimed_at: bool) {
    let (cpu, most) = record.cost.expect("a run that ended");
    let seconds = record.ended_ns.map_or(0, |end| end - record.began_ns) as f64 / 1e9;
    let share = cpu / seconds * 100.0;
    let figure = Figure::new(format!("{what}: processor time"), format!("{share:.2} % of a core"));
    if !is_aimed_at {
        section.add(figure);
        return;
    }
    section.add(figure.against("below 5 %", share < 5.0));
    let mib = most as f64 / (1 << 20) as f64;
    let figure = Figure::new(format!("{what}: memory"), format!("{mib:.0} MiB"));
    section.add(figure.against("below 50 MiB", mib < 50.0));
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == STAND_INS) {
        return stand_in(Path::new(&arguments.next().unwrap_or_default()));
    }
    let mut section = Section::new("The benchmark driver");
    // Later ones run in a process that has grown already, so memory is told of the first alone.
    let record = measure("perf: false, rdt: false", "default", None);
    tell(&mut section, "20 containers at 50 ms, what they use and get done", &record, true);
    let record = measure("rdt: false", "default", None);
    tell(&mut section, "the same with every process at 1 ms", &record, false);
    if let Some(others) = StandIns::start()? {
        let db = format!("db: {{host: \"127.0.0.1:{}\", name: bench}}", others.port);
        let mounted = others.mounted.path().to_owned();
        let record = measure(&db, "rdt", Some(mounted));
        let what = "that, with the cache (simulated) and a database besides";
        tell(&mut section, what, &record, false);
        others.stop()?;
    }
    section.finish()
}
