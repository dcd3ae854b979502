//! Sets of processors in the two notations of `cpus` (hex words) and `cpus_list` (ranges).

use std::collections::BTreeSet;
use std::fmt;

use crate::ParseError;

/// More processors than any Linux build supports (`NR_CPUS` is at most 8192 on x86); a larger number is a bad list.
const HIGHEST_CPU: u32 = 65_535;

/// A set of processor numbers.
///
/// ```
/// use crosstalk_resctrl::CpuSet;
/// let cpus = CpuSet::parse_list("0-2,8\n")?;
/// assert_eq!(cpus.to_string(), "0-2,8");
/// assert_eq!(CpuSet::parse_mask("107")?, cpus);
/// # Ok::<(), crosstalk_resctrl::ParseError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    /// Reads `0-3,8`; an empty text is the empty set.
    ///
    /// # Errors
    /// A part that is no number or range.
    pub fn parse_list(text: &str) -> Result<Self, ParseError> {
        let bad = || ParseError::new("a list of processors such as 0-3,8", text);
        let number = |part: &str| -> Result<u32, ParseError> {
            let cpu: u32 = part.trim().parse().map_err(|_| bad())?;
            (cpu <= HIGHEST_CPU).then_some(cpu).ok_or_else(bad)
        };
        let mut cpus = BTreeSet::new();
        for part in text.trim().split(',').filter(|part| !part.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(bad());
            }
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
    }

    /// Reads `ff` or `1,00000000`, words of 32 bits with the highest first.
    ///
    /// # Errors
    /// A word that is not hexadecimal.
    pub fn parse_mask(text: &str) -> Result<Self, ParseError> {
        let bad = || ParseError::new("a processor mask such as ff or 1,00000000", text);
        let mut cpus = BTreeSet::new();
        for (index, word) in text.trim().rsplit(',').enumerate() {
            let bits = u32::from_str_radix(word.trim(), 16).map_err(|_| bad())?;
            let base = u32::try_from(index).ok().and_then(|i| i.checked_mul(32)).ok_or_else(bad)?;
            cpus.extend((0..32).filter(|bit| bits & (1 << bit) != 0).map(|bit| base + bit));
        }
        match cpus.last() {
            Some(&cpu) if cpu > HIGHEST_CPU => Err(bad()),
            _ => Ok(Self(cpus)),
        }
    }

    /// Whether no processor is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The processors in rising order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_survives_being_written_and_read(cpus in proptest::collection::btree_set(0u32..300, 0..40)) {
            let set = CpuSet(cpus);
            prop_assert_eq!(CpuSet::parse_list(&set.to_string()).unwrap(), set);
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC*") {
            let _ = CpuSet::parse_list(&text);
            let _ = CpuSet::parse_mask(&text);
        }
    }

    #[test]
    fn a_range_too_large_to_hold_is_refused() {
        assert!(CpuSet::parse_list("0-4294967295").is_err());
        assert!(CpuSet::parse_list("3-1").is_err());
    }
}
