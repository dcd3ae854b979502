//! Less memory bandwidth.

use super::{Groups, Lever, Pair};
use crate::Error;
use crate::roster::Member;
use crate::scheduler::rdt::limit;
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

impl Lever for BandwidthLever {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pull(&mut self, pair: &Pair<'_>) -> Result<Option<String>, Error> {
        let helps = matches!(
            pair.resource,
            Resource::Cache | Resource::CacheOrMemory | Resource::MemoryBandwidth
        );
        if !helps || self.limits.is_empty() {
            return Ok(None);
        }
        let mut groups = self.groups.borrow_mut();
        let root = groups.root_schemata()?;
        let mut schemata = Schemata::default();
        for info in &self.limits {
            for domain in groups.domains(&info.resource)? {
                let full = root.bandwidth(&info.resource, domain).unwrap_or(100);
                schemata.set_bandwidth(&info.resource, domain, limit(info, KEEPS, full));
            }
        }
        groups.hold(NAME, pair.aggressor, &schemata)?;
        Ok(Some(schemata.to_string().trim().replace('\n', " ")))
    }

    fn release(&mut self, aggressor: &Member) -> Result<(), Error> {
        self.groups.borrow_mut().let_go(NAME, aggressor)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.groups.borrow_mut().remove_all()
    }
}
