//! The `probe` data set: what memory felt like, beside who ran.

use super::Args;
use crosstalk_counters::Clocks;
use crosstalk_model::{ProbeReading, ProbeState};
use crosstalk_probe::{ProbeConfig, ProbeCost, Prober};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

/// Readings waiting to be fetched: minutes of them.
const WAITING: usize = 4_096;

/// The prober, or why this recording has none.
pub(super) enum Probe {
    Running(Running),
    Absent(String),
}

pub(super) struct Running {
    prober: Prober,
    cpu_share: f64,
    readings: Receiver<ProbeReading>,
    dropped: Arc<AtomicU64>,
}

impl Probe {
    /// Starts probing. A machine where that is impossible records everything else.
    pub(super) fn start(args: &Args, clocks: Clocks) -> Self {
        if args.no_probe {
            return Self::Absent("--no-probe".to_owned());
        }
        let config = ProbeConfig {
            host_root: args.host_root.clone(),
            slot_ns: args.slot.nanos(),
            unix_minus_monotonic_ns: Some(clocks.realtime_minus_monotonic_ns),
            ..ProbeConfig::default()
        };
        Self::with(config)
    }

    fn with(config: ProbeConfig) -> Self {
        let cpu_share = config.cpu_share;
        let (sender, readings) = sync_channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&dropped);
        let started = Prober::start(config, move |reading| {
            if sender.try_send(reading).is_err() {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        });
        match started {
            Ok(prober) => Self::Running(Running { prober, cpu_share, readings, dropped }),
            Err(error) => Self::Absent(error.to_string()),
        }
    }

    pub(super) fn absent_because(&self) -> Option<&str> {
        match self {
            Self::Running(_) => None,
            Self::Absent(reason) => Some(reason),
        }
    }

    /// What the recording says about its probe.
    pub(super) fn about(&self) -> Option<Value> {
        let Self::Running(running) = self else { return None };
        let domains: Vec<Value> = running
            .prober
            .domains()
            .iter()
            .map(|domain| json!({ "l3_domain": domain.id, "cores": domain.cores }))
            .collect();
        Some(json!({ "cpu_share": running.cpu_share, "domains": domains }))
    }

    /// What was measured since the last call.
    pub(super) fn take(&self) -> Vec<ProbeReading> {
        match self {
            Self::Running(running) => running.readings.try_iter().collect(),
            Self::Absent(_) => Vec::new(),
        }
    }

    /// Stops probing; returns the last readings and what it all cost.
    pub(super) fn stop(&mut self) -> (Vec<ProbeReading>, Option<ProbeStatus>) {
        let ended = std::mem::replace(self, Self::Absent("it has ended".to_owned()));
        let Self::Running(Running { prober, readings, dropped, .. }) = ended else {
            return (Vec::new(), None);
        };
        let cost = prober.cost();
        // Joins its thread: what it measured last is in the channel then.
        drop(prober);
        let rows = readings.try_iter().collect();
        (rows, Some(ProbeStatus { cost, dropped: dropped.load(Ordering::Relaxed) }))
    }
}

/// How the probe fared.
pub(super) struct ProbeStatus {
    cost: ProbeCost,
    dropped: u64,
}

/// What the closing lines say about memory.
#[derive(Default)]
pub(super) struct ProbeSums {
    rows: u64,
    contended: u64,
    judged: u64,
    pub(super) status: Option<ProbeStatus>,
}

impl ProbeSums {
    pub(super) fn add(&mut self, rows: &[ProbeReading]) {
        let count = |state| rows.iter().filter(|row| row.state == state).count() as u64;
        self.rows += rows.len() as u64;
        self.contended += count(ProbeState::Contended);
        self.judged += rows.len() as u64 - count(ProbeState::Unknown);
    }

    /// One line under the table.
    pub(super) fn closing(&self, seconds: f64) -> Option<String> {
        let status = self.status.as_ref()?;
        let memory = match (self.contended, self.judged) {
            // The quiet level takes some seconds to learn.
            (_, 0) => "too little to tell whether memory was contended".to_owned(),
            (contended, judged) => {
                format!("memory contended at {contended} of {judged} that could be judged")
            }
        };
        let cost = status.cost.cpu.as_secs_f64() * 100.0 / seconds;
        let mut text =
            format!("probe: {} bursts, {memory}; cost {cost:.2} % of one core", self.rows);
        if status.dropped > 0 {
            text += &format!("; {} rows dropped", status.dropped);
        }
        Some(text)
    }

    pub(super) fn json(&self) -> Value {
        let Some(status) = &self.status else { return Value::Null };
        json!({
            "rows": self.rows,
            "judged_rows": self.judged,
            "contended_rows": self.contended,
            "bursts": status.cost.bursts,
            "disturbed_bursts": status.cost.disturbed,
            "dropped_rows": status.dropped,
            "cpu_seconds": status.cost.cpu.as_secs_f64(),
            "bytes": status.cost.bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_does_not_say_which_cores_it_has_has_no_probe_and_says_why() {
        let root = tempfile::tempdir().unwrap();
        let config = ProbeConfig { host_root: root.path().to_owned(), ..ProbeConfig::default() };
        let mut probe = Probe::with(config);
        let reason = probe.absent_because().unwrap();
        assert!(reason.contains("sys/devices/system/cpu/online"), "{reason}");
        assert!(reason.contains("--host-root"), "{reason}");
        assert!(probe.about().is_none() && probe.take().is_empty());
        assert!(probe.stop().1.is_none());
    }
}
