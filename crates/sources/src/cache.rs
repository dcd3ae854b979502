//! resctrl by process: who holds the last-level cache and moves memory, in monitor groups of our own.
//!
//! Data set: cache. It reads who ran from the data set tasks.

use crate::convert;
use crate::{Mode, Settings, Wired};
use crosstalk_collect::{About, Delivery, Outlet, Source, Subscription, Wants};
use crosstalk_host::{Capability, HostRoot, Verdict, raise_descriptor_limit};
use crosstalk_model::{CacheReading, Placement, ProcessId, Row, TaskRow};
use crosstalk_resctrl::pool::{Pool, PoolConfig};
use crosstalk_resctrl::sampler::{self, SamplerConfig};
use crosstalk_resctrl::source::{CacheSource, Seen, SourceConfig, SourceStatus};
use crosstalk_resctrl::{DEFAULT_ROOT, Error, MonitoringInfo, Resctrl};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

static ABOUT: About =
    About { name: "cache", datasets: &[CacheReading::DATASET], metrics: &[], subjects: &[] };

/// Lists of who ran that may wait while groups are being made.
const WAITING: usize = 256;
/// How often rows are fetched and who ran is told.
const FETCH: Duration = Duration::from_millis(50);
/// Beyond so many, processes that were neither run nor read for a while are forgotten.
const MOST_PLACES: usize = 4_096;
const FORGET: Duration = Duration::from_secs(10);
/// Each group keeps three files open for every L3 cache.
const DESCRIPTORS: u64 = 16_384;

pub(crate) fn wire(settings: Settings) -> Wired {
    Wired::new(
        &ABOUT,
        settings.cache.mode,
        Duration::from_nanos(settings.slot.nanos()),
        |collect| {
            let ran = collect.subscribe(ABOUT.name, WAITING, Wants::Dataset(TaskRow::DATASET.name));
            Cache { settings, ran, places: HashMap::new() }
        },
    )
}

struct Cache {
    settings: Settings,
    ran: Subscription,
    /// Where processes run, and when they were last heard of.
    places: HashMap<ProcessId, (Arc<Placement>, Instant)>,
}

/// Finds resctrl where it is said to be, or else where the host has it.
pub(crate) fn open(root: Option<&Path>, host: &HostRoot) -> Result<Resctrl, Error> {
    if let Some(root) = root {
        return Resctrl::open(root);
    }
    // In a container the list of mounts is its own and names other paths than the host's.
    let usual = host.path(DEFAULT_ROOT);
    Resctrl::locate(host).or_else(|error| Resctrl::open(usual).map_err(|_| error))
}

impl Cache {
    fn start(&self, out: &Outlet) -> Result<(CacheSource, Value), Error> {
        let Settings { host, slot, cache, .. } = &self.settings;
        raise_descriptor_limit(DESCRIPTORS);
        let resctrl = open(cache.root.as_deref(), host)?;
        let (root, simulated) = (resctrl.root().to_owned(), !resctrl.is_kernel());
        let config = SourceConfig {
            pool: PoolConfig { host: host.clone(), ..PoolConfig::default() },
            sampler: SamplerConfig {
                slot_ns: cache.every.unwrap_or(*slot).nanos(),
                cpu_share: cache.cpu_share,
            },
            clock: out.clock().clone(),
        };
        let source = CacheSource::start(Pool::start(resctrl, config.pool.clone())?, config)?;
        let about = about(source.monitoring(), &root, simulated);
        Ok((source, about))
    }

    /// Tells the source who ran.
    fn tell(&mut self, source: &CacheSource) {
        let mut seen: HashMap<ProcessId, Seen> = HashMap::new();
        let (mut heard, now) = (false, Instant::now());
        for message in self.ran.waiting() {
            let Delivery::Rows(batch) = message.delivery else { continue };
            heard = true;
            // Row 0 stands for many processes.
            let rows = batch.rows::<TaskRow>().unwrap_or_default().iter();
            for row in rows.filter(|row| row.task.process.pid != 0) {
                self.places.insert(row.task.process, (Arc::clone(&row.place), now));
                let known = seen.entry(row.task.process).or_insert_with(|| convert::seen(row));
                // The first is the one it inherited from: an orphan gets another parent later.
                known.parent = known.parent.or(row.task.parent);
                known.cpu_ns += row.task.on_cpu_ns;
            }
        }
        if heard {
            source.saw(seen.into_values().collect());
        }
    }
}

