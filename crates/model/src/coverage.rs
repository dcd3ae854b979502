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
