//! The `schemata` file as types: read without losing a line, written as the kernel wants it.

use std::collections::BTreeMap;
use std::fmt;

use crate::{CacheMask, ParseError};

/// What one resource of a group is limited to, by domain id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limits {
    /// Cache ways: `L3`, `L2` and their `CODE` and `DATA` halves.
    Cache(BTreeMap<u32, CacheMask>),
    /// Memory bandwidth: `MB`, `SMBA`; the unit is in [`BandwidthInfo`](crate::BandwidthInfo).
    Bandwidth(BTreeMap<u32, u64>),
    /// A resource this library does not know, kept as it was.
    Unknown(String),
}

/// One line of `schemata`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemataLine {
    /// `L3`, `L3CODE`, `MB`, ...
    pub resource: String,
    /// The limit in every domain the line names.
    pub limits: Limits,
}

/// The limits of a control group. A write may name only some resources and domains: the others keep what they have.
///
/// ```
/// use crosstalk_resctrl::{CacheMask, Schemata};
/// let mut schemata = Schemata::parse("    L3:0=fff;1=fff\n    MB:0=100;1=100\n")?;
/// assert_eq!(schemata.cache("L3", 1), Some(CacheMask(0xfff)));
/// schemata.set_cache("L3", 1, CacheMask(0xf));
/// assert_eq!(schemata.to_string(), "L3:0=fff;1=f\nMB:0=100;1=100\n");
/// # Ok::<(), crosstalk_resctrl::ParseError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schemata {
    /// In the order of the file.
    pub lines: Vec<SchemataLine>,
}

impl Schemata {
    /// Reads a `schemata` file. Lines of unknown resources are kept; a known resource must be well formed.
    ///
    /// # Errors
    /// A line without `:`, or a known resource with a malformed domain or value.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        Ok(Self { lines: lines.map(SchemataLine::parse).collect::<Result<_, _>>()? })
    }

    /// The mask of a cache resource in a domain.
    #[must_use]
    pub fn cache(&self, resource: &str, domain: u32) -> Option<CacheMask> {
        self.lines.iter().find(|line| line.resource == resource).and_then(|line| {
            match &line.limits {
                Limits::Cache(masks) => masks.get(&domain).copied(),
                _ => None,
            }
        })
    }

    /// The limit of a bandwidth resource in a domain.
    #[must_use]
    pub fn bandwidth(&self, resource: &str, domain: u32) -> Option<u64> {
        self.lines.iter().find(|line| line.resource == resource).and_then(|line| {
            match &line.limits {
                Limits::Bandwidth(limits) => limits.get(&domain).copied(),
                _ => None,
            }
        })
    }

    /// Sets the mask of a cache resource in a domain, adding the line where there is none.
    pub fn set_cache(&mut self, resource: &str, domain: u32, mask: CacheMask) {
        let line = self.line(resource, || Limits::Cache(BTreeMap::new()));
        match &mut line.limits {
            Limits::Cache(masks) => {
                masks.insert(domain, mask);
            }
            other => *other = Limits::Cache(BTreeMap::from([(domain, mask)])),
        }
    }

    /// Sets the limit of a bandwidth resource in a domain, adding the line where there is none.
    pub fn set_bandwidth(&mut self, resource: &str, domain: u32, limit: u64) {
        let line = self.line(resource, || Limits::Bandwidth(BTreeMap::new()));
        match &mut line.limits {
            Limits::Bandwidth(limits) => {
                limits.insert(domain, limit);
            }
            other => *other = Limits::Bandwidth(BTreeMap::from([(domain, limit)])),
        }
    }

    fn line(&mut self, resource: &str, empty: impl FnOnce() -> Limits) -> &mut SchemataLine {
        let index =
            self.lines.iter().position(|line| line.resource == resource).unwrap_or_else(|| {
                self.lines.push(SchemataLine { resource: resource.to_owned(), limits: empty() });
                self.lines.len() - 1
            });
        &mut self.lines[index]
    }
}

