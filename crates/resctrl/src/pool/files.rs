//! The monitoring files of a group, open for as long as the group is.

use std::fs::File;
use std::sync::Arc;

use crate::{Group, MonitoringInfo};

/// The files of one L3 cache; what the machine does not have, or what could not be opened, is `None`.
///
/// They are opened where groups are made: opening takes many times as long as a read, which a reader has no time for.
#[derive(Debug, Clone)]
pub(crate) struct MonitorFiles {
    pub(crate) domain: u32,
    pub(crate) occupancy: Option<Arc<File>>,
    pub(crate) total: Option<Arc<File>>,
    pub(crate) local: Option<Arc<File>>,
}

impl MonitorFiles {
    pub(crate) fn open_all(group: &Group, monitoring: &MonitoringInfo) -> Vec<Self> {
        let open = |domain, has: bool, event: &str| {
            has.then(|| File::open(group.mon_file(domain, event)).ok().map(Arc::new)).flatten()
        };
        let domains = monitoring.domains.iter().map(|domain| domain.id);
        domains
            .map(|domain| Self {
                domain,
                occupancy: open(domain, monitoring.occupancy, "llc_occupancy"),
                total: open(domain, monitoring.total_bytes, "mbm_total_bytes"),
                local: open(domain, monitoring.local_bytes, "mbm_local_bytes"),
            })
            .collect()
    }
}
