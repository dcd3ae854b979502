//! Cache bit masks as schemata write them: hexadecimal, without a prefix.

use std::fmt;

use crate::ParseError;

/// The ways of a cache a group may fill, one bit each.
///
/// ```
/// use crosstalk_resctrl::CacheMask;
/// let mask: CacheMask = "ff0".parse()?;
/// assert_eq!(mask.ways(), 8);
/// assert!(mask.is_contiguous());
/// assert_eq!(mask.to_string(), "ff0");
/// # Ok::<(), crosstalk_resctrl::ParseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheMask(pub u64);

impl CacheMask {
    /// How many ways are set.
    #[must_use]
    pub fn ways(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the set bits are one run, as Intel's processors before sparse masks require.
    #[must_use]
    pub fn is_contiguous(self) -> bool {
        if self.0 == 0 {
            return true;
        }
        let run = self.0 >> self.0.trailing_zeros();
        run & run.wrapping_add(1) == 0
    }

    /// Whether the two share a way.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The lowest `ways` ways.
    #[must_use]
    pub fn lowest(ways: u32) -> Self {
        Self(1u64.checked_shl(ways).map_or(u64::MAX, |bit| bit - 1))
    }
}

impl fmt::Display for CacheMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl std::str::FromStr for CacheMask {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let digits = text.trim();
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        // from_str_radix would take a sign.
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ParseError::new("a hexadecimal mask", text));
        }
        u64::from_str_radix(digits, 16)
            .map(Self)
            .map_err(|_| ParseError::new("a hexadecimal mask of at most 64 bits", text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_mask_survives_being_written_and_read(bits: u64) {
            let mask = CacheMask(bits);
            prop_assert_eq!(mask.to_string().parse::<CacheMask>().unwrap(), mask);
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC*") {
            let _ = text.parse::<CacheMask>();
        }

        #[test]
        fn a_run_of_bits_is_contiguous(start in 0u32..64, length in 1u32..64) {
            let mask = CacheMask(CacheMask::lowest(length).0 << start);
            prop_assert!(mask.is_contiguous());
        }
    }

    #[test]
    fn a_gap_is_not_contiguous() {
        assert!(!CacheMask(0b101).is_contiguous());
        assert!(CacheMask(u64::MAX).is_contiguous());
    }
}
