//! What of the memory that is charged to a cgroup can at most be cold.

use crate::age::{ColdBoundary, Kind};
use crate::backend::Backend;
pub use crosstalk_host::{MemoryStat, NodeMemory};

/// Page cache that no process maps, as far as is told at the most: of what is mapped some may be shared memory.
pub(crate) fn unmapped_file(stat: &MemoryStat) -> Option<u64> {
    let cache = stat.active_file?.saturating_add(stat.inactive_file?);
    Some(cache.saturating_sub(stat.file_mapped?.saturating_sub(stat.shmem.unwrap_or(0))))
}

/// Of what is neither anonymous nor slab, shared memory, which is no page cache.
pub(crate) fn shared(stat: &MemoryStat) -> Option<u64> {
    stat.shmem
}

/// Both of these.
pub(crate) fn unmapped_file_or_shared(stat: &MemoryStat) -> Option<u64> {
    Some(unmapped_file(stat)?.saturating_add(shared(stat)?))
}

/// How much of a kind can at most be cold: all that is on the lists from which it counts. None of it
/// need be, so the least is 0. A back end that tells only kinds apart counts all lists of a kind. `None` where the
/// kernel does not say.
pub(crate) fn at_most(
    stat: &MemoryStat,
    kind: Kind,
    boundary: &ColdBoundary,
    backend: Backend,
) -> Option<u64> {
    if kind == Kind::Slab {
        return stat.slab.filter(|_| boundary.counts_kind(kind));
    }
    let (inactive, active) = match kind {
        Kind::Anon => (stat.inactive_anon, stat.active_anon),
        _ => (stat.inactive_file, stat.active_file),
    };
    let rows = || boundary.rows().filter(|row| row.kind() == kind);
    let by_kind = !backend.tells_rows_apart();
    let any = |counts: bool, bytes: Option<u64>| if counts || by_kind { bytes } else { Some(0) };
    let evictable =
        |is_active| rows().any(|row| !row.is_unevictable() && row.is_active() == is_active);
    rows().next()?;
    // Locked pages are on a list of their own, which does not tell kinds apart.
    [
        any(evictable(false), inactive),
        any(evictable(true), active),
        any(rows().any(|row| row.is_unevictable()), stat.unevictable),
    ]
    .into_iter()
    .try_fold(0u64, |sum, part| Some(sum.saturating_add(part?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const STAT: &str = "inactive_anon 1\nactive_anon 2\ninactive_file 4\nactive_file 8\n\
        unevictable 16\nslab 32\n";

    #[test]
    fn at_most_all_that_is_on_the_lists_that_count_is_cold() {
        let stat = MemoryStat::parse(STAT);
        let of = |kinds: &[&str], kind| {
            let boundary = ColdBoundary::new(Duration::ZERO, kinds.iter().copied()).unwrap();
            at_most(&stat, kind, &boundary, Backend::Bounds)
        };
        let shipped = |kind, backend| at_most(&stat, kind, &ColdBoundary::default(), backend);
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
        let silent = MemoryStat { inactive_file: None, ..stat };
        let silent = at_most(&silent, Kind::File, &ColdBoundary::default(), Backend::Bounds);
        assert_eq!(silent, None);
    }

    #[test]
    fn what_may_be_no_idle_page_cache_is_what_nobody_maps_and_what_is_shared() {
        let text = "inactive_file 40\nactive_file 60\nfile_mapped 30\nshmem 20\n";
        let stat = MemoryStat::parse(text);
        // Of what is mapped all that is shared may be.
        assert_eq!((unmapped_file(&stat), shared(&stat)), (Some(90), Some(20)));
        assert_eq!(unmapped_file_or_shared(&stat), Some(110));
        let silent = MemoryStat { shmem: None, ..stat };
        assert_eq!((unmapped_file(&silent), unmapped_file_or_shared(&silent)), (Some(70), None));
    }
}