impl Cache {
    /// Rows of readings, with where each process runs.
    fn rows(&mut self, readings: &[sampler::CacheReading]) -> Vec<CacheReading> {
        let now = Instant::now();
        let mut place_of = |process| {
            self.places.get_mut(&process).map_or_else(Arc::default, |(place, heard)| {
                *heard = now;
                Arc::clone(place)
            })
        };
        let rows = readings.iter().map(|row| convert::reading(row, &mut place_of)).collect();
        if self.places.len() > MOST_PLACES {
            self.places.retain(|_, (_, heard)| now.duration_since(*heard) < FORGET);
        }
        rows
    }
}

impl Source for Cache {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        let asked = self.settings.cache.mode == Mode::On || self.settings.cache.root.is_some();
        let (mut source, about) = self.start(out).map_err(|error| {
            // Until it is looked again nobody asks who ran.
            self.ran.pause(true);
            let lacking = matches!(error, Error::NotResctrl { .. } | Error::NoMonitoring { .. });
            let verdict = if lacking && !asked { Verdict::Absent } else { Verdict::Failing };
            Capability::of_error(ABOUT.name, verdict, &error)
        })?;
        self.ran.pause(false);
        out.describe("cache", about);
        out.report(Verdict::Ok, "cache occupancy and memory traffic by process");
        let mut dropped = 0;
        loop {
            let began = Instant::now();
            self.tell(&source);
            let over = out.pause(FETCH.saturating_sub(began.elapsed()));
            let rows = if over { last_rows(&mut source, out) } else { source.take() };
            out.deliver(self.rows(&rows));
            let status = source.status();
            out.lost(ABOUT.datasets[0].name, "sampler", status.dropped_rows - dropped);
            dropped = status.dropped_rows;
            out.describe("cache_status", status_json(&status));
            if over {
                return Ok(());
            }
            if let Some(why) = status.ended_because {
                return Err(out.capability(Verdict::Absent, why));
            }
        }
    }
}

/// Ends the source; groups that cannot be removed now are swept by the next start.
fn last_rows(source: &mut CacheSource, out: &Outlet) -> Vec<sampler::CacheReading> {
    source.stop().unwrap_or_else(|error| {
        let failing = Capability::of_error(ABOUT.name, Verdict::Failing, &error);
        out.stand(failing.fix("the next start removes what is left"), Vec::new());
        source.take()
    })
}

/// What recordings say about the hardware.
fn about(info: &MonitoringInfo, root: &Path, simulated: bool) -> Value {
    let domains: Vec<u32> = info.domains.iter().map(|domain| domain.id).collect();
    json!({
        "resctrl_root": root,
        "simulated": simulated,
        "num_rmids": info.num_rmids,
        "llc_occupancy": info.occupancy,
        "mbm_total_bytes": info.total_bytes,
        "mbm_local_bytes": info.local_bytes,
        "l3_domains": domains,
        "l3_bytes": info.l3_bytes,
    })
}

/// What recordings say about how reading went.
fn status_json(status: &SourceStatus) -> Value {
    let pool = &status.pool;
    let left_alone: Vec<Value> = pool
        .foreign_named
        .iter()
        .map(|f| json!({ "pid": f.pid, "comm": f.comm, "group": f.group }))
        .collect();
    json!({
        "slots": status.slots,
        "missed_slots": status.missed_slots,
        "reads": status.reads,
        "read_cpu_seconds": status.read_cpu_ns as f64 / 1e9,
        "put_off_readings": status.put_off,
        "dropped_rows": status.dropped_rows,
        "dropped_lists": status.dropped_lists,
        "updates": status.updates,
        "failed_updates": status.failed_updates,
        "groups": pool.groups,
        "processes_alone": pool.alone,
        "processes_by_container": pool.by_container,
        "processes_shared": pool.shared,
        "processes_left_alone": pool.foreign,
        "left_alone": left_alone,
        "rows_with_children": status.rows_with_children,
        "ended_because": status.ended_because,
    })
}
