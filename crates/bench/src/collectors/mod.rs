//! What is measured besides what the pipeline's own sources do: containers, and what workloads say they got done.
//!
//! A collector is a [`Source`](crosstalk_collect::Source): one file here, and its line in [`own`]. One that fails is
//! started anew and costs the others nothing; what it cannot measure is absent.

mod cache;
mod containers;
mod counters;
mod http;
mod meter;
mod progress;

pub use cache::ContainerCacheRow;
pub use containers::ContainerRow;
pub use counters::CountersRow;
pub use meter::{Meter, Meters};
pub use progress::ProgressRow;

use crate::experiment::Data;
use crate::roster::Roster;
use crosstalk_collect::{Collect, Source};
use crosstalk_host::HostRoot;

/// The collectors of this crate that are wanted. Made and started before the pipeline's sources, they may read what those
/// deliver, to the last row.
pub fn own(
    collect: &mut Collect,
    host: &HostRoot,
    data: &Data,
    roster: &Roster,
    meters: &Meters,
) -> Vec<Box<dyn Source>> {
    let mut all: Vec<Box<dyn Source>> = vec![
        Box::new(progress::ProgressSource::new(meters.clone())),
        Box::new(progress::UrlSource::new(meters.clone(), data.period)),
    ];
    if data.containers {
        let containers = containers::ContainerSource::new(host, roster.clone(), data.period);
        all.push(Box::new(containers));
    }
    if data.perf {
        all.push(Box::new(counters::CountersSource::new(roster.clone(), host, data.period)));
    }
    if data.rdt {
        let cache = cache::ContainerCacheSource::new(collect, roster.clone(), data.period);
        all.push(Box::new(cache));
    }
    all
}
