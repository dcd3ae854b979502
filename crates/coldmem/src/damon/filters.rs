//! Schemes that only see the pages of one cgroup and kind, on kernels whose filters count what passes them (6.14).
//!
//! A filter names one cgroup exactly, so each needs schemes of its own, and for each scheme the kernel goes through all idle pages
//! and tells all idle regions. So cgroups are asked in batches, and between looks no scheme has filters.

use super::session::{Session, access_pattern, write};
use super::{DamonError, KDAMONDS};
use crate::age::{AgeCell, Ages, ColdBoundary, Edges, Kind};
use crosstalk_host::HostRoot;
use std::collections::HashMap;
use std::mem;

/// Cgroups that are asked at once.
const BATCH: usize = 32;

/// A batch takes an aggregation or two, of up to 2 s each: with more cgroups a look would take minutes.
pub(crate) const MOST: usize = 8 * BATCH;

/// Batches that the kernel may refuse in one look; of those that it refuses beyond, no cgroup has ages. Finding one cgroup among
/// [`BATCH`] takes six. What was found is not asked again, so the next look gets further.
const REFUSALS: u32 = 32;

/// The kinds that a filter can tell apart. Shared memory is not anonymous, and so among the second.
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

/// Each cgroup with each kind: a scheme.
fn wanted(cgroups: &[String]) -> impl Iterator<Item = (usize, (&String, Kind))> {
    cgroups.iter().flat_map(|cgroup| KINDS.map(|kind| (cgroup, kind))).enumerate()
}

