//! The probe: whether memory is contended, felt without any counter.
//!
//! Metrics: probe_latency_ns, probe_bandwidth, probe_write_back_ns, probe_inflation, probe_contended.

use super::{Failure, Source};
use crate::clock::{monotonic_ns, unix_ns};
use crate::config::Config;
use crate::metric::{
    Metric, PROBE_BANDWIDTH, PROBE_CONTENDED, PROBE_INFLATION, PROBE_LATENCY, PROBE_WRITE_BACK,
    Total,
};
use crate::status::{Report, SourceState, Verdict};
use crate::supervise::Stop;
use crosstalk_probe::{Blind, ProbeConfig, ProbeCost, ProbeReading, Prober, State};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

pub(super) const METRICS: &[Metric] =
    &[PROBE_LATENCY, PROBE_BANDWIDTH, PROBE_WRITE_BACK, PROBE_INFLATION, PROBE_CONTENDED];
/// About how often a burst comes; sizes the buffer.
pub(super) const PERIOD: Duration = Duration::from_millis(20);
/// How often readings are fetched: rarely, so that they cost little.
const FETCH: Duration = Duration::from_millis(500);
/// Readings waiting for us; more than come between two fetches.
const WAITING: usize = 256;
const PROBE_SECONDS: Total =
    Total { family: "crosstalk_agent_probe_cpu_seconds", help: "Processor time of the probe." };

pub(super) struct Probe {
    config: ProbeConfig,
    /// Where readings go that are to be recorded.
    recorded: Option<SyncSender<ProbeReading>>,
}

impl Probe {
    pub(super) fn new(config: &Config, recorded: Option<SyncSender<ProbeReading>>) -> Self {
        Self {
            recorded,
            config: ProbeConfig {
                host_root: config.host_root.clone(),
                cpu_share: config.sources.probe.cpu_share,
                slot_ns: config.slot().nanos(),
                // As the counters do: a clock set later moves none of the data sets.
                unix_minus_monotonic_ns: Some(unix_ns().saturating_sub(monotonic_ns())),
                ..ProbeConfig::default()
            },
        }
    }
}

impl Source for Probe {
    fn run(&mut self, state: &SourceState, stop: &Stop) -> Result<(), Failure> {
        let (sender, readings) = sync_channel(WAITING);
        let prober = Prober::start(self.config.clone(), move |reading| {
            // Full means that nobody fetches any more; the burst is lost, the probe goes on.
            let _ = sender.try_send((monotonic_ns(), reading));
        })
        .map_err(|error| Failure::Broken(error.to_string()))?;
        let mut newest_ns = monotonic_ns();
        let mut spent = ProbeCost::default();
        loop {
            if stop.after(FETCH) {
                return Ok(());
            }
            let last = self.take(&readings, &mut newest_ns, state);
            if let Some(last) = last {
                state.report(report(&last));
            } else if monotonic_ns().saturating_sub(newest_ns) > SILENCE_NS {
                return Err(Failure::Broken("the probe's thread fell silent".to_owned()));
            }
            let cost = prober.cost();
            state.add(PROBE_SECONDS, cost.cpu.saturating_sub(spent.cpu).as_secs_f64());
            spent = cost;
        }
    }
}

impl Probe {
    /// Each burst stands for the time since the one before it.
    fn take(
        &self,
        readings: &Receiver<(u64, ProbeReading)>,
        newest_ns: &mut u64,
        state: &SourceState,
    ) -> Option<ProbeReading> {
        let mut last = None;
        for (at_ns, reading) in readings.try_iter() {
            let covers_ns = at_ns.saturating_sub(*newest_ns);
            if covers_ns == 0 {
                continue;
            }
            let contended = match reading.state {
                State::Contended => Some(1.0),
                State::Quiet => Some(0.0),
                State::Unknown => None,
            };
            let values = [
                reading.latency_ns,
                reading.bandwidth_bytes_per_s,
                reading.write_back_ns,
                reading.inflation,
                contended,
            ];
            state.push(at_ns, covers_ns, &values);
            *newest_ns = at_ns;
            if let Some(recorded) = &self.recorded {
                // Full where no counters run: then there is no recording to be in.
                let _ = recorded.try_send(reading);
            }
            last = Some(reading);
        }
        last
    }
}

/// On a machine with every core busy an idle-class thread can starve for seconds.
const SILENCE_NS: u64 = 120_000_000_000;

fn report(reading: &ProbeReading) -> Report {
    let blind = |why: &str| Report {
        absent: vec![(PROBE_CONTENDED.name, why.to_owned())],
        ..Report::new(Verdict::Limited, why)
    };
    match reading.blind {
        None => Report::new(Verdict::Ok, "memory is probed from idle priority"),
        Some(Blind::Learning) => blind("learning how fast memory is when quiet"),
        Some(Blind::Starved) => {
            blind("too few bursts: no core was free for it").fix("leave some processor time idle")
        }
        Some(Blind::Noisy) => blind("other tenants make memory too noisy to tell contention"),
    }
}
