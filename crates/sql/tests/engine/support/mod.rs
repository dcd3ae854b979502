//! Simulated recordings, and servers that tests start.

mod bucket;
mod busy;
pub(crate) mod front;
#[path = "../../../../recording/tests/support/moto.rs"]
mod moto;
mod quotas;
mod rows;

pub(crate) use bucket::{bucket, names, of_two_files_each, of_two_files_each_in};
pub(crate) use busy::record_build;
use crosstalk_analysis::{NamedVerdict, Report, Unsaid};
use crosstalk_recording::Format;
use crosstalk_simulate::{Host, Machine, Options, Scenario, Workload, Written, record};
use crosstalk_sql::query::{Format as Output, Output as Rows};
use crosstalk_sql::{Error, Session};
pub(crate) use moto::{Moto, keys, moto, tool};
pub(crate) use quotas::record_quotas;
pub(crate) use rows::{RowByRow, process, ran};

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use tokio::runtime::Runtime;

pub(crate) const START: u64 = 1_767_225_600_000_000_000;

/// Four cores of two caches: servers that a stream and a sort slow down, and two that share a core.
pub(crate) fn scenario() -> Scenario {
    let on = |core: u32, one: Workload| Workload { cores: vec![core], ..one };
    Scenario {
        machine: Machine {
            cores: 4,
            cores_per_cache: 2,
            cores_per_memory: 4,
            ..Machine::default()
        },
        host: Host { stolen: 0.02, ..Host::default() },
        workload: vec![
            on(
                0,
                Workload {
                    container: Some("web".to_owned()),
                    ..Workload::serve("victim", 12 << 20)
                },
            ),
            on(1, Workload::stream("stream")),
            on(2, Workload::serve("redis", 4 << 20)),
            on(2, Workload::compute("cc1")),
            on(3, Workload::thrash("sort")),
        ],
    }
}

pub(crate) fn simulate(out: &Path, nodes: u32, seconds: u64, format: Format) -> Written {
    simulate_from(START, out, nodes, seconds, format)
}

pub(crate) fn simulate_from(
    start_ns: u64,
    out: &Path,
    nodes: u32,
    seconds: u64,
    format: Format,
) -> Written {
    record(&scenario(), &options(start_ns, out, nodes, seconds, format), |_| {}).unwrap()
}

fn options(start_ns: u64, out: &Path, nodes: u32, seconds: u64, format: Format) -> Options {
    Options {
        out: out.to_owned(),
        nodes,
        duration: Duration::from_secs(seconds),
        seed: 7,
        start_ns,
        format,
    }
}

/// The same machine where the recorder did not keep up: rows are lost of a few slots in a hundred.
pub(crate) fn record_lossy(out: &Path, seconds: u64) {
    let mut scenario = scenario();
    scenario.host.lost = 0.01;
    let written = record(&scenario, &options(START, out, 1, seconds, Format::Parquet), |_| {});
    assert!(written.unwrap().task_rows > 0);
}

/// More than three minutes of two cores: of so long a run a sample is kept.
pub(crate) fn record_long(out: &Path) {
    let on = |core: u32, one: Workload| Workload { cores: vec![core], ..one };
    let scenario = Scenario {
        machine: Machine {
            cores: 2,
            cores_per_cache: 2,
            cores_per_memory: 2,
            ..Machine::default()
        },
        workload: vec![
            on(0, Workload::serve("victim", 12 << 20)),
            on(0, Workload::compute("cc1")),
            on(1, Workload::stream("stream")),
        ],
        ..Scenario::default()
    };
    let options = Options {
        out: out.to_owned(),
        nodes: 1,
        duration: Duration::from_secs(240),
        seed: 7,
        start_ns: START,
        format: Format::Parquet,
    };
    record(&scenario, &options, |_| {}).unwrap();
}

const HOUR: u64 = 3_600_000_000_000;

/// A second of tasks of one run, filed by day and hour; hours count from `START`.
pub(crate) fn simulate_hour(out: &Path, hour: u64) -> PathBuf {
    let made = tempfile::tempdir().unwrap();
    simulate_from(START + hour * HOUR, made.path(), 1, 1, Format::Parquet);
    let file = files(&made.path().join("tasks"), ".parquet").remove(0);
    let (day, hour) = (hour / 24 + 1, hour % 24);
    let folder = format!("tasks/node=a/run=r/date=2026-01-{day:02}/hour={hour:02}");
    let there = out.join(folder).join(file.file_name().unwrap());
    std::fs::create_dir_all(there.parent().unwrap()).unwrap();
    std::fs::copy(file, &there).unwrap();
    there
}

