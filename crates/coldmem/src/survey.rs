//! One round: every cgroup's charged memory and ages, from one back end.

use crate::age::{Ages, ColdBoundary, Kind};
use crate::backend::{Backend, WarmUp, probe};
use crate::charged::{MemoryStat, NodeMemory};
use crate::damon::{self, PageAges, Session};
use crate::kidled::IdleFile;
use crate::mglru;
use crosstalk_host::{
    Capability, CgroupHierarchy, HostRoot, Stalled, Verdict, page_bytes, walk_cgroups,
};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Cgroups beyond this are not looked at.
const MOST_CGROUPS: usize = 4_096;

/// What is asked of a survey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Which back end; `None` takes kidled where it works, and bounds otherwise: neither changes anything.
    pub backend: Option<Backend>,
    /// When memory is cold.
    pub boundary: ColdBoundary,
    /// Whether MGLRU is asked to begin generations, so that ages reach the boundary without pressure.
    pub ageing: bool,
}

/// What is known of one cgroup, those within it included.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The inode number of its folder.
    pub id: u64,
    /// Its path below the mount; `/` for the root.
    pub path: String,
    /// What is charged to it; absent where it cannot be read.
    pub stat: Option<MemoryStat>,
    /// How long its memory has been idle; absent where the back end does not tell.
    pub ages: Option<Ages>,
    /// How long its tasks stood still for memory.
    pub stalled: Option<Stalled>,
    /// What could not be read.
    pub problem: Option<String>,
}

impl Group {
    /// What is cold; absent where ages are.
    pub fn cold_bytes(&self) -> Option<u64> {
        self.ages.as_ref().map(Ages::cold_bytes)
    }

    /// Pages that were read back after they had been reclaimed, ever.
    pub fn refaults(&self) -> Option<u64> {
        let stat = self.stat.as_ref()?;
        stat.refaults_file?.checked_add(stat.refaults_anon.unwrap_or(0))
    }

    /// What at most is cold, of all kinds that count.
    pub fn at_most_bytes(&self, boundary: &ColdBoundary) -> Option<u64> {
        let stat = self.stat.as_ref()?;
        let mut kinds = Kind::ALL.into_iter().filter(|kind| boundary.counts_kind(*kind));
        kinds.try_fold(0u64, |sum, kind| Some(sum.saturating_add(stat.at_most(kind, boundary)?)))
    }
}

/// One round over all cgroups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// The node's memory.
    pub node: NodeMemory,
    /// The node's ages.
    pub ages: Option<Ages>,
    /// The root first, each cgroup before those within it.
    pub groups: Vec<Group>,
}

impl Survey {
    /// How many cgroups could not be read in part or at all.
    pub fn unreadable(&self) -> usize {
        self.groups.iter().filter(|group| group.problem.is_some()).count()
    }
}

/// Looks at all cgroups again and again.
pub struct Surveyor {
    host: HostRoot,
    root: PathBuf,
    choice: Choice,
    backend: Backend,
    kidled: IdleFile,
    damon: Option<Session>,
    text: String,
}

impl Surveyor {
    /// Opens the back end that was chosen. DAMON is started; it ends when this is dropped.
    ///
    /// # Errors
    /// There are no cgroups, or what was chosen does not work here.
    pub fn open(host: &HostRoot, choice: Choice) -> Result<Self, Capability> {
        if choice.backend == Some(Backend::Damon) {
            damon::sweep(host);
        }
        let probed = probe(host, &choice.boundary);
        let works = |backend: Backend| {
            let found = probed.iter().find(|probed| probed.backend == backend);
            let verdict = found.map_or(Verdict::Absent, |probed| probed.capability.verdict);
            matches!(verdict, Verdict::Ok | Verdict::Limited)
        };
        let auto = if works(Backend::Kidled) { Backend::Kidled } else { Backend::Bounds };
        let backend = choice.backend.unwrap_or(auto);
        if !works(backend) {
            let found = probed.into_iter().find(|probed| probed.backend == backend);
            return Err(found.map_or_else(
                || Capability::new("coldmem", Verdict::Absent, "no such back end"),
                |probed| probed.capability,
            ));
        }
        let Some(hierarchy) = CgroupHierarchy::find(host) else {
            let found = "no cgroup file system is mounted";
            return Err(Capability::new("coldmem", Verdict::Absent, found)
                .fix("mount -t cgroup2 none /sys/fs/cgroup"));
        };
        let damon = match backend {
            Backend::Damon => Some(
                Session::start(host, &choice.boundary)
                    .map_err(|e| Capability::of_error("coldmem", Verdict::Absent, &e))?,
            ),
            _ => None,
        };
        Ok(Self {
            host: host.clone(),
            root: host.path(&hierarchy.mount),
            choice,
            backend,
            kidled: IdleFile::default(),
            damon,
            text: String::new(),
        })
    }

