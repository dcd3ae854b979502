//! Names for the dense numbers that the core works with.

use crosstalk_interference::Subject;
use std::collections::HashMap;
use std::str::FromStr;

/// Who victims and aggressors are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubjectKind {
    /// Each process.
    #[default]
    Process,
    /// Containers; processes in none stand for themselves.
    Container,
    /// Pods; what is in none, by its container, else by its process.
    Pod,
    /// Workloads; what belongs to none, by its pod, container or process.
    Workload,
}

impl SubjectKind {
    const ALL: [Self; 4] = [Self::Process, Self::Container, Self::Pod, Self::Workload];

    /// The word for it on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Container => "container",
            Self::Pod => "pod",
            Self::Workload => "workload",
        }
    }
}

impl FromStr for SubjectKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == text);
        known.ok_or_else(|| format!("\"{text}\" is not one of process, container, pod, workload"))
    }
}

impl Default for Subjects {
    fn default() -> Self {
        Self::new(SubjectKind::Process)
    }
}

/// What a row says about who it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Identity<'a> {
    pub(crate) pid: i64,
    pub(crate) start_ns: i64,
    pub(crate) comm: &'a str,
    pub(crate) container_id: Option<&'a str>,
    pub(crate) container_name: Option<&'a str>,
    pub(crate) pod_namespace: Option<&'a str>,
    pub(crate) pod_name: Option<&'a str>,
    pub(crate) workload: Option<&'a str>,
    /// The cgroup, where a quota may stop it.
    pub(crate) cgroup_id: Option<u64>,
}

/// Beyond this many, newcomers share one number: who comes so late and lives so short is nobody's culprit.
const MOST: usize = 200_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Process(i64, i64),
    Named(String),
}

/// Everybody met so far.
#[derive(Clone, Debug)]
pub(crate) struct Subjects {
    kind: SubjectKind,
    numbers: HashMap<Key, u32>,
    names: Vec<String>,
}

impl Subjects {
    /// The number that newcomers share once there are too many.
    pub(crate) const OTHERS: Subject = Subject(0);

    pub(crate) fn new(kind: SubjectKind) -> Self {
        Self { kind, numbers: HashMap::new(), names: vec!["[others]".to_owned()] }
    }

    pub(crate) fn number(&mut self, who: &Identity<'_>) -> Subject {
        let named = self.named(who);
        let key = named.clone().map_or(Key::Process(who.pid, who.start_ns), Key::Named);
        let Self { numbers, names, .. } = self;
        let full = names.len() >= MOST;
        if full && !numbers.contains_key(&key) {
            return Self::OTHERS;
        }
        let number = *numbers.entry(key).or_insert_with(|| {
            names.push(String::new());
            names.len() as u32 - 1
        });
        // The name it had last: a process is born with its parent's.
        let name = &mut names[number as usize];
        match named {
            Some(named) if name.is_empty() => *name = named,
            None if !is_called(name, who) => *name = format!("{} ({})", who.comm, who.pid),
            _ => {}
        }
        Subject(number)
    }

    /// Somebody new, by name.
    pub(crate) fn add(&mut self, name: String) -> Subject {
        if self.names.len() >= MOST {
            return Self::OTHERS;
        }
        self.names.push(name);
        Subject(self.names.len() as u32 - 1)
    }

    /// Calls somebody by another name.
    pub(crate) fn rename(&mut self, subject: Subject, name: String) {
        if let Some(known) = self.names.get_mut(subject.0 as usize).filter(|_| subject.0 > 0) {
            *known = name;
        }
    }

    /// The name of what it belongs to, for the kind asked for.
    fn named(&self, who: &Identity<'_>) -> Option<String> {
        let container = || {
            let id = who.container_id.map(|id| id.get(..12).unwrap_or(id));
            who.container_name.or(id).map(str::to_owned)
        };
        let pod = || match (who.pod_namespace, who.pod_name) {
            (Some(namespace), Some(name)) => Some(format!("{namespace}/{name}")),
            (None, name) => name.map(str::to_owned),
            (Some(_), None) => None,
        };
        match self.kind {
            SubjectKind::Process => None,
            SubjectKind::Container => container(),
            SubjectKind::Pod => pod().or_else(container),
            SubjectKind::Workload => {
                who.workload.map(str::to_owned).or_else(pod).or_else(container)
            }
        }
    }

    /// Whether it is somebody, and not the core's own word for the rest.
    pub(crate) fn knows(&self, subject: Subject) -> bool {
        subject.0 > 0 && (subject.0 as usize) < self.names.len()
    }

    pub(crate) fn name(&self, subject: Subject) -> &str {
        self.names.get(subject.0 as usize).map_or("[others]", String::as_str)
    }
}

fn is_called(name: &str, who: &Identity<'_>) -> bool {
    name.strip_prefix(who.comm).is_some_and(|rest| rest.starts_with(" (")) && !who.comm.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_keeps_its_number_through_a_new_name_and_a_pid_used_again_is_another() {
        let mut subjects = Subjects::new(SubjectKind::Process);
        let sh = Identity { pid: 7, start_ns: 1, comm: "sh", ..Identity::default() };
        let first = subjects.number(&sh);
        let same = subjects.number(&Identity { comm: "redis", ..sh });
        assert_eq!((first, subjects.name(first)), (same, "redis (7)"));
        assert_ne!(subjects.number(&Identity { start_ns: 2, ..sh }), first);
    }

    #[test]
    fn what_belongs_to_no_pod_is_called_by_what_it_does_belong_to() {
        let mut subjects = Subjects::new(SubjectKind::Pod);
        let bare = Identity { pid: 7, start_ns: 1, comm: "sh", ..Identity::default() };
        let contained = Identity { container_name: Some("web"), ..bare };
        let podded = Identity { pod_namespace: Some("ml"), pod_name: Some("train-0"), ..contained };
        for (who, name) in [(bare, "sh (7)"), (contained, "web"), (podded, "ml/train-0")] {
            let number = subjects.number(&who);
            assert_eq!(subjects.name(number), name);
        }
    }
}
