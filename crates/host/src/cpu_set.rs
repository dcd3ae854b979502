//! Sets of processors in the kernel's two notations.

use std::collections::BTreeSet;
use std::fmt;

/// More than any Linux build supports (`NR_CPUS` is at most 8192): a bound on what a text can cost.
const HIGHEST: u32 = 65_535;

/// A set of processor numbers, as in `/sys/devices/system/cpu/online` and resctrl's `cpus_list`.
///
/// ```
/// use crosstalk_host::CpuSet;
///
/// let cpus = CpuSet::parse_list("0-2,8\n").unwrap();
/// assert_eq!(cpus.to_string(), "0-2,8");
/// assert_eq!(CpuSet::parse_mask("107"), Some(cpus));
/// assert_eq!(CpuSet::parse_list("2-"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    /// Reads a list such as `0-3,8`; an empty text is the empty set, and `None` is a text that is no list.
    pub fn parse_list(text: &str) -> Option<Self> {
        let mut cpus = BTreeSet::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return None;
            }
            cpus.extend(first..=last);
        }
        Some(Self(cpus))
    }

    /// Reads a mask such as `ff` or `1,00000000`: words of 32 bits, the highest first.
    pub fn parse_mask(text: &str) -> Option<Self> {
        let mut cpus = BTreeSet::new();
        for (word, base) in text.trim().rsplit(',').zip((0u32..=HIGHEST / 32).map(|i| i * 32)) {
            let digits = word.bytes().all(|byte| byte.is_ascii_hexdigit());
            let bits = u32::from_str_radix(word, 16).ok().filter(|_| digits)?;
            cpus.extend((0..32).filter(|bit| bits & (1 << bit) != 0).map(|bit| base + bit));
        }
        let words = text.trim().split(',').count();
        (words <= HIGHEST as usize / 32 + 1).then_some(Self(cpus))
    }

    /// Whether no processor is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it has this one.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// The processors in rising order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }
}

fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|cpu| digits && *cpu <= HIGHEST)
}

impl From<BTreeSet<u32>> for CpuSet {
    fn from(cpus: BTreeSet<u32>) -> Self {
        Self(cpus)
    }
}

impl From<CpuSet> for BTreeSet<u32> {
    fn from(set: CpuSet) -> Self {
        set.0
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
            prop_assert_eq!(CpuSet::parse_list(&set.to_string()), Some(set));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC*") {
            let _ = CpuSet::parse_list(&text);
            let _ = CpuSet::parse_mask(&text);
        }
    }

    #[test]
    fn what_is_no_list_is_refused_whole() {
        for text in ["0-4294967295", "3-1", "0,x", "+1", "1-2-3", "-", "0 1"] {
            assert_eq!(CpuSet::parse_list(text), None, "{text}");
        }
        for text in ["", "g", "+1", "1,,2"] {
            assert_eq!(CpuSet::parse_mask(text), None, "{text}");
        }
    }

    #[test]
    fn a_mask_has_its_highest_word_first() {
        assert_eq!(CpuSet::parse_mask("2,00000003\n"), Some(CpuSet::from_iter([0, 1, 33])));
    }
}
