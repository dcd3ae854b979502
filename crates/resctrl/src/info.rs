//! Discovery: what the machine can monitor and allocate, from `info/`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::{CacheMask, Error, L3Domain, ParseError, Resctrl, Schemata, schemata};

/// Everything `info/` and the root group say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Caches that can be divided: `L3`, or `L3CODE` and `L3DATA` with CDP, `L2` likewise.
    pub caches: Vec<CacheInfo>,
    /// Memory bandwidth that can be limited: `MB`, and `SMBA` on AMD.
    pub bandwidth: Vec<BandwidthInfo>,
    /// Monitoring, where the machine has it.
    pub monitoring: Option<MonitoringInfo>,
    /// Directories of `info/` this library does not know.
    pub unknown: Vec<String>,
}

/// A cache that can be divided among control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheInfo {
    /// The name in `schemata`.
    pub resource: String,
    /// How many control groups there can be, the root included.
    pub num_closids: u32,
    /// All ways.
    pub cbm_mask: CacheMask,
    /// The fewest ways a mask may have.
    pub min_cbm_bits: u32,
    /// Ways that devices use too.
    pub shareable_bits: CacheMask,
    /// Whether masks may have gaps.
    pub sparse_masks: bool,
}

/// What a number in an `MB` or `SMBA` line means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BandwidthUnit {
    /// Percent of what the processor can do (Intel).
    Percent,
    /// Steps of 1/8 GB/s (AMD).
    EighthGigabyte,
    /// Megabytes a second, kept by the kernel's feedback loop (mount option `mba_MBps`).
    Megabytes,
}

/// A memory bandwidth limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BandwidthInfo {
    /// The name in `schemata`.
    pub resource: String,
    /// How many control groups there can be, the root included.
    pub num_closids: u32,
    /// The lowest limit.
    pub min_bandwidth: u64,
    /// Limits are rounded up to multiples of this.
    pub granularity: u64,
    /// Whether the delay grows linearly with the limit, where the machine says so.
    pub delay_linear: Option<bool>,
    /// `max` or `per-thread`, where the machine says so.
    pub thread_throttle_mode: Option<String>,
    /// What the numbers mean.
    pub unit: BandwidthUnit,
}

/// Cache and bandwidth monitoring.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MonitoringInfo {
    /// How many RMIDs the hardware has, that of the root included.
    pub num_rmids: u32,
    /// Whether `llc_occupancy` is there.
    pub occupancy: bool,
    /// Whether `mbm_total_bytes` is there.
    pub total_bytes: bool,
    /// Whether `mbm_local_bytes` is there.
    pub local_bytes: bool,
    /// Other features, as the machine names them.
    pub other_features: Vec<String>,
    /// Occupancy under which a freed RMID may be used again.
    pub max_threshold_occupancy: Option<u64>,
    /// Counters that have to be assigned (ABMC), where the machine has them.
    pub assignment: Option<CounterAssignment>,
    /// The L3 caches.
    pub domains: Vec<L3Domain>,
    /// Bytes of each L3 cache by domain, where the machine can also allocate it.
    pub l3_bytes: BTreeMap<u32, u64>,
}

/// Assignable bandwidth counters (ABMC).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterAssignment {
    /// The mode in force: `default`, `mbm_event`, `mbm_cntr_assign`.
    pub mode: String,
    /// Every mode the machine knows.
    pub modes: Vec<String>,
    /// Counters in each domain.
    pub counters: BTreeMap<u32, u64>,
    /// Counters free in each domain.
    pub available: BTreeMap<u32, u64>,
    /// Whether a new group gets counters at once.
    pub assigned_on_mkdir: Option<bool>,
}

struct Reader<'a> {
    resctrl: &'a Resctrl,
    directory: PathBuf,
}

impl Reader<'_> {
    fn text(&self, file: &str) -> Result<Option<String>, Error> {
        let path = self.directory.join(file);
        if !path.exists() {
            return Ok(None);
        }
        self.resctrl.read(&path).map(|text| Some(text.trim().to_owned()))
    }

    fn parsed<T>(
        &self,
        file: &str,
        parse: impl Fn(&str) -> Result<T, ParseError>,
    ) -> Result<Option<T>, Error> {
        let content = |source| Error::Content { path: self.directory.join(file), source };
        self.text(file)?.map(|text| parse(&text).map_err(content)).transpose()
    }

    fn number(&self, file: &str) -> Result<Option<u64>, Error> {
        self.parsed(file, |text| text.parse().map_err(|_| ParseError::new("a number", text)))
    }

    fn needed(&self, file: &str) -> Result<u64, Error> {
        let missing = || Error::Content {
            path: self.directory.join(file),
            source: ParseError::new("a number", ""),
        };
        self.number(file)?.ok_or_else(missing)
    }

    fn small(&self, file: &str) -> Result<u32, Error> {
        Ok(u32::try_from(self.needed(file)?).unwrap_or(u32::MAX))
    }
}

impl Info {
    pub(crate) fn read(resctrl: &Resctrl) -> Result<Self, Error> {
        let directory = resctrl.root().join("info");
        let root_schemata = resctrl.root_group().schemata().unwrap_or_default();
        let mut info =
            Self { caches: vec![], bandwidth: vec![], monitoring: None, unknown: vec![] };
        for name in resctrl.directories(&directory)? {
            let reader = Reader { resctrl, directory: directory.join(&name) };
            match name.as_str() {
                "L3_MON" => info.monitoring = Some(MonitoringInfo::read(&reader)?),
                "MB" | "SMBA" => {
                    info.bandwidth.push(BandwidthInfo::read(&reader, &name, &root_schemata)?);
                }
                cache if is_cache(cache) => info.caches.push(CacheInfo::read(&reader, cache)?),
                _ => info.unknown.push(name),
            }
        }
        Ok(info)
    }

