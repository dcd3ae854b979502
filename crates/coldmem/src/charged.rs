//! What the kernel says is charged: `memory.stat` of a cgroup, `/proc/meminfo` of the node.

use crate::age::{ColdBoundary, Kind};
use serde::Serialize;

/// The lines of `memory.stat` that policies and bounds need, in bytes; what is not there is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryStat {
    /// Anonymous memory and shared memory, not used lately.
    pub inactive_anon: Option<u64>,
    /// Anonymous memory and shared memory, used lately.
    pub active_anon: Option<u64>,
    /// Page cache, not used lately.
    pub inactive_file: Option<u64>,
    /// Page cache, used lately.
    pub active_file: Option<u64>,
    /// Locked in memory.
    pub unevictable: Option<u64>,
    /// Slab that can be reclaimed; v1 does not have it.
    pub slab: Option<u64>,
    /// Pages of files that were read back after they had been reclaimed, ever.
    pub refaults_file: Option<u64>,
    /// Anonymous pages that came back from swap, ever.
    pub refaults_anon: Option<u64>,
}

impl MemoryStat {
    /// Reads either version's file. v1 has values of the cgroup alone and, as `total_`, with those in it;
    /// v2 has only the latter, so the latter is what is taken.
    ///
    /// ```
    /// use crosstalk_coldmem::MemoryStat;
    ///
    /// let v1 = MemoryStat::parse("active_file 1\ntotal_active_file 3\n");
    /// assert_eq!((v1.active_file, v1.inactive_file), (Some(3), None));
    /// ```
    pub fn parse(text: &str) -> Self {
        let (mut own, mut all) = (Self::default(), Self::default());
        for line in text.lines() {
            let Some((key, value)) = line.split_once(' ') else { continue };
            let Ok(value) = value.trim().parse() else { continue };
            match key.strip_prefix("total_") {
                Some(key) => all.set(key, value),
                None => own.set(key, value),
            }
        }
        let either = |all: Option<u64>, own: Option<u64>| all.or(own);
        Self {
            inactive_anon: either(all.inactive_anon, own.inactive_anon),
            active_anon: either(all.active_anon, own.active_anon),
            inactive_file: either(all.inactive_file, own.inactive_file),
            active_file: either(all.active_file, own.active_file),
            unevictable: either(all.unevictable, own.unevictable),
            slab: either(all.slab, own.slab),
            refaults_file: either(all.refaults_file, own.refaults_file),
            refaults_anon: either(all.refaults_anon, own.refaults_anon),
        }
    }

    fn set(&mut self, key: &str, value: u64) {
        let field = match key {
            "inactive_anon" => &mut self.inactive_anon,
            "active_anon" => &mut self.active_anon,
            "inactive_file" => &mut self.inactive_file,
            "active_file" => &mut self.active_file,
            "unevictable" => &mut self.unevictable,
            "slab" => &mut self.slab,
            // Before 5.9 one count was kept for both, of files alone.
            "workingset_refault_file" | "workingset_refault" => &mut self.refaults_file,
            "workingset_refault_anon" => &mut self.refaults_anon,
            _ => return,
        };
        *field = Some(value);
    }

    /// How much of a kind can at most be cold: all that is on the lists from which it counts. None of it
    /// need be, so the least is 0. `None` where the kernel does not say.
    pub fn at_most(&self, kind: Kind, boundary: &ColdBoundary) -> Option<u64> {
        if kind == Kind::Slab {
            return self.slab.filter(|_| boundary.counts_kind(kind));
        }
        let (inactive, active) = match kind {
            Kind::Anon => (self.inactive_anon, self.active_anon),
            _ => (self.inactive_file, self.active_file),
        };
        let rows = || boundary.rows().filter(|row| row.kind() == kind);
        let any = |counts: bool, bytes: Option<u64>| if counts { bytes } else { Some(0) };
        let evictable =
            |is_active| rows().any(|row| !row.is_unevictable() && row.is_active() == is_active);
        rows().next()?;
        // Locked pages are on a list of their own, which does not tell kinds apart.
        [
            any(evictable(false), inactive),
            any(evictable(true), active),
            any(rows().any(|row| row.is_unevictable()), self.unevictable),
        ]
        .into_iter()
        .try_fold(0u64, |sum, part| Some(sum.saturating_add(part?)))
    }
}

/// The node's memory in bytes; what is not there is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeMemory {
    /// MemTotal.
    pub total: Option<u64>,
    /// MemFree.
    pub free: Option<u64>,
    /// MemAvailable.
    pub available: Option<u64>,
}

impl NodeMemory {
    /// Reads `/proc/meminfo`.
    pub fn parse(text: &str) -> Self {
        let bytes = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key))?;
            value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
        };
        Self {
            total: bytes("MemTotal:"),
            free: bytes("MemFree:"),
            available: bytes("MemAvailable:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const STAT: &str = "inactive_anon 1\nactive_anon 2\ninactive_file 4\nactive_file 8\n\
        unevictable 16\nslab 32\nworkingset_refault_file 7\nworkingset_refault_anon x\nodd\n";

    #[test]
    fn at_most_all_that_is_on_the_lists_that_count_is_cold() {
        let stat = MemoryStat::parse(STAT);
        let of = |kinds: &[&str], kind| {
            let boundary = ColdBoundary::new(Duration::ZERO, kinds.iter().copied()).unwrap();
            stat.at_most(kind, &boundary)
        };
        assert_eq!(stat.at_most(Kind::File, &ColdBoundary::default()), Some(4 + 16));
        assert_eq!(stat.at_most(Kind::Anon, &ColdBoundary::default()), None);
        assert_eq!(of(&["cfei"], Kind::File), Some(4));
        assert_eq!(of(&["cfea", "dfei"], Kind::File), Some(12));
        assert_eq!(of(&["anon"], Kind::Anon), Some(19));
        assert_eq!(of(&["slab"], Kind::Slab), Some(32));
        assert_eq!((stat.refaults_file, stat.refaults_anon), (Some(7), None));
        let silent = MemoryStat { inactive_file: None, ..stat };
        assert_eq!(silent.at_most(Kind::File, &ColdBoundary::default()), None);
    }

    #[test]
    fn the_node_is_read_in_bytes_and_what_is_no_number_is_absent() {
        let node = NodeMemory::parse("MemTotal:  100 kB\nMemFree: 20 kB\nMemAvailable: many kB\n");
        assert_eq!(node, NodeMemory { total: Some(102_400), free: Some(20_480), available: None });
    }
}
