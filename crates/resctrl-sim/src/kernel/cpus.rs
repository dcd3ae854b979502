//! The `cpus` and `cpus_list` files.

use std::collections::BTreeSet;

use crosstalk_host::CpuSet;
use fuser::Errno;

use super::{Kernel, Kind, ROOT};
use crate::threads::GroupId;

impl Kernel {
    pub(crate) fn write_cpus(&mut self, id: GroupId, text: &str, list: bool) -> Result<(), Errno> {
        self.status.clear();
        self.group(id)?;
        let parsed = if list { CpuSet::parse_list(text) } else { CpuSet::parse_mask(text) };
        let Some(cpus) = parsed.map(BTreeSet::from) else {
            return self.refuse(Errno::EINVAL, "Bad CPU list/mask");
        };
        if !cpus.is_subset(&self.online) {
            return self.refuse(Errno::EINVAL, "Can only assign online CPUs");
        }
        match self.group(id)?.kind {
            Kind::Monitor => self.write_monitor_cpus(id, cpus),
            _ => self.write_control_cpus(id, cpus),
        }
    }

    fn write_control_cpus(&mut self, id: GroupId, cpus: BTreeSet<u32>) -> Result<(), Errno> {
        let dropped: Vec<u32> = self.group(id)?.cpus.difference(&cpus).copied().collect();
        if id == ROOT && !dropped.is_empty() {
            return self.refuse(Errno::EINVAL, "Can't drop CPUs from default group");
        }
        for (other, group) in &mut self.groups {
            if *other == id {
                group.cpus.clone_from(&cpus);
            } else if group.kind == Kind::Monitor && group.parent == id {
                group.cpus.retain(|cpu| cpus.contains(cpu));
            } else {
                group.cpus.retain(|cpu| !cpus.contains(cpu));
            }
        }
        if let Some(root) = self.groups.get_mut(&ROOT) {
            root.cpus.extend(dropped);
        }
        Ok(())
    }

    fn write_monitor_cpus(&mut self, id: GroupId, cpus: BTreeSet<u32>) -> Result<(), Errno> {
        let parent = self.group(id)?.parent;
        if !cpus.is_subset(&self.group(parent)?.cpus) {
            let words = "Can only add CPUs to mongroup that belong to parent";
            return self.refuse(Errno::EINVAL, words);
        }
        for (other, group) in &mut self.groups {
            if *other == id {
                group.cpus.clone_from(&cpus);
            } else if group.kind == Kind::Monitor && group.parent == parent {
                group.cpus.retain(|cpu| !cpus.contains(cpu));
            }
        }
        Ok(())
    }

    pub(crate) fn show_cpus(&self, id: GroupId, list: bool) -> Result<String, Errno> {
        let cpus = &self.group(id)?.cpus;
        let width = self.online.last().map_or(1, |last| last + 1);
        Ok(format!(
            "{}\n",
            if list { CpuSet::from(cpus.clone()).to_string() } else { show_mask(cpus, width) }
        ))
    }

    /// The group a processor gives its RMID to threads of the root.
    pub(super) fn group_of_cpu(&self, cpu: u32) -> GroupId {
        let has = |kind: Kind| {
            let mut holders =
                self.groups.iter().filter(|(_, g)| g.kind == kind && g.cpus.contains(&cpu));
            holders.next().map(|(id, _)| *id)
        };
        has(Kind::Monitor).or_else(|| has(Kind::Control)).unwrap_or(ROOT)
    }
}

/// As the kernel's `%*pb`: words of 32 bits, the highest first and no wider than the machine.
fn show_mask(cpus: &BTreeSet<u32>, width: u32) -> String {
    let words = width.div_ceil(32).max(1);
    let word = |index: u32| {
        (0..32).filter(|bit| cpus.contains(&(index * 32 + bit))).fold(0u32, |w, bit| w | (1 << bit))
    };
    let digits = |index: u32| {
        let bits = if index + 1 == words { width - index * 32 } else { 32 };
        format!("{:0digits$x}", word(index), digits = bits.div_ceil(4) as usize)
    };
    (0..words).rev().map(digits).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_words_of_32_bits_and_the_width_of_the_machine() {
        let cpus = BTreeSet::from([0, 1, 33]);
        assert_eq!(show_mask(&cpus, 40), "02,00000003");
        assert_eq!(CpuSet::parse_mask("02,00000003"), Some(cpus.into()));
    }
}
