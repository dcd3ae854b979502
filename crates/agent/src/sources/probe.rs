//! The probe: whether memory is contended, felt without any counter.
//!
//! Metrics: probe_latency_ns, probe_bandwidth, probe_write_back_ns, probe_inflation, probe_contended,
//! probe_confidence. Where there are several last-level caches, they are those of the worst.

use super::{Failure, Source};
use crate::clock::{monotonic_ns, unix_ns};
use crate::config::Config;
use crate::metric::{
    Metric, PROBE_BANDWIDTH, PROBE_CONFIDENCE, PROBE_CONTENDED, PROBE_INFLATION, PROBE_LATENCY,
    PROBE_WRITE_BACK, Total,
};
use crate::status::{Report, SourceState, Verdict};
use crate::supervise::Stop;
use crosstalk_probe::{Blind, ProbeConfig, ProbeCost, ProbeReading, Prober, State};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

pub(super) const METRICS: &[Metric] = &[
    PROBE_LATENCY,
    PROBE_BANDWIDTH,
    PROBE_WRITE_BACK,
    PROBE_INFLATION,
    PROBE_CONTENDED,
    PROBE_CONFIDENCE,
];
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
        let mut domains = Domains::default();
        let mut spent = ProbeCost::default();
        loop {
            if stop.after(FETCH) {
                return Ok(());
            }
            let last = self.take(&readings, &mut rhythm, &mut domains, state);
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
        domains: &mut Domains,
        state: &SourceState,
    ) -> Option<ProbeReading> {
        let mut last = None;
        for (at_ns, reading) in readings.try_iter() {
            let Some(covers_ns) = rhythm.burst(at_ns) else { continue };
            let worst = domains.worst(at_ns, reading);
            state.push(at_ns, covers_ns, &values(&worst));
            if let Some(recorded) = &self.recorded {
                // Full where no counters run: then there is no recording to be in.
                let _ = recorded.try_send(reading);
            }
            last = Some(worst);
        }
        last
    }
}

/// The values of [`METRICS`].
fn values(reading: &ProbeReading) -> [Option<f64>; 6] {
    let contended = match reading.state {
        State::Contended => Some(1.0),
        State::Quiet => Some(0.0),
        State::Unknown => None,
    };
    [
        reading.latency_ns,
        reading.bandwidth_bytes_per_s,
        reading.write_back_ns,
        reading.inflation,
        contended,
        reading.confidence,
    ]
}

/// The latest burst on each last-level cache. The probe goes from one to the next, so that one quiet
/// cache would hide another's contention every other sample.
#[derive(Default)]
struct Domains(BTreeMap<u32, (u64, ProbeReading)>);

impl Domains {
    /// A burst older than this tells nothing of now.
    const STALE_NS: u64 = 5_000_000_000;

    /// Takes a burst, and gives the latest of the domain that is worst off: a contended one before one
    /// that cannot tell, and that before a quiet one.
    fn worst(&mut self, at_ns: u64, reading: ProbeReading) -> ProbeReading {
        self.0.insert(reading.l3_domain, (at_ns, reading));
        self.0.retain(|_, (then_ns, _)| at_ns.saturating_sub(*then_ns) < Self::STALE_NS);
        let rank = |reading: &ProbeReading| match reading.state {
            State::Contended => 2,
            State::Unknown => 1,
            State::Quiet => 0,
        };
        let worse = |a: &ProbeReading, b: &ProbeReading| {
            let slower = a.inflation.unwrap_or(0.0).total_cmp(&b.inflation.unwrap_or(0.0));
            rank(a).cmp(&rank(b)).then(slower)
        };
        let latest = self.0.values().map(|(_, reading)| *reading);
        latest.max_by(worse).unwrap_or(reading)
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
        absent: [PROBE_CONTENDED, PROBE_CONFIDENCE]
            .map(|metric| (metric.name, why.to_owned()))
            .to_vec(),
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

    fn reading(l3_domain: u32, state: State, inflation: Option<f64>) -> ProbeReading {
        ProbeReading {
            slot_start_ns: 0,
            core: None,
            l3_domain,
            latency_ns: None,
            bandwidth_bytes_per_s: None,
            write_back_ns: None,
            inflation,
            state,
            confidence: (state != State::Unknown).then_some(0.9),
            blind: None,
        }
    }

    #[test]
    fn of_several_caches_the_worst_speaks_for_the_node_until_its_burst_is_old() {
        let mut domains = Domains::default();
        let contended = reading(0, State::Contended, Some(1.5));
        let quiet = reading(1, State::Quiet, Some(1.0));
        assert_eq!(domains.worst(MS, contended), contended);
        assert_eq!(domains.worst(2 * MS, quiet), contended);
        assert_eq!(values(&contended)[3..], [Some(1.5), Some(1.0), Some(0.9)]);
        let unknown = reading(0, State::Unknown, None);
        assert_eq!(domains.worst(3 * MS, unknown), unknown, "not known to be quiet");
        assert_eq!(values(&unknown)[3..], [None; 3]);
        assert_eq!(domains.worst(10_000 * MS, quiet), quiet);
    }

    #[test]
    fn a_slower_rhythm_becomes_the_usual_one() {
        let mut rhythm = Rhythm::new(0);
        let last = (1..=20).filter_map(|at| rhythm.burst(at * 1_000 * MS)).last();
        assert_eq!(last, Some(1_000 * MS));
    }
}
