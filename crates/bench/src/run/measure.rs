//! Everything that is measured during a run: the pipeline's sources and our own, recorded and watched.

use super::Options;
use crate::Error;
use crate::collectors::{self, Meters};
use crate::experiment::{Data, Experiment};
use crate::influx::{self, Delivered, Influx, left_behind};
use crate::roster::Roster;
use crate::store::{RunDir, RunRecord};
use crate::watch::{WANTS, Watch};
use crosstalk_collect::Collect;
use crosstalk_host::{Clock, Kernel, Verdict, raise_descriptor_limit};
use crosstalk_inventory::{Config, Inventory};
use crosstalk_model::SlotLength;
use crosstalk_recording::{
    Format, Layout, Metadata, Recorder, RecorderOptions, RecordingOptions, Tap,
};
use crosstalk_resctrl::Resctrl;
use crosstalk_sources::{Mode, Settings, all, start};
use std::time::Duration;

/// Loading the kernel programs takes tenths of a second, on an emulated machine many.
const LONGEST_START: Duration = Duration::from_secs(120);
/// Batches that may wait while it is concluded who slows whom: some seconds of them, which is later than conclusions are
/// of use. On a machine that starts many processes each holds hundreds of rows.
const WAITING: usize = 256;
/// Share of a core that reading the cache may take: what a sample of every process costs on hardware is a tenth of it.
const CACHE_SHARE: f64 = 0.01;
const LONGEST_CACHE_SLOT: Duration = Duration::from_millis(250);
const ROTATE_BYTES: u64 = 256 << 20;
const ROTATE_AFTER: Duration = Duration::from_secs(600);
const DESCRIPTORS: u64 = 65_536;

pub(super) struct Measure {
    collect: Collect,
    recorder: Option<Recorder>,
    watch: Option<Watch>,
    influx: Option<Influx>,
    /// Why the cache is not read, if it is not.
    no_cache: Option<String>,
    pub(super) roster: Roster,
    pub(super) meters: Meters,
    pub(super) clock: Clock,
}

impl Measure {
    pub(super) fn start(
        experiment: &Experiment,
        options: &Options,
        dir: &RunDir,
        record: &RunRecord,
        clock: &Clock,
    ) -> Result<Self, Error> {
        raise_descriptor_limit(DESCRIPTORS);
        let (roster, meters) = (Roster::default(), Meters::default());
        let mut collect = Collect::new(clock.clone());
        let tap = Tap::new(&mut collect);
        let rows = experiment.data.perf.then(|| collect.subscribe("watch", WAITING, WANTS));
        let count = experiment.containers.len();
        let watch = rows.map(|rows| Watch::start(rows, &options.host, roster.clone(), count));
        let influx = match &experiment.database {
            Some(database) => {
                let rows = collect.subscribe("influx", WAITING, influx::WANTS);
                let (spool, config) = (dir.spool(), dir.config()?);
                let older = left_behind(&options.runs, &options.host, database);
                let (period, roster) = (experiment.data.period, roster.clone());
                let clock = clock.clone();
                Some(Influx::start(
                    rows, database, roster, record, &config, period, clock, &spool, &older,
                )?)
            }
            None => None,
        };
        let failed = |source| Error::File { path: dir.data(), source };
        let (settings, no_cache) = settings(experiment, options);
        let data = Data { rdt: experiment.data.rdt && no_cache.is_none(), ..experiment.data };
        for source in collectors::own(&mut collect, &options.host, &data, &roster, &meters) {
            collect.start(source).map_err(failed)?.wait_until_started(LONGEST_START);
        }
        let mut sources = all(&settings);
        sources.retain(|source| !source.about.datasets.is_empty());
        start(sources, &mut collect, Some(LONGEST_START)).map_err(failed)?;
        let recorder = Recorder::start(tap, recorder_options(experiment, options, dir))?;
        let clock = clock.clone();
        Ok(Self {
            collect,
            recorder: Some(recorder),
            watch,
            influx,
            no_cache,
            roster,
            meters,
            clock,
        })
    }

    /// Data sets that are not there, and why.
    pub(super) fn absent(&self) -> Vec<(String, String)> {
        let no_cache = self.no_cache.iter().map(|why| ("cache".to_owned(), why.clone()));
        let mut absent: Vec<(String, String)> = no_cache.collect();
        for status in self.collect.overview().statuses() {
            let standing = status.standing();
            let is_off = standing.capability.verdict == Verdict::Off;
            if !standing.works() && !is_off {
                absent.push((status.about().name.to_owned(), standing.capability.found));
            }
            let missing = standing.absent.into_iter();
            absent.extend(missing.map(|(metric, why)| (metric.to_owned(), why)));
        }
        absent
    }

