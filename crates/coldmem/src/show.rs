//! What is known of one cgroup, or of the node, for people and as JSON.

use crate::age::AgeCell;
use crate::backend::{Backend, Probed, WarmUp, probe};
use crate::damon;
use crate::kidled::{IdleFile, IdleInfo, IdleRow};
use crate::policy::{Charged, Policy, Usage};
use crate::survey::{Group, Survey};
use crate::surveyor::{Choice, Surveyor};
use crosstalk_host::{Capability, HostRoot};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::path::{Component, Path};
use std::time::Duration;

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    /// The back end does not work here.
    #[error("{}", .0.found)]
    Backend(Capability),
    /// There is no such cgroup.
    #[error("there is no cgroup {cgroup} below {root}; give a path below that mount")]
    NoCgroup {
        /// What was asked for.
        cgroup: String,
        /// Where cgroups are.
        root: String,
    },
}

/// One cgroup, or the node. As JSON it has every field of the proposal's idle info, null where there is no
/// kidled, and beside them what any back end tells.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The cgroup's path; `/` for the node.
    pub cgroup: String,
    /// How each back end stands here.
    pub backends: [Probed; 4],
    /// The one that tells.
    pub backend: Backend,
    /// Whether its ages reach the boundary.
    pub warm_up: WarmUp,
    /// Cold from this age.
    pub age: Duration,
    /// Where ages are told in steps: what counts as cold has been idle for so long at least.
    pub cold_from_ms: Option<u64>,
    /// The rows of kidled that count as cold.
    pub rows: Vec<&'static str>,
    /// kidled's file.
    pub idle: Option<IdleInfo>,
    /// Bytes by kind and age.
    pub ages: Option<Vec<AgeCell>>,
    /// What is cold.
    pub cold_bytes: Option<u64>,
    /// What at most is cold.
    pub at_most_bytes: Option<u64>,
    /// Pages that were read back after they had been reclaimed, ever: those were not cold.
    pub refaults: Option<u64>,
    /// For how long a task stood still for memory, ever.
    pub stalled_ns: Option<u64>,
    /// What is used, under each policy.
    pub usage: Vec<Usage>,
    /// What could not be read.
    pub problem: Option<String>,
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("cgroup", &self.cgroup)?;
        map.serialize_entry("backend", &self.backend)?;
        map.serialize_entry("warm_up", &self.warm_up)?;
        map.serialize_entry("cold_age_s", &self.age.as_secs())?;
        map.serialize_entry("cold_from_ms", &self.cold_from_ms)?;
        map.serialize_entry("cold_rows", &self.rows)?;
        let idle = self.idle.as_ref();
        map.serialize_entry("version", &idle.map(|idle| &idle.version))?;
        map.serialize_entry("page_scans", &idle.map(|idle| idle.page_scans))?;
        map.serialize_entry("slab_scans", &idle.and_then(|idle| idle.slab_scans))?;
        let period = idle.map(|idle| idle.scan_period_in_seconds);
        map.serialize_entry("scan_period_in_seconds", &period)?;
        map.serialize_entry("use_hierarchy", &idle.and_then(|idle| idle.use_hierarchy))?;
        map.serialize_entry("buckets", &idle.map(|idle| &idle.buckets))?;
        for row in IdleRow::all() {
            map.serialize_entry(row.name(), &idle.and_then(|idle| idle.row(row)))?;
        }
        let total = idle.and_then(IdleInfo::idle_total_bytes);
        map.serialize_entry("idle_total_bytes", &total)?;
        map.serialize_entry("ages", &self.ages)?;
        map.serialize_entry("cold_bytes", &self.cold_bytes)?;
        map.serialize_entry("at_most_bytes", &self.at_most_bytes)?;
        map.serialize_entry("refaults", &self.refaults)?;
        map.serialize_entry("stalled_ns", &self.stalled_ns)?;
        map.serialize_entry("usage", &self.usage)?;
        map.serialize_entry("problem", &self.problem)?;
        map.serialize_entry("backends", &self.backends)?;
        map.end()
    }
}

