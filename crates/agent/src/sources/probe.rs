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
        let mut rhythm = Rhythm::new(monotonic_ns());
        let mut spent = ProbeCost::default();
        loop {
            if stop.after(FETCH) {
                return Ok(());
            }
            let last = self.take(&readings, &mut rhythm, state);
            if let Some(last) = last {
                state.report(report(&last));
            } else if monotonic_ns().saturating_sub(rhythm.newest_ns) > SILENCE_NS {
                return Err(Failure::Broken("the probe's thread fell silent".to_owned()));
            }
            let cost = prober.cost();
            state.add(PROBE_SECONDS, cost.cpu.saturating_sub(spent.cpu).as_secs_f64());
            spent = cost;
        }
    }
}

impl Probe {
    fn take(
        &self,
        readings: &Receiver<(u64, ProbeReading)>,
        rhythm: &mut Rhythm,
        state: &SourceState,
    ) -> Option<ProbeReading> {
        let mut last = None;
        for (at_ns, reading) in readings.try_iter() {
            let Some(covers_ns) = rhythm.burst(at_ns) else { continue };
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
            if let Some(recorded) = &self.recorded {
                // Full where no counters run: then there is no recording to be in.
                let _ = recorded.try_send(reading);
            }
            last = Some(reading);
        }
        last
    }
}

/// When bursts come, and how much time each of them stands for.
struct Rhythm {
    newest_ns: u64,
    /// The pause between bursts of late.
    usual_ns: u64,
}

impl Rhythm {
    /// A burst tells of at most so many usual pauses; the rest of a longer one is a gap.
    const MOST: u64 = 4;

    fn new(now_ns: u64) -> Self {
        Self { newest_ns: now_ns, usual_ns: PERIOD.as_nanos() as u64 }
    }

    /// The time a burst stands for: what passed since the one before it, in reason. `None` for one
    /// that comes no later than that.
    fn burst(&mut self, at_ns: u64) -> Option<u64> {
        let pause_ns = at_ns.checked_sub(self.newest_ns).filter(|pause| *pause > 0)?;
        self.newest_ns = at_ns;
        let covers_ns = pause_ns.min(Self::MOST * self.usual_ns);
        // By what it may stand for, so that one long gap does not make the next look usual.
        self.usual_ns = ((7 * self.usual_ns + covers_ns) / 8).max(1);
        Some(covers_ns)
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_burst_after_a_stop_stands_for_a_few_pauses_and_the_rest_is_a_gap() {
        let mut rhythm = Rhythm::new(0);
        let steady: u64 = (1..=100).filter_map(|at| rhythm.burst(at * 30 * MS)).sum();
        assert_eq!(steady, 3_000 * MS);
        let after_a_stop = rhythm.burst(8_000 * MS).unwrap();
        assert!((100 * MS..=140 * MS).contains(&after_a_stop), "{after_a_stop}");
        assert_eq!(rhythm.burst(8_000 * MS), None);
    }

    #[test]
    fn a_slower_rhythm_becomes_the_usual_one() {
        let mut rhythm = Rhythm::new(0);
        let last = (1..=20).filter_map(|at| rhythm.burst(at * 1_000 * MS)).last();
        assert_eq!(last, Some(1_000 * MS));
    }
}
