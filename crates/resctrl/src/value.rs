//! What a `mon_data` file says, and what two readings of a counter mean together.

/// The content of one monitoring file.
///
/// The kernel answers a successful read with a number or with a word. A word is a state of its own and never zero.
///
/// ```
/// use crosstalk_resctrl::MonValue;
/// assert_eq!(MonValue::parse(b"4096\n"), MonValue::Count(4096));
/// assert_eq!(MonValue::parse(b"Unavailable\n"), MonValue::Unavailable);
/// assert_eq!(MonValue::parse(b"Unavailable\n").count(), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MonValue {
    /// A number of bytes.
    Count(u64),
    /// The hardware has no value for this RMID now; a later read may have one.
    Unavailable,
    /// No hardware counter is assigned to this event (ABMC).
    Unassigned,
    /// The kernel said `Error`, or something this library does not know.
    Error,
}

impl MonValue {
    /// Reads the bytes of a monitoring file. Anything unknown is [`MonValue::Error`].
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let text = bytes.trim_ascii();
        match text {
            b"Unavailable" => Self::Unavailable,
            b"Unassigned" => Self::Unassigned,
            _ => decimal(text).map_or(Self::Error, Self::Count),
        }
    }

    /// The number, if it is one.
    #[must_use]
    pub fn count(self) -> Option<u64> {
        match self {
            Self::Count(value) => Some(value),
            _ => None,
        }
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|d| *d < 10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Bytes counted between two readings of a bandwidth counter.
///
/// `wrap_at` is the number of bytes at which the counter starts again from zero, where the caller knows one (the
/// kernel itself widens hardware counters to 64 bits, so for its files this is `None`). A counter that went back by
/// more than half its range was reset, not wrapped: there is no honest difference, and the answer is `None`.
///
/// ```
/// use crosstalk_resctrl::mbm_delta;
/// assert_eq!(mbm_delta(100, 164, None), Some(64));
/// assert_eq!(mbm_delta(1000, 24, Some(1024)), Some(48));
/// assert_eq!(mbm_delta(1000, 24, None), None);
/// ```
#[must_use]
pub fn mbm_delta(previous: u64, current: u64, wrap_at: Option<u64>) -> Option<u64> {
    if let Some(difference) = current.checked_sub(previous) {
        return Some(difference);
    }
    let range = wrap_at?;
    let up_to_wrap = range.checked_sub(previous)?;
    let difference = up_to_wrap.checked_add(current)?;
    (difference <= range / 2).then_some(difference)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_three_words_are_states_and_not_zero() {
        assert_eq!(MonValue::parse(b"Error\n"), MonValue::Error);
        assert_eq!(MonValue::parse(b"Unassigned\n"), MonValue::Unassigned);
        assert_eq!(MonValue::parse(b"Unavailable"), MonValue::Unavailable);
        assert_eq!(MonValue::parse(b""), MonValue::Error);
        assert_eq!(MonValue::parse(b"18446744073709551616\n"), MonValue::Error);
        assert_eq!(MonValue::parse(b"18446744073709551615\n"), MonValue::Count(u64::MAX));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = MonValue::parse(&bytes);
        }

        #[test]
        fn every_number_comes_back(value: u64) {
            prop_assert_eq!(MonValue::parse(format!("{value}\n").as_bytes()), MonValue::Count(value));
        }

        #[test]
        fn a_wrapped_counter_gives_the_bytes_that_passed(bits in 24u32..62, start: u64, passed: u64) {
            let range = 1u64 << bits;
            let start = start % range;
            let passed = passed % (range / 2);
            prop_assert_eq!(mbm_delta(start, (start + passed) % range, Some(range)), Some(passed));
        }

        #[test]
        fn a_delta_never_panics(previous: u64, current: u64, range: Option<u64>) {
            let _ = mbm_delta(previous, current, range);
        }
    }
}
