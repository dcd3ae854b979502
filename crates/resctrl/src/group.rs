//! Control and monitor groups: threads, processors, limits, mode and readings.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crosstalk_host::CpuSet;

use crate::{Error, LockMode, MonValue, ParseError, Refusal, Resctrl, Schemata, schemata};

/// What a group can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// The default group; control and monitoring.
    Root,
    /// A directory below the root: limits of its own, and monitoring.
    Control,
    /// A directory in a `mon_groups`: monitoring only.
    Monitor,
}

/// How a control group shares its cache ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Others may use the same ways.
    Shareable,
    /// Nobody else may.
    Exclusive,
    /// Being prepared for pseudo-locking.
    PseudoLockSetup,
    /// Holds a pseudo-locked region.
    PseudoLocked,
    /// A mode this library does not know.
    Other(String),
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shareable => "shareable",
            Self::Exclusive => "exclusive",
            Self::PseudoLockSetup => "pseudo-locksetup",
            Self::PseudoLocked => "pseudo-locked",
            Self::Other(name) => name,
        })
    }
}

impl From<&str> for Mode {
    fn from(text: &str) -> Self {
        match text.trim() {
            "shareable" => Self::Shareable,
            "exclusive" => Self::Exclusive,
            "pseudo-locksetup" => Self::PseudoLockSetup,
            "pseudo-locked" => Self::PseudoLocked,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// An L3 cache as `mon_data` names it. Ids need not be contiguous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct L3Domain {
    /// The number in `mon_L3_XX`.
    pub id: u32,
    /// The numbers of `mon_sub_L3_YY` inside it, with sub-NUMA clustering; the outer files are their sum.
    pub sub_domains: Vec<u32>,
}

/// A group of a [`Resctrl`] mount.
#[derive(Debug, Clone)]
pub struct Group {
    resctrl: Resctrl,
    path: PathBuf,
    kind: GroupKind,
}

impl Group {
    pub(crate) fn new(resctrl: Resctrl, path: PathBuf, kind: GroupKind) -> Self {
        Self { resctrl, path, kind }
    }

    /// The directory of the group.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Root, control or monitor.
    #[must_use]
    pub fn kind(&self) -> GroupKind {
        self.kind
    }

    /// The name of the directory; empty for the root.
    #[must_use]
    pub fn name(&self) -> String {
        match self.kind {
            GroupKind::Root => String::new(),
            _ => self.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }

    /// The threads in the group. A control group lists those of its monitor groups too.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else than numbers.
    pub fn tasks(&self) -> Result<Vec<u32>, Error> {
        let path = self.path.join("tasks");
        let text = self.resctrl.read(&path)?;
        let number = |line: &str| {
            line.trim().parse().map_err(|_| Error::Content {
                path: path.clone(),
                source: ParseError::new("a thread id", line),
            })
        };
        text.lines().map(number).collect()
    }

    /// Moves one thread. Its process's other threads stay where they are; see
    /// [`move_process`](crate::pool::move_process).
    ///
    /// # Errors
    /// [`Refusal::NoTask`](crate::Refusal::NoTask) where it has exited, and the like.
    pub fn move_task(&self, tid: u32) -> Result<(), Error> {
        self.resctrl.write(&self.path.join("tasks"), &format!("{tid}\n"))
    }

    /// Moves several threads under one lock and answers how many; those that have exited are passed over.
    ///
    /// # Errors
    /// The first refusal for another reason.
    pub fn move_tasks(&self, tids: &[u32]) -> Result<usize, Error> {
        let path = self.path.join("tasks");
        let _guard = self.resctrl.lock(LockMode::Exclusive)?;
        let file = self.resctrl.change(&path, || fs::OpenOptions::new().write(true).open(&path))?;
        let mut moved = 0;
        for tid in tids {
            // One number a write: older kernels know no lists.
            let text = format!("{tid}\n");
            let written = self.resctrl.change(&path, || file.write_all_at(text.as_bytes(), 0));
            match written {
                Ok(()) => moved += 1,
                Err(error) if error.refusal() == Some(&Refusal::NoTask) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(moved)
    }

    /// The processors of the group.
    ///
    /// # Errors
    /// The file cannot be read or understood.
    pub fn cpus(&self) -> Result<CpuSet, Error> {
        let path = self.path.join("cpus_list");
        let text = self.resctrl.read(&path)?;
        CpuSet::parse_list(&text).ok_or_else(|| Error::Content {
            source: ParseError::new("a list of processors such as 0-3,8", &text),
            path,
        })
    }

    /// Gives processors to the group.
    ///
    /// # Errors
    /// The kernel refuses: offline processors, processors of another parent.
    pub fn set_cpus(&self, cpus: &CpuSet) -> Result<(), Error> {
        self.resctrl.write(&self.path.join("cpus_list"), &format!("{cpus}\n"))
    }

    /// The limits of a control group.
    ///
    /// # Errors
    /// The file cannot be read or understood; monitor groups have none.
    pub fn schemata(&self) -> Result<Schemata, Error> {
        let path = self.path.join("schemata");
        let text = self.resctrl.read(&path)?;
        Schemata::parse(&text).map_err(|source| Error::Content { path, source })
    }

    /// Writes limits; what is not named keeps its value. All or nothing is applied.
    ///
    /// # Errors
    /// The kernel refuses: mask out of range, overlap with an exclusive group, and the like.
    pub fn write_schemata(&self, schemata: &Schemata) -> Result<(), Error> {
        self.resctrl.write(&self.path.join("schemata"), &schemata.to_string())
    }

    /// How the group shares its cache ways.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn mode(&self) -> Result<Mode, Error> {
        Ok(Mode::from(self.resctrl.read(&self.path.join("mode"))?.as_str()))
    }

    /// Changes how the group shares its cache ways.
    ///
    /// # Errors
    /// The kernel refuses, for example because ways overlap.
    pub fn set_mode(&self, mode: &Mode) -> Result<(), Error> {
        self.resctrl.write(&self.path.join("mode"), &format!("{mode}\n"))
    }

    /// The `size` file: bytes of cache for each cache resource and domain, by resource name.
    ///
    /// # Errors
    /// The file cannot be read or understood.
    pub fn size(&self) -> Result<BTreeMap<String, BTreeMap<u32, u64>>, Error> {
        let path = self.path.join("size");
        let text = self.resctrl.read(&path)?;
        let content = |source| Error::Content { path: path.clone(), source };
        let mut sizes = BTreeMap::new();
        for line in text.lines() {
            // Lines of resources to come may have another form.
            let Some((resource, rest)) = line.split_once(':') else { continue };
            let number = |value: &str| {
                value.trim().parse().map_err(|_| ParseError::new("a number of bytes", value))
            };
            let domains = schemata::domains(rest, number).map_err(content)?;
            sizes.insert(resource.trim().to_owned(), domains);
        }
        Ok(sizes)
    }

    /// The L3 domains the group is monitored in; empty where the machine does not monitor.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn domains(&self) -> Result<Vec<L3Domain>, Error> {
        let directory = self.path.join("mon_data");
        if !directory.is_dir() && self.path.is_dir() {
            return Ok(Vec::new());
        }
        let number = |name: &str, prefix: &str| name.strip_prefix(prefix)?.parse::<u32>().ok();
        let mut domains = Vec::new();
        for name in self.resctrl.directories(&directory)? {
            let Some(id) = number(&name, "mon_L3_") else { continue };
            let inner = self.resctrl.directories(&directory.join(&name))?;
            let sub_domains = inner.iter().filter_map(|sub| number(sub, "mon_sub_L3_")).collect();
            domains.push(L3Domain { id, sub_domains });
        }
        domains.sort_by_key(|domain| domain.id);
        Ok(domains)
    }

    /// The path of one monitoring file.
    #[must_use]
    pub fn mon_file(&self, domain: u32, event: &str) -> PathBuf {
        self.path.join(format!("mon_data/mon_L3_{domain:02}/{event}"))
    }

    /// Reads `llc_occupancy` once; a [sampler](crate::sampler) keeps its files open instead.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn occupancy(&self, domain: u32) -> Result<MonValue, Error> {
        self.read_event(domain, "llc_occupancy")
    }

    /// Reads one monitoring file once.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_event(&self, domain: u32, event: &str) -> Result<MonValue, Error> {
        let path = self.mon_file(domain, event);
        let bytes = fs::read(&path).map_err(|source| Error::read(&path, source))?;
        Ok(MonValue::parse(&bytes))
    }

    /// The monitor groups of the root or of a control group.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn monitor_groups(&self) -> Result<Vec<Group>, Error> {
        let directory = self.path.join("mon_groups");
        if self.kind == GroupKind::Monitor || (!directory.is_dir() && self.path.is_dir()) {
            return Ok(Vec::new());
        }
        let names = self.resctrl.directories(&directory)?;
        Ok(names.into_iter().map(|name| self.monitor_group(&name)).collect())
    }