impl SchemataLine {
    fn parse(line: &str) -> Result<Self, ParseError> {
        let (resource, rest) = line
            .split_once(':')
            .ok_or_else(|| ParseError::new("a schemata line such as L3:0=fff", line))?;
        let (resource, rest) = (resource.trim(), rest.trim());
        let limits = if resource.starts_with("L3") || resource.starts_with("L2") {
            Limits::Cache(domains(rest, str::parse)?)
        } else if matches!(resource, "MB" | "SMBA") {
            Limits::Bandwidth(domains(rest, |value| {
                value.trim().parse().map_err(|_| ParseError::new("a bandwidth limit", value))
            })?)
        } else {
            Limits::Unknown(rest.to_owned())
        };
        Ok(Self { resource: resource.to_owned(), limits })
    }
}

/// Splits `0=a;1=b` into domains.
pub(crate) fn domains<T>(
    text: &str,
    value: impl Fn(&str) -> Result<T, ParseError>,
) -> Result<BTreeMap<u32, T>, ParseError> {
    let mut found = BTreeMap::new();
    for part in text.trim().split(';').filter(|part| !part.trim().is_empty()) {
        let bad = || ParseError::new("a domain and its value such as 0=fff", part);
        let (id, rest) = part.split_once('=').ok_or_else(bad)?;
        let id = id.trim().parse().map_err(|_| bad())?;
        if found.insert(id, value(rest)?).is_some() {
            return Err(ParseError::new("every domain once", text));
        }
    }
    Ok(found)
}

fn join<T: fmt::Display>(f: &mut fmt::Formatter<'_>, values: &BTreeMap<u32, T>) -> fmt::Result {
    let mut separator = "";
    for (domain, value) in values {
        write!(f, "{separator}{domain}={value}")?;
        separator = ";";
    }
    Ok(())
}

impl fmt::Display for SchemataLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.resource)?;
        match &self.limits {
            Limits::Cache(masks) => join(f, masks),
            Limits::Bandwidth(limits) => join(f, limits),
            Limits::Unknown(rest) => f.write_str(rest),
        }
    }
}

impl fmt::Display for Schemata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    fn line() -> impl Strategy<Value = SchemataLine> {
        let cache =
            ("L[23](CODE|DATA)?", btree_map(0u32..300, any::<u64>().prop_map(CacheMask), 1..5))
                .prop_map(|(resource, masks)| SchemataLine {
                    resource,
                    limits: Limits::Cache(masks),
                });
        let bandwidth =
            ("MB|SMBA", btree_map(0u32..300, any::<u64>(), 1..5)).prop_map(|(resource, limits)| {
                SchemataLine { resource, limits: Limits::Bandwidth(limits) }
            });
        let unknown = ("X[A-Z]{0,4}", "[0-9a-z=;]{0,12}")
            .prop_map(|(resource, rest)| SchemataLine { resource, limits: Limits::Unknown(rest) });
        prop_oneof![cache, bandwidth, unknown]
    }

    proptest! {
        #[test]
        fn schemata_survive_being_written_and_read(lines in vec(line(), 0..5)) {
            let schemata = Schemata { lines };
            prop_assert_eq!(Schemata::parse(&schemata.to_string()).unwrap(), schemata);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..200)) {
            let _ = Schemata::parse(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn bytes_that_look_like_schemata_are_read_without_a_panic(text in "([ LMBS23:=;,0-9a-f\n]|CODE){0,60}") {
            if let Ok(schemata) = Schemata::parse(&text) {
                prop_assert_eq!(Schemata::parse(&schemata.to_string()).unwrap(), schemata);
            }
        }
    }

    #[test]
    fn a_duplicate_domain_is_refused_as_the_kernel_does() {
        assert!(Schemata::parse("L3:0=f;0=f").is_err());
    }
}
