//! What the kernel says is charged: `memory.stat` of a cgroup, `/proc/meminfo` of the node.

use crate::age::{ColdBoundary, Kind};
use crate::backend::Backend;
pub use crosstalk_host::NodeMemory;
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
    /// Page cache and shared memory that some process maps.
    pub file_mapped: Option<u64>,
    /// Shared memory.
    pub shmem: Option<u64>,
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
            file_mapped: either(all.file_mapped, own.file_mapped),
            shmem: either(all.shmem, own.shmem),
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
            // The second is v1's word.
            "file_mapped" | "mapped_file" => &mut self.file_mapped,
            "shmem" => &mut self.shmem,
            "unevictable" => &mut self.unevictable,
            "slab" => &mut self.slab,
            // Before 5.9 one count was kept for both, of files alone.
            "workingset_refault_file" | "workingset_refault" => &mut self.refaults_file,
            "workingset_refault_anon" => &mut self.refaults_anon,
            _ => return,
        };
        *field = Some(value);
    }

    /// Page cache that no process maps, as far as is told at the most: of what is mapped some may be shared memory.
    pub(crate) fn unmapped_file(&self) -> Option<u64> {
        let cache = self.active_file?.saturating_add(self.inactive_file?);
        Some(cache.saturating_sub(self.file_mapped?.saturating_sub(self.shmem.unwrap_or(0))))
    }

    /// How much of a kind can at most be cold: all that is on the lists from which it counts. None of it
    /// need be, so the least is 0. A back end that tells only kinds apart counts all lists of a kind. `None` where the
    /// kernel does not say.
    pub fn at_most(&self, kind: Kind, boundary: &ColdBoundary, backend: Backend) -> Option<u64> {
        if kind == Kind::Slab {
            return self.slab.filter(|_| boundary.counts_kind(kind));
        }
        let (inactive, active) = match kind {
            Kind::Anon => (self.inactive_anon, self.active_anon),
            _ => (self.inactive_file, self.active_file),
        };
        let rows = || boundary.rows().filter(|row| row.kind() == kind);
        let by_kind = !backend.tells_rows_apart();
        let any =
            |counts: bool, bytes: Option<u64>| if counts || by_kind { bytes } else { Some(0) };
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
            stat.at_most(kind, &boundary, Backend::Bounds)
        };
        let shipped = |kind, backend| stat.at_most(kind, &ColdBoundary::default(), backend);
        assert_eq!(shipped(Kind::File, Backend::Kidled), Some(4 + 16));
        assert_eq!(shipped(Kind::Anon, Backend::Bounds), None);
        // These find cold memory on any list of the kind.
        assert_eq!(shipped(Kind::File, Backend::Damon), Some(4 + 8 + 16));
        assert_eq!(shipped(Kind::File, Backend::Mglru), Some(4 + 8 + 16));
        assert_eq!(shipped(Kind::Anon, Backend::Mglru), None);
        assert_eq!(of(&["cfei"], Kind::File), Some(4));
        assert_eq!(of(&["cfea", "dfei"], Kind::File), Some(12));
        assert_eq!(of(&["anon"], Kind::Anon), Some(19));
        assert_eq!(of(&["slab"], Kind::Slab), Some(32));
        assert_eq!((stat.refaults_file, stat.refaults_anon), (Some(7), None));
        let silent = MemoryStat { inactive_file: None, ..stat };
        let silent = silent.at_most(Kind::File, &ColdBoundary::default(), Backend::Bounds);
        assert_eq!(silent, None);
    }
}
