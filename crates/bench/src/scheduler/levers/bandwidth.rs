//! Less memory bandwidth.

use super::{Groups, Lever, Pair};
use crate::Error;
use crate::roster::Member;
use crate::scheduler::rdt::{in_bytes, limit};
use crosstalk_interference::Resource;
use crosstalk_resctrl::{BandwidthInfo, Info, Schemata};

const NAME: &str = "memory bandwidth";
/// What of it an aggressor keeps.
const KEEPS: f64 = 0.2;

pub(super) struct BandwidthLever {
    groups: Groups,
    limits: Vec<BandwidthInfo>,
}

impl BandwidthLever {
    pub(super) fn new(groups: Groups, info: &Info) -> Self {
        Self { groups, limits: info.bandwidth.clone() }
    }
}

fn helps(pair: &Pair<'_>) -> bool {
    matches!(pair.resource, Resource::Cache | Resource::CacheOrMemory | Resource::MemoryBandwidth)
}

impl Lever for BandwidthLever {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pull(&mut self, pair: &Pair<'_>) -> Result<Option<String>, Error> {
        if !helps(pair) {
            return Ok(None);
        }
        let mut groups = self.groups.borrow_mut();
        let mut schemata = Schemata::default();
        // Where it moves nothing now it may run next, and is to move no more there.
        let most = pair.moves.values().copied().reduce(f64::max);
        for info in &self.limits {
            for domain in groups.domains(&info.resource)? {
                let moved = pair.moves.get(&domain).copied().filter(|bytes| *bytes > 0.0).or(most);
                if let Some(limit) = limit(info, KEEPS, moved) {
                    schemata.set_bandwidth(&info.resource, domain, limit);
                }
            }
        }
        if schemata.lines.is_empty() {
            return Ok(None);
        }
        groups.hold(NAME, pair.aggressor, &schemata)?;
        Ok(Some(schemata.to_string().trim().replace('\n', " ")))
    }

    fn lacks(&self, pair: &Pair<'_>) -> Option<String> {
        let resources: Vec<&str> = in_bytes(&self.limits).collect();
        let is_missed = helps(pair) && pair.moves.is_empty() && !resources.is_empty();
        is_missed.then(|| {
            format!(
                "{} is in bytes a second, and what {} moves is not measured",
                resources.join(" and "),
                pair.aggressor.name
            )
        })
    }

    fn release(&mut self, aggressor: &Member) -> Result<(), Error> {
        self.groups.borrow_mut().let_go(NAME, aggressor)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.groups.borrow_mut().remove_all()
    }
}