    /// Whether code and data can have ways of their own (CDP).
    #[must_use]
    pub fn has_cdp(&self) -> bool {
        self.caches.iter().any(|cache| cache.resource.ends_with("CODE"))
    }
}

fn is_cache(name: &str) -> bool {
    matches!(name, "L2" | "L2CODE" | "L2DATA" | "L3" | "L3CODE" | "L3DATA")
}

impl CacheInfo {
    fn read(reader: &Reader<'_>, resource: &str) -> Result<Self, Error> {
        let mask = |file| reader.parsed(file, str::parse::<CacheMask>);
        Ok(Self {
            resource: resource.to_owned(),
            num_closids: reader.small("num_closids")?,
            cbm_mask: mask("cbm_mask")?.unwrap_or(CacheMask(0)),
            min_cbm_bits: reader.small("min_cbm_bits")?,
            shareable_bits: mask("shareable_bits")?.unwrap_or(CacheMask(0)),
            sparse_masks: reader.number("sparse_masks")? == Some(1),
        })
    }
}

impl BandwidthInfo {
    fn read(reader: &Reader<'_>, resource: &str, root: &Schemata) -> Result<Self, Error> {
        let min_bandwidth = reader.needed("min_bandwidth")?;
        let granularity = reader.needed("bandwidth_gran")?;
        let highest = highest_limit(root, resource);
        Ok(Self {
            resource: resource.to_owned(),
            num_closids: reader.small("num_closids")?,
            min_bandwidth,
            granularity,
            delay_linear: reader.number("delay_linear")?.map(|value| value == 1),
            thread_throttle_mode: reader.text("thread_throttle_mode")?,
            unit: bandwidth_unit(resource, min_bandwidth, granularity, highest),
        })
    }
}

fn highest_limit(root: &Schemata, resource: &str) -> u64 {
    let lines = root.lines.iter().filter(|line| line.resource == resource);
    let limits = lines.filter_map(|line| match &line.limits {
        schemata::Limits::Bandwidth(limits) => limits.values().copied().max(),
        _ => None,
    });
    limits.max().unwrap_or(0)
}

/// The kernel does not name the unit; what it does say tells the three apart. A percentage is never above 100 and Intel
/// has steps of more than one; AMD counts from 0 in steps of 1 up to 2048; `mba_MBps` starts without a limit (2^32 - 1).
fn bandwidth_unit(resource: &str, min: u64, granularity: u64, highest: u64) -> BandwidthUnit {
    if highest > 1 << 20 {
        BandwidthUnit::Megabytes
    } else if resource == "SMBA" || highest > 100 || (min == 0 && granularity == 1) {
        BandwidthUnit::EighthGigabyte
    } else {
        BandwidthUnit::Percent
    }
}

impl MonitoringInfo {
    fn read(reader: &Reader<'_>) -> Result<Self, Error> {
        let features = reader.text("mon_features")?.unwrap_or_default();
        let has = |name: &str| features.lines().any(|line| line.trim() == name);
        let known = ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"];
        let other = features.lines().map(str::trim).filter(|name| !known.contains(name));
        let root = reader.resctrl.root_group();
        let sizes =
            if Path::exists(&root.path().join("size")) { root.size()? } else { BTreeMap::new() };
        Ok(Self {
            num_rmids: reader.small("num_rmids")?,
            occupancy: has("llc_occupancy"),
            total_bytes: has("mbm_total_bytes"),
            local_bytes: has("mbm_local_bytes"),
            other_features: other.map(str::to_owned).collect(),
            max_threshold_occupancy: reader.number("max_threshold_occupancy")?,
            assignment: CounterAssignment::read(reader)?,
            domains: root.domains()?,
            l3_bytes: sizes.get("L3").or_else(|| sizes.get("L3DATA")).cloned().unwrap_or_default(),
        })
    }
}

impl CounterAssignment {
    fn read(reader: &Reader<'_>) -> Result<Option<Self>, Error> {
        let Some(text) = reader.text("mbm_assign_mode")? else { return Ok(None) };
        let by_domain = |file| {
            let number =
                |value: &str| value.trim().parse().map_err(|_| ParseError::new("a number", value));
            reader.parsed(file, |text| schemata::domains(text, number))
        };
        let modes: Vec<&str> = text.lines().map(str::trim).collect();
        let bare = |mode: &str| mode.trim_matches(['[', ']']).to_owned();
        Ok(Some(Self {
            mode: modes
                .iter()
                .find(|mode| mode.starts_with('['))
                .map_or_else(String::new, |m| bare(m)),
            modes: modes.iter().map(|mode| bare(mode)).collect(),
            counters: by_domain("num_mbm_cntrs")?.unwrap_or_default(),
            available: by_domain("available_mbm_cntrs")?.unwrap_or_default(),
            assigned_on_mkdir: reader.number("mbm_assign_on_mkdir")?.map(|value| value == 1),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_a_bandwidth_limit_is_told_from_what_the_kernel_says() {
        assert_eq!(bandwidth_unit("MB", 10, 10, 100), BandwidthUnit::Percent);
        assert_eq!(bandwidth_unit("MB", 10, 10, 50), BandwidthUnit::Percent);
        assert_eq!(bandwidth_unit("MB", 0, 1, 2048), BandwidthUnit::EighthGigabyte);
        assert_eq!(bandwidth_unit("MB", 0, 1, 16), BandwidthUnit::EighthGigabyte);
        assert_eq!(bandwidth_unit("MB", 10, 10, u64::from(u32::MAX)), BandwidthUnit::Megabytes);
    }
}
