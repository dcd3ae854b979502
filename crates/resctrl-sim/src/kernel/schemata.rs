//! The `schemata` and `size` files.

use std::collections::HashSet;
use std::fmt::Write as _;

use fuser::Errno;

use super::{Kernel, Limits, Mode};
use crate::profile::Bandwidth;
use crate::threads::GroupId;

/// The runs of consecutive ones in a mask, lowest first.
pub(super) fn runs_of_ones(mut mask: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let start = mask.trailing_zeros();
        let length = (mask >> start).trailing_ones();
        let run = 1u64.checked_shl(length).map_or(u64::MAX, |bit| bit - 1) << start;
        mask &= !run;
        Some(run)
    })
}

enum Resource {
    Cache(usize),
    Bandwidth(usize),
}

impl Kernel {
    pub(crate) fn write_schemata(&mut self, id: GroupId, text: &str) -> Result<(), Errno> {
        let text = text.strip_suffix('\n').ok_or(Errno::EINVAL)?;
        self.status.clear();
        let closid = self.group(id)?.closid;
        let mut limits = self.closids[closid].clone().ok_or(Errno::ENODEV)?;
        let mut seen = HashSet::new();
        for line in text.split('\n') {
            let (name, values) = match line.split_once(':') {
                Some((name, values)) => (name.trim(), values),
                None => return self.refuse(Errno::EINVAL, "Missing ':'"),
            };
            if values.is_empty() {
                return self.refuse(Errno::EINVAL, format!("Missing '{name}' value"));
            }
            let Some(resource) = self.resource(name) else {
                let words = format!("Unknown or unsupported resource name '{name}'");
                return self.refuse(Errno::EINVAL, words);
            };
            for part in values.split(';') {
                // The kernel stops at an empty part and takes what came before.
                if part.is_empty() {
                    break;
                }
                let number =
                    part.split_once('=').and_then(|(d, v)| Some((d.parse::<u32>().ok()?, v)));
                let Some((domain_id, value)) = number else {
                    return self.refuse(Errno::EINVAL, "Missing '=' or non-numeric domain");
                };
                let domain = self.profile.l3_domains.iter().position(|known| *known == domain_id);
                let domain = domain.ok_or(Errno::EINVAL)?;
                if !seen.insert((name.to_owned(), domain)) {
                    return self.refuse(Errno::EINVAL, format!("Duplicate domain {domain_id}"));
                }
                self.stage(id, &mut limits, &resource, domain, value.trim())?;
            }
        }
        self.closids[closid] = Some(limits);
        Ok(())
    }

    fn resource(&self, name: &str) -> Option<Resource> {
        let index = |names: &[&str]| names.iter().position(|known| *known == name);
        index(self.cache_resources())
            .map(Resource::Cache)
            .or_else(|| index(self.bandwidth_resources()).map(Resource::Bandwidth))
    }

    fn stage(
        &mut self,
        id: GroupId,
        limits: &mut Limits,
        resource: &Resource,
        domain: usize,
        value: &str,
    ) -> Result<(), Errno> {
        match resource {
            Resource::Cache(index) => {
                let mask = self.check_mask(value)?;
                let group = self.group(id)?;
                let (closid, mode) = (group.closid, group.mode);
                if self.overlaps(domain, mask, closid, true) {
                    return self.refuse(Errno::EINVAL, "Overlaps with exclusive group");
                }
                if mode == Mode::Exclusive && self.overlaps(domain, mask, closid, false) {
                    return self.refuse(Errno::EINVAL, "Overlaps with other group");
                }
                limits.masks[*index][domain] = mask;
            }
            Resource::Bandwidth(index) => {
                limits.bandwidth[*index][domain] = self.check_bandwidth(value)?;
            }
        }
        Ok(())
    }

