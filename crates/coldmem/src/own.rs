//! The cgroups' own ages, of back ends that tell of all at once: each without those within it.

use crate::age::{Ages, ColdBoundary};
use crate::backend::{Backend, WarmUp};
use crate::damon::{self, PageAges, Session};
use crate::mglru;
use crate::survey::Group;
use crate::surveyor::Surveyor;
use crosstalk_host::{Capability, HostRoot, Verdict, charges_memory, page_bytes};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Default)]
struct CgroupAges {
    ages: Ages,
    warm_up: WarmUp,
    cold_from_ms: Option<u64>,
}

/// Ages by whose they are.
#[derive(Default)]
pub(crate) struct Own {
    by_id: HashMap<u64, CgroupAges>,
    by_path: HashMap<String, CgroupAges>,
    /// Why a cgroup has none, by path.
    refused: HashMap<String, String>,
    /// Where all idle pages were looked at, a cgroup that is not named has none of its own.
    unnamed: Option<WarmUp>,
}

impl Own {
    /// Tells a cgroup its own. One without a memory controller has none, idle or not.
    pub(crate) fn give(&mut self, group: &mut Group) {
        if group.stat.is_none() && group.problem.is_none() {
            return;
        }
        if let Some(why) = self.refused.remove(&group.path) {
            group.problem = Some(format!("DAMON's filters: {why}"));
            return;
        }
        let named = self.by_id.remove(&group.id).or_else(|| self.by_path.remove(&group.path));
        let unnamed =
            || self.unnamed.map(|warm_up| CgroupAges { warm_up, ..CgroupAges::default() });
        if let Some(found) = named.or_else(unnamed) {
            group.ages = Some(found.ages);
            (group.warm_up, group.cold_from_ms) = (found.warm_up, found.cold_from_ms);
        }
    }

    /// Tells the node what belongs to no cgroup that is there.
    pub(crate) fn give_rest(self, node: &mut Group) {
        for found in self.by_id.into_values().chain(self.by_path.into_values()) {
            node.ages.get_or_insert_default().add(&found.ages);
            node.warm_up = node.warm_up.worse(found.warm_up);
            node.cold_from_ms = node.cold_from_ms.max(found.cold_from_ms);
        }
    }
}

impl Surveyor {
    /// The cgroups' own ages, of a back end that tells all at once.
    pub(crate) fn own_ages(&mut self, folders: &[PathBuf]) -> Result<Option<Own>, Capability> {
        let warm_up = self.session_warm_up().unwrap_or_default();
        let (root, boundary) = (self.root().to_owned(), self.choice.boundary);
        if let Some(session) = &mut self.damon {
            return of_damon(&self.host, session, &root, folders, &boundary, warm_up);
        }
        if self.backend != Backend::Mglru {
            return Ok(None);
        }
        let file = self.host.path(mglru::FILE);
        let found = |e: io::Error| failing(format!("{}: {e}", file.display()));
        let text = fs::read_to_string(&file).map_err(found)?;
        let lists = mglru::parse(&text).map_err(|e| failing(e.to_string()))?;
        let mut by_path: HashMap<String, CgroupAges> = HashMap::new();
        for list in &lists {
            let found = by_path.entry(list.path.to_owned()).or_default();
            found.ages.add(&list.ages(page_bytes(), &boundary));
            // A cgroup reaches as far back as the least of its memory nodes.
            found.warm_up = found.warm_up.worse(list.warm_up(&boundary));
            found.cold_from_ms = found.cold_from_ms.max(list.cold_from_ms(&boundary));
            // Four generations: pages of the oldest are idle since the third youngest was born.
            let every_ms = u64::try_from(boundary.age.as_millis() / 2).unwrap_or(u64::MAX);
            if let Some(request) = list.age_request(every_ms).filter(|_| self.choice.ageing) {
                // A cgroup that went away meanwhile, or aged by itself, refuses.
                let _ = fs::write(&file, request);
            }
        }
        Ok(Some(Own { by_path, ..Own::default() }))
    }
}

