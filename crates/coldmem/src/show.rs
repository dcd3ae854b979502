//! What is known of one cgroup, or of the node, for people and as JSON.

use crate::age::AgeCell;
use crate::backend::{Backend, Probed, WarmUp, probe};
use crate::kidled::{IdleFile, IdleFileError, IdleInfo, IdleRow};
use crate::policy::{Charged, Policy, Usage};
use crate::survey::{Choice, Group, Surveyor};
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
    /// kidled's file of the cgroup cannot be read.
    #[error(transparent)]
    Idle(#[from] IdleFileError),
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
        map.serialize_entry("usage", &self.usage)?;
        map.serialize_entry("problem", &self.problem)?;
        map.serialize_entry("backends", &self.backends)?;
        map.end()
    }
}

/// Looks at one cgroup, named by its path below the mount or from the file system's root, or at the node.
/// `wait` is called once the back end is open: DAMON knows nothing before it has watched for a while.
///
/// # Errors
/// The back end does not work, or there is no such cgroup.
pub fn show(
    host: &HostRoot,
    choice: Choice,
    cgroup: Option<&Path>,
    wait: impl FnOnce(&mut Surveyor),
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
    let idle = file.read(&folder)?.then_some(file.info);
    wait(&mut surveyor);
    let survey = surveyor.look().map_err(ShowError::Backend)?;
    let group = survey.groups.iter().find(|group| group.path == path).cloned();
    let group = group.unwrap_or(Group { path: path.clone(), ..Group::default() });
    let ages = if path == "/" { survey.ages } else { group.ages.clone() };
    let cold_bytes = ages.as_ref().map(crate::Ages::cold_bytes);
    let usage = |policy| match (&group.stat, path.as_str()) {
        (_, "/") => survey.node.usage(policy, cold_bytes),
        (Some(stat), _) => stat.usage(policy, cold_bytes),
        (None, _) => None,
    };
    Ok(Shown {
        backends,
        backend: surveyor.backend(),
        warm_up: surveyor.warm_up(),
        age: boundary.age,
        rows: boundary.rows().map(IdleRow::name).collect(),
        idle,
        cold_bytes,
        at_most_bytes: group.at_most_bytes(&boundary),
        usage: Policy::ALL.into_iter().filter_map(usage).collect(),
        ages: ages.map(|ages| ages.cells),
        problem: group.problem,
        cgroup: path,
    })
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
