//! resctrl: how full the last-level caches are and what goes to memory, on machines that monitor their cache.
//!
//! Metrics: mem_bw_total, mem_bw_local, llc_occupancy.
//!
//! It only reads. Groups of its own would take hardware identifiers from `crosstalk record` and other tools.

mod totals;

use super::pace::Pace;
use super::{Failure, Source};
use crate::clock::{monotonic_ns, thread_cpu};
use crate::config::{Config, Mode, Sampling};
use crate::metric::{LLC_OCCUPANCY, MEM_BW_LOCAL, MEM_BW_TOTAL, Metric};
use crate::status::{Report, SourceState, Verdict};
use crate::supervise::Stop;
use crosstalk_resctrl::{DEFAULT_ROOT, Error, MonitoringInfo, Resctrl};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use totals::Totals;

pub(super) const METRICS: &[Metric] = &[MEM_BW_TOTAL, MEM_BW_LOCAL, LLC_OCCUPANCY];

/// A value read on another socket interrupts one of its cores: not more often than this.
pub(super) const FASTEST: Duration = Duration::from_millis(10);
/// How often new control groups are looked for.
const LOOK: Duration = Duration::from_secs(1);

pub(super) struct CacheTotals {
    mode: Mode,
    /// The mount; empty looks for it.
    root: PathBuf,
    host_root: PathBuf,
    sampling: Sampling,
}

impl CacheTotals {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            mode: config.sources.resctrl.mode,
            root: config.sources.resctrl.root.clone(),
            host_root: config.host_root.clone(),
            sampling: config.sampling.clone(),
        }
    }

    fn open(&self) -> Result<Resctrl, Error> {
        if !self.root.as_os_str().is_empty() {
            return Resctrl::open(&self.root);
        }
        // In a container the list of mounts is its own and names other paths than the host's.
        let usual = self.host_root.join(DEFAULT_ROOT.trim_start_matches('/'));
        Resctrl::locate(&self.host_root).or_else(|error| Resctrl::open(usual).map_err(|_| error))
    }

    fn monitoring(&self, resctrl: &Resctrl) -> Result<MonitoringInfo, Error> {
        let none = || Error::NoMonitoring { path: resctrl.root().to_owned() };
        resctrl.info()?.monitoring.ok_or_else(none)
    }

    /// A machine without it is absent, unless it was asked for.
    fn failure(&self, error: &Error) -> Failure {
        let asked = self.mode == Mode::On || !self.root.as_os_str().is_empty();
        let other_machine =
            "use a machine that has Intel RDT or AMD QoS, or try `crosstalk resctrl-sim`";
        let (found, fix) = match error {
            Error::NotResctrl { path, hint } if hint.contains("mount -t") => {
                (format!("{}: no resctrl file system here", path.display()), *hint)
            }
            Error::NotResctrl { .. } | Error::NoMonitoring { .. } => {
                (error.to_string(), other_machine)
            }
            other => return Failure::Broken(other.to_string()),
        };
        if asked {
            Failure::Broken(format!("{found}; {fix}"))
        } else {
            Failure::Absent(Report::new(Verdict::Absent, found).fix(fix))
        }
    }
}

impl Source for CacheTotals {
    fn run(&mut self, state: &SourceState, stop: &Stop) -> Result<(), Failure> {
        let resctrl = self.open().map_err(|error| self.failure(&error))?;
        let monitoring = self.monitoring(&resctrl).map_err(|error| self.failure(&error))?;
        let mut before_ns = monotonic_ns();
        let mut totals =
            Totals::open(&resctrl, &monitoring, before_ns).map_err(|error| self.failure(&error))?;
        let mut looked = Instant::now();
        let mut pace = Pace::new(&self.sampling, FASTEST);
        let mut values = [None; METRICS.len()];
        let mut cost = Duration::ZERO;
        while !stop.after(pace.pause(&values, cost)) {
            let spent = thread_cpu();
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
            state.push(now_ns, covers_ns, &values);
            before_ns = now_ns;
            state.count_errors(totals.take_faults());
            state.report(report(&resctrl, &monitoring, &totals, &values));
            cost = thread_cpu() - spent;
        }
        Ok(())
    }
}

fn report(
    resctrl: &Resctrl,
    monitoring: &MonitoringInfo,
    totals: &Totals,
    values: &[Option<f64>; METRICS.len()],
) -> Report {
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
    Report { absent, ..Report::new(verdict, found) }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn source(text: &str, host_root: PathBuf) -> CacheTotals {
        let config: Config = toml::from_str(text).unwrap();
        CacheTotals::new(&Config { host_root, ..config })
    }

    #[test]
    fn a_machine_without_it_is_absent_unless_it_was_asked_for() {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir(host.path().join("proc")).unwrap();
        fs::write(host.path().join("proc/mounts"), "proc /proc proc rw 0 0\n").unwrap();
        let host = host.path().to_owned();
        let fails = |text: &str| {
            let source = source(text, host.clone());
            let error = source.open().unwrap_err();
            source.failure(&error)
        };
        match fails("") {
            Failure::Absent(report) => {
                assert!(report.found.contains("no resctrl"), "{report:?}");
                assert!(report.found.contains("/proc/filesystems"), "{report:?}");
                assert!(report.fix.unwrap().contains("Intel RDT"));
            }
            Failure::Broken(text) => panic!("{text}"),
        }
        for asked in ["[sources.resctrl]\nmode = \"on\"", "[sources.resctrl]\nroot = \"/nowhere\""]
        {
            assert!(matches!(fails(asked), Failure::Broken(text) if text.contains("; ")));
        }
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
        assert_eq!(source("", host.path().to_owned()).open().unwrap().root(), root);
    }
}
