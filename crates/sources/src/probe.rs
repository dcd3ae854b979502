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
use crosstalk_probe::{BaselineNote, ProbeConfig, ProbeCost, Prober};
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
/// A machine may stand still for long (a suspended virtual one); a thread that ended stays silent.
const SILENCE_NS: u64 = 120_000_000_000;
/// The operator is told that the probe starves, or no longer does, when that lasted so long.
const LASTING_NS: u64 = 10_000_000_000;
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
            state: self.settings.probe.state.clone(),
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
        out.report(Verdict::Limited, LEARNING);
        let mut delivered = Delivered { newest_ns: monotonic_ns(), ..Delivered::default() };
        let mut prober = Some(prober);
        loop {
            let over = out.pause(FETCH);
            if let Some(prober) = &prober {
                delivered.note(prober.baseline_note(), out);
                delivered.cost(prober.cost(), &dropped, out);
            }
            if over {
                // Joins its thread: what it measured last is in the channel then.
                prober = None;
            }
            delivered.deliver(readings.try_iter().collect(), out);
            if over {
                return Ok(());
            }
            delivered.starvation(monotonic_ns(), out);
            if monotonic_ns().saturating_sub(delivered.newest_ns) > SILENCE_NS {
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
struct Delivered {
    newest_ns: u64,
    domains: Domains,
    spent: ProbeCost,
    dropped: u64,
    note: Option<BaselineNote>,
    starvation: Starvation,
}

impl Delivered {
    fn deliver(&mut self, readings: Vec<ProbeReading>, out: &Outlet) {
        let worst = readings.iter().map(|reading| self.domains.worst(*reading)).last();
        if let Some(worst) = worst {
            self.newest_ns = monotonic_ns();
            if worst.blind != Some(ProbeBlindness::Starved) {
                self.starvation.fed_at_ns = Some(self.newest_ns);
            }
            let (capability, absent) = standing(&worst, out);
            out.stand(capability, absent);
        }
        out.deliver(readings);
    }

    /// What became of the file in which quiet is kept.
    fn note(&mut self, note: Option<BaselineNote>, out: &Outlet) {
        if let Some(news) = note.as_ref().filter(|_| note != self.note) {
            let verdict = if news.is_trouble { Verdict::Limited } else { Verdict::Ok };
            out.announce(&out.capability(verdict, &news.text));
        }
        self.note = note;
    }

    fn starvation(&mut self, at_ns: u64, out: &Outlet) {
        match self.starvation.changed(at_ns) {
            Some(true) => {
                let starved = starved(out);
                out.announce(&starved);
                // Where not a single burst is run, no reading says so.
                out.stand(starved, absent(STARVED));
            }
            Some(false) => out.announce(&out.capability(Verdict::Ok, "gets its bursts again")),
            None => {}
        }
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
                "normal_priority_bursts": cost.insisted,
                "baseline": self.note.as_ref().map(|note| &note.text),
                "baseline_trouble": self.note.as_ref().is_some_and(|note| note.is_trouble),
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

/// Whether the probe has been without enough bursts for long.
#[derive(Debug, Default)]
struct Starvation {
    starved: bool,
    /// When a burst could last be judged.
    fed_at_ns: Option<u64>,
    well_since_ns: Option<u64>,
}

impl Starvation {
    /// Readings are fetched a few times a second; less than this is no hunger.
    const MOMENT_NS: u64 = 2_000_000_000;

    /// Whether it starves, when that is news.
    fn changed(&mut self, at_ns: u64) -> Option<bool> {
        let hungry_ns = at_ns.saturating_sub(*self.fed_at_ns.get_or_insert(at_ns));
        let is_well = hungry_ns <= Self::MOMENT_NS;
        self.well_since_ns = is_well.then(|| self.well_since_ns.unwrap_or(at_ns));
        let well_ns = self.well_since_ns.map_or(0, |since_ns| at_ns.saturating_sub(since_ns));
        let before = self.starved;
        self.starved = if before { well_ns < LASTING_NS } else { hungry_ns >= LASTING_NS };
        (self.starved != before).then_some(self.starved)
    }
}

const LEARNING: &str = "learning how fast memory is at rest";
const STARVED: &str = "starved: hardly a burst gets through, so that contention cannot be told";

fn starved(out: &Outlet) -> Capability {
    let fix = "leave some processor time, or raise sources.probe.cpu_share".to_owned();
    Capability { fix: Some(fix), ..out.capability(Verdict::Limited, STARVED) }
}

fn absent(why: &str) -> Vec<(&'static str, String)> {
    [PROBE_CONTENDED, PROBE_CONFIDENCE].map(|metric| (metric.name, why.to_owned())).to_vec()
}

fn standing(reading: &ProbeReading, out: &Outlet) -> (Capability, Vec<(&'static str, String)>) {
    let limited = |why: &str, fix: Option<&str>| {
        let capability = out.capability(Verdict::Limited, why);
        (Capability { fix: fix.map(str::to_owned), ..capability }, absent(why))
    };
    match reading.blind {
        None => (out.capability(Verdict::Ok, "memory is probed and judged"), Vec::new()),
        Some(ProbeBlindness::Learning) => limited(LEARNING, None),
        Some(ProbeBlindness::Unseen) => limited(
            "memory was not seen at rest lately: others run all the time, so that quiet is not known",
            Some("let the machine rest for five seconds once; it is remembered"),
        ),
        Some(ProbeBlindness::Starved) => (starved(out), absent(STARVED)),
        Some(ProbeBlindness::Noisy) => {
            limited("other tenants make memory too noisy to tell contention", None)
        }
    }
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
            alone: None,
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

    #[test]
    fn starvation_is_news_when_it_lasts_and_when_it_is_over_for_as_long() {
        const SECOND: u64 = 1_000_000_000;
        let mut starvation = Starvation::default();
        let mut news = Vec::new();
        for tenth in 0..1_000 {
            let at_ns = tenth * SECOND / 10;
            // Fed but for 20 to 50 s, in which it gets a morsel at 25 s; a moment's hunger at 70 s.
            let second = tenth / 10;
            let hungry = (20..50).contains(&second) && second != 25 || second == 70;
            if !hungry {
                starvation.fed_at_ns = Some(at_ns);
            }
            news.extend(starvation.changed(at_ns).map(|starved| (second, starved)));
        }
        assert_eq!(news, [(35, true), (60, false)]);
    }
}
