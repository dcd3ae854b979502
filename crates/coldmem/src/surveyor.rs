//! Looks at all cgroups, with one back end.

use crate::age::ColdBoundary;
use crate::backend::{Backend, WarmUp, probe};
use crate::charged::{NodeMemory, shared, unmapped_file, unmapped_file_or_shared};
use crate::damon::{self, Session};
use crate::kidled::IdleFile;
use crate::mglru;
use crate::own::Own;
use crate::survey::{Group, MayBeUsed, Survey, add_up, miss, node_of, spare};
use crosstalk_host::{
    Capability, CgroupHierarchy, HostRoot, MemoryFiles, Verdict, swap_left, walk_cgroups,
};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Cgroups beyond this are not looked at.
const MOST_CGROUPS: usize = 4_096;

/// A back end that does not work is tried again after so long.
const RETRY: Duration = Duration::from_secs(60);

/// All cgroups, each before those within it; those beyond the limit apart.
pub(crate) struct Folders {
    pub(crate) within: Vec<PathBuf>,
    beyond: Vec<PathBuf>,
}

/// What a look is for.
pub(crate) enum Asked {
    /// Usage and ages, which a back end that tells of all cgroups at once has told already.
    Ages(Option<Own>),
    /// Usage alone.
    Usage,
}

/// What is asked of a survey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Which back end; `None` takes kidled where it works, else MGLRU, else bounds: reading these changes nothing.
    pub backend: Option<Backend>,
    /// When memory is cold.
    pub boundary: ColdBoundary,
    /// Whether MGLRU is asked to begin generations, so that ages reach the boundary without pressure.
    pub ageing: bool,
}

/// Looks at all cgroups again and again.
pub struct Surveyor {
    pub(crate) host: HostRoot,
    root: PathBuf,
    pub(crate) choice: Choice,
    pub(crate) backend: Backend,
    /// Why it is not the one that was chosen.
    fallen: Option<Capability>,
    tried: Instant,
    retry: Duration,
    kidled: IdleFile,
    pub(crate) damon: Option<Session>,
    files: MemoryFiles,
}

impl Surveyor {
    /// Opens the back end that was chosen. DAMON is started; it ends when this is dropped.
    ///
    /// # Errors
    /// There are no cgroups, or what was chosen does not work here.
    pub fn open(host: &HostRoot, choice: Choice) -> Result<Self, Capability> {
        let mut surveyor = Self::without_ages(host, choice)?;
        surveyor.start()?;
        Ok(surveyor)
    }

    /// Opens the back end that was chosen or, while that does not work, none: usage does not depend on ages.
    ///
    /// # Errors
    /// There are no cgroups.
    pub fn open_or_bounds(host: &HostRoot, choice: Choice) -> Result<Self, Capability> {
        let mut surveyor = Self::without_ages(host, choice)?;
        if let Err(why) = surveyor.start() {
            surveyor.fall(why);
        }
        Ok(surveyor)
    }

    /// Tries a back end that does not work again after `retry` instead of a minute.
    #[must_use]
    pub fn retry_after(self, retry: Duration) -> Self {
        Self { retry, ..self }
    }

    fn without_ages(host: &HostRoot, choice: Choice) -> Result<Self, Capability> {
        let Some(hierarchy) = CgroupHierarchy::find(host) else {
            let found = "no cgroup file system is mounted";
            return Err(Capability::new("coldmem", Verdict::Absent, found)
                .fix("mount -t cgroup2 none /sys/fs/cgroup"));
        };
        Ok(Self {
            host: host.clone(),
            root: host.path(&hierarchy.mount),
            choice,
            backend: Backend::Bounds,
            fallen: None,
            tried: Instant::now(),
            retry: RETRY,
            kidled: IdleFile::default(),
            damon: None,
            files: MemoryFiles::default(),
        })
    }

