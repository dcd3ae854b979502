use std::fmt;
use std::time::Duration;

/// The length of a slot: an aligned interval of Unix time.
///
/// ```
/// use crosstalk_model::SlotLength;
///
/// let slot = SlotLength::from_nanos(1_000_000)?;
/// assert_eq!(slot.floor(1_700_000_000_001_999_999), 1_700_000_000_001_000_000);
/// assert!(SlotLength::from_nanos(10_000).is_err());
/// # Ok::<(), crosstalk_model::SlotLengthError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLength(u64);

/// Why a length of time is none of a slot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotLengthError {
    /// Slots would begin between two microseconds, which a time column cannot say.
    #[error("a slot of {0} is no whole number of microseconds; use --slot 1ms")]
    Fraction(String),
    /// The length is outside what the recorder supports.
    #[error("a slot of {0} is outside the supported range of 100us to 1s; use --slot 1ms")]
    Range(String),
}

impl SlotLength {
    /// One millisecond, the default everywhere.
    pub const MILLISECOND: Self = Self(1_000_000);
    /// Below this a slot is shorter than a context switch and its bookkeeping.
    const MIN_NS: u64 = 100_000;
    const MAX_NS: u64 = 1_000_000_000;

    /// A slot of `ns` nanoseconds, if that is in the supported range.
    pub fn from_nanos(ns: u64) -> Result<Self, SlotLengthError> {
        let text = || format!("{:?}", Duration::from_nanos(ns));
        if !(Self::MIN_NS..=Self::MAX_NS).contains(&ns) {
            return Err(SlotLengthError::Range(text()));
        }
        if ns.is_multiple_of(1_000) { Ok(Self(ns)) } else { Err(SlotLengthError::Fraction(text())) }
    }

    /// The length in nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The start of the slot that holds `unix_ns`.
    pub const fn floor(self, unix_ns: u64) -> u64 {
        unix_ns - unix_ns % self.0
    }

    /// The first slot start at or after `unix_ns`.
    pub const fn ceil(self, unix_ns: u64) -> u64 {
        unix_ns.div_ceil(self.0) * self.0
    }
}

impl fmt::Display for SlotLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zero_and_ten_microseconds_are_refused_as_out_of_range() {
        for ns in [0, 10_000, 2_000_000_000, u64::MAX] {
            assert!(matches!(SlotLength::from_nanos(ns), Err(SlotLengthError::Range(_))), "{ns}");
        }
        assert!(matches!(SlotLength::from_nanos(100_001), Err(SlotLengthError::Fraction(_))));
    }

    proptest! {
        #[test]
        fn floor_and_ceil_enclose_the_time(us in 100u64..=1_000_000, t in 0u64..=1 << 62) {
            let ns = us * 1_000;
            let slot = SlotLength::from_nanos(ns).expect("in range");
            prop_assert!(slot.floor(t) <= t && t <= slot.ceil(t));
            prop_assert_eq!(slot.floor(t) % ns, 0);
            prop_assert!(slot.ceil(t) - slot.floor(t) <= ns);
        }
    }
}
