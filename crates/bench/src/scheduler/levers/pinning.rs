//! Other cores: away from the victim's own, or from its cache.

use super::{Lever, Pair};
use crate::Error;
use crate::experiment::Container;
use crate::roster::Member;
use crosstalk_host::{Cpu, CpuSet};
use crosstalk_interference::Resource;
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct PinningLever {
    cpu: Cpu,
    /// Cores of those who must not be slowed.
    guarded: BTreeSet<u32>,
    /// What each had.
    before: BTreeMap<u32, CpuSet>,
}

impl PinningLever {
    pub(super) fn new(cpu: Cpu, containers: &[Container]) -> Self {
        let critical = containers.iter().filter(|container| container.critical);
        let guarded = critical.filter_map(|c| c.cpus.as_ref()).flat_map(CpuSet::iter).collect();
        Self { cpu, guarded, before: BTreeMap::new() }
    }

    /// Cores that the aggressor may have without being in the victim's way; `None` when there are none.
    fn elsewhere(&self, victim: &CpuSet, resource: Resource) -> Option<CpuSet> {
        let of_victim = |id: u32| victim.contains(id);
        let places = || self.cpu.cores.iter().filter(|core| of_victim(core.id));
        let apart = |id: u32| -> bool {
            let Some(core) = self.cpu.cores.iter().find(|core| core.id == id) else { return false };
            match resource {
                Resource::CpuTime | Resource::Frequency => !of_victim(id),
                Resource::SiblingThread => {
                    !places().any(|v| (v.package, v.core_id) == (core.package, core.core_id))
                }
                Resource::Cache | Resource::MemoryBandwidth | Resource::CacheOrMemory => {
                    core.l3_id.is_some() && !places().any(|v| v.l3_id == core.l3_id)
                }
            }
        };
        let free = self.cpu.cores.iter().map(|core| core.id);
        let cpus: CpuSet = free.filter(|id| apart(*id) && !self.guarded.contains(id)).collect();
        (!cpus.is_empty()).then_some(cpus)
    }
}

impl Lever for PinningLever {
    fn name(&self) -> &'static str {
        "pinning"
    }

    fn pull(&mut self, pair: &Pair<'_>) -> Result<Option<String>, Error> {
        let (Some(victim), Some(now)) = (pair.victim.group.cpus(), pair.aggressor.group.cpus())
        else {
            return Ok(None);
        };
        let Some(cpus) = self.elsewhere(&victim, pair.resource) else { return Ok(None) };
        let refused = |source| Error::Group { container: pair.aggressor.name.to_string(), source };
        pair.aggressor.group.set_cpus(&cpus).map_err(refused)?;
        let change = format!("cores {now} -> {cpus}");
        self.before.insert(pair.aggressor.index, now);
        Ok(Some(change))
    }

    fn release(&mut self, aggressor: &Member) -> Result<(), Error> {
        let Some(before) = self.before.remove(&aggressor.index) else { return Ok(()) };
        let refused = |source| Error::Group { container: aggressor.name.to_string(), source };
        aggressor.group.set_cpus(&before).map_err(refused)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.before.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_host::{Core, Vendor};

    fn lever(guarded: &[u32]) -> PinningLever {
        let core = |id: u32| Core {
            id,
            core_id: Some(id / 2),
            package: Some(0),
            numa_node: Some(0),
            l3_id: Some(id / 4),
        };
        let cpu = Cpu {
            model: None,
            vendor: Vendor::Other,
            virtualized: false,
            l3_bytes: None,
            cores: (0..8).map(core).collect(),
            possible: 8,
        };
        PinningLever { cpu, guarded: guarded.iter().copied().collect(), before: BTreeMap::new() }
    }

    #[test]
    fn an_aggressor_goes_where_the_victim_is_not_felt() {
        let victim = CpuSet::from_iter([0]);
        let to = |resource| lever(&[0, 7]).elsewhere(&victim, resource).map(|c| c.to_string());
        assert_eq!(to(Resource::CpuTime).as_deref(), Some("1-6"));
        assert_eq!(to(Resource::SiblingThread).as_deref(), Some("2-6"));
        assert_eq!(to(Resource::CacheOrMemory).as_deref(), Some("4-6"), "another cache");
        let everywhere = CpuSet::from_iter(0..8);
        assert_eq!(lever(&[]).elsewhere(&everywhere, Resource::CpuTime), None);
    }
}
