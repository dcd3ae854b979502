//! The `cache` data set: who holds the last-level cache, beside who ran.

mod convert;
mod sums;

pub(super) use sums::CacheSums;

use super::{Args, bad};
use anyhow::Result;
use crosstalk_counters::Clocks;
use crosstalk_identity::Cgroup;
use crosstalk_model::{CacheReading, ProcessId, TaskReading};
use crosstalk_resctrl::pool::{Pool, PoolConfig};
use crosstalk_resctrl::sampler::SamplerConfig;
use crosstalk_resctrl::source::{CacheSource, Seen, SlotClock, SourceConfig, SourceStatus};
use crosstalk_resctrl::{Error, Resctrl};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The source, or why this recording has none.
pub(super) enum Cache {
    Running(Box<CacheSource>, Origin),
    Absent(String),
}

/// Where the values come from.
pub(super) struct Origin {
    root: PathBuf,
    simulated: bool,
}

impl Cache {
    /// Finds resctrl and starts reading. A root that was asked for by name must be there; without
    /// one, a machine that has no resctrl records everything else.
    pub(super) fn start(args: &Args, clocks: Clocks) -> Result<Self> {
        if args.no_cache {
            return Ok(Self::Absent("--no-cache".to_owned()));
        }
        match (open(args, clocks), &args.resctrl_root) {
            (Ok((source, origin)), _) => Ok(Self::Running(Box::new(source), origin)),
            (Err(error @ Error::NotResctrl { .. }), Some(_)) => {
                Err(bad(format!("--resctrl-root {error}")))
            }
            (Err(error), Some(_)) => Err(error.into()),
            (Err(error), None) => Ok(Self::Absent(error.to_string())),
        }
    }

    pub(super) fn absent_because(&self) -> Option<&str> {
        match self {
            Self::Running(..) => None,
            Self::Absent(reason) => Some(reason),
        }
    }

    /// What the recording says about its hardware.
    pub(super) fn about(&self) -> Option<Value> {
        let Self::Running(source, origin) = self else { return None };
        let info = source.monitoring();
        let domains: Vec<u32> = info.domains.iter().map(|domain| domain.id).collect();
        Some(json!({
            "resctrl_root": origin.root,
            "simulated": origin.simulated,
            "num_rmids": info.num_rmids,
            "llc_occupancy": info.occupancy,
            "mbm_total_bytes": info.total_bytes,
            "mbm_local_bytes": info.local_bytes,
            "l3_domains": domains,
            "l3_bytes": info.l3_bytes,
        }))
    }

    /// Tells the source who ran, by the readings the filter keeps.
    pub(super) fn saw<'a>(
        &self,
        tasks: impl Iterator<Item = &'a TaskReading>,
        mut place: impl FnMut(&TaskReading) -> Option<Arc<Cgroup>>,
    ) {
        let Self::Running(source, _) = self else { return };
        let mut seen: HashMap<ProcessId, Option<Seen>> = HashMap::new();
        // Row 0 stands for many processes.
        for task in tasks.filter(|task| task.process.pid != 0) {
            let known = seen
                .entry(task.process)
                .or_insert_with(|| place(task).map(|cgroup| convert::seen(task, &cgroup)));
            if let Some(known) = known {
                known.cpu_ns += task.on_cpu_ns;
            }
        }
        source.saw(seen.into_values().flatten().collect());
    }

    /// What was read since the last call.
    pub(super) fn take(&self) -> Vec<CacheReading> {
        match self {
            Self::Running(source, _) => source.take().iter().map(convert::reading).collect(),
            Self::Absent(_) => Vec::new(),
        }
    }

    pub(super) fn status(&self) -> Option<SourceStatus> {
        match self {
            Self::Running(source, _) => Some(source.status()),
            Self::Absent(_) => None,
        }
    }

    /// Why nothing is read any more, though it once was.
    pub(super) fn ended_because(&self) -> Option<String> {
        self.status()?.ended_because
    }

    /// Stops reading and removes the groups; returns the last rows.
    pub(super) fn stop(&mut self) -> Vec<CacheReading> {
        let Self::Running(source, _) = self else { return Vec::new() };
        match source.stop() {
            Ok(rows) => rows.iter().map(convert::reading).collect(),
            Err(error) => {
                eprintln!("crosstalk: {error}; the next recording removes what is left");
                self.take()
            }
        }
    }
}

fn open(args: &Args, clocks: Clocks) -> Result<(CacheSource, Origin), Error> {
    let resctrl = match &args.resctrl_root {
        Some(root) => Resctrl::open(root)?,
        None => Resctrl::locate(&args.host_root)?,
    };
    let origin = Origin { root: resctrl.root().to_owned(), simulated: !resctrl.is_kernel() };
    let config = SourceConfig {
        pool: PoolConfig { host_root: args.host_root.clone(), ..PoolConfig::default() },
        sampler: SamplerConfig {
            slot_ns: args.slot.nanos(),
            cpu_share: f64::from(args.cache_budget) / 100.0,
        },
        clock: SlotClock { realtime_minus_monotonic_ns: clocks.realtime_minus_monotonic_ns },
    };
    let pool = Pool::start(resctrl, config.pool.clone())?;
    Ok((CacheSource::start(pool, config)?, origin))
}
