//! Processes from `/proc/PID/stat`: processor time and resident memory.

use super::Failure;
use crate::clock::{monotonic_ns, thread_cpu};
use crate::config::Config;
use crate::metric::{CPU_UTIL, MEM_USAGE, Metric};
use crate::status::SourceState;
use crate::subjects::{Labels, SubjectKey, SubjectSample};
use crosstalk_counters::Clocks;
use crosstalk_host::{Cpu, HostRoot};
use crosstalk_model::ProcessId;
use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

pub(super) const METRICS: &[Metric] = &[CPU_UTIL, MEM_USAGE];

/// Share of one core that looking through all processes may cost; with thousands of them the
/// looks get rarer.
const SHARE: f64 = 0.002;
/// User-visible clock ticks are 100 a second on every Linux.
const TICK_NS: u64 = 10_000_000;

/// What `/proc/PID/stat` says.
#[derive(Debug, PartialEq)]
struct Stat {
    comm: String,
    cpu_ticks: u64,
    start_ticks: u64,
    resident_pages: u64,
}

pub(super) struct Processes {
    host: HostRoot,
    enabled: bool,
    period: Duration,
    clocks: Clocks,
    page_bytes: u64,
    before: HashMap<ProcessId, u64>,
    before_ns: u64,
    due: Instant,
}

impl Processes {
    pub(super) fn new(config: &Config, host: &HostRoot) -> Self {
        Self {
            host: host.clone(),
            enabled: config.subjects.enabled,
            period: config.subjects.period.get(),
            clocks: Clocks::measure(),
            page_bytes: rustix::param::page_size() as u64,
            before: HashMap::new(),
            before_ns: monotonic_ns(),
            due: Instant::now(),
        }
    }

    pub(super) fn sample_if_due(&mut self, state: &SourceState) {
        if !self.enabled || Instant::now() < self.due {
            return;
        }
        let (began, spent) = (Instant::now(), thread_cpu());
        if self.sample(state).is_err() {
            state.count_errors(1);
        }
        let affordable = (thread_cpu() - spent).div_f64(SHARE);
        self.due = began + self.period.max(affordable);
    }

    fn sample(&mut self, state: &SourceState) -> Result<(), Failure> {
        let broken = |error: std::io::Error| Failure::Broken(format!("/proc: {error}"));
        let cores = Cpu::online(&self.host).len().max(1);
        let at_ns = monotonic_ns();
        let covers_ns = at_ns.saturating_sub(self.before_ns);
        let mut now = HashMap::with_capacity(self.before.len());
        let mut samples = Vec::new();
        for entry in fs::read_dir(self.host.path("/proc")).map_err(broken)?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A process that ended meanwhile has no file.
            let Some(stat) = self.host.line(format!("/proc/{pid}/stat")).as_deref().and_then(parse)
            else {
                continue;
            };
            let start_ns = self.clocks.process_start_ns(stat.start_ticks * TICK_NS);
            let process = ProcessId { pid, start_ns };
            now.insert(process, stat.cpu_ticks);
            // Kernel threads have no memory of their own; the counters follow their time.
            if stat.resident_pages == 0 {
                continue;
            }
            let grown =
                self.before.get(&process).and_then(|then| stat.cpu_ticks.checked_sub(*then));
            let all_ns = (covers_ns * cores as u64) as f64;
            let cpu_util = grown.map(|ticks| ((ticks * TICK_NS) as f64 / all_ns).min(1.0));
            let memory = (stat.resident_pages * self.page_bytes) as f64;
            samples.push(SubjectSample {
                key: SubjectKey::Process(process),
                labels: Labels { comm: Some(stat.comm), ..Labels::default() },
                values: vec![cpu_util, Some(memory)],
            });
        }
        if covers_ns > 0 {
            state.subjects.take(at_ns, covers_ns, samples, None);
        }
        (self.before, self.before_ns) = (now, at_ns);
        Ok(())
    }
}

/// `PID (COMM) STATE ...`; the name may hold anything, so it ends at the last bracket.
fn parse(text: &str) -> Option<Stat> {
    let (head, tail) = text.rsplit_once(") ")?;
    let comm = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = tail.split(' ').collect();
    // Numbered as in proc(5), where the state is field 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        comm,
        cpu_ticks: field(14)? + field(15)?,
        start_ticks: field(22)?,
        resident_pages: field(24)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let text = "42 (a) R (b) S 1 42 42 0 -1 4194304 1 0 0 0 7 5 0 0 20 0 1 0 1234 100 99 1 0";
        let stat = parse(text).unwrap();
        assert_eq!(stat.comm, "a) R (b");
        assert_eq!((stat.cpu_ticks, stat.start_ticks, stat.resident_pages), (12, 1234, 99));
        assert_eq!(parse("42 (cut off) S 1"), None);
        assert_eq!(parse(""), None);
    }
}
