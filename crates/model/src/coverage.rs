/// What is known about one core in one slot, and what was lost: a row of the `slots` data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotCoverage {
    /// Start of the slot, Unix nanoseconds.
    pub slot_start_ns: u64,
    /// The core.
    pub core: u32,
    /// Time the core was idle; absent when the slot was lost.
    pub idle_ns: Option<u64>,
    /// Scheduler events and ticks summed into the slot.
    pub events: u32,
    /// Rows of `tasks` that were measured and then lost.
    pub lost: u32,
    /// How late the tick that closed the slot was; absent when no tick did.
    pub tick_late_ns: Option<u64>,
}

impl SlotCoverage {
    /// A slot of which nothing arrived.
    pub const fn lost(slot_start_ns: u64, core: u32, rows: u32) -> Self {
        Self { slot_start_ns, core, idle_ns: None, events: 0, lost: rows, tick_late_ns: None }
    }
}

crate::dataset! {
    SlotCoverage: "slots", "one row per core and slot: idle time, and what was lost",
    by |row| (row.core, row.slot_start_ns),
    core [int] "" "logical CPU" = |row| row.core;
    idle_ns [int?] "ns" "idle time; absent when the slot was lost" = |row| row.idle_ns;
    events [int] "" "scheduler events and ticks summed into the slot" = |row| row.events;
    lost [int] "rows" "rows of tasks measured and then lost" = |row| row.lost;
    tick_late_ns [int?] "ns" "lateness of the tick that closed the slot" = |row| row.tick_late_ns;
}
