//! Schemes that only see the pages of one cgroup and kind, on kernels whose filters count what passes them (6.14).
//!
//! A filter names one cgroup exactly, so each needs schemes of its own, and all regions are told for each. That is dear where
//! cgroups are many: then pages are joined instead.

use super::session::{Session, access_pattern, write};
use super::{DamonError, KDAMONDS};
use crate::age::{AgeCell, Ages, ColdBoundary, Edges, Kind};
use crosstalk_host::HostRoot;
use std::collections::HashMap;

/// Cgroups beyond this are joined with page frames.
const MOST: usize = 32;

/// The kinds that a filter can tell apart.
const KINDS: [Kind; 2] = [Kind::Anon, Kind::File];

/// The folder of filters that count what passes; `None` before 6.14. A scheme must be there already.
pub(super) fn folder(host: &HostRoot) -> Option<&'static str> {
    let scheme = format!("{KDAMONDS}/0/contexts/0/schemes/0");
    let has = |file: &str| host.path(format!("{scheme}/{file}")).exists();
    match (has("ops_filters"), has("stats/sz_ops_filter_passed")) {
        (true, _) => Some("ops_filters"),
        (false, true) => Some("filters"),
        (false, false) => None,
    }
}

/// What to write where below `kdamonds`, in order, so that there are two schemes for each cgroup.
pub(super) fn set_up(folder: &str, cgroups: &[String]) -> Vec<(String, String)> {
    let schemes = "0/contexts/0/schemes";
    let mut writes =
        vec![(format!("{schemes}/nr_schemes"), (cgroups.len() * KINDS.len()).to_string())];
    let wanted = cgroups.iter().flat_map(|cgroup| KINDS.map(|kind| (cgroup, kind)));
    for (at, (cgroup, kind)) in wanted.enumerate() {
        let scheme = format!("{schemes}/{at}");
        writes.extend(access_pattern(&scheme));
        let mut filter = |file: &str, value: &str| {
            writes.push((format!("{scheme}/{folder}/{file}"), value.to_owned()));
        };
        filter("nr_filters", "2");
        // What is of another kind is turned away first; of the rest only the cgroup's pages are let through.
        filter("0/type", "anon");
        filter("0/matching", if kind == Kind::Anon { "N" } else { "Y" });
        filter("0/allow", "N");
        filter("1/type", "memcg");
        filter("1/memcg_path", cgroup);
        filter("1/matching", "Y");
        filter("1/allow", "Y");
    }
    writes
}

/// What filters tell of cgroups.
#[derive(Clone, Debug, PartialEq)]
pub enum Filtered {
    /// The kernel has no filters that count, cgroups are too many, or one of them went away meanwhile.
    NotAsked,
    /// A kernel too busy to look in time tells of no region. That is not the same as no idle memory.
    Untold,
    /// The ages of the cgroups' own pages, by path.
    Told(HashMap<String, Ages>),
}

impl Session {
    /// The ages of these cgroups' own pages.
    ///
    /// # Errors
    /// Somebody stopped or changed it.
    pub fn cgroup_ages(
        &mut self,
        cgroups: &[String],
        boundary: &ColdBoundary,
    ) -> Result<Filtered, DamonError> {
        let Some(folder) = self.filters.filter(|_| cgroups.len() <= MOST) else {
            return Ok(Filtered::NotAsked);
        };
        self.check_ours()?;
        if self.filtered != cgroups {
            self.filtered.clear();
            let commit = [("0/state".to_owned(), "commit".to_owned())];
            let mut writes = set_up(folder, cgroups).into_iter().chain(commit);
            if writes.try_for_each(|(file, value)| write(&self.host, &file, &value)).is_err() {
                self.unfiltered()?;
                return Ok(Filtered::NotAsked);
            }
            self.filtered = cgroups.to_vec();
        }
        write(&self.host, "0/state", "update_schemes_tried_regions")?;
        let edges = Edges::new(boundary);
        let mut all: HashMap<String, Ages> = HashMap::new();
        let wanted = cgroups.iter().flat_map(|cgroup| KINDS.map(|kind| (cgroup, kind)));
        let mut is_told = true;
        for (at, (cgroup, kind)) in wanted.enumerate() {
            let mut by_edge: HashMap<usize, u64> = HashMap::new();
            let regions = self.regions(at, "sz_filter_passed")?;
            // All idle regions are told for each scheme, also those of which no page passes.
            is_told &= !regions.is_empty();
            for region in regions {
                *by_edge.entry(edges.bucket_of(region.idle_ms)).or_default() += region.bytes;
            }
            let ages = all.entry(cgroup.clone()).or_default();
            for (edge, bytes) in by_edge.into_iter().filter(|(_, bytes)| *bytes > 0) {
                ages.cells.push(AgeCell::of_kind(kind, edges.range(edge), bytes, boundary));
            }
            ages.sort();
        }
        write(&self.host, "0/state", "clear_schemes_tried_regions")?;
        Ok(if is_told { Filtered::Told(all) } else { Filtered::Untold })
    }

    /// Back to one scheme that sees all pages.
    pub(super) fn unfiltered(&mut self) -> Result<(), DamonError> {
        self.filtered.clear();
        let scheme = "0/contexts/0/schemes";
        let mut writes = vec![(format!("{scheme}/nr_schemes"), "1".to_owned())];
        writes.extend(access_pattern(&format!("{scheme}/0")));
        writes.push(("0/state".to_owned(), "commit".to_owned()));
        writes.into_iter().try_for_each(|(file, value)| write(&self.host, &file, &value))
    }
}
