//! The probe: whether memory is contended, felt without any counter.
//!
//! Data set: probe. Where there are several last-level caches, the metrics are those of the worst.

use crate::{Settings, Wired};
use crosstalk_collect::{About, Outlet, Source};
use crosstalk_host::{Capability, Verdict, monotonic_ns};
use crosstalk_model::metric::{
    PROBE_BANDWIDTH, PROBE_CONFIDENCE, PROBE_CONTENDED, PROBE_INFLATION, PROBE_LATENCY,
    PROBE_WRITE_BACK,
};
use crosstalk_model::{ProbeBlindness, ProbeReading, ProbeState, Row, Total};
use crosstalk_probe::{ProbeConfig, ProbeCost, Prober};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

static ABOUT: About = About {
    name: "probe",
    datasets: &[ProbeReading::DATASET],
    metrics: &[
        PROBE_LATENCY,
        PROBE_BANDWIDTH,
        PROBE_WRITE_BACK,
        PROBE_INFLATION,
        PROBE_CONTENDED,
        PROBE_CONFIDENCE,
    ],
    subjects: &[],
};

/// About how often a burst comes; sizes the buffer.
const PERIOD: Duration = Duration::from_millis(20);
/// How often readings are fetched: rarely, so that they cost little, and often enough for a recording.
const FETCH: Duration = Duration::from_millis(250);
/// Readings waiting for us; more than come between two fetches.
const WAITING: usize = 1024;
/// On a machine with every core busy an idle-class thread can starve for seconds.
const SILENCE_NS: u64 = 120_000_000_000;
const PROBE_SECONDS: Total =
    Total { family: "crosstalk_agent_probe_cpu_seconds", help: "Processor time of the probe." };

pub(crate) fn wire(settings: Settings) -> Wired {
    Wired::new(&ABOUT, settings.probe.mode, PERIOD, |_| Probe { settings })
}

struct Probe {
    settings: Settings,
}

impl Source for Probe {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        let usual = ProbeConfig::default();
        let config = ProbeConfig {
            host: self.settings.host.clone(),
            cpu_share: self.settings.probe.cpu_share.unwrap_or(usual.cpu_share),
            slot_ns: self.settings.slot.nanos(),
            clock: out.clock().clone(),
            ..usual
        };
        let cpu_share = config.cpu_share;
        let (sender, readings) = sync_channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&dropped);
        let prober = Prober::start(config, move |reading| {
            // Full means that nobody fetches any more; the burst is lost, the probe goes on.
            if sender.try_send(reading).is_err() {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        })
        .map_err(|error| Capability::of_error(ABOUT.name, Verdict::Failing, &error))?;
        out.describe("probe", about(&prober, cpu_share));
        out.report(Verdict::Limited, "learning how fast memory is when quiet");
        let mut told = Told { newest_ns: monotonic_ns(), ..Told::default() };
        let mut prober = Some(prober);
        loop {
            let over = out.pause(FETCH);
            if let Some(prober) = &prober {
                told.cost(prober.cost(), &dropped, out);
            }
            if over {
                // Joins its thread: what it measured last is in the channel then.
                prober = None;
            }
            told.deliver(readings.try_iter().collect(), out);
            if over {
                return Ok(());
            }
            if monotonic_ns().saturating_sub(told.newest_ns) > SILENCE_NS {
                return Err(out.capability(Verdict::Failing, "the probe's thread fell silent"));
            }
        }
    }
}

/// What recordings say about the probe.
fn about(prober: &Prober, cpu_share: f64) -> Value {
    let domain = |domain: &crosstalk_host::L3Domain| json!({ "l3_domain": domain.id, "cores": domain.cores });
    let domains: Vec<Value> = prober.domains().iter().map(domain).collect();
    json!({ "cpu_share": cpu_share, "domains": domains })
}

/// What was told so far.
#[derive(Default)]
struct Told {
    newest_ns: u64,
    domains: Domains,
    spent: ProbeCost,
    dropped: u64,
}

