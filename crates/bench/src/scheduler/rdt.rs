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
/// twice the ways of the next where there are enough, and bandwidth falls evenly to the last one's where the machine takes
/// it in percent. Where it takes bytes a second, nobody knows beforehand how many are a share.
pub fn divide(info: &Info, classes: usize) -> Vec<Share> {
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
            let limit = limit(bandwidth, part, None);
            share.bandwidth.extend(limit.map(|limit| (bandwidth.resource.clone(), limit)));
        }
    }
    shares
}

/// Bytes a second in the units that are no percentages: AMD's manual has 1/8 GB/s, and the kernel counts `mba_MBps` in 2^20.
const EIGHTH_GIGABYTE: f64 = 1e9 / 8.0;
const MEGABYTE: f64 = (1 << 20) as f64;

/// A limit of this part of the memory's bandwidth, where the machine takes one in percent; elsewhere, of what was `moved` in a
/// second. The highest limit there is says nothing of what the memory can do: it is 256 GB/s on any AMD, and 2^32 MB/s. `None`
/// where what was moved is not known, or is less than the least there can be.
pub(super) fn limit(bandwidth: &BandwidthInfo, part: f64, moved: Option<f64>) -> Option<u64> {
    let step = bandwidth.granularity.max(1);
    let least = bandwidth.min_bandwidth.max(1);
    let part_of = |whole: f64| ((part * whole) as u64 / step * step).max(least);
    let in_units = match bandwidth.unit {
        BandwidthUnit::Percent => return Some(part_of(100.0).min(100)),
        BandwidthUnit::EighthGigabyte => moved? / EIGHTH_GIGABYTE,
        BandwidthUnit::Megabytes => moved? / MEGABYTE,
    };
    Some(part_of(in_units)).filter(|limit| (*limit as f64) < in_units)
}

/// Resources that are limited in bytes a second.
pub(super) fn in_bytes(limits: &[BandwidthInfo]) -> impl Iterator<Item = &str> {
    let is_absolute = |info: &&BandwidthInfo| info.unit != BandwidthUnit::Percent;
    limits.iter().filter(is_absolute).map(|info| info.resource.as_str())
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
    /// Limits of bandwidth that the machine has and that cannot be divided.
    left_out: Vec<String>,
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
        let shares = divide(&info, classes);
        let left_out = in_bytes(&info.bandwidth).map(str::to_owned).collect();
        Ok(Self { groups, ranking, shares, left_out })
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
        let without = match self.left_out.is_empty() {
            true => String::new(),
            false => format!(
                "; {} is left as it is, for it is in bytes a second, and what a share is of is not known beforehand",
                self.left_out.join(" and ")
            ),
        };
        Ok(vec![Decision {
            what: "placed".to_owned(),
            container: Some(container.name.clone()),
            victim: None,
            message: format!(
                "{} is in class {class} of {}{why}: {limits}{without}",
                container.name,
                self.shares.len()
            ),
            evidence: json!({
                "priority": container.priority, "critical": container.critical, "by_index": by_index,
                "schemata": limits, "left_out": self.left_out,
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
                    let shares = divide(&machine(ways, least, BandwidthUnit::Percent), classes);
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
        let limits = |unit| {
            let shares = divide(&machine(12, 1, unit), 3);
            let all = shares.iter().flat_map(|share| share.bandwidth.iter().map(|(_, l)| *l));
            all.collect::<Vec<u64>>()
        };
        assert_eq!(limits(BandwidthUnit::Percent), [100, 60, 30]);
        // The highest there is, 2048 / 8 GB/s and u32::MAX MB/s, is more than any machine moves: a share of it limits nobody.
        assert_eq!(limits(BandwidthUnit::EighthGigabyte).len(), 0);
        assert_eq!(limits(BandwidthUnit::Megabytes).len(), 0);
    }

    #[test]
    fn in_bytes_a_second_a_share_is_of_what_was_moved() {
        let info = |unit, granularity, min_bandwidth| {
            let found = machine(12, 1, unit).bandwidth.remove(0);
            BandwidthInfo { granularity, min_bandwidth, ..found }
        };
        let amd = info(BandwidthUnit::EighthGigabyte, 1, 0);
        assert_eq!(limit(&amd, 0.2, Some(8e9)), Some(12), "1.5 of 8 GB/s");
        assert_eq!(limit(&amd, 0.2, Some(1e9)), Some(1));
        assert_eq!(limit(&amd, 0.2, Some(1e8)), None, "the least there can be is more");
        let kernel = info(BandwidthUnit::Megabytes, 10, 10);
        assert_eq!(limit(&kernel, 0.2, Some(8.0 * (1u64 << 30) as f64)), Some(1_630));
        for unit in [amd, kernel] {
            assert_eq!(limit(&unit, 0.2, None), None, "not measured");
        }
        let intel = info(BandwidthUnit::Percent, 10, 10);
        assert_eq!(
            (limit(&intel, 0.2, None), limit(&intel, 0.02, Some(1e9))),
            (Some(20), Some(10))
        );
    }
}