    fn check_mask(&mut self, text: &str) -> Result<u64, Errno> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let Some(mask) = hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten() else {
            return self.refuse(Errno::EINVAL, format!("Non-hex character in the mask {text}"));
        };
        let min = self.profile.min_cbm_bits;
        if (min > 0 && mask == 0) || mask > self.profile.full_mask() {
            return self.refuse(Errno::EINVAL, "Mask out of range");
        }
        if !self.profile.sparse_masks && runs_of_ones(mask).count() > 1 {
            let words = format!("The mask {mask:x} has non-consecutive 1-bits");
            return self.refuse(Errno::EINVAL, words);
        }
        let first_run = runs_of_ones(mask).next().map_or(0, u64::count_ones);
        if first_run < min {
            return self.refuse(Errno::EINVAL, format!("Need at least {min} bits in the mask"));
        }
        Ok(mask)
    }

    fn check_bandwidth(&mut self, text: &str) -> Result<u64, Errno> {
        let Ok(value) = text.parse::<u32>() else {
            return self.refuse(Errno::EINVAL, format!("Invalid MB value {text}"));
        };
        let (min, granularity) = match self.profile.bandwidth {
            Bandwidth::Percent { min, granularity } => (min, granularity),
            Bandwidth::EighthGigabyte => (0, 1),
        };
        let max = self.highest_bandwidth();
        if !(min..=max).contains(&u64::from(value)) {
            let words = format!("MB value {value} out of range [{min},{max}]");
            return self.refuse(Errno::EINVAL, words);
        }
        Ok(u64::from(value).next_multiple_of(granularity.max(1)))
    }

    /// `schemata` has masks in hex, `size` has bytes; bandwidth is the same in both.
    pub(crate) fn show_limits(&self, id: GroupId, as_size: bool) -> Result<String, Errno> {
        let closid = self.group(id)?.closid;
        let limits = self.closids[closid].as_ref().ok_or(Errno::ENODEV)?;
        let names = self.cache_resources().iter().chain(self.bandwidth_resources());
        let width = names.map(|name| name.len()).max().unwrap_or(0);
        let way = self.profile.l3_bytes / u64::from(self.profile.ways);
        let mut text = String::new();
        let mut line = |name: &str, values: Vec<String>| {
            let domains = self.profile.l3_domains.iter().zip(values);
            let parts: Vec<String> = domains.map(|(id, value)| format!("{id}={value}")).collect();
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name:>width$}:{}", parts.join(";"), width = width.max(6));
        };
        for (name, values) in self.bandwidth_resources().iter().zip(&limits.bandwidth) {
            line(name, values.iter().map(u64::to_string).collect());
        }
        for (name, masks) in self.cache_resources().iter().zip(&limits.masks) {
            let size = |mask: &u64| (u64::from(mask.count_ones()) * way).to_string();
            let show = |mask: &u64| if as_size { size(mask) } else { format!("{mask:x}") };
            line(name, masks.iter().map(show).collect());
        }
        Ok(text)
    }

    /// `bit_usage`: one letter a way, the highest first.
    pub(crate) fn bit_usage(&self) -> String {
        let domains = self.profile.l3_domains.iter().enumerate();
        let parts: Vec<String> = domains
            .map(|(domain, id)| {
                let (mut shared, mut exclusive) = (0u64, 0u64);
                for group in self.groups.values().filter(|g| g.kind != super::Kind::Monitor) {
                    let Some(limits) = &self.closids[group.closid] else { continue };
                    let mask = limits.masks.iter().fold(0, |all, masks| all | masks[domain]);
                    match group.mode {
                        Mode::Shareable => shared |= mask,
                        Mode::Exclusive => exclusive |= mask,
                    }
                }
                let devices = self.profile.shareable_bits;
                let letter = |way: u32| match 1u64 << way {
                    bit if devices & bit != 0 && shared & bit != 0 => 'X',
                    bit if devices & bit != 0 => 'H',
                    bit if shared & bit != 0 => 'S',
                    bit if exclusive & bit != 0 => 'E',
                    _ => '0',
                };
                let letters: String = (0..self.profile.ways).rev().map(letter).collect();
                format!("{id}={letters}")
            })
            .collect();
        format!("{}\n", parts.join(";"))
    }
}
