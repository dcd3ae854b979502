use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The length of a slot: an aligned interval of Unix time.
///
/// ```
/// use crosstalk_model::SlotLength;
///
/// let slot: SlotLength = "1ms".parse()?;
/// assert_eq!(slot.floor(1_700_000_000_001_999_999), 1_700_000_000_001_000_000);
/// assert!("10us".parse::<SlotLength>().is_err());
/// # Ok::<(), crosstalk_model::SlotLengthError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLength(u64);

/// Why a text is not a slot length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotLengthError {
    /// The text is not a number followed by a unit.
    #[error("\"{0}\" is not a length of time; write a number and a unit, such as 1ms or 500us")]
    Syntax(String),
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

impl FromStr for SlotLength {
    type Err = SlotLengthError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let syntax = || SlotLengthError::Syntax(text.to_owned());
        let trimmed = text.trim();
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = trimmed.split_at(digits);
        let number: u64 = number.parse().map_err(|_| syntax())?;
        let scale = match unit.trim() {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            // A bare 0 has one meaning whatever the unit, and it is out of range.
            "" if number == 0 => 1,
            _ => return Err(syntax()),
        };
        let ns =
            number.checked_mul(scale).ok_or_else(|| SlotLengthError::Range(text.to_owned()))?;
        Self::from_nanos(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zero_and_ten_microseconds_are_refused_as_out_of_range() {
        for text in ["0", "0ms", "10us", "2s", "99999999999999999999s"] {
            let error = text.parse::<SlotLength>().expect_err(text);
            assert!(!error.to_string().is_empty());
        }
        assert!(matches!("0".parse::<SlotLength>(), Err(SlotLengthError::Range(_))));
        assert!(matches!("10us".parse::<SlotLength>(), Err(SlotLengthError::Range(_))));
        assert!(matches!("100001ns".parse::<SlotLength>(), Err(SlotLengthError::Fraction(_))));
        assert!(matches!("fast".parse::<SlotLength>(), Err(SlotLengthError::Syntax(_))));
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

        #[test]
        fn what_is_printed_parses_back(us in 100u64..=1_000_000) {
            let slot = SlotLength::from_nanos(us * 1_000).expect("in range");
            let text = format!("{us}us");
            prop_assert_eq!(text.parse::<SlotLength>(), Ok(slot));
        }
    }
}
