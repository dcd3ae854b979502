//! mkdir, rmdir, rename and mode.

use fuser::Errno;

use super::rmid::NoRmid;
use super::schemata::runs_of_ones;
use super::{Group, Kernel, Kind, Limits, Mode, ROOT};
use crate::threads::GroupId;

impl Kernel {
    pub(crate) fn make_control_group(&mut self, name: &str) -> Result<GroupId, Errno> {
        if name.contains('\n') {
            return Err(Errno::EINVAL);
        }
        self.status.clear();
        let Some(closid) = self.closids.iter().position(Option::is_none) else {
            return self.refuse(Errno::ENOSPC, "Out of CLOSIDs");
        };
        let rmid = self.take_rmid()?;
        match self.initial_limits() {
            Ok(limits) => self.closids[closid] = Some(limits),
            Err(words) => {
                self.rmids.put_back(rmid);
                return self.refuse(Errno::ENOSPC, words);
            }
        }
        Ok(self.insert(name, Kind::Control, ROOT, closid, rmid))
    }

    pub(crate) fn make_monitor_group(
        &mut self,
        parent: GroupId,
        name: &str,
    ) -> Result<GroupId, Errno> {
        if name.contains('\n') {
            return Err(Errno::EINVAL);
        }
        if name == "mon_groups" {
            return Err(Errno::EPERM);
        }
        self.status.clear();
        let closid = self.group(parent)?.closid;
        let rmid = self.take_rmid()?;
        Ok(self.insert(name, Kind::Monitor, parent, closid, rmid))
    }

    fn take_rmid(&mut self) -> Result<usize, Errno> {
        match self.rmids.take() {
            Ok(rmid) => Ok(rmid),
            Err(NoRmid::Limbo) => self.refuse(Errno::EBUSY, "Out of RMIDs"),
            Err(NoRmid::None) => self.refuse(Errno::ENOSPC, "Out of RMIDs"),
        }
    }

    fn insert(
        &mut self,
        name: &str,
        kind: Kind,
        parent: GroupId,
        closid: usize,
        rmid: usize,
    ) -> GroupId {
        self.model.reset_traffic(rmid);
        self.read_before.retain(|(read, _)| *read != rmid);
        if self.assign_on_mkdir {
            self.assign_counters(rmid);
        }
        let id = self.next_group;
        self.next_group += 1;
        let group = Group {
            name: name.to_owned(),
            kind,
            parent,
            closid,
            rmid,
            mode: Mode::Shareable,
            cpus: Default::default(),
            fault: None,
        };
        self.groups.insert(id, group);
        id
    }

    /// The masks a new control group starts with: what is unused, and what the others share.
    fn initial_limits(&self) -> Result<Limits, String> {
        let mut limits = Limits::unlimited(&self.profile);
        let full = self.profile.full_mask();
        for (resource, name) in self.cache_resources().iter().enumerate() {
            for domain in 0..self.profile.l3_domains.len() {
                let (mut used, mut shared) =
                    (self.profile.shareable_bits, self.profile.shareable_bits);
                for group in self.groups.values().filter(|group| group.kind != Kind::Monitor) {
                    let Some(other) = &self.closids[group.closid] else { continue };
                    let mask = other.masks.iter().fold(0, |all, masks| all | masks[domain]);
                    used |= mask;
                    if group.mode == Mode::Shareable {
                        shared |= mask;
                    }
                }
                let mut mask = shared | (full & !used);
                if !self.profile.sparse_masks {
                    mask = runs_of_ones(mask).next().unwrap_or(0);
                }
                if mask.count_ones() < self.profile.min_cbm_bits.max(1) {
                    let id = self.profile.l3_domains[domain];
                    return Err(format!("No space on {name}:{id}"));
                }
                limits.masks[resource][domain] = mask;
            }
        }
        Ok(limits)
    }

    pub(crate) fn remove_group(&mut self, id: GroupId) -> Result<(), Errno> {
        self.status.clear();
        if id == ROOT {
            return Err(Errno::EPERM);
        }
        for (child, _) in self.children(id, Kind::Monitor) {
            self.remove_group(child)?;
        }
        let group = self.groups.remove(&id).ok_or(Errno::ENODEV)?;
        for thread in self.threads.iter_mut().filter(|thread| thread.group == id) {
            thread.group = group.parent;
        }
        if group.kind == Kind::Control {
            self.closids[group.closid] = None;
            // Processors of a monitor group never left its parent.
            if let Some(root) = self.groups.get_mut(&ROOT) {
                root.cpus.extend(&group.cpus);
            }
        }
        self.assigned.retain(|(rmid, _, _)| *rmid != group.rmid);
        self.rmids.release(group.rmid);
        Ok(())
    }