fn of_damon(
    host: &HostRoot,
    session: &mut Session,
    root: &Path,
    folders: &[PathBuf],
    boundary: &ColdBoundary,
    warm_up: WarmUp,
) -> Result<Option<Own>, Capability> {
    let found = |e| Capability::of_error("coldmem", Verdict::Failing, &e);
    let own = |ages| CgroupAges { ages, warm_up, cold_from_ms: None };
    // Filters do not know shared memory from page cache, and cost the kernel a walk over all idle pages for each cgroup:
    // pages themselves, where they can be read, tell all of them apart in one.
    if !damon::can_join(host) {
        // The kernel refuses the path of a cgroup without the controller, and of one that is gone.
        let charged = |path: &str| {
            let folder = root.join(path.trim_start_matches('/'));
            fs::metadata(&folder).ok().filter(|_| charges_memory(&folder)).map(|about| about.ino())
        };
        let paths = folders.iter().map(|inside| format!("/{}", inside.display()));
        let paths: Vec<String> = paths.filter(|path| charged(path).is_some()).collect();
        let filtered = session.cgroup_ages(&paths, charged, boundary).map_err(found)?;
        return Ok(filtered.map(|filtered| {
            let by_path = filtered.ages.into_iter().map(|(path, ages)| (path, own(ages))).collect();
            let why = "not asked: the kernel refused too many others".to_owned();
            let not_asked = filtered.not_asked.into_iter().map(|path| (path, why.clone()));
            let refused = filtered.refused.into_iter().chain(not_asked).collect();
            Own { by_path, refused, ..Own::default() }
        }));
    }
    let regions = session.idle_regions().map_err(found)?;
    // A kernel too busy to sample in time tells of none. That is not the same as no idle memory.
    if regions.is_empty() {
        return Ok(None);
    }
    let joined = PageAges::join(host, &regions, page_bytes(), boundary)
        .map_err(|e| failing(format!("/proc/kpagecgroup or kpageflags: {e}")))?;
    let by_id = joined.by_cgroup(page_bytes()).into_iter().map(|(id, ages)| (id, own(ages)));
    Ok(Some(Own { by_id: by_id.collect(), unnamed: Some(warm_up), ..Own::default() }))
}

fn failing(found: String) -> Capability {
    Capability::new("coldmem", Verdict::Failing, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::age::{AgeCell, Kind};
    use crate::surveyor::{Asked, Choice};

    #[test]
    fn a_cgroup_that_filters_refuse_leaves_open_what_is_cold_of_those_it_lies_in() {
        let root = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("proc/1/mounts", "c /sys/fs/cgroup cgroup2 rw 0 0\n");
        for group in ["", "/a", "/a/b", "/a/c", "/d"] {
            put(&format!("sys/fs/cgroup{group}/memory.stat"), "inactive_file 1\n");
        }
        let host = HostRoot::new(root.path());
        let choice = Choice { backend: Some(Backend::Bounds), ..Choice::default() };
        let mut surveyor = Surveyor::open(&host, choice).map_err(|c| c.found).unwrap();
        let boundary = ColdBoundary::default();
        let cell = AgeCell::of_kind(Kind::File, (300_000, None), 10, &boundary);
        let own = || {
            let ages = Ages { cells: vec![cell], ..Ages::default() };
            CgroupAges { ages, ..CgroupAges::default() }
        };
        let look = |surveyor: &mut Surveyor, refused: &[&str]| {
            let all = ["/", "/a", "/a/b", "/a/c", "/d"].into_iter();
            let named = all.filter(|path| !refused.contains(path));
            let by_path = named.map(|path| (path.to_owned(), own())).collect();
            let refused = refused.iter().map(|path| ((*path).to_owned(), "no".to_owned()));
            let own = Own { by_path, refused: refused.collect(), ..Own::default() };
            let folders = surveyor.folders();
            surveyor.survey(folders, Asked::Ages(Some(own)))
        };
        let cold = |survey: &crate::Survey| -> Vec<(String, Option<u64>)> {
            let mut all: Vec<_> = survey
                .groups
                .iter()
                .map(|group| (group.path.clone(), group.cold_bytes()))
                .collect();
            all.sort();
            all
        };
        let expected = |all: [Option<u64>; 5]| -> Vec<(String, Option<u64>)> {
            let paths = ["/", "/a", "/a/b", "/a/c", "/d"].map(str::to_owned);
            paths.into_iter().zip(all).collect()
        };
        let ten = Some(10);
        let survey = look(&mut surveyor, &[]);
        assert_eq!(cold(&survey), expected([Some(50), Some(30), ten, ten, ten]));
        assert_eq!(survey.cold_bytes(), Some(50));
        let survey = look(&mut surveyor, &["/a/b"]);
        assert_eq!(cold(&survey), expected([None, None, None, ten, ten]));
        assert_eq!((survey.cold_bytes(), survey.unreadable()), (None, 1));
        let why = |path: &str| {
            let group = survey.groups.iter().find(|group| group.path == path).unwrap();
            group.why_unknown()
        };
        assert_eq!(why("/a/b").unwrap(), "DAMON's filters: no");
        assert_eq!(why("/a").unwrap(), "ages of 1 cgroups within are not known");
        assert_eq!((why("/"), why("/d")), (why("/a"), None));
        // Of the node the cells are open too, which go into rows.
        let cells = survey.ages.unwrap().cells;
        assert!(
            !cells.is_empty() && cells.iter().all(|cell| cell.cold_bytes.is_none()),
            "{cells:?}"
        );
    }
}