/// What to write where below `kdamonds`, in order, so that there are two schemes for each cgroup.
pub(super) fn set_up(folder: &str, cgroups: &[String]) -> Vec<(String, String)> {
    let schemes = "0/contexts/0/schemes";
    let mut writes =
        vec![(format!("{schemes}/nr_schemes"), (cgroups.len() * KINDS.len()).to_string())];
    for (at, (cgroup, kind)) in wanted(cgroups) {
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

/// What filters told.
#[derive(Debug, Default, PartialEq)]
pub struct Filtered {
    /// The ages of cgroups' own pages, by path.
    pub ages: HashMap<String, Ages>,
    /// Cgroups that are there and that the kernel refuses, by path, with what it said.
    pub refused: HashMap<String, String>,
    /// Cgroups that were in a refused batch when there was no time left to look for the one that it is refused for.
    pub not_asked: Vec<String>,
}

/// Cgroups that the kernel refused, by path: their inode number, for another may come by the same path, and what was said.
pub(super) type Refusals = HashMap<String, (u64, String)>;

impl Session {
    /// The ages of these cgroups' own pages. `None` where a kernel too busy to look in time tells of no region: that is not the
    /// same as no idle memory. Later batches are asked long after the list was made, so `inode` is asked again before each; it
    /// gives the number of a cgroup that is there.
    ///
    /// # Errors
    /// The kernel has no filters that count, cgroups are too many, it refuses every one of them but the root
    /// ([`DamonError::Refused`]), or somebody stopped or changed the kdamond.
    pub fn cgroup_ages(
        &mut self,
        cgroups: &[String],
        inode: impl Fn(&str) -> Option<u64>,
        boundary: &ColdBoundary,
    ) -> Result<Option<Filtered>, DamonError> {
        let folder = self.filters.ok_or(DamonError::NoFilters)?;
        if cgroups.len() > MOST {
            return Err(DamonError::TooMany(cgroups.len()));
        }
        self.check_ours()?;
        let mut refused = mem::take(&mut self.refused);
        let found = in_batches(cgroups, inode, &mut refused, |batch| {
            // A kdamond that is not ours any more refuses as well, and not for the sake of a cgroup.
            self.ask(folder, batch, boundary).or_else(|why| self.check_ours().and(Err(why)))
        });
        self.refused = refused;
        // Also after an error: schemes with filters cost the kernel time for as long as they are there.
        let back = self.unfiltered();
        found.and_then(|found| back.map(|()| found))
    }

    /// Asks of one batch.
    fn ask(
        &self,
        folder: &str,
        batch: &[String],
        boundary: &ColdBoundary,
    ) -> Result<Option<HashMap<String, Ages>>, DamonError> {
        let commit = [("0/state".to_owned(), "commit".to_owned())];
        let mut writes = set_up(folder, batch).into_iter().chain(commit);
        writes.try_for_each(|(file, value)| write(&self.host, &file, &value))?;
        // The kernel answers once it has been through all schemes.
        write(&self.host, "0/state", "update_schemes_tried_regions")?;
        let found = self.found(batch, boundary)?;
        write(&self.host, "0/state", "clear_schemes_tried_regions")?;
        Ok(found)
    }

    /// Reads what the schemes of a batch tell; `None` where one of them tells nothing.
    fn found(
        &self,
        batch: &[String],
        boundary: &ColdBoundary,
    ) -> Result<Option<HashMap<String, Ages>>, DamonError> {
        let edges = Edges::new(boundary);
        let mut all: HashMap<String, Ages> = HashMap::new();
        for (at, (cgroup, kind)) in wanted(batch) {
            let mut by_edge: HashMap<usize, u64> = HashMap::new();
            let mut is_there = false;
            // All idle regions are told for each scheme, also those of which no page passes: most of them.
            self.each_region(at, |region| {
                let bytes = region.number("sz_filter_passed")?;
                is_there = true;
                if bytes > 0 {
                    *by_edge.entry(edges.bucket_of(region.idle_ms()?)).or_default() += bytes;
                }
                Some(())
            })?;
            if !is_there {
                return Ok(None);
            }
            let ages = all.entry(cgroup.clone()).or_default();
            for (edge, bytes) in by_edge.into_iter().filter(|(_, bytes)| *bytes > 0) {
                ages.cells.push(AgeCell::of_kind(kind, edges.range(edge), bytes, boundary));
            }
            ages.sort();
        }
        Ok(Some(all))
    }

    /// Back to one scheme that sees all pages.
    fn unfiltered(&self) -> Result<(), DamonError> {
        let scheme = "0/contexts/0/schemes";
        let mut writes = vec![(format!("{scheme}/nr_schemes"), "1".to_owned())];
        writes.extend(access_pattern(&format!("{scheme}/0")));
        writes.push(("0/state".to_owned(), "commit".to_owned()));
        writes.into_iter().try_for_each(|(file, value)| write(&self.host, &file, &value))
    }
}

/// Asks batch after batch. The kernel takes the paths of a batch all together or not at all, and does not say which it refuses:
/// a batch that it refuses is asked again without the cgroups that are gone or, where none is, in halves, until the one that it
/// refuses is alone. That one is noted in `known`, and not asked again for as long as it is there.
pub(super) fn in_batches(
    cgroups: &[String],
    inode: impl Fn(&str) -> Option<u64>,
    known: &mut Refusals,
    mut ask: impl FnMut(&[String]) -> Result<Option<HashMap<String, Ages>>, DamonError>,
) -> Result<Option<Filtered>, DamonError> {
    known.retain(|cgroup, (of, _)| inode(cgroup) == Some(*of));
    let cgroups: Vec<String> =
        cgroups.iter().filter(|cgroup| !known.contains_key(*cgroup)).cloned().collect();
    let mut found = Filtered::default();
    let mut refusal = None;
    let mut left = REFUSALS;
    let mut batches: Vec<Vec<String>> = cgroups.chunks(BATCH).rev().map(<[_]>::to_vec).collect();
    while let Some(mut batch) = batches.pop() {
        batch.retain(|cgroup| inode(cgroup).is_some());
        if batch.is_empty() {
            continue;
        }
        let why = match ask(&batch) {
            Ok(Some(ages)) => {
                found.ages.extend(ages);
                continue;
            }
            Err(why @ DamonError::Refused { .. }) => why,
            other => return other.map(|_| None),
        };
        left -= u32::from(left > 0);
        let asked = batch.len();
        batch.retain(|cgroup| inode(cgroup).is_some());
        match (&batch[..], batch.len() < asked) {
            ([], _) => continue,
            (_, true) if left > 0 => batches.push(batch),
            ([alone], false) => {
                let of = inode(alone).unwrap_or_default();
                known.insert(alone.clone(), (of, why.to_string()));
                refusal = Some(why);
            }
            (_, false) if left > 0 => {
                let half = batch.split_off(batch.len() / 2);
                batches.extend([half, batch]);
            }
            _ => {
                found.not_asked.extend(batch);
                refusal = Some(why);
            }
        }
    }
    found.refused = known.iter().map(|(path, (_, why))| (path.clone(), why.clone())).collect();
    match refusal {
        // Not a cgroup is refused, but whoever asks: in a namespace of cgroups the root is called as the host's is.
        Some(why) if found.ages.keys().all(|cgroup| cgroup == "/") => Err(why),
        _ => Ok(Some(found)),
    }
}