pub(crate) fn place(folder: &Path) -> Vec<String> {
    vec![folder.to_str().unwrap().to_owned()]
}

/// The answer to a query as CSV, without its header.
pub(crate) fn ask(runtime: &Runtime, session: &Session, query: &str) -> Result<Vec<String>, Error> {
    runtime.block_on(async {
        let frame = session.plan(query).await?;
        let mut text = Vec::new();
        let mut rows = Rows::new(Output::Csv, frame.schema().inner(), &mut text)?;
        session.run_planned(query, frame, |batch| rows.write(&batch)).await?;
        rows.finish()?;
        let text = String::from_utf8(text).unwrap();
        Ok(text.lines().skip(1).map(str::to_owned).collect())
    })
}

/// A process that ends with the test.
pub(crate) struct Server(pub(crate) Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const UPLOAD: &str = r#"
import boto3, os, sys
s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1")
s3.create_bucket(Bucket="cluster")
for folder, _, files in os.walk(sys.argv[1]):
    for name in files:
        path = os.path.join(folder, name)
        s3.upload_file(path, "cluster", "rec/" + os.path.relpath(path, sys.argv[1]))
"#;

/// Puts a folder into `s3://cluster/rec`.
pub(crate) fn upload(folder: &Path, address: &str) {
    let upload = Command::new(tool("python"))
        .args(["-c", UPLOAD])
        .arg(folder)
        .envs(keys(address))
        .output()
        .unwrap();
    assert!(upload.status.success(), "{}", String::from_utf8_lossy(&upload.stderr));
}

/// The program itself.
pub(crate) fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_crosstalk-sql"))
}

/// What it prints.
pub(crate) fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Every file below a folder that ends so, in order.
pub(crate) fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                left.push(entry.path());
            } else if entry.path().to_str().unwrap().ends_with(ending) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// Sums are made in another order, and rounded at other places.
const ALIKE: f64 = 1e-3;

fn alike(a: f64, b: f64) -> bool {
    (a - b).abs() <= ALIKE * a.abs().max(b.abs()).max(1e-3)
}

/// Two reports say the same of the same.
pub(crate) fn same(streamed: &Report, gathered: &Report) {
    let who = |v: &&NamedVerdict| {
        let names = (v.node.clone(), v.victim.clone(), v.aggressor.clone());
        (names, v.resource, v.signal)
    };
    let sorted = |report: &Report| {
        let mut all: Vec<NamedVerdict> = report.verdicts().into_iter().cloned().collect();
        all.sort_by(|a, b| who(&a).cmp(&who(&b)));
        all
    };
    let (streamed_all, gathered_all) = (sorted(streamed), sorted(gathered));
    assert_eq!(
        streamed_all.iter().map(|v| who(&v)).collect::<Vec<_>>(),
        gathered_all.iter().map(|v| who(&v)).collect::<Vec<_>>()
    );
    for (a, b) in streamed_all.iter().zip(&gathered_all) {
        let numbers = |v: &NamedVerdict| [v.slowdown, v.low, v.high, v.lost_seconds, v.confidence];
        for (x, y) in numbers(a).into_iter().zip(numbers(b)) {
            assert!(alike(x, y), "{a:#?}\n{b:#?}");
        }
        assert_eq!((a.from_ns, a.to_ns, a.evidence.bins), (b.from_ns, b.to_ns, b.evidence.bins));
    }
    let unsaid = |report: &Report| {
        let one = |u: &&Unsaid| (u.node.clone(), u.victim.clone(), u.because);
        let mut all: Vec<_> = report.cannot_tell().iter().map(one).collect();
        all.sort();
        all
    };
    assert_eq!(unsaid(streamed), unsaid(gathered));
    for (a, b) in streamed.runs.iter().zip(&gathered.runs) {
        assert_eq!((a.rows, a.slots, a.from_ns, a.to_ns), (b.rows, b.slots, b.from_ns, b.to_ns));
        assert_eq!((a.lossy_slots, &a.caveats), (b.lossy_slots, &b.caveats));
    }
}
