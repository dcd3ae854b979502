//! `/proc`: processor and memory use of the node without any privilege, and of processes.
//!
//! Metrics: cpu_util, runq_wait, switches, page_faults, mem_used, mem_util, mem_pressure.

use crate::processes::{self, Processes};
use crate::{Mode, Pace, Settings, Wired};
use crosstalk_collect::{About, Outlet, Source};
use crosstalk_host::{
    Capability, CoreTime, HostRoot, NodeCounts, NodeMemory, Stalled, Verdict, monotonic_ns, thread,
};
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
    Wired::new(&ABOUT, Mode::Auto, shortest.max(FASTEST), |_| Proc { settings })
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
        let mut is_reported = false;
        while !out.pause(pace.pause(&values, cost)) {
            let spent = thread::cpu_time();
            let now = Snapshot::read(host)?;
            let covers_ns = now.at_ns.saturating_sub(before.at_ns);
            if covers_ns > 0 {
                values = now.since(&before);
                out.sample(now.at_ns, covers_ns, &values);
            }
            if !is_reported {
                out.stand(
                    out.capability(Verdict::Ok, "processor and memory use from /proc"),
                    absent(&values),
                );
                is_reported = true;
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
    counts: NodeCounts,
}

impl Snapshot {
    fn read(host: &HostRoot) -> Result<Self, Capability> {
        let counts = NodeCounts::read(host)
            .map_err(|error| Capability::new(ABOUT.name, Verdict::Failing, error.to_string()))?;
        let Some(counts) = counts else {
            let found = format!("{} is missing", host.path(CoreTime::FILE).display());
            let absent = Capability::new(ABOUT.name, Verdict::Absent, found);
            return Err(absent.fix("mount /proc there, or set host_root"));
        };
        Ok(Self { at_ns: monotonic_ns(), counts })
    }

    /// The values of [`METRICS`] between two snapshots. A count that went back is absent.
    fn since(&self, before: &Self) -> Vec<Option<f64>> {
        let seconds = self.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        let grown = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?).map(|n| n as f64);
        let per_second = |now, then| grown(now, then).map(|count| count / seconds);
        let (now, then) = (&self.counts, &before.counts);
        let time = |of: fn(CoreTime) -> u64| grown(now.cores.map(of), then.cores.map(of));
        let all = time(|cores| cores.busy_ns + cores.idle_ns).filter(|ns| *ns > 0.0);
        let busy = time(|cores| cores.busy_ns);
        let NodeMemory { total, available, .. } = now.memory;
        let stalled_ns =
            |counts: &NodeCounts| counts.memory_stalled.and_then(|s: Stalled| s.some_ns);
        let used = total
            .zip(available)
            .map(|(total, available)| (total.saturating_sub(available) as f64, total as f64));
        vec![
            busy.zip(all).map(|(busy, all)| (busy / all).clamp(0.0, 1.0)),
            per_second(now.run_delay_ns, then.run_delay_ns).map(|ns| ns / 1e9),
            per_second(now.switches, then.switches),
            per_second(now.page_faults, then.page_faults),
            used.map(|(used, _)| used),
            used.filter(|(_, total)| *total > 0.0).map(|(used, total)| used / total),
            per_second(stalled_ns(now), stalled_ns(then)).map(|ns| (ns / 1e9).min(1.0)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_what_grew_between_two_looks() {
        let counts = |stat: &str, run_delay_ns, page_faults, stalled_ns| NodeCounts {
            cores: CoreTime::of_machine(stat),
            run_delay_ns: Some(run_delay_ns),
            page_faults: Some(page_faults),
            memory_stalled: Some(Stalled { some_ns: Some(stalled_ns), full_ns: None }),
            ..NodeCounts::default()
        };
        let first = counts("cpu  100 0 50 800 50 0 0 0 0 0\n", 1_000_000, 10, 500_000);
        let second = counts("cpu  150 0 50 850 50 0 0 0 0 0\n", 501_000_000, 30, 100_500_000);
        let memory =
            NodeMemory::parse("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  250 kB\n");
        let before = Snapshot { at_ns: 7, counts: NodeCounts { switches: Some(1_000), ..first } };
        let now = Snapshot {
            at_ns: before.at_ns + 2_000_000_000,
            counts: NodeCounts { switches: Some(1_500), memory, ..second },
        };
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
        let nothing = Snapshot::default();
        let later = Snapshot { at_ns: 1, ..nothing };
        assert_eq!(later.since(&nothing), [None; 7]);
    }
}
