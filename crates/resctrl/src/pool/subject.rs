//! Who is measured, and how exactly.

use std::fmt;
use std::sync::Arc;

/// A process, told from a later one with the same number by its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubjectKey {
    /// The process id.
    pub pid: u32,
    /// When the process started, in Unix nanoseconds.
    pub process_start_ns: u64,
}

/// A process as the caller knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Which process.
    pub key: SubjectKey,
    /// Its name.
    pub comm: Arc<str>,
    /// The container it runs in, if any.
    pub container: Option<Arc<str>>,
    /// Nanoseconds on a processor in the recent past: the busiest get an RMID of their own first.
    pub recent_cpu_ns: u64,
}

/// What the value of a row covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// This process alone.
    Process,
    /// This process and children of it that ran before they had a group of their own.
    WithChildren,
    /// The processes of its container that have no RMID of their own.
    Container,
    /// This process and others that have no RMID of their own.
    Shared,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "process",
            Self::WithChildren => "with_children",
            Self::Container => "container",
            Self::Shared => "shared",
        })
    }
}

/// Where a subject is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assignment {
    /// The group, as a [`Roster`](super::Roster) numbers them.
    pub group: u32,
    /// What the group's values cover.
    pub scope: Scope,
    /// The group may still hold cache lines of its former owner.
    pub stale: bool,
}
