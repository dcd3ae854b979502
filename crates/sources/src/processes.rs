//! Processes from `/proc/PID/stat`: processor time and resident memory.

use crate::Settings;
use crosstalk_collect::{Outlet, SubjectPeriod, SubjectSample};
use crosstalk_host::{Clock, Cpu, HostRoot, ProcStat, monotonic_ns, thread};
use crosstalk_model::metric::{CPU_UTIL, MEM_RSS};
use crosstalk_model::{Metric, ProcessId, SubjectKey};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

pub(crate) const METRICS: &[Metric] = &[CPU_UTIL, MEM_RSS];

/// Share of one core that looking through all processes may cost; with thousands of them the
/// looks get rarer.
const SHARE: f64 = 0.002;

pub(crate) struct Processes {
    host: HostRoot,
    /// `None` follows none.
    period: Option<Duration>,
    clock: Clock,
    before: HashMap<ProcessId, u64>,
    before_ns: u64,
    due: Instant,
}

impl Processes {
    pub(crate) fn new(settings: &Settings, clock: &Clock) -> Self {
        Self {
            host: settings.host.clone(),
            period: settings.subjects,
            clock: clock.clone(),
            before: HashMap::new(),
            before_ns: monotonic_ns(),
            due: Instant::now(),
        }
    }

    pub(crate) fn sample_if_due(&mut self, out: &Outlet) {
        let Some(period) = self.period.filter(|_| Instant::now() >= self.due) else { return };
        let (began, spent) = (Instant::now(), thread::cpu_time());
        if self.sample(out).is_err() {
            out.count_errors(1);
        }
        let affordable = (thread::cpu_time() - spent).div_f64(SHARE);
        self.due = began + period.max(affordable);
    }

    fn sample(&mut self, out: &Outlet) -> io::Result<()> {
        let cores = Cpu::online(&self.host).len().max(1);
        let at_ns = monotonic_ns();
        let covers_ns = at_ns.saturating_sub(self.before_ns);
        let mut now = HashMap::with_capacity(self.before.len());
        let mut samples = Vec::new();
        for entry in fs::read_dir(self.host.path("/proc"))?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A process that ended meanwhile has no file.
            let Some(stat) = ProcStat::of_process(&self.host, pid) else { continue };
            let (Some(start), Some(cpu_ns), Some(memory)) =
                (stat.start_boottime_ns(), stat.cpu_ns(), stat.resident_bytes())
            else {
                continue;
            };
            let process = ProcessId { pid, start_ns: self.clock.process_start_ns(start) };
            now.insert(process, cpu_ns);
            // Kernel threads have no memory of their own; the counters follow their time.
            if memory == 0 {
                continue;
            }
            let grown = self.before.get(&process).and_then(|then| cpu_ns.checked_sub(*then));
            let all_ns = (covers_ns * cores as u64) as f64;
            let cpu_util = grown.map(|cpu_ns| (cpu_ns as f64 / all_ns).min(1.0));
            samples.push(SubjectSample {
                key: SubjectKey::Process(process),
                comm: Some(stat.comm().into_owned()),
                place: Arc::default(),
                values: vec![cpu_util, Some(memory as f64)],
            });
        }
        if covers_ns > 0 {
            out.subjects(SubjectPeriod { end_ns: at_ns, covers_ns, samples, unseen: None });
        }
        (self.before, self.before_ns) = (now, at_ns);
        Ok(())
    }
}
