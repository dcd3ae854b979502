//! resctrl: how full the last-level caches are and what goes to memory, on machines that monitor their cache.
//!
//! Metrics: mem_bw_total, mem_bw_local, llc_occupancy.
//!
//! It only reads. Groups of its own would take RMIDs from `crosstalk record` and other tools.

mod totals;

use crate::{Mode, Pace, Settings, Wired};
use crosstalk_collect::{About, Outlet, Source};
use crosstalk_host::{Capability, Verdict, monotonic_ns, thread};
use crosstalk_model::Metric;
use crosstalk_model::metric::{LLC_OCCUPANCY, MEM_BW_LOCAL, MEM_BW_TOTAL};
use crosstalk_resctrl::{Error, MonitoringInfo, Resctrl};
use std::time::{Duration, Instant};
use totals::Totals;

const METRICS: &[Metric] = &[MEM_BW_TOTAL, MEM_BW_LOCAL, LLC_OCCUPANCY];

static ABOUT: About = About { name: "resctrl", datasets: &[], metrics: METRICS, subjects: &[] };

/// A value read on another socket interrupts one of its cores: not more often than this.
pub(super) const FASTEST: Duration = Duration::from_millis(10);
/// How often new control groups are looked for.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) fn wire(settings: Settings, shortest: Duration) -> Wired {
    let mode = settings.cache_totals.mode;
    Wired::new(&ABOUT, mode, shortest.max(FASTEST), |_| CacheTotals { settings })
}

struct CacheTotals {
    settings: Settings,
}

impl CacheTotals {
    fn open(&self) -> Result<Resctrl, Error> {
        crate::cache::open(self.settings.cache_totals.root.as_deref(), &self.settings.host)
    }

    fn monitoring(&self, resctrl: &Resctrl) -> Result<MonitoringInfo, Error> {
        let none = || Error::NoMonitoring { path: resctrl.root().to_owned() };
        resctrl.info()?.monitoring.ok_or_else(none)
    }

    /// A machine without it is absent, unless it was asked for.
    fn failure(&self, error: &Error) -> Capability {
        let asked = &self.settings.cache_totals;
        let asked = asked.mode == Mode::On || asked.root.is_some();
        let lacking = matches!(error, Error::NotResctrl { .. } | Error::NoMonitoring { .. });
        let verdict = if asked || !lacking { Verdict::Failing } else { Verdict::Absent };
        Capability::of_error(ABOUT.name, verdict, error)
    }
}

impl Source for CacheTotals {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        let resctrl = self.open().map_err(|error| self.failure(&error))?;
        let monitoring = self.monitoring(&resctrl).map_err(|error| self.failure(&error))?;
        let mut before_ns = monotonic_ns();
        let mut totals =
            Totals::open(&resctrl, &monitoring, before_ns).map_err(|error| self.failure(&error))?;
        let mut looked = Instant::now();
        let mut pace = Pace::new(&self.settings.sampling, FASTEST);
        let mut values = [None; METRICS.len()];
        let mut cost = Duration::ZERO;
        while !out.pause(pace.pause(&values, cost)) {
            let spent = thread::cpu_time();
            if looked.elapsed() >= LOOK || totals.missed_a_group() {
                totals.follow(&resctrl, monotonic_ns()).map_err(|error| self.failure(&error))?;
                looked = Instant::now();
            }
            let now_ns = monotonic_ns();
            let covers_ns = now_ns.saturating_sub(before_ns);
            if covers_ns == 0 {
                continue;
            }
            values = totals.read(now_ns, covers_ns);
            out.sample(now_ns, covers_ns, &values);
            before_ns = now_ns;
            out.count_errors(totals.take_faults());
            report(&resctrl, &monitoring, &totals, &values, out);
            cost = thread::cpu_time() - spent;
        }
        Ok(())
    }
}

fn report(
    resctrl: &Resctrl,
    monitoring: &MonitoringInfo,
    totals: &Totals,
    values: &[Option<f64>; METRICS.len()],
    out: &Outlet,
) {
    let offered = [monitoring.total_bytes, monitoring.local_bytes, monitoring.occupancy];
    let absent: Vec<_> = METRICS
        .iter()
        .zip(values.iter().zip(offered))
        .filter(|(_, (value, _))| value.is_none())
        .map(|(metric, (_, offered))| {
            let why = if offered {
                "the hardware had no value in the last sample"
            } else {
                "this processor does not monitor it"
            };
            (metric.name, why.to_owned())
        })
        .collect();
    let verdict = if absent.is_empty() { Verdict::Ok } else { Verdict::Limited };
    let simulated = if resctrl.is_kernel() { "" } else { ", simulated" };
    let (caches, groups) = (monitoring.domains.len(), totals.groups());
    let found = format!(
        "{}: {caches} L3 cache{}, {groups} control group{}{simulated}",
        resctrl.root().display(),
        plural(caches),
        plural(groups),
    );
    out.stand(out.capability(verdict, found), absent);
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_host::HostRoot;
    use std::fs;
    use std::path::Path;

    fn source(host: &Path, asked: crate::CacheTotals) -> CacheTotals {
        let host = HostRoot::new(host);
        CacheTotals { settings: Settings { host, cache_totals: asked, ..Settings::default() } }
    }

    #[test]
    fn a_machine_without_it_is_absent_unless_it_was_asked_for() {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir(host.path().join("proc")).unwrap();
        fs::write(host.path().join("proc/mounts"), "proc /proc proc rw 0 0\n").unwrap();
        let fails = |mode, root: Option<&str>| {
            let asked = crate::CacheTotals { mode, root: root.map(Into::into) };
            let source = source(host.path(), asked);
            let error = source.open().unwrap_err();
            source.failure(&error)
        };
        let absent = fails(Mode::Auto, None);
        assert_eq!(absent.verdict, Verdict::Absent);
        assert!(absent.found.contains("/proc/filesystems"), "{absent:?}");
        assert!(absent.fix.unwrap().contains("Intel RDT"));
        assert_eq!(fails(Mode::On, None).verdict, Verdict::Failing);
        assert_eq!(fails(Mode::Auto, Some("/nowhere")).verdict, Verdict::Failing);
    }

    #[test]
    fn where_the_mounts_of_a_container_name_other_paths_the_usual_place_is_tried() {
        let host = tempfile::tempdir().unwrap();
        let root = host.path().join("sys/fs/resctrl");
        fs::create_dir_all(root.join("info")).unwrap();
        fs::write(root.join("tasks"), "").unwrap();
        fs::create_dir(host.path().join("proc")).unwrap();
        let mounts = format!("resctrl {} resctrl rw 0 0\n", root.display());
        fs::write(host.path().join("proc/mounts"), mounts).unwrap();
        assert_eq!(source(host.path(), crate::CacheTotals::default()).open().unwrap().root(), root);
    }
}
