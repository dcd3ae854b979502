//! How large the ring between the kernel and us has to be.

use crosstalk_model::SlotLength;
use std::time::Duration;

/// What is handed over for a busy core and a slot of 100 us: a header and six rows.
const SHORTEST_SLOT_BYTES: u64 = 1 << 10;
const LEAST: u64 = 1 << 20;
const MOST: u64 = 256 << 20;

/// The bytes that hold what `cores` busy cores hand over while nobody polls for so long: a power of two, as the
/// kernel wants it.
///
/// Processes that come back to a core within a slot share its row, so a slot ten times as long is taken to have twice
/// as many: 2 KiB in 1 ms, which is a header and 13 rows, and 4 KiB in 10 ms.
///
/// ```
/// use crosstalk_counters::ring_bytes;
/// use crosstalk_model::SlotLength;
/// use std::time::Duration;
///
/// assert_eq!(ring_bytes(2, SlotLength::MILLISECOND, Duration::from_secs(1)), 4 << 20);
/// ```
#[must_use]
pub fn ring_bytes(cores: usize, slot: SlotLength, unpolled: Duration) -> u32 {
    let decades = (slot.nanos() / 100_000).checked_ilog10().unwrap_or(0);
    let slots = (unpolled.as_nanos() / u128::from(slot.nanos()) + 1) as u64;
    let bytes = (SHORTEST_SLOT_BYTES << decades).saturating_mul(slots).saturating_mul(cores as u64);
    // Below 2^32 by the bound.
    bytes.clamp(LEAST, MOST).next_power_of_two() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{BatchHead, Row};
    use proptest::prelude::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    fn slot(ms: u64) -> SlotLength {
        SlotLength::from_nanos(ms * 1_000_000).unwrap()
    }

    #[test]
    fn coarse_slots_of_128_busy_cores_are_held_for_a_second() {
        // Five rows a slot and core fill 1 MiB in about 100 ms.
        let batch = size_of::<BatchHead>() + 5 * size_of::<Row>();
        let second = 128 * 100 * batch;
        assert!(second > 10 << 20);
        let ring = ring_bytes(128, slot(10), PATIENCE) as usize;
        assert!(ring >= 4 * second, "{ring} for {second}");
        assert_eq!(
            ring_bytes(2, slot(10), PATIENCE),
            1 << 20,
            "a small machine pays for a small ring"
        );
    }

    proptest! {
        #[test]
        fn a_ring_is_a_power_of_two_within_bounds_and_grows_with_the_machine(
            cores in 0usize..10_000, ns in 100_000u64..1_000_000_000, seconds in 0u64..100
        ) {
            let (slot, unpolled) =
                (SlotLength::from_nanos(ns).unwrap_or(SlotLength::MILLISECOND), Duration::from_secs(seconds));
            let bytes = ring_bytes(cores, slot, unpolled);
            prop_assert!(bytes.is_power_of_two() && (1 << 20..=256 << 20).contains(&bytes));
            prop_assert!(ring_bytes(cores + 1, slot, unpolled) >= bytes);
        }
    }
}
