//! Cache ways and memory bandwidth by priority, as much as the machine has of them.

use super::{Decision, Offered, ResctrlGroups, Scheduler};
use crate::Error;
use crate::experiment::{Container, Experiment};
use crate::roster::Member;
use crosstalk_resctrl::{BandwidthInfo, BandwidthUnit, CacheInfo, CacheMask, Info, Schemata};
use serde_json::json;
use std::cmp::Reverse;

pub(super) static OFFERED: Offered = Offered {
    name: "rdt",
    needs_rdt: true,
    make: |experiment, means| Ok(Box::new(Rdt::new(means.groups()?, experiment)?)),
};

/// What the least important keep of the memory's bandwidth.
const LEAST_SHARE: f64 = 0.3;

/// What one class of containers gets, by resource: ways of each cache, and a bandwidth limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Masks by cache resource.
    pub masks: Vec<(String, CacheMask)>,
    /// Limits by bandwidth resource.
    pub bandwidth: Vec<(String, u64)>,
}

/// Divides what there is among `classes`, the most important first. Nobody shares a way with another class, each has
/// twice the ways of the next where there are enough, and bandwidth falls evenly to the last one's. `full` is the
/// limit of who has none.
pub fn divide(info: &Info, classes: usize, full: impl Fn(&BandwidthInfo) -> u64) -> Vec<Share> {
    let mut shares = vec![Share::default(); classes];
    for cache in info.caches.iter().filter(|cache| cache.resource.starts_with("L3")) {
        for (share, mask) in shares.iter_mut().zip(masks(cache, classes)) {
            share.masks.push((cache.resource.clone(), mask));
        }
    }
    for bandwidth in &info.bandwidth {
        for (class, share) in shares.iter_mut().enumerate() {
            let behind = class as f64 / (classes.max(2) - 1) as f64;
            let part = 1.0 - behind * (1.0 - LEAST_SHARE);
            share
                .bandwidth
                .push((bandwidth.resource.clone(), limit(bandwidth, part, full(bandwidth))));
        }
    }
    shares
}

/// A limit of this part of all, as the machine takes it.
pub(super) fn limit(bandwidth: &BandwidthInfo, part: f64, full: u64) -> u64 {
    let step = bandwidth.granularity.max(1);
    let whole = match bandwidth.unit {
        BandwidthUnit::Percent => 100,
        BandwidthUnit::EighthGigabyte | BandwidthUnit::Megabytes => full,
    };
    let wanted = (part * whole as f64) as u64;
    (wanted / step * step).clamp(bandwidth.min_bandwidth.max(1), whole.max(1))
}

/// Runs of ways beside each other, from the highest down; empty when there are not enough for all.
fn masks(cache: &CacheInfo, classes: usize) -> Vec<CacheMask> {
    let ways = cache.cbm_mask.ways();
    let least = cache.min_cbm_bits.max(1);
    if classes == 0 || least * classes as u32 > ways {
        return Vec::new();
    }
    let mut left = ways;
    let mut masks = Vec::with_capacity(classes);
    for class in 0..classes as u32 {
        let behind = classes as u32 - class - 1;
        let fair = if behind == 0 { left } else { left * 2 / 3 };
        let taken = fair.clamp(least, left - least * behind);
        left -= taken;
        masks.push(CacheMask(CacheMask::lowest(taken).0 << left));
    }
    masks
}

/// Control groups by priority; by index where no container has another than the rest.
pub struct Rdt {
    groups: ResctrlGroups,
    ranking: Ranking,
    shares: Vec<Share>,
}

/// Who comes first; the greatest is the most important.
type Rank = (bool, i64, Reverse<u32>);

/// The ranks of an experiment.
#[derive(Debug, PartialEq, Eq)]
struct Ranking {
    /// The most important first.
    ranks: Vec<Rank>,
    by_index: bool,
}

impl Ranking {
    fn of(containers: &[Container]) -> Self {
        let by_index = containers
            .windows(2)
            .all(|two| (two[0].critical, two[0].priority) == (two[1].critical, two[1].priority));
        let mut ranking = Self { ranks: Vec::new(), by_index };
        ranking.ranks = containers.iter().map(|container| ranking.rank(container)).collect();
        ranking.ranks.sort_unstable_by(|a, b| b.cmp(a));
        ranking.ranks.dedup();
        ranking
    }

    fn rank(&self, container: &Container) -> Rank {
        let index = if self.by_index { container.index } else { 0 };
        (container.critical, container.priority, Reverse(index))
    }
}

/// How many classes there can be: as many as resctrl has groups besides the root, each with the ways it must have.
fn most_classes(info: &Info) -> usize {
    let closids = info.caches.iter().map(|cache| cache.num_closids);
    let closids = closids.chain(info.bandwidth.iter().map(|b| b.num_closids));
    let besides_root = closids.min().unwrap_or(1).saturating_sub(1);
    let l3 = info.caches.iter().filter(|cache| cache.resource.starts_with("L3"));
    let by_ways = l3.map(|cache| cache.cbm_mask.ways() / cache.min_cbm_bits.max(1)).min();
    besides_root.min(by_ways.unwrap_or(u32::MAX)) as usize
}