/// Looks at one cgroup, named by its path below the mount or from the file system's root, or at the node.
/// `wait` is called once the back end is open: DAMON knows nothing before it has watched for a while. Where no back end is
/// chosen and none tells without it what is cold, DAMON is used if nobody else does and the wait is a short one; if it fails,
/// what was opened first tells.
///
/// # Errors
/// The back end does not work, or there is no such cgroup.
pub fn show(
    host: &HostRoot,
    choice: Choice,
    cgroup: Option<&Path>,
    mut wait: impl FnMut(&mut Surveyor),
) -> Result<Shown, ShowError> {
    let boundary = choice.boundary;
    let backends = probe(host, &boundary);
    let mut surveyor = Surveyor::open(host, choice).map_err(ShowError::Backend)?;
    let inside = inside(cgroup.unwrap_or(Path::new("/")), surveyor.root());
    let folder = inside.as_ref().map(|inside| surveyor.root().join(inside.trim_start_matches('/')));
    let no_cgroup = || ShowError::NoCgroup {
        cgroup: cgroup.unwrap_or(Path::new("/")).display().to_string(),
        root: surveyor.root().display().to_string(),
    };
    let (Some(path), Some(folder)) = (inside, folder.filter(|folder| folder.is_dir())) else {
        return Err(no_cgroup());
    };
    let mut file = IdleFile::default();
    file.look_at_setting(host);
    let (idle, unread) = match file.read(&folder) {
        Ok(there) => (there.then_some(file.info), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let mut failed = None;
    let by_damon = damon_instead(host, &mut surveyor, &path).and_then(|mut damon| {
        wait(&mut damon);
        let survey = damon.look();
        // Nobody asked for DAMON: that it fails costs nobody what the first back end tells.
        survey.map_err(|why| failed = Some(format!("DAMON was tried: {}", why.found))).ok()
    });
    let survey = match by_damon {
        Some(survey) => survey,
        None => {
            if failed.is_none() {
                wait(&mut surveyor);
            }
            surveyor.look().map_err(ShowError::Backend)?
        }
    };
    let group = group_of(&survey, &path);
    let cold_bytes = group.cold_bytes();
    let usage = |policy| match (&group.stat, path.as_str()) {
        (_, "/") => survey.node.usage(policy, cold_bytes),
        (Some(stat), _) => stat.usage(policy, cold_bytes),
        (None, _) => None,
    };
    Ok(Shown {
        backends,
        backend: survey.backend,
        warm_up: group.warm_up,
        age: boundary.age,
        cold_from_ms: group.cold_from_ms,
        rows: boundary.rows().map(IdleRow::name).collect(),
        idle,
        cold_bytes,
        at_most_bytes: group.at_most_bytes(&boundary, survey.backend),
        refaults: group.refaults(),
        stalled_ns: group.stalled_ns(),
        usage: Policy::ALL.into_iter().filter_map(usage).collect(),
        ages: group.ages.as_ref().map(|ages| ages.cells.clone()),
        problem: group.why_unknown().or(unread).or(failed),
        cgroup: path,
    })
}

/// A cgroup, or the root with what is known of the node.
fn group_of(survey: &Survey, path: &str) -> Group {
    let group = survey.groups.iter().find(|group| group.path == path).cloned();
    let group = group.unwrap_or_else(|| {
        let beyond =
            (survey.beyond > 0).then(|| "there are too many cgroups to look at it".to_owned());
        Group { path: path.to_owned(), problem: beyond, ..Group::default() }
    });
    if path != "/" {
        return group;
    }
    let (ages, cold_from_ms) = (survey.ages.clone(), survey.cold_from_ms);
    Group { ages, cold_from_ms, warm_up: survey.warm_up, ..group }
}

/// Longer than this nobody waits for DAMON who did not ask for it.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// DAMON, started, where nobody chose and what was opened does not tell what is cold.
fn damon_instead(host: &HostRoot, opened: &mut Surveyor, path: &str) -> Option<Surveyor> {
    let choice = &opened.choice;
    // Whoever lets MGLRU begin generations wants it.
    let is_open = choice.backend.is_none() && !choice.ageing;
    if !is_open || !matches!(opened.backend, Backend::Mglru | Backend::Bounds) {
        return None;
    }
    // Who asks without a word about back ends wants an answer now.
    if damon::watching(&choice.boundary) > LONGEST_WAIT {
        return None;
    }
    let choice = Choice { backend: Some(Backend::Damon), ..choice.clone() };
    let known = opened.look().ok().and_then(|survey| group_of(&survey, path).cold_bytes());
    match known {
        Some(_) => None,
        None => Surveyor::open(host, choice).ok(),
    }
}

/// The path below the mount; `None` for one that leads out of it.
fn inside(cgroup: &Path, root: &Path) -> Option<String> {
    let below = cgroup.strip_prefix(root).unwrap_or(cgroup);
    let mut path = String::new();
    for part in below.components() {
        match part {
            Component::Normal(name) => {
                path.push('/');
                path.push_str(name.to_str()?);
            }
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(if path.is_empty() { "/".to_owned() } else { path })
}