    /// What was measured at first and is not any more, and why.
    pub(super) fn failed_since(&self, absent: &[(String, String)]) -> Vec<(String, String)> {
        let mut new = self.absent();
        new.retain(|(what, _)| !absent.iter().any(|(known, _)| known == what));
        new.into_iter().map(|(what, why)| (what, format!("not to the end: {why}"))).collect()
    }

    pub(super) fn lost(&self) -> Vec<(String, String, u64)> {
        let all = self.collect.overview().losses().all();
        all.into_iter().map(|l| (l.dataset.to_owned(), l.place.to_owned(), l.rows)).collect()
    }

    /// Why it will not be known who slows whom, if it will not.
    pub(super) fn blind(&self) -> Option<String> {
        if self.watch.is_none() {
            return Some("who slows whom is not measured; set data.perf to true".to_owned());
        }
        let standing = self.collect.overview().status("counters")?.standing();
        let why = || format!("who slows whom is not measured: {}", standing.capability.found);
        (!standing.works()).then(why)
    }

    pub(super) fn watch(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }

    /// Whether nothing is written any more.
    pub(super) fn has_failed(&self) -> bool {
        self.recorder.as_ref().is_some_and(Recorder::has_failed)
    }

    /// Ends the sources and finishes the files; answers what became of lines for a database.
    pub(super) fn finish(&mut self, record: &RunRecord) -> Result<Option<Delivered>, Error> {
        self.collect.stop();
        drop(self.watch.take());
        let delivered = self.influx.take().map(|influx| influx.finish(record));
        match self.recorder.take() {
            Some(recorder) => Ok(recorder.finish().map(|_| delivered)?),
            None => Ok(delivered),
        }
    }
}

impl Drop for Measure {
    fn drop(&mut self) {
        // Before the watch, which ends with the sources.
        self.collect.stop();
    }
}

/// What the sources are told, and why the cache is not read if it is not.
fn settings(experiment: &Experiment, options: &Options) -> (Settings, Option<String>) {
    let data = &experiment.data;
    let mode = |wanted: bool| if wanted { Mode::Auto } else { Mode::Off };
    let any_image = experiment.containers.iter().any(|container| container.image.is_some());
    let inventory = if any_image {
        Inventory::start(Config::detect(&options.host))
    } else {
        Inventory::new(Duration::ZERO)
    };
    let mut settings = Settings { host: options.host.clone(), inventory, ..Settings::default() };
    settings.counters.mode = mode(data.perf);
    // A source that only finds out later that there is nothing to read would leave its queue to overflow.
    let mounted = match &options.resctrl {
        Some(root) => Resctrl::open(root),
        None => Resctrl::locate(&options.host),
    };
    let no_cache = match mounted {
        _ if !data.rdt => None,
        Err(error) => Some(error.to_string()),
        Ok(_) if !data.perf => {
            Some("it is read of who was seen to run; set data.perf to true".to_owned())
        }
        Ok(_) => None,
    };
    settings.cache.mode = mode(data.rdt && no_cache.is_none());
    settings.cache.every = Some(cache_every(data.period));
    settings.cache.cpu_share = CACHE_SHARE;
    settings.cache.root.clone_from(&options.resctrl);
    settings.probe.mode = mode(data.probe);
    // How cold memory is takes minutes to tell.
    settings.coldmem.mode = Mode::Off;
    (settings, no_cache)
}

/// How often the cache is read: as often as containers are sampled, and often enough that what was read still counts.
fn cache_every(period: Duration) -> SlotLength {
    let ns = period.min(LONGEST_CACHE_SLOT).as_nanos() as u64;
    SlotLength::from_nanos(ns).unwrap_or(SlotLength::MILLISECOND)
}

fn recorder_options(experiment: &Experiment, options: &Options, dir: &RunDir) -> RecorderOptions {
    let node = Kernel::read(&options.host).hostname.unwrap_or_default();
    RecorderOptions {
        recording: RecordingOptions {
            out: dir.data(),
            append: false,
            format: Format::Parquet,
            layout: Layout::Flat,
            rotate_bytes: ROTATE_BYTES,
            rotate_after: ROTATE_AFTER,
        },
        node,
        metadata: Metadata::of_machine(&options.host, SlotLength::MILLISECOND)
            .with("experiment", &experiment.name),
        always: Vec::new(),
        retry: None,
        on_error: |_| {},
    }
}