impl Rdt {
    /// Divides what there is among the priorities of the experiment.
    ///
    /// # Errors
    /// What there is cannot be read.
    pub fn new(groups: ResctrlGroups, experiment: &Experiment) -> Result<Self, Error> {
        let ranking = Ranking::of(&experiment.containers);
        let info = groups.info()?;
        let classes = ranking.ranks.len().min(most_classes(&info));
        let root = groups.root_schemata()?;
        let full = |bandwidth: &BandwidthInfo| {
            let resource = &bandwidth.resource;
            let domains = groups.domains(resource).unwrap_or_default();
            domains.iter().filter_map(|d| root.bandwidth(resource, *d)).max().unwrap_or(100)
        };
        let shares = divide(&info, classes, full);
        Ok(Self { groups, ranking, shares })
    }

    fn schemata(&self, share: &Share) -> Result<Schemata, Error> {
        let mut schemata = Schemata::default();
        for (resource, mask) in &share.masks {
            for domain in self.groups.domains(resource)? {
                schemata.set_cache(resource, domain, *mask);
            }
        }
        for (resource, limit) in &share.bandwidth {
            for domain in self.groups.domains(resource)? {
                schemata.set_bandwidth(resource, domain, *limit);
            }
        }
        Ok(schemata)
    }
}

impl Scheduler for Rdt {
    fn place(&mut self, member: &Member, container: &Container) -> Result<Vec<Decision>, Error> {
        let Ranking { ranks, by_index } = &self.ranking;
        let rank = self.ranking.rank(container);
        let at = ranks.iter().position(|known| *known == rank).unwrap_or(0);
        // Beyond the last class all share it.
        let class = at.min(self.shares.len().saturating_sub(1));
        let Some(share) = self.shares.get(class).filter(|_| ranks.len() > 1).cloned() else {
            return Ok(Vec::new());
        };
        let schemata = self.schemata(&share)?;
        let name = format!("class{class}");
        self.groups.group(&name)?.write_schemata(&schemata)?;
        self.groups.join(&name, member)?;
        let limits = schemata.to_string().trim().replace('\n', " ");
        let why = if *by_index { " by its index, since all have one priority" } else { "" };
        Ok(vec![Decision {
            what: "placed".to_owned(),
            container: Some(container.name.clone()),
            victim: None,
            message: format!(
                "{} is in class {class} of {}{why}: {limits}",
                container.name,
                self.shares.len()
            ),
            evidence: json!({
                "priority": container.priority, "critical": container.critical, "by_index": by_index,
                "schemata": limits,
            }),
        }])
    }

    fn tend(&mut self) -> Result<(), Error> {
        self.groups.tend()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.groups.remove_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(ways: u32, least: u32, unit: BandwidthUnit) -> Info {
        Info {
            caches: vec![CacheInfo {
                resource: "L3".to_owned(),
                num_closids: 16,
                cbm_mask: CacheMask::lowest(ways),
                min_cbm_bits: least,
                shareable_bits: CacheMask(0),
                sparse_masks: false,
            }],
            bandwidth: vec![BandwidthInfo {
                resource: "MB".to_owned(),
                num_closids: 16,
                min_bandwidth: 10,
                granularity: 10,
                delay_linear: None,
                thread_throttle_mode: None,
                unit,
            }],
            monitoring: None,
            unknown: Vec::new(),
        }
    }

    #[test]
    fn ways_are_divided_without_overlap_or_gap_whatever_the_machine_has() {
        for ways in [4, 11, 12, 15, 16, 20] {
            for least in [1, 2] {
                for classes in 1..=4 {
                    let shares =
                        divide(&machine(ways, least, BandwidthUnit::Percent), classes, |_| 100);
                    let masks: Vec<CacheMask> =
                        shares.iter().flat_map(|s| s.masks.iter().map(|(_, mask)| *mask)).collect();
                    if least * classes as u32 > ways {
                        assert!(masks.is_empty());
                        continue;
                    }
                    let together = masks.iter().fold(0, |sum, mask| sum | mask.0);
                    let counted: u32 = masks.iter().map(|mask| mask.ways()).sum();
                    assert_eq!((together, counted), (CacheMask::lowest(ways).0, ways));
                    assert!(masks.iter().all(|m| m.is_contiguous() && m.ways() >= least));
                    assert!(masks.is_sorted_by(|a, b| a.ways() >= b.ways()), "{masks:?}");
                }
            }
        }
    }

    #[test]
    fn there_are_no_more_classes_than_groups_or_ways() {
        assert_eq!(most_classes(&machine(12, 1, BandwidthUnit::Percent)), 12);
        assert_eq!(most_classes(&machine(12, 2, BandwidthUnit::Percent)), 6);
        assert_eq!(most_classes(&machine(20, 1, BandwidthUnit::Percent)), 15, "the root is one");
    }

    #[test]
    fn bandwidth_falls_in_steps_the_machine_has() {
        let limits = |unit, full| {
            let shares = divide(&machine(12, 1, unit), 3, |_| full);
            shares.iter().map(|share| share.bandwidth[0].1).collect::<Vec<_>>()
        };
        assert_eq!(limits(BandwidthUnit::Percent, 100), [100, 60, 30]);
        assert_eq!(limits(BandwidthUnit::EighthGigabyte, 2048), [2040, 1330, 610]);
    }
}