    /// `source` and `target` are `None` where they are not a group and not a `mon_groups` directory.
    pub(crate) fn rename(
        &mut self,
        source: Option<GroupId>,
        target: Option<GroupId>,
        name: &str,
    ) -> Result<(), Errno> {
        if name.contains('\n') {
            return Err(Errno::EINVAL);
        }
        self.status.clear();
        let is_monitor =
            |id: &GroupId| self.groups.get(id).is_some_and(|g| g.kind == Kind::Monitor);
        let Some(id) = source.filter(is_monitor) else {
            return self.refuse(Errno::EPERM, "Source must be a MON group");
        };
        let Some(parent) = target.filter(|_| name != "mon_groups") else {
            return self.refuse(Errno::EPERM, "Destination must be a mon_groups subdirectory");
        };
        let group = self.group(id)?;
        if !group.cpus.is_empty() && group.parent != parent {
            return self.refuse(Errno::EPERM, "Cannot move a MON group that monitors CPUs");
        }
        if self.find(parent, Kind::Monitor, name).is_some_and(|other| other != id) {
            return Err(Errno::EEXIST);
        }
        let closid = self.group(parent)?.closid;
        if let Some(group) = self.groups.get_mut(&id) {
            group.parent = parent;
            group.closid = closid;
            name.clone_into(&mut group.name);
        }
        Ok(())
    }

    pub(crate) fn write_mode(&mut self, id: GroupId, text: &str) -> Result<(), Errno> {
        let text = text.strip_suffix('\n').ok_or(Errno::EINVAL)?;
        self.status.clear();
        let mode = self.group(id)?.mode;
        let wanted = match text {
            "shareable" => Mode::Shareable,
            "exclusive" if mode == Mode::Exclusive => Mode::Exclusive,
            "exclusive" => {
                if self.overlaps_any(id)? {
                    return self.refuse(Errno::EINVAL, "Schemata overlaps");
                }
                Mode::Exclusive
            }
            "pseudo-locksetup" if id == ROOT => {
                return self.refuse(Errno::EINVAL, "Cannot pseudo-lock default group");
            }
            "pseudo-locksetup" if self.profile.cdp => {
                return self.refuse(Errno::EINVAL, "CDP enabled");
            }
            // So say the processors of the profiles: none is in the kernel's list of those that can.
            "pseudo-locksetup" => {
                return self.refuse(Errno::EINVAL, "Pseudo-locking not supported");
            }
            _ => return self.refuse(Errno::EINVAL, "Unknown or unsupported mode"),
        };
        if let Some(group) = self.groups.get_mut(&id) {
            group.mode = wanted;
        }
        Ok(())
    }

    fn overlaps_any(&self, id: GroupId) -> Result<bool, Errno> {
        let closid = self.group(id)?.closid;
        let Some(limits) = &self.closids[closid] else { return Ok(false) };
        let domains = 0..self.profile.l3_domains.len();
        let masks = limits.masks.iter().flat_map(|masks| domains.clone().map(|d| (d, masks[d])));
        Ok(masks.into_iter().any(|(domain, mask)| self.overlaps(domain, mask, closid, false)))
    }

    /// Whether a mask meets one of another class of service, or devices; `exclusive` asks for exclusive groups only.
    pub(super) fn overlaps(
        &self,
        domain: usize,
        mask: u64,
        closid: usize,
        exclusive: bool,
    ) -> bool {
        if !exclusive && mask & self.profile.shareable_bits != 0 {
            return true;
        }
        self.groups.values().any(|group| {
            let counts = group.kind != Kind::Monitor
                && group.closid != closid
                && (!exclusive || group.mode == Mode::Exclusive);
            let limits = self.closids[group.closid].as_ref();
            counts && limits.is_some_and(|l| l.masks.iter().any(|masks| masks[domain] & mask != 0))
        })
    }
}
