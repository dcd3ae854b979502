//! Every source there is, wired once for `record`, `agent` and whatever else measures.
//!
//! A source is a module here, or a crate of its own where it is large, that implements
//! [`Source`](crosstalk_collect::Source); [`all`] lists them. Each is optional, knows nothing of who
//! reads it, and runs on a thread that is started anew when it fails. To add one: its module or crate,
//! and its line in [`all`]. It is then in every job and can be switched off by its name in each.

mod cache;
mod cache_totals;
mod cgroup;
mod convert;
mod counters;
mod filter;
mod pace;
mod pcm;
mod places;
mod probe;
mod proc;
mod processes;
mod rate;
mod settings;
mod steal;
mod throttling;

pub use counters::METRICS as COUNTERS_METRICS;
pub use filter::{Filter, FilterError};
pub use pace::Pace;
pub use probe::Domains;
pub use rate::{Rate, RateConfig};
pub use settings::{
    Cache, CacheTotals, ColdMemory, Counters, Mode, Pcm, Pressure, Probe, Sampling, Settings,
    state_folder,
};
pub use throttling::ThrottlingRow;

use crosstalk_collect::{About, Collect, Source, SourceStatus};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A source that can be started, or that is switched off.
pub struct Wired {
    /// What it is.
    pub about: &'static About,
    /// Whether it is used.
    pub mode: Mode,
    /// The shortest time between its samples of the node, which sizes buffers.
    pub fastest: Duration,
    make: Make,
}

type Make = Box<dyn FnOnce(&mut Collect) -> Box<dyn Source>>;

impl Wired {
    fn new<S: Source + 'static>(
        about: &'static About,
        mode: Mode,
        fastest: Duration,
        make: impl FnOnce(&mut Collect) -> S + 'static,
    ) -> Self {
        Self { about, mode, fastest, make: Box::new(|collect| Box::new(make(collect))) }
    }

    fn make(self, collect: &mut Collect) -> Result<Box<dyn Source>, Arc<SourceStatus>> {
        if self.mode != Mode::Off {
            return Ok((self.make)(collect));
        }
        let key = self.key();
        Err(collect.switched_off(self.about, &format!("set sources.{key}.mode = \"auto\"")))
    }

    /// The name it is switched by: both programs of PCM by one.
    #[must_use]
    pub fn key(&self) -> &'static str {
        self.about.name.strip_suffix("-memory").unwrap_or(self.about.name)
    }
}

/// Starts sources in their order; one that is switched off, or that nobody subscribed to, is only known of. With `wait`, each has said
/// how it stands before the next is started, so that what the later ones deliver has slots to join.
///
/// # Errors
/// No thread can be started.
pub fn start(
    wired: Vec<Wired>,
    collect: &mut Collect,
    wait: Option<Duration>,
) -> io::Result<Vec<Arc<SourceStatus>>> {
    // All are made before the first is started: some read what others deliver.
    let made: Vec<Result<Box<dyn Source>, Arc<SourceStatus>>> =
        wired.into_iter().map(|wired| wired.make(collect)).collect();
    let mut statuses = Vec::with_capacity(made.len());
    for source in made {
        let status = match source {
            // Measuring costs whether somebody looks or not.
            Ok(source) if !collect.is_wanted(source.about()) => {
                let fix = read_by(source.about().name);
                collect.unread(source.about(), fix)
            }
            Ok(source) => collect.start(source)?,
            Err(off) => off,
        };
        if let Some(wait) = wait {
            status.wait_until_started(wait);
        }
        statuses.push(status);
    }
    Ok(statuses)
}

/// What makes the agent read a source that nobody reads.
fn read_by(source: &str) -> &'static str {
    match source {
        "probe" | "steal" | "throttling" => {
            "record: set recording.out; or find culprits: set verdicts.enabled = true"
        }
        _ => "record: set recording.out",
    }
}

/// Every source, the best first: where several have a metric as good, an answer takes the first.
pub fn all(settings: &Settings) -> Vec<Wired> {
    let s = settings.clone();
    let shortest = s.sampling.shortest();
    let mut all = Vec::new();
    all.push(counters::wire(s.clone()));
    all.extend(pcm::wire(&s));
    all.push(cache_totals::wire(s.clone(), shortest));
    all.push(proc::wire(s.clone(), shortest));
    all.push(cgroup::wire(s.clone()));
    all.push(cache::wire(s.clone()));
    all.push(probe::wire(s.clone()));
    all.push(steal::wire(&s));
    all.push(throttling::wire(&s));
    all.push(coldmem(&s));
    all.push(Wired::new(
        &crosstalk_pressure::ABOUT,
        s.pressure.mode,
        s.pressure.period,
        move |_| {
            crosstalk_pressure::PressureSource::new(
                &s.host,
                s.slot,
                s.pressure.period,
                &s.inventory,
            )
        },
    ));
    for source in &mut all {
        source.mode = settings.modes.get(source.key()).copied().unwrap_or(source.mode);
    }
    all
}

fn coldmem(s: &Settings) -> Wired {
    let ColdMemory { mode, period, choice } = s.coldmem.clone();
    let (host, slot, names) = (s.host.clone(), s.slot, s.inventory.clone());
    let make = move |_: &mut Collect| {
        let place_of: crosstalk_coldmem::PlaceOf =
            Box::new(move |path| names.snapshot().place_path(path));
        crosstalk_coldmem::ColdSource::new(&host, slot, period, choice, place_of)
    };
    Wired::new(&crosstalk_coldmem::ABOUT, mode, period, make)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_collect::Wants;
    use crosstalk_host::{Clock, Verdict};
    use crosstalk_model::{Row, StealRow};

    #[test]
    fn a_source_that_nobody_reads_is_not_started_and_says_so() {
        let settings = Settings::default();
        let mut collect = Collect::new(Clock::measure());
        let _rows = collect.subscribe("test", 16, Wants::Datasets(&[StealRow::DATASET]));
        let wired = vec![steal::wire(&settings), throttling::wire(&settings)];
        let wait = Some(Duration::from_secs(20));
        let statuses = start(wired, &mut collect, wait).unwrap();
        let standing = |at: usize| statuses[at].standing().capability;
        assert_ne!(standing(0).verdict, Verdict::Off, "{:?}", standing(0));
        assert_eq!(standing(1).verdict, Verdict::Off, "{:?}", standing(1));
        assert!(standing(1).fix.is_some_and(|fix| fix.contains("recording.out")));
    }
}
