/// Who ran: a dense index that the caller gives to a process, container, pod or workload.
///
/// Entries of one slot may repeat a subject: a pod of several processes is one subject in many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject(pub u32);

impl Subject {
    /// Everybody who has no column of their own, summed. Never named.
    pub(crate) const OTHERS: Self = Self(u32::MAX);
    /// The memory probe, judged as a victim to learn who makes memory slow. Never named.
    pub(crate) const PROBE: Self = Self(u32::MAX - 1);

    pub(crate) const fn is_reserved(self) -> bool {
        self.0 >= Self::PROBE.0
    }
}

/// What a subject did on one core in one slot: a row of `tasks`, less its names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activity {
    /// Who.
    pub subject: Subject,
    /// Where.
    pub core: u32,
    /// Time on the core.
    pub on_cpu_ns: u64,
    /// Time waited for the core, for waits that ended in this slot.
    pub wait_ns: Option<u64>,
    /// Times one of its threads blocked by itself.
    pub voluntary_switches: u32,
    /// CPU cycles.
    pub cycles: Option<u64>,
    /// Retired instructions.
    pub instructions: Option<u64>,
    /// Last-level-cache misses.
    pub llc_misses: Option<u64>,
    /// The core's frequency while it ran.
    pub freq_mhz: Option<u32>,
}

impl Activity {
    /// Time on a core and nothing else measured.
    pub const fn new(subject: Subject, core: u32, on_cpu_ns: u64) -> Self {
        Self {
            subject,
            core,
            on_cpu_ns,
            wait_ns: None,
            voluntary_switches: 0,
            cycles: None,
            instructions: None,
            llc_misses: None,
            freq_mhz: None,
        }
    }
}

/// A burst of the memory probe that ended in the slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// The core it ran on.
    pub core: u32,
    /// How slow memory was, in any fixed unit: ns per access, or the inverse of a bandwidth.
    pub cost: f64,
}

/// All that is known about one slot of one node. Slots are pushed in the order of their start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot<'a> {
    /// Start of the slot, Unix nanoseconds.
    pub start_ns: u64,
    /// Length of the slot.
    pub length_ns: u64,
    /// Rows of it were lost: what is here is not the whole, so nothing is concluded from it.
    pub lost: bool,
    /// Who ran.
    pub entries: &'a [Activity],
    /// Time stolen by the hypervisor, by core, read in this slot. Absent in all slots of a bin is unknown, not zero:
    /// no loss is then put down to frequency.
    pub stolen: Option<&'a [(u32, u64)]>,
    /// Units of work that subjects say they finished in this slot.
    pub progress: &'a [(Subject, f64)],
    /// Time that subjects stood still because they were over their own quota.
    pub throttled: &'a [(Subject, u64)],
    /// Bursts of the memory probe.
    pub bursts: &'a [Burst],
}