    /// The back end in use.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// When memory is cold.
    pub fn boundary(&self) -> &ColdBoundary {
        &self.choice.boundary
    }

    /// Where cgroups are, as we see it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether its ages reach the boundary by now.
    pub fn warm_up(&self) -> WarmUp {
        if let Some(session) = &self.damon {
            let settling = damon::settling(self.boundary()).as_secs();
            return WarmUp::after(session.watched_s().saturating_sub(settling), self.boundary());
        }
        let probed = probe(&self.host, self.boundary());
        probed.into_iter().find(|p| p.backend == self.backend).map_or(WarmUp::Ready, |p| p.warm_up)
    }

    /// Looks once. What cannot be read of one cgroup is said there, and costs no other anything.
    ///
    /// # Errors
    /// The back end itself has stopped working.
    pub fn look(&mut self) -> Result<Survey, Capability> {
        let node = self.host.line("/proc/meminfo").map(|text| NodeMemory::parse(&text));
        let mut survey = Survey { node: node.unwrap_or_default(), ..Survey::default() };
        let root = self.root.clone();
        let mut folders = Vec::new();
        walk_cgroups(&root, |inside| {
            folders.push(inside.to_owned());
            folders.len() < MOST_CGROUPS
        });
        // Where each cgroup's own values are apart from those within, the sums are ours to make.
        let mut own = self.own_ages(&folders)?;
        let mut apart = own.is_some();
        for inside in folders {
            let folder = root.join(&inside);
            let Ok(about) = fs::metadata(&folder) else { continue };
            let path = format!("/{}", inside.display());
            let mut group = Group { id: about.ino(), path, ..Group::default() };
            self.charged(&folder, &mut group);
            match &mut own {
                Some(own) => group.ages = own.take(&group),
                None if self.backend == Backend::Kidled => apart |= self.idle(&folder, &mut group),
                None => {}
            }
            survey.groups.push(group);
        }
        if apart {
            add_up(&mut survey.groups);
        }
        survey.ages = node_ages(&survey.groups);
        // Pages that belong to no cgroup are the node's all the same.
        if let (Some(ages), Some(rest)) = (&mut survey.ages, own) {
            rest.left().for_each(|more| ages.add(more));
        }
        Ok(survey)
    }

    fn charged(&mut self, folder: &Path, group: &mut Group) {
        match read(&folder.join("memory.stat"), &mut self.text) {
            Ok(()) => group.stat = Some(MemoryStat::parse(&self.text)),
            Err(error) => group.problem = Some(format!("memory.stat: {error}")),
        }
        if read(&folder.join("memory.pressure"), &mut self.text).is_ok() {
            group.stalled = Stalled::parse(&self.text);
        }
    }

    /// Reads kidled's file; `true` where it leaves out the cgroups within.
    fn idle(&mut self, folder: &Path, group: &mut Group) -> bool {
        match self.kidled.read(folder) {
            Ok(true) if !self.kidled.info.buckets.is_empty() => {
                group.ages = Some(self.kidled.info.ages(&self.choice.boundary));
                return self.kidled.is_local();
            }
            Ok(_) => {}
            Err(error) => group.problem = Some(error.to_string()),
        }
        false
    }

