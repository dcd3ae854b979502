//! `/proc`: processor and memory use of the node without any privilege, and of processes.
//!
//! Metrics: cpu_util, runq_wait, switches, page_faults, mem_used, mem_util, mem_pressure.

use crate::processes::{self, Processes};
use crate::{Pace, Settings, Wired};
use crosstalk_collect::{About, Outlet, Source};
use crosstalk_host::{Capability, HostRoot, Verdict, monotonic_ns, thread};
use crosstalk_model::Metric;
use crosstalk_model::metric::{
    CPU_UTIL, MEM_PRESSURE, MEM_USED, MEM_UTIL, PAGE_FAULTS, RUNQ_WAIT, SWITCHES,
};
use std::time::Duration;

const METRICS: &[Metric] =
    &[CPU_UTIL, RUNQ_WAIT, SWITCHES, PAGE_FAULTS, MEM_USED, MEM_UTIL, MEM_PRESSURE];

static ABOUT: About =
    About { name: "proc", datasets: &[], metrics: METRICS, subjects: processes::METRICS };

/// `/proc/stat` counts in steps of 10 ms, so a shorter period would show steps and not use.
const FASTEST: Duration = Duration::from_millis(100);

pub(crate) fn wire(settings: Settings, shortest: Duration) -> Wired {
    Wired::new(&ABOUT, settings.proc, shortest.max(FASTEST), |_| Proc { settings })
}

struct Proc {
    settings: Settings,
}

impl Source for Proc {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        let host = &self.settings.host;
        let mut pace = Pace::new(&self.settings.sampling, FASTEST);
        let mut processes = Processes::new(&self.settings, out.clock());
        let mut before = Snapshot::read(host)?;
        let mut values = Vec::new();
        let mut cost = Duration::ZERO;
        let mut told = false;
        while !out.pause(pace.pause(&values, cost)) {
            let spent = thread::cpu_time();
            let now = Snapshot::read(host)?;
            let covers_ns = now.at_ns.saturating_sub(before.at_ns);
            if covers_ns > 0 {
                values = now.since(&before);
                out.sample(now.at_ns, covers_ns, &values);
            }
            if !told {
                out.stand(
                    out.capability(Verdict::Ok, "processor and memory use from /proc"),
                    absent(&values),
                );
                told = true;
            }
            before = now;
            cost = thread::cpu_time() - spent;
            processes.sample_if_due(out);
        }
        Ok(())
    }
}

/// What this kernel does not say, and why.
fn absent(values: &[Option<f64>]) -> Vec<(&'static str, String)> {
    let why = |metric: &Metric| match metric.name {
        "runq_wait" => "/proc/schedstat is missing: the kernel has no CONFIG_SCHEDSTATS",
        "mem_pressure" => "/proc/pressure is missing: the kernel has no CONFIG_PSI, or psi=0",
        _ => "the kernel does not say",
    };
    METRICS
        .iter()
        .zip(values)
        .filter(|(_, value)| value.is_none())
        .map(|(metric, _)| (metric.name, why(metric).to_owned()))
        .collect()
}

/// What `/proc` said at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Snapshot {
    at_ns: u64,
    busy_ticks: Option<u64>,
    all_ticks: Option<u64>,
    switches: Option<u64>,
    run_delay_ns: Option<u64>,
    page_faults: Option<u64>,
    mem_total: Option<u64>,
    mem_available: Option<u64>,
    stalled_us: Option<u64>,
}

impl Snapshot {
    fn read(host: &HostRoot) -> Result<Self, Capability> {
        let stat = host
            .read("/proc/stat")
            .map_err(|error| Capability::new(ABOUT.name, Verdict::Failing, error.to_string()))?;
        let Some(stat) = stat else {
            let found = format!("{} is missing", host.path("/proc/stat").display());
            let absent = Capability::new(ABOUT.name, Verdict::Absent, found);
            return Err(absent.fix("mount /proc there, or set host_root"));
        };
        let text = |path: &str| host.line(path).unwrap_or_default();
        Ok(Self { at_ns: monotonic_ns(), ..Self::default() }
            .with_stat(&stat)
            .with_schedstat(&text("/proc/schedstat"))
            .with_vmstat(&text("/proc/vmstat"))
            .with_meminfo(&text("/proc/meminfo"))
            .with_pressure(&text("/proc/pressure/memory")))
    }

