//! What every container holds of the last-level cache and moves to and from memory.
//!
//! Data set: container_cache. It reads nothing by itself: the pipeline's source reads every process there is (data set
//! cache), all its threads and whatever it starts; who ran in which container is in the data set tasks.

mod sums;

use crate::roster::Roster;
use crosstalk_collect::{About, Collect, Delivery, Outlet, Source, Subscription, Wants};
use crosstalk_host::{Capability, Verdict};
use crosstalk_model::{CacheReading, Row, TaskRow};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use sums::Sums;

static ABOUT: About = About {
    name: "container-cache",
    datasets: &[ContainerCacheRow::DATASET],
    metrics: &[],
    subjects: &[],
};

/// Batches that may wait: seconds of both data sets.
const WAITING: usize = 256;
/// However seldom containers are told of, batches are fetched this often.
const FETCH: Duration = Duration::from_millis(100);

/// What a container held of caches and moved in a stretch of time: a row of the `container_cache` data set.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerCacheRow {
    /// The last slot of the stretch, Unix nanoseconds.
    pub slot_start_ns: u64,
    /// The length of the stretch.
    pub covers_ns: u64,
    /// The round.
    pub round: u32,
    /// The container's index.
    pub index: u32,
    /// Its name.
    pub container: Arc<str>,
    /// Processes that the values are of.
    pub processes: u32,
    /// Processes that were measured together with others than the container's, and are in no value.
    pub left_out: u32,
    /// Whether lines of others may be in the occupancy.
    pub stale: bool,
    /// Bytes of all L3 caches held.
    pub llc_occupancy_bytes: Option<u64>,
    /// Bytes to and from memory.
    pub mbm_total_bytes: Option<u64>,
    /// Of these, to and from the memory of the same socket.
    pub mbm_local_bytes: Option<u64>,
    /// Bytes to and from memory by L3 cache, for who is to limit them there; in no column.
    pub moved_by_domain: BTreeMap<u32, u64>,
}

crosstalk_model::dataset! {
    ContainerCacheRow: "container_cache",
    "one row per container and period: what it held of the L3 caches and moved to and from memory",
    by |row| (row.index, row.slot_start_ns),
    covers_ns [int] "ns" "the time the row tells of, up to the end of its slot" = |row| row.covers_ns;
    round [int] "" "number of the round" = |row| row.round;
    index [int] "" "index of the container" = |row| row.index;
    container [text] "" "name of the container" = |row| &row.container;
    processes [int] "" "processes that were read, which the values are of" = |row| row.processes;
    left_out [int] "" "processes without an RMID of the container's, which are in no value"
        = |row| row.left_out;
    stale [flag] "" "an RMID may still hold lines of a former owner" = |row| row.stale;
    llc_occupancy_bytes [int?] "bytes" "bytes of all L3 caches held, as last read within a second"
        = |row| row.llc_occupancy_bytes;
    mbm_total_bytes [int?] "bytes" "moved to and from memory" = |row| row.mbm_total_bytes;
    mbm_local_bytes [int?] "bytes" "of these, to and from the memory of the same socket"
        = |row| row.mbm_local_bytes;
}

pub(super) struct ContainerCacheSource {
    ran: Subscription,
    read: Subscription,
    roster: Roster,
    period: Duration,
}

impl ContainerCacheSource {
    /// To be made before the pipeline's sources are started, which fill its queues.
    pub(super) fn new(collect: &mut Collect, roster: Roster, period: Duration) -> Self {
        let mut subscribe =
            |dataset| collect.subscribe(ABOUT.name, WAITING, Wants::Dataset(dataset));
        Self {
            ran: subscribe(TaskRow::DATASET.name),
            read: subscribe(CacheReading::DATASET.name),
            roster,
            period,
        }
    }

    /// Who ran before what was read: the source of the latter hears of a process from the former.
    fn take(&self, sums: &mut Sums) {
        sums.know(self.roster.members());
        for message in self.ran.waiting() {
            let Delivery::Rows(batch) = message.delivery else { continue };
            batch.rows::<TaskRow>().into_iter().flatten().for_each(|row| sums.ran(row));
        }
        for message in self.read.waiting() {
            let Delivery::Rows(batch) = message.delivery else { continue };
            batch.rows::<CacheReading>().into_iter().flatten().for_each(|row| sums.read(row));
        }
    }
}

impl Source for ContainerCacheSource {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        out.report(Verdict::Ok, "the data set cache, by container");
        let mut sums = Sums::new(self.period);
        loop {
            let over = out.pause(self.period.min(FETCH));
            self.take(&mut sums);
            out.deliver(if over { sums.rest() } else { sums.ready() });
            if over {
                return Ok(());
            }
        }
    }
}
