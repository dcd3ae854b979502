/// What was stolen from one core: a row of the `steal` data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StealRow {
    /// Start of the slot in which it was read, Unix nanoseconds.
    pub slot_start_ns: u64,
    /// The time before it that the row tells of.
    pub covers_ns: u64,
    /// The core.
    pub core: u32,
    /// What was stolen of that time.
    pub stolen_ns: u64,
}

crate::dataset! {
    StealRow: "steal",
    "one row per core, every 20 ms or more rarely: time the hypervisor gave to others while the core wanted to run",
    by |row| (row.core, row.slot_start_ns),
    covers_ns [int] "ns" "the time the row tells of, up to its reading" = |row| row.covers_ns;
    core [int] "" "logical CPU" = |row| row.core;
    stolen_ns [int] "ns" "time stolen, in ticks of 10 ms" = |row| row.stolen_ns;
}