    /// `cpu  user nice system idle iowait irq softirq steal ...`; guest time is part of user.
    fn with_stat(mut self, text: &str) -> Self {
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("cpu ") {
                let ticks: Vec<u64> =
                    rest.split_ascii_whitespace().take(8).map_while(|n| n.parse().ok()).collect();
                if let [user, nice, system, idle, iowait, rest @ ..] = ticks.as_slice() {
                    let busy = user + nice + system + rest.iter().sum::<u64>();
                    self.busy_ticks = Some(busy);
                    self.all_ticks = Some(busy + idle + iowait);
                }
            } else if let Some(count) = line.strip_prefix("ctxt ") {
                self.switches = count.trim().parse().ok();
            }
        }
        self
    }

    /// The eighth number of each `cpuN` line is the nanoseconds tasks waited (sched-stats.rst).
    fn with_schedstat(mut self, text: &str) -> Self {
        let cores = text.lines().filter(|line| line.starts_with("cpu"));
        let delay = |line: &str| line.split_ascii_whitespace().nth(8)?.parse::<u64>().ok();
        self.run_delay_ns = cores.map(delay).reduce(|a, b| Some(a? + b?)).flatten();
        self
    }

    fn with_vmstat(mut self, text: &str) -> Self {
        self.page_faults = text
            .lines()
            .find_map(|line| line.strip_prefix("pgfault "))
            .and_then(|count| count.trim().parse().ok());
        self
    }

    fn with_meminfo(mut self, text: &str) -> Self {
        let kib = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            let number = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
            number.checked_mul(1024)
        };
        self.mem_total = kib("MemTotal:");
        self.mem_available = kib("MemAvailable:");
        self
    }

    /// `some avg10=... total=MICROSECONDS`.
    fn with_pressure(mut self, text: &str) -> Self {
        let some = text.lines().find(|line| line.starts_with("some "));
        self.stalled_us =
            some.and_then(|line| line.rsplit_once("total=")).and_then(|(_, us)| us.parse().ok());
        self
    }

    /// The values of [`METRICS`] between two snapshots. A count that went back is absent.
    fn since(&self, before: &Self) -> Vec<Option<f64>> {
        let seconds = self.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        let grown = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?).map(|n| n as f64);
        let per_second = |now, then| grown(now, then).map(|count| count / seconds);
        let all = grown(self.all_ticks, before.all_ticks).filter(|ticks| *ticks > 0.0);
        let busy = grown(self.busy_ticks, before.busy_ticks);
        let used = self
            .mem_total
            .zip(self.mem_available)
            .map(|(total, available)| (total.saturating_sub(available) as f64, total as f64));
        vec![
            busy.zip(all).map(|(busy, all)| (busy / all).clamp(0.0, 1.0)),
            per_second(self.run_delay_ns, before.run_delay_ns).map(|ns| ns / 1e9),
            per_second(self.switches, before.switches),
            per_second(self.page_faults, before.page_faults),
            used.map(|(used, _)| used),
            used.filter(|(_, total)| *total > 0.0).map(|(used, total)| used / total),
            per_second(self.stalled_us, before.stalled_us).map(|us| (us / 1e6).min(1.0)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_what_grew_between_two_looks() {
        let before = Snapshot::default()
            .with_stat("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\nctxt 1000\n")
            .with_schedstat("version 17\ncpu0 0 0 0 0 0 0 9 1000000 5\ncpu1 0 0 0 0 0 0 9 0 5\n")
            .with_vmstat("nr_free_pages 1\npgfault 10\n")
            .with_pressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=500\nfull total=1");
        let mut now = before
            .with_stat("cpu  150 0 50 850 50 0 0 0 0 0\nctxt 1500\n")
            .with_schedstat("cpu0 0 0 0 0 0 0 9 501000000 5\ncpu1 0 0 0 0 0 0 9 0 5\n")
            .with_vmstat("pgfault 30\n")
            .with_meminfo("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  250 kB\n")
            .with_pressure("some avg10=0.00 total=100500\nfull total=1");
        now.at_ns = before.at_ns + 2_000_000_000;
        assert_eq!(
            now.since(&before),
            [
                Some(0.5),
                Some(0.25),
                Some(250.0),
                Some(10.0),
                Some(768_000.0),
                Some(0.75),
                Some(0.05)
            ]
        );
    }

    #[test]
    fn what_the_kernel_does_not_say_is_absent() {
        let garbage = Snapshot::default()
            .with_stat("cpu x y\nctxt -1\n")
            .with_schedstat("cpu0 1 2\n")
            .with_meminfo("MemTotal: many kB\n")
            .with_pressure("");
        let mut later = garbage;
        later.at_ns += 1;
        assert_eq!(later.since(&garbage), [None; 7]);
    }
}
