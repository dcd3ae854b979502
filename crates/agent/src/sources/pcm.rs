//! Intel PCM: `pcm -csv`, `pcm-memory -csv`, or a running `pcm-sensor-server`.
//!
//! Metrics: cpu_util, ipc, freq_mhz, mem_bw_*, cache_miss, llc_mpki, llc_occupancy.

use super::sensor_server::SensorServer;
use super::{Failure, Source, Wired, Wiring};
use crate::clock::monotonic_ns_of;
use crate::config::{Mode, Pcm as Config};
use crate::error::AgentError;
use crate::metric::{
    CACHE_MISS, CPU_UTIL, FREQ_MHZ, IPC, LLC_MPKI, LLC_OCCUPANCY, MEM_BW_READ, MEM_BW_TOTAL,
    MEM_BW_WRITE, Metric,
};
use crate::status::{Report, SourceState, Verdict};
use crate::supervise::Stop;
use crosstalk_host::{Cpu, HostRoot, Vendor};
use crosstalk_pcm::{NodeMetrics, Reading, Runner, RunnerConfig};
use std::env;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

pub(super) const METRICS: &[Metric] = &[
    CPU_UTIL,
    IPC,
    FREQ_MHZ,
    MEM_BW_READ,
    MEM_BW_WRITE,
    MEM_BW_TOTAL,
    CACHE_MISS,
    LLC_MPKI,
    LLC_OCCUPANCY,
];

/// What is fetched from the runner at a time.
const FETCH: Duration = Duration::from_millis(250);
/// Rows waiting for us. PCM prints ten a second at most.
const WAITING: usize = 64;

/// The PCM sources the configuration asks for.
pub(super) fn wire(wiring: &Wiring<'_>, host: &HostRoot) -> Result<Vec<Wired>, AgentError> {
    let config = &wiring.config.sources.pcm;
    let interval = config.interval.get();
    let add = |name, source: Box<dyn Source>| {
        wiring.wire(name, config.mode, (METRICS, interval), (&[], Duration::ZERO), || source)
    };
    if !config.sensor_server.is_empty() {
        let server = SensorServer::new(&config.sensor_server, interval);
        return Ok(vec![add("pcm", Box::new(server))?]);
    }
    let mut wired = Vec::new();
    if !config.memory_command.is_empty() {
        let mut run = RunnerConfig::pcm_memory(interval);
        run.program = PathBuf::from(&config.memory_command);
        wired.push(add("pcm-memory", Box::new(Pcm::new(config, run, host)))?);
    }
    let mut run = RunnerConfig::pcm(interval);
    run.program = PathBuf::from(&config.command);
    if !config.args.is_empty() {
        run.args.clone_from(&config.args);
    }
    wired.push(add("pcm", Box::new(Pcm::new(config, run, host)))?);
    Ok(wired)
}

/// The values of [`METRICS`].
pub(super) fn values(metrics: &NodeMetrics) -> [Option<f64>; 9] {
    [
        metrics.cpu_util,
        metrics.ipc,
        metrics.freq_mhz,
        metrics.mem_bw_read,
        metrics.mem_bw_write,
        metrics.mem_bw_total,
        metrics.cache_miss,
        metrics.llc_mpki,
        metrics.llc_occupancy,
    ]
}

struct Pcm {
    mode: Mode,
    run: RunnerConfig,
    host: HostRoot,
}

impl Pcm {
    fn new(config: &Config, run: RunnerConfig, host: &HostRoot) -> Self {
        Self { mode: config.mode, run, host: host.clone() }
    }

    /// Why it is no use even to try.
    fn obstacle(&self) -> Option<Report> {
        let program = self.run.program.display();
        if Cpu::read(&self.host).vendor != Vendor::Intel {
            let found = "PCM reads Intel processors only, and this is none";
            return Some(Report::new(Verdict::Absent, found));
        }
        if !is_installed(&self.run.program) {
            let found = format!("{program} is not installed");
            let fix = "install Debian's package pcm, or name the program in sources.pcm.command";
            return Some(Report::new(Verdict::Absent, found).fix(fix));
        }
        None
    }
}

impl Source for Pcm {
    fn run(&mut self, state: &SourceState, stop: &Stop) -> Result<(), Failure> {
        if let Some(report) = self.obstacle().filter(|_| self.mode == Mode::Auto) {
            return Err(Failure::Absent(report));
        }
        let (sender, rows) = sync_channel::<Reading>(WAITING);
        let runner = Runner::start(self.run.clone(), move |row| {
            let _ = sender.try_send(row);
        })
        .map_err(|error| Failure::Broken(format!("cannot run PCM: {error}")))?;
        let (mut restarts, mut faults) = (0, 0);
        while !stop.after(FETCH) {
            let now = runner.faults();
            let counted = now.restarts() + now.bad_lines + now.long_lines;
            state.count_errors(counted.saturating_sub(faults));
            state.count_restarts(now.restarts().saturating_sub(restarts));
            let fell_over = now.restarts() > restarts;
            (restarts, faults) = (now.restarts(), counted);
            let mut last = None;
            for row in rows.try_iter() {
                let covers_ns = u64::try_from(row.covers.as_nanos()).unwrap_or(u64::MAX);
                state.push(monotonic_ns_of(row.arrived), covers_ns, &values(&row.metrics));
                last = Some(row.metrics);
            }
            if let Some(metrics) = last {
                state.report(report(&self.run.program, &metrics));
            } else if fell_over {
                let why = now.latest.unwrap_or_else(|| "it ended".to_owned());
                state.report(Report::of_error(Verdict::Failing, &why));
            }
        }
        Ok(())
    }
}

/// What this machine's PCM prints and what it does not.
pub(super) fn report(program: &Path, metrics: &NodeMetrics) -> Report {
    let names = METRICS.iter().map(|metric| metric.name);
    let absent: Vec<_> = names
        .zip(values(metrics))
        .filter(|(_, value)| value.is_none())
        .map(|(name, _)| (name, format!("{} does not print it here", program.display())))
        .collect();
    let verdict = if absent.is_empty() { Verdict::Ok } else { Verdict::Limited };
    let found = format!("{} prints {} metrics", program.display(), METRICS.len() - absent.len());
    Report { absent, ..Report::new(verdict, found) }
}

fn is_installed(program: &Path) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
