//! Numbers for whoever runs, as the core wants them, and names for those it speaks of.

use crate::config::SubjectName;
use crosstalk_interference::Subject;
use crosstalk_model::{ProcessId, TaskRow};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who has not run for so long is forgotten: no verdict reaches back as far.
const FORGET: Duration = Duration::from_secs(120);
/// Subjects known at a time. Beyond, newcomers share one number: whoever comes so late is no culprit.
const MOST: usize = 16_384;
/// Processes of one cgroup that its quota is charged to.
const MOST_IN_CGROUP: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Process(ProcessId),
    Container(Arc<str>),
    Pod(Arc<str>),
    Workload(Option<Arc<str>>, Arc<str>),
}

#[derive(Debug)]
struct Known {
    subject: Subject,
    seen: Instant,
}

#[derive(Debug)]
pub(super) struct Subjects {
    kind: SubjectName,
    known: HashMap<Key, Known>,
    names: HashMap<Subject, String>,
    cgroups: HashMap<u64, Vec<Subject>>,
    /// The agent itself.
    own: Option<Subject>,
    own_pid: u32,
    next: u32,
    now: Instant,
}

impl Subjects {
    pub(super) fn new(kind: SubjectName) -> Self {
        Self {
            kind,
            known: HashMap::new(),
            names: HashMap::new(),
            cgroups: HashMap::new(),
            own: None,
            own_pid: std::process::id(),
            next: 1,
            now: Instant::now(),
        }
    }

    /// The number of whoever ran.
    pub(super) fn of(&mut self, row: &TaskRow) -> Subject {
        let key = self.key(row);
        if let Some(known) = self.known.get_mut(&key) {
            known.seen = self.now;
            let subject = known.subject;
            // A process is born with its parent's name.
            if let (Key::Process(_), Some(name)) = (&key, self.names.get_mut(&subject))
                && !is_called(name, row)
            {
                *name = name_of(&key, row);
            }
            self.note_own(row, subject);
            return subject;
        }
        if self.known.len() >= MOST {
            return Subject(0);
        }
        let subject = Subject(self.next);
        // Four thousand million subjects later the first are long forgotten.
        self.next = self.next.checked_add(1).filter(|next| *next < u32::MAX - 2).unwrap_or(1);
        self.names.insert(subject, name_of(&key, row));
        self.note_own(row, subject);
        self.known.insert(key, Known { subject, seen: self.now });
        let members = self.cgroups.entry(row.task.cgroup_id).or_default();
        if members.len() < MOST_IN_CGROUP {
            members.push(subject);
        }
        subject
    }

    /// What the agent runs in is the agent's, be it a container or a pod.
    fn note_own(&mut self, row: &TaskRow, subject: Subject) {
        if row.task.process.pid == self.own_pid {
            self.own = Some(subject);
        }
    }

    pub(super) fn name(&self, subject: Subject) -> String {
        self.names.get(&subject).cloned().unwrap_or_else(|| "[others]".to_owned())
    }

    /// Whether it is the agent itself.
    pub(super) fn is_own(&self, subject: Subject) -> bool {
        self.own == Some(subject)
    }

    /// Who runs in a cgroup.
    pub(super) fn in_cgroup(&self, cgroup_id: u64) -> &[Subject] {
        self.cgroups.get(&cgroup_id).map_or(&[], Vec::as_slice)
    }

    /// Forgets who has not run for long. Called now and then; it is also the only time the clock is read.
    pub(super) fn forget_old(&mut self) {
        self.now = Instant::now();
        let now = self.now;
        let Self { known, names, cgroups, .. } = self;
        known.retain(|_, who| {
            let keeps = now.saturating_duration_since(who.seen) < FORGET;
            if !keeps {
                names.remove(&who.subject);
            }
            keeps
        });
        cgroups.retain(|_, members| {
            members.retain(|subject| names.contains_key(subject));
            !members.is_empty()
        });
    }

    /// What the row belongs to, for the kind asked for; a process that belongs to nothing of it stands for itself.
    fn key(&self, row: &TaskRow) -> Key {
        let place = &row.place;
        let process = || Key::Process(row.task.process);
        let container = || place.container_id.clone().map(Key::Container);
        let pod = || place.pod_uid.clone().map(Key::Pod);
        let workload = || {
            let name = place.workload.clone()?;
            Some(Key::Workload(place.pod_namespace.clone(), name))
        };
        let key = match self.kind {
            SubjectName::Process => None,
            SubjectName::Container => container(),
            SubjectName::Pod => pod().or_else(container),
            SubjectName::Workload => workload().or_else(pod).or_else(container),
        };
        key.unwrap_or_else(process)
    }
}

/// Whether a process still has the name it was told by.
fn is_called(name: &str, row: &TaskRow) -> bool {
    let rest = name.strip_prefix(row.task.comm.to_str().as_ref());
    let pid = rest.and_then(|rest| rest.strip_prefix(" (")?.strip_suffix(')')?.parse().ok());
    pid == Some(row.task.process.pid)
}

fn name_of(key: &Key, row: &TaskRow) -> String {
    let place = &row.place;
    let in_namespace = |name: &str| match &place.pod_namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    };
    let short = |id: &str| id.get(..12).unwrap_or(id).to_owned();
    match key {
        Key::Process(process) => format!("{} ({})", row.task.comm.to_str(), process.pid),
        Key::Container(id) => {
            place.container_name.as_deref().map_or_else(|| short(id), str::to_owned)
        }
        Key::Pod(uid) => place.pod_name.as_deref().map_or_else(|| short(uid), in_namespace),
        Key::Workload(_, name) => in_namespace(name),
    }
}
