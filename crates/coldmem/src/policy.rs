//! What counts as used, under each policy, for node, cgroup and remainder alike.

use crate::charged::{MemoryStat, NodeMemory};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// What of the page cache counts as used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Policy {
    /// What is not cold.
    UsageWithHotPageCache,
    /// Nothing.
    #[default]
    UsageWithoutPageCache,
    /// All.
    UsageWithPageCache,
}

/// A word that names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no policy; write usageWithHotPageCache, usageWithoutPageCache or usageWithPageCache"
)]
pub struct UnknownPolicy(pub String);

impl Policy {
    /// All of them.
    pub const ALL: [Self; 3] =
        [Self::UsageWithHotPageCache, Self::UsageWithoutPageCache, Self::UsageWithPageCache];

    /// The proposal's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UsageWithHotPageCache => "usageWithHotPageCache",
            Self::UsageWithoutPageCache => "usageWithoutPageCache",
            Self::UsageWithPageCache => "usageWithPageCache",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == text);
        found.ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

/// What a subject uses, and under which policy that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// How much.
    pub bytes: u64,
    /// The policy that was asked for.
    pub asked: Policy,
    /// The policy it is measured under: another one where what was asked for has no data.
    pub policy: Policy,
}

impl Usage {
    /// Why it is not what was asked for.
    pub fn fallback(&self) -> Option<String> {
        let (asked, used) = (self.asked, self.policy);
        (asked != used).then(|| format!("{asked} has no data here, so this is {used}"))
    }
}

/// A subject of which usage is known with and without page cache.
pub trait Charged {
    /// Under [`Policy::UsageWithoutPageCache`].
    fn without_page_cache(&self) -> Option<u64>;

    /// Under [`Policy::UsageWithPageCache`].
    fn with_page_cache(&self) -> Option<u64>;

    /// What is used under a policy, given what is cold. Falls back to usage without page cache; `None`
    /// where not even that is known.
    fn usage(&self, asked: Policy, cold: Option<u64>) -> Option<Usage> {
        let bytes = match asked {
            Policy::UsageWithoutPageCache => self.without_page_cache(),
            Policy::UsageWithPageCache => self.with_page_cache(),
            Policy::UsageWithHotPageCache => {
                self.with_page_cache().zip(cold).map(|(all, cold)| all.saturating_sub(cold))
            }
        };
        let policy = if bytes.is_some() { asked } else { Policy::UsageWithoutPageCache };
        let bytes = bytes.or_else(|| self.without_page_cache())?;
        Some(Usage { bytes, asked, policy })
    }
}

impl Charged for NodeMemory {
    fn without_page_cache(&self) -> Option<u64> {
        Some(self.total?.saturating_sub(self.available?))
    }

    fn with_page_cache(&self) -> Option<u64> {
        Some(self.total?.saturating_sub(self.free?))
    }
}

impl Charged for MemoryStat {
    fn without_page_cache(&self) -> Option<u64> {
        let parts = [self.inactive_anon?, self.active_anon?, self.unevictable?];
        Some(parts.into_iter().fold(0, u64::saturating_add))
    }

    fn with_page_cache(&self) -> Option<u64> {
        let cache = self.active_file?.saturating_add(self.inactive_file?);
        Some(self.without_page_cache()?.saturating_add(cache))
    }
}

/// What the system uses beside its pods. It is under the policy that was asked for only where the
/// node and all pods are; `None` where they are under different ones, of which no difference can be taken.
pub fn remainder(node: Usage, pods: impl IntoIterator<Item = Usage>) -> Option<Usage> {
    let mut bytes = node.bytes;
    for pod in pods {
        if pod.policy != node.policy {
            return None;
        }
        bytes = bytes.saturating_sub(pod.bytes);
    }
    Some(Usage { bytes, ..node })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOT: Policy = Policy::UsageWithHotPageCache;
    const WITHOUT: Policy = Policy::UsageWithoutPageCache;
    const WITH: Policy = Policy::UsageWithPageCache;

    fn stat() -> MemoryStat {
        MemoryStat::parse(
            "inactive_anon 1\nactive_anon 2\nunevictable 4\nactive_file 8\ninactive_file 16\n",
        )
    }

    #[test]
    fn each_policy_is_the_sum_that_its_table_says() {
        let node = NodeMemory {
            total: Some(100),
            free: Some(30),
            available: Some(60),
            ..NodeMemory::default()
        };
        let of = |policy| {
            (
                node.usage(policy, Some(20)).unwrap().bytes,
                stat().usage(policy, Some(5)).unwrap().bytes,
            )
        };
        assert_eq!(of(WITHOUT), (40, 7));
        assert_eq!(of(WITH), (70, 31));
        assert_eq!(of(HOT), (50, 26));
        assert_eq!(stat().usage(HOT, Some(u64::MAX)).unwrap().bytes, 0);
    }

    #[test]
    fn a_policy_without_data_falls_back_and_says_so() {
        let usage = stat().usage(HOT, None).unwrap();
        assert_eq!((usage.bytes, usage.asked, usage.policy), (7, HOT, WITHOUT));
        assert!(usage.fallback().unwrap().starts_with("usageWithHotPageCache has no data"));
        let no_cache = MemoryStat { active_file: None, ..stat() };
        assert_eq!(no_cache.usage(WITH, None).unwrap().policy, WITHOUT);
        assert_eq!(no_cache.usage(WITHOUT, None).unwrap().fallback(), None);
        assert_eq!(MemoryStat::default().usage(WITHOUT, None), None);
    }

    #[test]
    fn the_remainder_is_taken_between_values_of_one_policy() {
        let of = |bytes, policy| Usage { bytes, asked: HOT, policy };
        let rest = remainder(of(100, HOT), [of(30, HOT), of(20, HOT)]).unwrap();
        assert_eq!((rest.bytes, rest.policy), (50, HOT));
        assert_eq!(remainder(of(10, HOT), [of(30, HOT)]).unwrap().bytes, 0);
        assert_eq!(remainder(of(100, HOT), [of(30, WITHOUT)]), None);
    }

    #[test]
    fn policies_are_read_by_the_names_they_are_printed_with() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert!("usage".parse::<Policy>().is_err());
    }

    proptest! {
        #[test]
        fn hot_usage_never_exceeds_usage_with_page_cache(
            (a, b, c) in any::<(u64, u64, u64)>(), (d, e, cold) in any::<(u64, u64, u64)>(),
        ) {
            let stat = MemoryStat {
                inactive_anon: Some(a), active_anon: Some(b), unevictable: Some(c),
                active_file: Some(d), inactive_file: Some(e), ..MemoryStat::default()
            };
            let of = |policy| stat.usage(policy, Some(cold)).unwrap().bytes;
            prop_assert!(of(HOT) <= of(WITH) && of(WITHOUT) <= of(WITH));
        }
    }
}