    fn start(&mut self) -> Result<(), Capability> {
        self.tried = Instant::now();
        if self.choice.backend == Some(Backend::Damon) {
            damon::sweep(&self.host);
        }
        let probed = probe(&self.host, &self.choice.boundary);
        let works = |backend: &Backend| {
            let found = probed.iter().find(|probed| probed.backend == *backend);
            let verdict = found.map_or(Verdict::Absent, |probed| probed.capability.verdict);
            matches!(verdict, Verdict::Ok | Verdict::Limited)
        };
        let auto = || [Backend::Kidled, Backend::Mglru].into_iter().find(works);
        let backend = self.choice.backend.or_else(auto).unwrap_or(Backend::Bounds);
        if !works(&backend) {
            let found = probed.into_iter().find(|probed| probed.backend == backend);
            return Err(found.map_or_else(
                || Capability::new("coldmem", Verdict::Absent, "no such back end"),
                |probed| probed.capability,
            ));
        }
        if backend == Backend::Damon {
            let session = Session::start(&self.host, &self.choice.boundary);
            let absent = |e| Capability::of_error("coldmem", Verdict::Absent, &e);
            self.damon = Some(session.map_err(absent)?);
        }
        self.backend = backend;
        self.fallen = None;
        Ok(())
    }

    fn fall(&mut self, why: Capability) {
        // What is left of DAMON is taken down here, and only if it is ours.
        self.damon = None;
        self.backend = Backend::Bounds;
        self.fallen = Some(why);
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

    /// How much more of a cgroup can go to swap: what is free of it, within the limits of the cgroup and those it lies in.
    /// `None` where the kernel does not say.
    pub fn swap_room(&self, cgroup: &str) -> Option<u64> {
        let free = NodeMemory::read(&self.host).swap_free?;
        let folder = self.root.join(cgroup.trim_start_matches('/'));
        let above = folder.ancestors().take_while(|folder| folder.starts_with(&self.root));
        Some(above.filter_map(swap_left).fold(free, u64::min))
    }

    /// Looks once. What cannot be read of one cgroup is said there, and costs no other anything.
    ///
    /// # Errors
    /// The back end itself has stopped working.
    pub fn look(&mut self) -> Result<Survey, Capability> {
        let folders = self.folders();
        let own = self.own_ages(&folders.within)?;
        Ok(self.survey(folders, Asked::Ages(own)))
    }

    /// Looks once at what is charged, and not for how long it has been idle: that may be dear.
    pub fn look_at_usage(&mut self) -> Survey {
        let folders = self.folders();
        self.survey(folders, Asked::Usage)
    }

    /// Looks once. A back end that does not work costs ages and nothing else; [`Survey::fallen`] says why, and it is tried
    /// again each minute.
    pub fn look_or_bounds(&mut self) -> Survey {
        let wants_ages = self.choice.backend != Some(Backend::Bounds);
        let is_due = self.backend == Backend::Bounds && self.tried.elapsed() >= self.retry;
        if is_due
            && wants_ages
            && let Err(why) = self.start()
        {
            self.fall(why);
        }
        match self.look() {
            Ok(survey) => survey,
            Err(why) => {
                self.tried = Instant::now();
                self.fall(why);
                // Bounds ask nobody, so nobody can fail.
                self.survey(self.folders(), Asked::Ages(None))
            }
        }
    }

    pub(crate) fn folders(&self) -> Folders {
        let (mut within, mut beyond) = (Vec::new(), Vec::new());
        walk_cgroups(&self.root, |inside| {
            let list = if within.len() < MOST_CGROUPS { &mut within } else { &mut beyond };
            list.push(inside.to_owned());
            true
        });
        Folders { within, beyond }
    }

    pub(crate) fn survey(&mut self, folders: Folders, asked: Asked) -> Survey {
        let Folders { within, beyond } = folders;
        let (mut own, wants_ages) = match asked {
            Asked::Ages(own) => (own, true),
            Asked::Usage => (None, false),
        };
        let by_kidled = wants_ages && self.backend == Backend::Kidled;
        if by_kidled {
            self.kidled.look_at_setting(&self.host);
        }
        // Where each cgroup's own values are apart from those within, the sums are ours to make.
        let mut apart = own.is_some();
        let mut groups = Vec::with_capacity(within.len());
        for inside in within {
            let folder = self.root.join(&inside);
            let Ok(about) = fs::metadata(&folder) else { continue };
            let path = format!("/{}", inside.display());
            let mut group = Group { id: about.ino(), path, ..Group::default() };
            self.charged(&folder, &mut group);
            match &mut own {
                Some(own) => own.give(&mut group),
                None if by_kidled => apart |= self.idle(&folder, &mut group),
                // A kernel too busy to tell has not told yet.
                None => group.warm_up = self.session_warm_up().unwrap_or_default(),
            }
            // One that went away while it was read is missing nowhere.
            if group.ages.is_some() || folder.is_dir() {
                groups.push(group);
            }
        }
        if apart {
            miss(&mut groups, &beyond);
            add_up(&mut groups);
        }
        let mut node = node_of(&groups);
        // Of a back end that tells of all at once, what belongs to those beyond is added to the node's below.
        let counted = if own.is_some() { beyond.len() } else { 0 };
        if let Some(root) = groups.first_mut() {
            root.missing = node.missing.saturating_sub(counted);
        }
        node.warm_up = node.warm_up.worse(self.session_warm_up().unwrap_or_default());
        // Pages that belong to no cgroup are the node's all the same.
        if let Some(left) = own.filter(|_| node.ages.is_some()) {
            left.give_rest(&mut node);
        }
        if let Some(may_be_used) = self.may_be_used() {
            spare(&mut groups, &mut node, may_be_used);
        }
        let mut survey = Survey {
            backend: self.backend,
            fallen: self.fallen.clone(),
            node: NodeMemory::read(&self.host),
            ages: node.ages,
            groups,
            warm_up: node.warm_up,
            cold_from_ms: node.cold_from_ms,
            beyond: beyond.len(),
        };
        survey.leave_cold_open();
        survey
    }

    /// What is told as idle page cache and need not be it: what is only read, where the kernel has MGLRU, and shared memory,
    /// which filters do not tell from it. Where pages are looked at one by one both are left out already.
    fn may_be_used(&self) -> Option<MayBeUsed> {
        match self.backend {
            Backend::Mglru => Some(unmapped_file),
            Backend::Damon if damon::can_join(&self.host) => None,
            Backend::Damon if mglru::state(&self.host) == Some(true) => {
                Some(unmapped_file_or_shared)
            }
            Backend::Damon => Some(shared),
            Backend::Kidled | Backend::Bounds => None,
        }
    }

    /// How far DAMON is, where it runs.
    pub(crate) fn session_warm_up(&self) -> Option<WarmUp> {
        let settling = damon::settling(self.boundary()).as_secs();
        let watched_s = self.damon.as_ref()?.watched_s().saturating_sub(settling);
        Some(WarmUp::after(watched_s, self.boundary()))
    }

    fn charged(&mut self, folder: &Path, group: &mut Group) {
        match self.files.stat(folder) {
            Ok(stat) => group.stat = stat,
            Err(error) => group.problem = Some(format!("memory.stat: {error}")),
        }
        group.stalled = self.files.stalled(folder);
    }

    /// Reads kidled's file; `true` where it leaves out the cgroups within.
    fn idle(&mut self, folder: &Path, group: &mut Group) -> bool {
        match self.kidled.read(folder) {
            Ok(true) if !self.kidled.info.buckets.is_empty() => {
                let (info, boundary) = (&self.kidled.info, &self.choice.boundary);
                group.ages = Some(info.ages(boundary));
                group.warm_up = info.warm_up(boundary);
                group.cold_from_ms = info.cold_from_ms(boundary);
                return self.kidled.is_local();
            }
            Ok(_) => {}
            Err(error) => group.problem = Some(error.to_string()),
        }
        false
    }
}
