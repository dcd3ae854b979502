use crate::age::ColdBoundary;
use crate::backend::Backend;
use crate::policy::{Charged, Policy, Usage, remainder};
use crate::survey::{Group, Survey};
use crosstalk_model::Placement;
use std::sync::Arc;

/// What a cgroup uses under each policy: a row of the `memory` data set.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageRow {
    /// Start of the slot in which it was read, Unix nanoseconds.
    pub slot_start_ns: u64,
    /// The cgroup's inode number; 0 for the node.
    pub cgroup_id: u64,
    /// The cgroup's path; `/` for the node.
    pub cgroup: Arc<str>,
    /// The container and pod it is.
    pub place: Arc<Placement>,
    /// What tells ages.
    pub backend: Backend,
    /// Under [`Policy::UsageWithoutPageCache`].
    pub without_page_cache: Option<u64>,
    /// Under [`Policy::UsageWithPageCache`].
    pub with_page_cache: Option<u64>,
    /// What is cold; absent where ages are not known.
    pub cold_bytes: Option<u64>,
    /// No more than this is cold.
    pub at_most_bytes: Option<u64>,
    /// Pages that were read back after they had been reclaimed, ever.
    pub refaults: Option<u64>,
    /// How long a task stood still for memory, ever.
    pub stalled_ns: Option<u64>,
    /// What could not be read.
    pub problem: Option<String>,
}

crosstalk_model::dataset! {
    UsageRow: "memory",
    "one row per cgroup, once a period: what it uses under each policy, and how much of that is cold",
    placed |row| row.place,
    by |row| (row.cgroup_id, row.slot_start_ns),
    cgroup_id [int] "" "inode number of the cgroup; 0 for the node" = |row| row.cgroup_id;
    cgroup [text] "" "path of the cgroup; / for the node" = |row| &row.cgroup;
    backend [text] "" "what tells ages: kidled, damon, mglru, or bounds where nothing does" = |row| row.backend.name();
    without_page_cache_bytes [int?] "bytes" "used without any page cache" = |row| row.without_page_cache;
    with_page_cache_bytes [int?] "bytes" "used with all page cache" = |row| row.with_page_cache;
    with_hot_page_cache_bytes [int?] "bytes" "used with all page cache less what is cold; absent where ages are not known" = |row| row.with_hot_page_cache();
    cold_bytes [int?] "bytes" "how much counts as cold; absent where ages are not known" = |row| row.cold_bytes;
    at_most_bytes [int?] "bytes" "no more than this is cold" = |row| row.at_most_bytes;
    refaults [int?] "" "pages read back after they had been reclaimed, since the cgroup was made" = |row| row.refaults;
    stalled_ns [int?] "ns" "time in which a task stood still for memory, since the cgroup was made" = |row| row.stalled_ns;
}

/// A row has the two sums that policies are made of.
impl Charged for UsageRow {
    fn without_page_cache(&self) -> Option<u64> {
        self.without_page_cache
    }

    fn with_page_cache(&self) -> Option<u64> {
        self.with_page_cache
    }
}

impl UsageRow {
    /// What is used under a policy, or what that falls back to.
    pub fn usage_under(&self, asked: Policy) -> Option<Usage> {
        self.usage(asked, self.cold_bytes)
    }

    /// Under [`Policy::UsageWithHotPageCache`], where that has data.
    pub fn with_hot_page_cache(&self) -> Option<u64> {
        let usage = self.usage_under(Policy::UsageWithHotPageCache)?;
        usage.fallback().is_none().then_some(usage.bytes)
    }
}

/// What is left of the node's usage when these are taken off, under one policy for all: the one asked for where
/// the node and each of them has it, otherwise the one without page cache. One of which nothing is known
/// stays in the remainder.
pub fn system_usage(asked: Policy, node: &UsageRow, others: &[&UsageRow]) -> Option<Usage> {
    let under = |policy| {
        let others = others.iter().filter_map(|other| other.usage_under(policy));
        remainder(node.usage_under(policy)?, others)
    };
    let fallen = || under(Policy::UsageWithoutPageCache).map(|usage| Usage { asked, ..usage });
    under(asked).or_else(fallen)
}

/// The rows of a survey. `place_of` names the container and pod of a cgroup's path.
pub(crate) fn usage_rows(
    survey: &Survey,
    boundary: &ColdBoundary,
    slot_start_ns: u64,
    place_of: &dyn Fn(&str) -> Placement,
) -> Vec<UsageRow> {
    let row = |(at, group): (usize, &Group)| {
        let is_node = at == 0;
        let stat = group.stat.as_ref();
        let charged: Option<&dyn Charged> =
            if is_node { Some(&survey.node) } else { stat.map(|stat| stat as _) };
        UsageRow {
            slot_start_ns,
            cgroup_id: if is_node { 0 } else { group.id },
            cgroup: group.path.as_str().into(),
            place: Arc::new(place_of(&group.path)),
            backend: survey.backend,
            without_page_cache: charged.and_then(|charged| charged.without_page_cache()),
            with_page_cache: charged.and_then(|charged| charged.with_page_cache()),
            cold_bytes: if is_node { survey.cold_bytes() } else { group.cold_bytes() },
            at_most_bytes: group.at_most_bytes(boundary, survey.backend),
            refaults: group.refaults(),
            stalled_ns: group.stalled.and_then(|stalled| stalled.some_ns),
            problem: group.why_unknown(),
        }
    };
    survey.groups.iter().enumerate().map(row).collect()
}
