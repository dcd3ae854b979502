//! Fewer ways of the last-level cache.

use super::{Groups, Lever, Pair};
use crate::Error;
use crate::roster::Member;
use crosstalk_interference::Resource;
use crosstalk_resctrl::{CacheInfo, CacheMask, Info, Schemata};

const NAME: &str = "cache mask";
/// What of the cache an aggressor keeps.
const KEEPS: u32 = 4;

pub(super) struct MaskLever {
    groups: Groups,
    caches: Vec<CacheInfo>,
}

impl MaskLever {
    pub(super) fn new(groups: Groups, info: &Info) -> Self {
        let caches = info.caches.iter().filter(|cache| cache.resource.starts_with("L3"));
        Self { groups, caches: caches.cloned().collect() }
    }
}

impl Lever for MaskLever {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pull(&mut self, pair: &Pair<'_>) -> Result<Option<String>, Error> {
        let helps = matches!(
            pair.resource,
            Resource::Cache | Resource::CacheOrMemory | Resource::MemoryBandwidth
        );
        if !helps || self.caches.is_empty() {
            return Ok(None);
        }
        let mut groups = self.groups.borrow_mut();
        let mut schemata = Schemata::default();
        for cache in &self.caches {
            let ways = (cache.cbm_mask.ways() / KEEPS).max(cache.min_cbm_bits).max(1);
            for domain in groups.domains(&cache.resource)? {
                schemata.set_cache(&cache.resource, domain, CacheMask::lowest(ways));
            }
        }
        groups.hold(NAME, pair.aggressor, &schemata)?;
        Ok(Some(schemata.to_string().trim().replace('\n', " ")))
    }

    fn release(&mut self, aggressor: &Member) -> Result<(), Error> {
        self.groups.borrow_mut().let_go(NAME, aggressor)
    }

    /// For bandwidth too, whose groups are the same.
    fn tend(&mut self) -> Result<(), Error> {
        self.groups.borrow_mut().tend()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.groups.borrow_mut().remove_all()
    }
}
