//! A driver of its own for each thing that is measured: memory that one has grown to is not told of the next.

use crate::{CONTAINERS, SECONDS};
use crosstalk_bench::experiment::{Surroundings, Variables};
use crosstalk_bench::live::{Live, Status};
use crosstalk_bench::result::summarize_and_draw;
use crosstalk_bench::runtime::{DockerEngine, Processes, Runtime};
use crosstalk_bench::store::{Event, EventKind, RunStore};
use crosstalk_bench::{Experiment, Options, run};
use crosstalk_figure::process::cpu_seconds;
use crosstalk_host::{HostRoot, OwnUsage};
use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The argument that makes this program a driver that is measured.
pub(crate) const DRIVER: &str = "--driver";
/// What it says when everybody runs.
const ALL_RUN: &str = "all run";
/// What a start sets off dies down first.
const SETTLE: Duration = Duration::from_secs(2);
/// Then processor time is looked at for so long.
const LOOKED_AT: Duration = Duration::from_secs(SECONDS as u64 - 4);

/// Where a driver finds what is not everywhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    pub(crate) resctrl: Option<PathBuf>,
    pub(crate) docker: Option<PathBuf>,
}

/// What a driver cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Share of a core while everybody runs.
    pub(crate) share: f64,
    /// Processor seconds of all of the run, its preparation and end too.
    pub(crate) whole_s: f64,
    /// The most memory, up to the end.
    pub(crate) most_bytes: u64,
}

/// Has a driver of its own run an experiment.
pub(crate) fn measure(text: &str, places: &Places) -> io::Result<Cost> {
    let place = |path: &Option<PathBuf>| path.clone().map(OsString::from).unwrap_or_default();
    let mut child = Command::new(env::current_exe()?)
        .args([DRIVER, text])
        .args([place(&places.resctrl), place(&places.docker)])
        .stdout(Stdio::piped())
        .spawn()?;
    let cost = watch(&mut child);
    if cost.is_err() {
        // It watches containers of an engine that is about to end.
        child.kill()?;
    }
    match child.wait()? {
        status if status.success() => cost,
        status => cost.and_then(|_| Err(io::Error::other(format!("a driver ended with {status}")))),
    }
}

/// What a driver costs, while it runs and when it ends.
fn watch(child: &mut Child) -> io::Result<Cost> {
    let mut said = BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?).lines();
    let mut next = || said.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
    if next()? != ALL_RUN {
        return Err(io::Error::other("a driver was to say that everybody runs"));
    }
    pause(SETTLE);
    let (began, before) = (Instant::now(), cpu_seconds(child.id()));
    pause(LOOKED_AT);
    let share = (cpu_seconds(child.id()) - before) / began.elapsed().as_secs_f64();
    let end = next()?;
    let (whole_s, most_bytes) = end.split_once(' ').ok_or(io::ErrorKind::InvalidData)?;
    let most_bytes = most_bytes.parse().map_err(|_| io::ErrorKind::InvalidData)?;
    let whole_s = whole_s.parse().map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(Cost { share, whole_s, most_bytes })
}

#[allow(clippy::disallowed_methods)] // so long is looked
fn pause(length: Duration) {
    sleep(length);
}

/// Says when the last container has started, and nothing else.
struct Starts(u32);

impl Live for Starts {
    fn say(&mut self, _: &[String]) {}
    fn absent(&mut self, _: &[(String, String)]) {}

    fn event(&mut self, event: &Event) {
        if matches!(event.kind, EventKind::Start { .. }) {
            self.0 += 1;
            if self.0 == CONTAINERS {
                println!("{ALL_RUN}");
            }
        }
    }

    fn draw(&mut self, _: &Status) {}
    fn over(&mut self) {}
}

/// The driver: runs what it is told and says what it cost.
pub(crate) fn drive(mut arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    let mut next = || arguments.next().unwrap_or_default();
    let (text, resctrl, docker) = (next(), next(), next());
    let text = text.into_string().map_err(|_| io::ErrorKind::InvalidInput)?;
    let host = HostRoot::default();
    let around = Surroundings::of(&host);
    let experiment = Experiment::parse("cost.yaml", &text, &Variables::default(), &around);
    let experiment = experiment.map_err(|wrong| io::Error::other(format!("{wrong:?}")))?;
    let folder = tempfile::tempdir()?;
    let mut runtimes: Vec<Box<dyn Runtime>> = vec![Box::new(Processes::new(&host))];
    if !docker.is_empty() {
        let engine = DockerEngine::connect(&host, Some(Path::new(&docker)), None);
        runtimes.push(Box::new(engine.map_err(io::Error::other)?));
    }
    let options = Options {
        runs: RunStore::at(folder.path()),
        runtimes,
        host,
        resctrl: (!resctrl.is_empty()).then(|| resctrl.into()),
        grace: Duration::from_secs(1),
        stop: Arc::default(),
        hurry: Arc::default(),
    };
    let (dir, record) =
        run(&experiment, &text, &options, &mut Starts(0)).map_err(io::Error::other)?;
    // As `crosstalk bench run` ends.
    let (_, page) = summarize_and_draw(&dir, &record).map_err(io::Error::other)?;
    std::fs::write(dir.path().join("report.html"), page)?;
    let cost = OwnUsage::now();
    println!("{} {}", cost.cpu.as_secs_f64(), cost.max_rss_bytes);
    Ok(())
}
