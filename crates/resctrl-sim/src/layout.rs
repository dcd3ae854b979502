//! Which files and directories a group of each kind has.
//!
//! A place in the tree is a group and a slot in the layout of its kind. Groups are numbered once and never again, so an
//! inode number made of both stays true for as long as anybody holds it.

use crate::kernel::view::EVENTS;
use crate::kernel::{Event, Kernel, Kind};
use crate::threads::GroupId;

/// A file, and what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum File {
    Tasks,
    Cpus,
    CpusList,
    Schemata,
    Size,
    Mode,
    LastStatus,
    Threshold,
    BitUsage,
    Counters,
    AvailableCounters,
    AssignOnMkdir,
    Assignments,
    Event { domain: usize, sub: Option<u32>, event: Event },
    Fixed(String),
}

impl File {
    pub(crate) fn is_writable(&self) -> bool {
        use File::{AssignOnMkdir, Assignments, Cpus, CpusList, Mode, Schemata, Tasks, Threshold};
        matches!(
            self,
            Tasks | Cpus | CpusList | Schemata | Mode | Threshold | AssignOnMkdir | Assignments
        )
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// The directory of the group itself; slot 0.
    Group,
    /// Holds the monitor groups.
    MonGroups,
    Directory,
    File(File),
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) parent: usize,
    pub(crate) name: String,
    pub(crate) node: Node,
}

/// The entries of a group, by slot.
#[derive(Debug)]
pub(crate) struct Layout {
    entries: Vec<Entry>,
}

impl Layout {
    fn add(&mut self, parent: usize, name: impl Into<String>, node: Node) -> usize {
        self.entries.push(Entry { parent, name: name.into(), node });
        self.entries.len() - 1
    }

    pub(crate) fn new(kernel: &Kernel, kind: Kind) -> Self {
        let mut layout = Self { entries: Vec::new() };
        layout.add(usize::MAX, "", Node::Group);
        let mut files =
            vec![("tasks", File::Tasks), ("cpus", File::Cpus), ("cpus_list", File::CpusList)];
        if kind != Kind::Monitor {
            files.extend([
                ("schemata", File::Schemata),
                ("size", File::Size),
                ("mode", File::Mode),
            ]);
            layout.add(0, "mon_groups", Node::MonGroups);
        }
        if kernel.profile.counters.is_some() {
            files.push(("mbm_L3_assignments", File::Assignments));
        }
        for (name, file) in files {
            layout.add(0, name, Node::File(file));
        }
        layout.add_mon_data(kernel);
        if kind == Kind::Root {
            layout.add_info(kernel);
        }
        layout
    }

    fn add_mon_data(&mut self, kernel: &Kernel) {
        let mon_data = self.add(0, "mon_data", Node::Directory);
        let nodes = kernel.profile.sub_numa.max(1);
        for (domain, id) in kernel.profile.l3_domains.iter().enumerate() {
            let directory = self.add(mon_data, format!("mon_L3_{id:02}"), Node::Directory);
            for (event, name) in EVENTS {
                self.add(directory, name, Node::File(File::Event { domain, sub: None, event }));
            }
            for sub in (0..nodes).filter(|_| nodes > 1) {
                let number = id * nodes + sub;
                let inner = self.add(directory, format!("mon_sub_L3_{number:02}"), Node::Directory);
                for (event, name) in EVENTS {
                    let file = File::Event { domain, sub: Some(sub), event };
                    self.add(inner, name, Node::File(file));
                }
            }
        }
    }

    fn add_info(&mut self, kernel: &Kernel) {
        let info = self.add(0, "info", Node::Directory);
        self.add(info, "last_cmd_status", Node::File(File::LastStatus));
        for (directory, files) in kernel.info_files() {
            let slot = self.add(info, directory, Node::Directory);
            for (name, file) in files {
                self.add(slot, name, Node::File(file));
            }
        }
    }

    pub(crate) fn entry(&self, slot: usize) -> Option<&Entry> {
        self.entries.get(slot)
    }

    pub(crate) fn find(&self, parent: usize, name: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.parent == parent && entry.name == name)
    }

    pub(crate) fn children(&self, parent: usize) -> impl Iterator<Item = (usize, &Entry)> {
        self.entries.iter().enumerate().filter(move |(_, entry)| entry.parent == parent)
    }
}

/// A place in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) group: GroupId,
    pub(crate) slot: usize,
}

const SLOT_BITS: u32 = 16;

impl Place {
    /// The root's own directory gets 1, as FUSE wants.
    pub(crate) fn inode(self) -> u64 {
        (u64::from(self.group) << SLOT_BITS) + self.slot as u64 + 1
    }

    pub(crate) fn of_inode(inode: u64) -> Option<Self> {
        let number = inode.checked_sub(1)?;
        let group = GroupId::try_from(number >> SLOT_BITS).ok()?;
        Some(Self { group, slot: usize::try_from(number & ((1 << SLOT_BITS) - 1)).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_number_means_one_place() {
        assert_eq!(Place { group: 0, slot: 0 }.inode(), 1);
        let place = Place { group: 70_000, slot: 321 };
        assert_eq!(Place::of_inode(place.inode()), Some(place));
        assert_eq!(Place::of_inode(0), None);
    }
}
