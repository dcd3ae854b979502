use crate::age::{AgeCell, ColdBoundary, Kind};
use crate::backend::Backend;
use crate::charged::at_most;
use crate::survey::{Group, Survey};
use crosstalk_model::Placement;
use std::sync::Arc;

/// How much memory of a cgroup has been idle for how long: a row of the `coldmem` data set.
#[derive(Clone, Debug, PartialEq)]
pub struct ColdRow {
    /// Start of the slot in which it was read, Unix nanoseconds.
    pub slot_start_ns: u64,
    /// The cgroup's inode number; 0 for the node.
    pub cgroup_id: u64,
    /// The cgroup's path; `/` for the node.
    pub cgroup: Arc<str>,
    /// The container and pod it is.
    pub place: Arc<Placement>,
    /// What tells.
    pub backend: Backend,
    /// Of what it is.
    pub kind: Kind,
    /// Idle for at least so long.
    pub age_from_ms: u64,
    /// Idle for less.
    pub age_to_ms: Option<u64>,
    /// How much; absent where only a bound is known.
    pub bytes: Option<u64>,
    /// How much of it is cold; absent until memory was watched for long enough.
    pub cold_bytes: Option<u64>,
    /// No more than this; absent where it is known how much.
    pub at_most_bytes: Option<u64>,
}

crosstalk_model::dataset! {
    ColdRow: "coldmem",
    "one row per cgroup, kind of memory and age, once a period: how much has been idle for so long",
    placed |row| row.place,
    by |row| (row.cgroup_id, row.kind, row.age_from_ms, row.slot_start_ns),
    cgroup_id [int] "" "inode number of the cgroup; 0 for the node" = |row| row.cgroup_id;
    cgroup [text] "" "path of the cgroup; / for the node" = |row| &row.cgroup;
    backend [text] "" "what tells ages: kidled, damon, mglru, or bounds where nothing does" = |row| row.backend.name();
    kind [text] "" "anon, file or slab" = |row| row.kind.name();
    age_from_ms [int] "ms" "idle for at least so long" = |row| row.age_from_ms;
    age_to_ms [int?] "ms" "idle for less; absent where there is no end" = |row| row.age_to_ms;
    bytes [int?] "bytes" "memory of that kind and age, cgroups within included" = |row| row.bytes;
    cold_bytes [int?] "bytes" "how much of it counts as cold; absent until it was watched for long enough" = |row| row.cold_bytes;
    at_most_bytes [int?] "bytes" "where ages are not known: no more than this is cold" = |row| row.at_most_bytes;
}

/// The rows of a survey. `place_of` names the container and pod of a cgroup's path.
pub(crate) fn rows(
    survey: &Survey,
    boundary: &ColdBoundary,
    slot_start_ns: u64,
    place_of: &dyn Fn(&str) -> Placement,
) -> Vec<ColdRow> {
    let mut rows = Vec::new();
    for (at, group) in survey.groups.iter().enumerate() {
        let is_node = at == 0;
        let row = ColdRow {
            slot_start_ns,
            cgroup_id: if is_node { 0 } else { group.id },
            cgroup: group.path.as_str().into(),
            place: Arc::new(place_of(&group.path)),
            backend: survey.backend,
            kind: Kind::File,
            age_from_ms: u64::try_from(boundary.age.as_millis()).unwrap_or(u64::MAX),
            age_to_ms: None,
            bytes: None,
            cold_bytes: None,
            at_most_bytes: None,
        };
        let ages = if is_node { &survey.ages } else { &group.ages };
        match ages {
            Some(ages) => rows.extend(ages.cells.iter().map(|cell| of_cell(&row, cell))),
            None if survey.backend == Backend::Bounds => {
                rows.extend(of_bounds(&row, group, boundary))
            }
            None => {}
        }
    }
    rows
}

fn of_cell(row: &ColdRow, cell: &AgeCell) -> ColdRow {
    ColdRow {
        kind: cell.kind,
        age_from_ms: cell.from_ms,
        age_to_ms: cell.to_ms,
        bytes: Some(cell.bytes),
        cold_bytes: cell.cold_bytes,
        ..row.clone()
    }
}

fn of_bounds(row: &ColdRow, group: &Group, boundary: &ColdBoundary) -> Vec<ColdRow> {
    let most = |kind| at_most(group.stat.as_ref()?, kind, boundary, Backend::Bounds);
    let kinds = Kind::ALL.into_iter().filter_map(|kind| Some((kind, most(kind)?)));
    kinds.map(|(kind, bytes)| ColdRow { kind, at_most_bytes: Some(bytes), ..row.clone() }).collect()
}