impl Told {
    fn deliver(&mut self, readings: Vec<ProbeReading>, out: &Outlet) {
        let worst = readings.iter().map(|reading| self.domains.worst(*reading)).last();
        if let Some(worst) = worst {
            self.newest_ns = monotonic_ns();
            let (capability, absent) = standing(&worst, out);
            out.stand(capability, absent);
        }
        out.deliver(readings);
    }

    fn cost(&mut self, cost: ProbeCost, dropped: &AtomicU64, out: &Outlet) {
        out.add(PROBE_SECONDS, cost.cpu.saturating_sub(self.spent.cpu).as_secs_f64());
        self.spent = cost;
        let dropped = dropped.load(Ordering::Relaxed);
        out.lost(ABOUT.datasets[0].name, "probe", dropped - self.dropped);
        self.dropped = dropped;
        out.describe(
            "probe_status",
            json!({
                "bursts": cost.bursts,
                "disturbed_bursts": cost.disturbed,
                "dropped_rows": dropped,
                "cpu_seconds": cost.cpu.as_secs_f64(),
                "bytes": cost.bytes,
            }),
        );
    }
}

/// The latest burst on each last-level cache. The probe goes from one to the next, so that one quiet
/// cache would hide another's contention every other sample.
#[derive(Debug, Default)]
pub struct Domains(BTreeMap<u32, ProbeReading>);

impl Domains {
    /// A burst older than this tells nothing of now.
    const STALE_NS: u64 = 5_000_000_000;

    /// Takes a burst, and gives the latest of the domain that is worst off: a contended one before one
    /// that cannot tell, and that before a quiet one.
    pub fn worst(&mut self, reading: ProbeReading) -> ProbeReading {
        self.0.insert(reading.l3_domain, reading);
        let at_ns = reading.read_at_ns;
        self.0.retain(|_, then| at_ns.saturating_sub(then.read_at_ns) < Self::STALE_NS);
        let rank = |reading: &ProbeReading| match reading.state {
            ProbeState::Contended => 2,
            ProbeState::Unknown => 1,
            ProbeState::Quiet => 0,
        };
        let worse = |a: &&ProbeReading, b: &&ProbeReading| {
            let slower = a.inflation.unwrap_or(0.0).total_cmp(&b.inflation.unwrap_or(0.0));
            rank(a).cmp(&rank(b)).then(slower)
        };
        self.0.values().max_by(worse).copied().unwrap_or(reading)
    }
}

fn standing(reading: &ProbeReading, out: &Outlet) -> (Capability, Vec<(&'static str, String)>) {
    let (why, fix) = match reading.blind {
        None => {
            let found = "memory is probed from idle priority";
            return (out.capability(Verdict::Ok, found), Vec::new());
        }
        Some(ProbeBlindness::Learning) => ("learning how fast memory is when quiet", None),
        Some(ProbeBlindness::Starved) => {
            ("too few bursts: no core was free for it", Some("leave some processor time idle"))
        }
        Some(ProbeBlindness::Noisy) => {
            ("other tenants make memory too noisy to tell contention", None)
        }
    };
    let absent = [PROBE_CONTENDED, PROBE_CONFIDENCE].map(|metric| (metric.name, why.to_owned()));
    let fix = fix.map(str::to_owned);
    (Capability { fix, ..out.capability(Verdict::Limited, why) }, absent.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(l3_domain: u32, state: ProbeState, inflation: Option<f64>) -> ProbeReading {
        ProbeReading {
            slot_start_ns: 0,
            read_at_ns: 0,
            core: None,
            l3_domain,
            latency_ns: None,
            bandwidth_bytes_per_s: None,
            write_back_ns: None,
            inflation,
            state,
            confidence: (state != ProbeState::Unknown).then_some(0.9),
            blind: None,
        }
    }

    #[test]
    fn a_contended_cache_is_not_hidden_by_a_quiet_one_until_its_burst_is_old() {
        let mut domains = Domains::default();
        domains.worst(reading(0, ProbeState::Contended, Some(1.4)));
        let quiet = reading(1, ProbeState::Quiet, Some(1.0));
        assert_eq!(domains.worst(quiet).l3_domain, 0);
        let later = ProbeReading { read_at_ns: Domains::STALE_NS, ..quiet };
        assert_eq!(domains.worst(later).l3_domain, 1);
    }
}