    /// The cgroups' own ages, of a back end that tells all at once.
    fn own_ages(&mut self, folders: &[PathBuf]) -> Result<Option<Own>, Capability> {
        let failing = |found: String| Capability::new("coldmem", Verdict::Failing, found);
        let boundary = self.choice.boundary;
        if let Some(session) = &mut self.damon {
            let told = |e| Capability::of_error("coldmem", Verdict::Failing, &e);
            let paths: Vec<String> =
                folders.iter().map(|inside| format!("/{}", inside.display())).collect();
            if let Some(ages) = session.cgroup_ages(&paths, &boundary).map_err(told)? {
                return Ok(Some(Own::ByPath(ages)));
            }
            let regions = session.idle_regions().map_err(told)?;
            // A kernel too busy to sample in time tells of none. That is not the same as no idle memory.
            if regions.is_empty() {
                return Ok(None);
            }
            let joined = PageAges::join(&self.host, &regions, page_bytes(), &boundary)
                .map_err(|e| failing(format!("/proc/kpagecgroup or kpageflags: {e}")))?;
            return Ok(Some(Own::ById(joined.by_cgroup(page_bytes()))));
        }
        if self.backend != Backend::Mglru {
            return Ok(None);
        }
        let file = self.host.path(mglru::FILE);
        let told = |e: io::Error| failing(format!("{}: {e}", file.display()));
        read(&file, &mut self.text).map_err(told)?;
        let lists = mglru::parse(&self.text).map_err(|e| failing(e.to_string()))?;
        let mut own: HashMap<String, Ages> = HashMap::new();
        for list in &lists {
            let ages = list.ages(page_bytes(), &boundary);
            own.entry(list.path.to_owned()).or_default().add(&ages);
            // Four generations: pages of the oldest are idle since the third youngest was born.
            let every_ms = u64::try_from(boundary.age.as_millis() / 2).unwrap_or(u64::MAX);
            if let Some(request) = list.age_request(every_ms).filter(|_| self.choice.ageing) {
                // A cgroup that went away meanwhile, or aged by itself, refuses.
                let _ = fs::write(&file, request);
            }
        }
        Ok(Some(Own::ByPath(own)))
    }
}

enum Own {
    ById(HashMap<u64, Ages>),
    ByPath(HashMap<String, Ages>),
}

impl Own {
    /// A cgroup that is not named has no idle memory of its own.
    fn take(&mut self, group: &Group) -> Option<Ages> {
        Some(match self {
            Self::ById(all) => all.remove(&group.id).unwrap_or_default(),
            Self::ByPath(all) => all.remove(&group.path).unwrap_or_default(),
        })
    }

    fn left(&self) -> Box<dyn Iterator<Item = &Ages> + '_> {
        match self {
            Self::ById(all) => Box::new(all.values()),
            Self::ByPath(all) => Box::new(all.values()),
        }
    }
}

/// Adds to each cgroup what those within it have. They come behind it in the list.
fn add_up(groups: &mut [Group]) {
    let places: HashMap<String, usize> =
        groups.iter().enumerate().map(|(at, group)| (group.path.clone(), at)).collect();
    for at in (1..groups.len()).rev() {
        let (before, rest) = groups.split_at_mut(at);
        let (Some(ages), Some((parent, _))) = (&rest[0].ages, rest[0].path.rsplit_once('/')) else {
            continue;
        };
        let parent = if parent.is_empty() { "/" } else { parent };
        if let Some(parent) = places.get(parent).and_then(|at| before.get_mut(*at)) {
            parent.ages.get_or_insert_default().add(ages);
        }
    }
}

/// The root's, or where the root has none the sum of the topmost.
fn node_ages(groups: &[Group]) -> Option<Ages> {
    let (root, below) = groups.split_first()?;
    if root.ages.is_some() {
        return root.ages.clone();
    }
    let top = below.iter().filter(|group| group.path.matches('/').count() == 1);
    let mut all: Option<Ages> = None;
    for ages in top.filter_map(|group| group.ages.as_ref()) {
        all.get_or_insert_default().add(ages);
    }
    all
}

fn read(path: &Path, text: &mut String) -> io::Result<()> {
    text.clear();
    File::open(path)?.read_to_string(text).map(|_| ())
}
