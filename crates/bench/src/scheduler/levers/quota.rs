//! Less processor time.

use super::{Lever, Pair};
use crate::Error;
use crate::experiment::Container;
use crate::roster::Member;
use crosstalk_host::QuotaPeriod;
use std::collections::BTreeMap;

/// What of its time an aggressor keeps.
const KEEPS: f64 = 0.2;
/// Below this it would look dead.
const LEAST_CORES: f64 = 0.05;

pub(super) struct QuotaLever {
    /// What the file gives to each.
    limits: BTreeMap<u32, f64>,
}

impl QuotaLever {
    pub(super) fn new(containers: &[Container]) -> Self {
        let limits = containers.iter().filter_map(|c| Some((c.index, c.cpu_limit?)));
        Self { limits: limits.collect() }
    }
}

impl Lever for QuotaLever {
    fn name(&self) -> &'static str {
        "cpu quota"
    }

    fn pull(&mut self, pair: &Pair<'_>) -> Result<Option<String>, Error> {
        let cores = (pair.uses_cores.unwrap_or(1.0) * KEEPS).max(LEAST_CORES);
        let refused = |source| Error::Group { container: pair.aggressor.name.to_string(), source };
        pair.aggressor.group.set_quota(Some(cores), QuotaPeriod::Longest).map_err(refused)?;
        Ok(Some(format!("at most {cores:.2} cores' worth of time, at a stretch in each second")))
    }

    fn release(&mut self, aggressor: &Member) -> Result<(), Error> {
        let refused = |source| Error::Group { container: aggressor.name.to_string(), source };
        let limit = self.limits.get(&aggressor.index).copied();
        aggressor.group.set_quota(limit, QuotaPeriod::Usual).map_err(refused)
    }
}
