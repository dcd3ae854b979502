//! Intel PCM: `pcm -csv`, `pcm-memory -csv`, or a running `pcm-sensor-server`.
//!
//! Metrics: cpu_util, ipc, freq_mhz, mem_bw_*, cache_miss, llc_mpki, llc_occupancy.

mod sensor_server;

use crate::{Mode, Settings, Wired};
use crosstalk_collect::{About, Outlet, Source};
use crosstalk_host::{Capability, Cpu, HostRoot, Vendor, Verdict, monotonic_ns};
use crosstalk_model::Metric;
use crosstalk_model::metric::{
    CACHE_MISS, CPU_UTIL, FREQ_MHZ, IPC, LLC_MPKI, LLC_OCCUPANCY, MEM_BW_READ, MEM_BW_TOTAL,
    MEM_BW_WRITE,
};
use crosstalk_pcm::{NodeMetrics, Reading, Runner, RunnerConfig};
use sensor_server::SensorServer;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

const METRICS: &[Metric] = &[
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

static PCM: About = About { name: "pcm", datasets: &[], metrics: METRICS, subjects: &[] };
static PCM_MEMORY: About =
    About { name: "pcm-memory", datasets: &[], metrics: METRICS, subjects: &[] };

/// What is fetched from the runner at a time.
const FETCH: Duration = Duration::from_millis(250);
/// Rows waiting for us. PCM prints ten a second at most.
const WAITING: usize = 64;

/// The PCM sources the settings ask for.
pub(crate) fn wire(settings: &Settings) -> Vec<Wired> {
    let (pcm, host) = (settings.pcm.clone(), settings.host.clone());
    let interval = pcm.interval;
    if !pcm.sensor_server.is_empty() {
        let server = SensorServer::new(&pcm.sensor_server, interval);
        return vec![Wired::new(&PCM, pcm.mode, interval, |_| server)];
    }
    let mut wired = Vec::new();
    if !pcm.memory_command.is_empty() {
        let mut run = RunnerConfig::pcm_memory(interval);
        run.program = PathBuf::from(&pcm.memory_command);
        let source = Pcm { about: &PCM_MEMORY, mode: pcm.mode, run, host: host.clone() };
        wired.push(Wired::new(&PCM_MEMORY, pcm.mode, interval, |_| source));
    }
    let mut run = RunnerConfig::pcm(interval);
    run.program = PathBuf::from(&pcm.command);
    if !pcm.args.is_empty() {
        run.args.clone_from(&pcm.args);
    }
    let source = Pcm { about: &PCM, mode: pcm.mode, run, host };
    wired.push(Wired::new(&PCM, pcm.mode, interval, |_| source));
    wired
}

/// The values of [`METRICS`].
fn values(metrics: &NodeMetrics) -> [Option<f64>; 9] {
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
    about: &'static About,
    mode: Mode,
    run: RunnerConfig,
    host: HostRoot,
}

impl Pcm {
    /// Why it is no use even to try.
    fn obstacle(&self) -> Option<Capability> {
        let program = self.run.program.display();
        if Cpu::read(&self.host).vendor != Vendor::Intel {
            let found = "PCM reads Intel processors only, and this is none";
            return Some(Capability::new(self.about.name, Verdict::Absent, found));
        }
        if !is_installed(&self.run.program) {
            let found = format!("{program} is not installed");
            let fix = "install Debian's package pcm, or name the program in sources.pcm.command";
            return Some(Capability::new(self.about.name, Verdict::Absent, found).fix(fix));
        }
        None
    }
}

impl Source for Pcm {
    fn about(&self) -> &'static About {
        self.about
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        if let Some(obstacle) = self.obstacle().filter(|_| self.mode == Mode::Auto) {
            return Err(obstacle);
        }
        let (sender, rows) = sync_channel::<Reading>(WAITING);
        let runner = Runner::start(self.run.clone(), move |row| {
            let _ = sender.try_send(row);
        })
        .map_err(|error| out.capability(Verdict::Failing, format!("cannot run PCM: {error}")))?;
        let (mut restarts, mut faults) = (0, 0);
        while !out.pause(FETCH) {
            let now = runner.faults();
            let counted = now.restarts() + now.bad_lines + now.long_lines;
            out.count_errors(counted.saturating_sub(faults));
            out.count_restarts(now.restarts().saturating_sub(restarts));
            let fell_over = now.restarts() > restarts;
            (restarts, faults) = (now.restarts(), counted);
            let mut last = None;
            for row in rows.try_iter() {
                let covers_ns = u64::try_from(row.covers.as_nanos()).unwrap_or(u64::MAX);
                out.sample(monotonic_ns_of(row.arrived), covers_ns, &values(&row.metrics));
                last = Some(row.metrics);
            }
            if let Some(metrics) = last {
                report(&self.run.program, &metrics, out);
            } else if fell_over {
                let why = now.latest.unwrap_or_else(|| "it ended".to_owned());
                let fix = now.latest_fix;
                out.stand(Capability { fix, ..out.capability(Verdict::Failing, why) }, Vec::new());
            }
        }
        Ok(())
    }
}

/// What this machine's PCM prints and what it does not.
fn report(program: &Path, metrics: &NodeMetrics, out: &Outlet) {
    let names = METRICS.iter().map(|metric| metric.name);
    let absent: Vec<_> = names
        .zip(values(metrics))
        .filter(|(_, value)| value.is_none())
        .map(|(name, _)| (name, format!("{} does not print it here", program.display())))
        .collect();
    let verdict = if absent.is_empty() { Verdict::Ok } else { Verdict::Limited };
    let found = format!("{} prints {} metrics", program.display(), METRICS.len() - absent.len());
    out.stand(out.capability(verdict, found), absent);
}

/// The monotonic time of an instant of this process.
fn monotonic_ns_of(at: Instant) -> u64 {
    monotonic_ns().saturating_sub(at.elapsed().as_nanos() as u64)
}

fn is_installed(program: &Path) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