    /// Makes a monitor group with its own RMID.
    ///
    /// # Errors
    /// [`Refusal::OutOfRmids`](crate::Refusal::OutOfRmids),
    /// [`Refusal::RmidsInLimbo`](crate::Refusal::RmidsInLimbo) and the like.
    pub fn create_monitor_group(&self, name: &str) -> Result<Group, Error> {
        let path = self.resctrl.child(&self.path.join("mon_groups"), name)?;
        self.resctrl.make_directory(&path)?;
        Ok(Self::new(self.resctrl.clone(), path, GroupKind::Monitor))
    }

    /// The control group of a monitor group, the root of a control group.
    #[must_use]
    pub fn parent(&self) -> Option<Group> {
        let root = self.resctrl.root();
        match self.kind {
            GroupKind::Root => None,
            GroupKind::Control => Some(self.resctrl.root_group()),
            GroupKind::Monitor => {
                let path = self.path.parent()?.parent()?.to_owned();
                let kind = if path == root { GroupKind::Root } else { GroupKind::Control };
                Some(Self::new(self.resctrl.clone(), path, kind))
            }
        }
    }

    /// Moves a monitor group, its threads included, below another control group.
    ///
    /// # Errors
    /// The kernel refuses: not a monitor group, or it monitors processors.
    pub fn move_to(&self, parent: &Group, name: &str) -> Result<Group, Error> {
        let target = self.resctrl.child(&parent.path.join("mon_groups"), name)?;
        self.resctrl.change(&self.path, || fs::rename(&self.path, &target))?;
        Ok(Self::new(self.resctrl.clone(), target, GroupKind::Monitor))
    }

    /// Removes the group; its threads and processors go back to the parent.
    ///
    /// # Errors
    /// The kernel refuses: the root, or a group that is gone.
    pub fn remove(&self) -> Result<(), Error> {
        self.resctrl.change(&self.path, || fs::remove_dir(&self.path))
    }

    fn monitor_group(&self, name: &str) -> Self {
        let path = self.path.join("mon_groups").join(name);
        Self::new(self.resctrl.clone(), path, GroupKind::Monitor)
    }
}
