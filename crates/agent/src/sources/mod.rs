//! The sources, one file each. Every one is optional, knows nothing of who reads it, and runs on
//! a thread that is started anew when it fails.
//!
//! To add one: a file beside these with a [`Source`] and the metrics it can have,
//! an entry in [`all`] at the place its values deserve, and a table in the sample configuration.

mod aggregate;
mod cgroup;
mod counters;
mod cutter;
mod pace;
mod pcm;
mod probe;
mod proc;
mod process;
mod resctrl;
mod sensor_server;

use crate::config::{Config, Mode};
use crate::error::AgentError;
use crate::metric::Metric;
use crate::recorder::Recorder;
use crate::status::{Report, SourceState, Verdict};
use crate::subjects::SubjectTable;
use crate::supervise::Stop;
use crate::tape::Tape;
use crosstalk_host::HostRoot;
use std::sync::Arc;
use std::time::Duration;

/// Why a run of a source ended before it was told to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The machine does not have what it needs.
    Absent(Report),
    /// Something went wrong: "what; the way out".
    Broken(String),
}

/// Something that measures.
pub(crate) trait Source: Send {
    /// Measures into `state` until `stop` says so. It may be called again after a failure.
    ///
    /// # Errors
    /// If it cannot go on.
    fn run(&mut self, state: &SourceState, stop: &Stop) -> Result<(), Failure>;
}

/// A source and what everybody else sees of it; without the first, it is switched off.
pub(crate) type Wired = (Option<Box<dyn Source>>, Arc<SourceState>);

/// Every source, the best first: where several have a metric, an answer takes the first that
/// measured it in the window.
pub(crate) fn all(config: &Config) -> Result<Vec<Wired>, AgentError> {
    let host = HostRoot::new(&config.host_root);
    let sources = &config.sources;
    let wiring = Wiring { config };
    let slot = config.slot().get();
    let (recorder, probed) = Recorder::new(config, &host).unzip();
    let mut all = vec![wiring.wire(
        "counters",
        sources.counters.mode,
        (counters::METRICS, slot.max(wiring.fastest())),
        (aggregate::SUBJECT_METRICS, config.subjects.period.get()),
        || Box::new(counters::Counters::new(config, &host, recorder)),
    )?];
    all.extend(pcm::wire(&wiring, &host)?);
    all.push(wiring.wire(
        "resctrl",
        sources.resctrl.mode,
        (resctrl::METRICS, wiring.fastest().max(resctrl::FASTEST)),
        (&[], Duration::ZERO),
        || Box::new(resctrl::CacheTotals::new(config)),
    )?);
    all.push(wiring.wire(
        "proc",
        sources.proc.mode,
        (proc::METRICS, proc::fastest(wiring.fastest())),
        (process::METRICS, config.subjects.period.get()),
        || Box::new(proc::Proc::new(config, &host)),
    )?);
    all.push(wiring.wire(
        "cgroup",
        sources.cgroup.mode,
        (&[], Duration::ZERO),
        (cgroup::METRICS, config.subjects.period.get()),
        || Box::new(cgroup::CgroupFiles::new(config, &host)),
    )?);
    all.push(wiring.wire(
        "probe",
        sources.probe.mode,
        (probe::METRICS, probe::PERIOD),
        (&[], Duration::ZERO),
        || Box::new(probe::Probe::new(config, probed)),
    )?);
    Ok(all)
}

/// What is the same for every source.
struct Wiring<'a> {
    config: &'a Config,
}

impl Wiring<'_> {
    /// The shortest time between samples the node may see, which sizes the buffers.
    fn fastest(&self) -> Duration {
        let sampling = &self.config.sampling;
        if sampling.adaptive { sampling.fastest.get() } else { sampling.period.get() }
    }

    fn wire(
        &self,
        name: &'static str,
        mode: Mode,
        (node, period): (&[Metric], Duration),
        (below, subject_period): (&'static [Metric], Duration),
        make: impl FnOnce() -> Box<dyn Source>,
    ) -> Result<Wired, AgentError> {
        let retention = self.config.sampling.retention.get();
        let off = mode == Mode::Off;
        // Also for one that is off: an answer then knows what it would have had.
        let tape = if node.is_empty() { None } else { Some(Tape::new(node, retention, period)?) };
        let subjects = &self.config.subjects;
        let table = if subjects.enabled && !below.is_empty() && !off {
            // A sample a little late must not make a subject forget its window.
            let kept = retention.max(subject_period * 2);
            SubjectTable::new(below, kept, subject_period, subjects.limit)
        } else {
            SubjectTable::none()
        };
        let state = Arc::new(SourceState::new(name, tape, table));
        if off {
            // Both programs of PCM are switched by one key.
            let key = name.strip_suffix("-memory").unwrap_or(name);
            let fix = format!("set sources.{key}.mode = \"auto\"");
            state.report(Report::new(Verdict::Off, "switched off").fix(fix));
            return Ok((None, state));
        }
        Ok((Some(make()), state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SAMPLE;

    #[test]
    fn the_way_to_switch_a_source_on_is_a_key_there_is() {
        let mut config = Config::default();
        config.sources.pcm.mode = Mode::Off;
        config.sources.pcm.memory_command = "pcm-memory".to_owned();
        let wired = all(&config).unwrap();
        let fixes: Vec<String> =
            wired.iter().filter_map(|(_, state)| state.current().fix).collect();
        assert_eq!(fixes.len(), 2);
        for fix in fixes {
            let table = fix.strip_prefix("set ").and_then(|key| key.split_once(".mode")).unwrap().0;
            assert!(SAMPLE.contains(&format!("[{table}]")), "{fix}");
        }
    }
}
