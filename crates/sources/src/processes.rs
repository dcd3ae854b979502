//! Processes from `/proc/PID/stat`: processor time and resident memory.

use crate::Settings;
use crosstalk_collect::{Outlet, SubjectPeriod, SubjectSample};
use crosstalk_host::{Clock, Cpu, HostError, HostRoot, ProcStat, monotonic_ns, processes, thread};
use crosstalk_model::metric::{CPU_UTIL, MEM_RSS};
use crosstalk_model::{Metric, ProcessId, SubjectKey};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const METRICS: &[Metric] = &[CPU_UTIL, MEM_RSS];

/// Share of one core that looking through all processes may cost; with thousands of them the
/// looks get rarer.
const SHARE: f64 = 0.002;

/// Looks after which kernel threads are asked again: a process may have got the number of one that ended.
const ASKED_AGAIN: u32 = 30;

pub(crate) struct Processes {
    host: HostRoot,
    /// `None` follows none.
    period: Option<Duration>,
    clock: Clock,
    before: HashMap<ProcessId, u64>,
    before_ns: u64,
    due: Instant,
    /// Kernel threads, of which there is nothing to tell: on a small machine half of what `/proc` lists.
    kernel_threads: HashSet<u32>,
    looks: u32,
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
            kernel_threads: HashSet::new(),
            looks: 0,
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

    fn sample(&mut self, out: &Outlet) -> Result<(), HostError> {
        let cores = Cpu::online(&self.host).len().max(1);
        let at_ns = monotonic_ns();
        let covers_ns = at_ns.saturating_sub(self.before_ns);
        let mut now = HashMap::with_capacity(self.before.len());
        let mut samples = Vec::new();
        if self.looks.is_multiple_of(ASKED_AGAIN) {
            self.kernel_threads.clear();
        }
        self.looks = self.looks.wrapping_add(1);
        for pid in processes(&self.host)? {
            if self.kernel_threads.contains(&pid) {
                continue;
            }
            // A process that ended meanwhile has no file.
            let Some(stat) = ProcStat::of_process(&self.host, pid) else { continue };
            let (Some(start), Some(cpu_ns), Some(memory)) =
                (stat.start_boottime_ns(), stat.cpu_ns(), stat.resident_bytes())
            else {
                continue;
            };
            // Kernel threads have no memory of their own; the counters follow their time.
            if memory == 0 {
                self.kernel_threads.insert(pid);
                continue;
            }
            let process = ProcessId { pid, start_ns: self.clock.process_start_ns(start) };
            now.insert(process, cpu_ns);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_collect::{Collect, Delivery, Source, Wants};
    use crosstalk_host::Capability;
    use std::fs;

    /// Looks through the processes below a root of the test's own, so many times.
    struct Looks(Processes, u32, fn(&HostRoot, u32));

    impl Source for Looks {
        fn about(&self) -> &'static crosstalk_collect::About {
            &crosstalk_collect::About {
                name: "looks",
                datasets: &[],
                metrics: &[],
                subjects: METRICS,
            }
        }
        fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
            for look in 0..self.1 {
                (self.2)(&self.0.host, look);
                self.0.sample(out).expect("the folder is there");
            }
            Ok(())
        }
    }

    fn write_stat(host: &HostRoot, pid: u32, pages: u32) {
        let folder = host.path(format!("/proc/{pid}"));
        fs::create_dir_all(&folder).expect("a folder of the test's own");
        let stat = format!("{pid} (one) S 1 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 {pid} 0 {pages} 0");
        fs::write(folder.join("stat"), stat).expect("a folder of the test's own");
    }

    #[test]
    fn a_process_with_the_number_of_an_ended_kernel_thread_is_found() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let host = HostRoot::new(root.path());
        write_stat(&host, 7, 3);
        let settings = Settings { host, ..Settings::default() };
        let mut collect = Collect::new(Clock::measure());
        let queue = collect.subscribe("test", 64, Wants::Everything);
        let processes = Processes::new(&settings, collect.overview().clock());
        // 8 is a kernel thread at the first look and a process from the second on.
        let change = |host: &HostRoot, look: u32| write_stat(host, 8, look);
        collect.start(Box::new(Looks(processes, ASKED_AGAIN + 1, change))).expect("a thread");
        collect.stop();
        let seen: Vec<usize> = queue
            .waiting()
            .map(|message| match message.delivery {
                Delivery::Subjects(period) => period.samples.len(),
                _ => panic!("only subjects are delivered"),
            })
            .collect();
        assert_eq!(seen.first(), Some(&1), "the kernel thread is none");
        assert_eq!(seen.last(), Some(&2), "asked again: {seen:?}");
    }
}
