//! Between the words of the recording and those of the resctrl crate, which stands on its own.

use crosstalk_model::{CacheReading, CacheScope, CacheState, Comm, Placement, ProcessId, TaskRow};
use crosstalk_resctrl::pool::{Scope, SubjectKey};
use crosstalk_resctrl::sampler::{self, ReadingState};
use crosstalk_resctrl::source::Seen;
use std::sync::Arc;

/// A process that ran, with no time yet.
pub(crate) fn seen(row: &TaskRow) -> Seen {
    let ProcessId { pid, start_ns } = row.task.process;
    Seen {
        key: SubjectKey { pid, process_start_ns: start_ns },
        comm: row.task.comm.to_str().into(),
        container: row.place.container_id.clone(),
        parent: row.task.parent,
        cpu_ns: 0,
    }
}

/// A reading with where its process runs, as far as `place_of` knows.
pub(crate) fn reading(
    row: &sampler::CacheReading,
    place_of: impl FnOnce(ProcessId) -> Arc<Placement>,
) -> CacheReading {
    let process = ProcessId { pid: row.pid, start_ns: row.process_start_ns };
    CacheReading {
        slot_start_ns: row.slot_start_ns,
        read_at_ns: row.read_at_ns,
        process,
        comm: Comm::from_text(&row.comm),
        l3_domain: row.l3_domain,
        llc_occupancy_bytes: row.llc_occupancy_bytes,
        mbm_total_bytes: row.mbm_total_bytes,
        mbm_local_bytes: row.mbm_local_bytes,
        scope: match row.scope {
            Scope::Process => CacheScope::Process,
            Scope::WithChildren => CacheScope::WithChildren,
            Scope::Container => CacheScope::Container,
            Scope::Shared => CacheScope::Shared,
        },
        state: match row.state {
            ReadingState::Ok => CacheState::Ok,
            ReadingState::Stale => CacheState::Stale,
            ReadingState::Unassigned => CacheState::Unassigned,
            ReadingState::Unavailable => CacheState::Unavailable,
            ReadingState::Error => CacheState::Error,
        },
        group_id: row.group,
        place: place_of(process),
    }
}
