//! Which cores share a last-level cache.

use crate::error::ProbeError;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Cores that share a last-level cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct L3Domain {
    /// The kernel's id of the cache, as resctrl has it too; where it does not say, numbered from 0 in order of the
    /// first core.
    pub id: u32,
    /// The cores, ascending.
    pub cores: Vec<u32>,
}

/// Reads the last-level cache domains of the machine under `host_root`.
///
/// Where the kernel does not say (some virtual machines), all online cores are one domain.
///
/// # Errors
/// If not even the online cores are known.
pub fn l3_domains(host_root: &Path) -> Result<Vec<L3Domain>, ProbeError> {
    let cpus = host_root.join("sys/devices/system/cpu");
    let online_file = cpus.join("online");
    let text = fs::read_to_string(&online_file)
        .map_err(|source| ProbeError::Topology { path: online_file.clone(), source })?;
    let online = parse_list(&text);
    if online.is_empty() {
        return Err(ProbeError::NoCores { path: online_file });
    }
    let mut domains: BTreeMap<u32, (Option<u32>, Vec<u32>)> = BTreeMap::new();
    for &core in &online {
        let (id, shared) = last_level(&cpus.join(format!("cpu{core}/cache")));
        let first = shared.iter().copied().find(|sharer| online.contains(sharer));
        let (known, cores) = domains.entry(first.unwrap_or(online[0])).or_default();
        *known = known.or(id);
        cores.push(core);
    }
    let known: BTreeSet<u32> = domains.values().filter_map(|(id, _)| *id).collect();
    let all_differ = known.len() == domains.len();
    let named = domains.into_values().zip(0..).map(|((id, cores), number)| {
        let id = id.filter(|_| all_differ).unwrap_or(number);
        L3Domain { id, cores }
    });
    Ok(named.collect())
}

/// The id of the highest-level cache of one core and the cores that share it; none if the kernel does not say.
fn last_level(cache: &Path) -> (Option<u32>, Vec<u32>) {
    let read = |index: u32, file: &str| {
        fs::read_to_string(cache.join(format!("index{index}/{file}"))).ok()
    };
    let mut last: Option<(u32, Option<u32>, Vec<u32>)> = None;
    for index in 0..16 {
        let Some(level) = read(index, "level").and_then(|text| text.trim().parse().ok()) else {
            continue;
        };
        let id = read(index, "id").and_then(|text| text.trim().parse().ok());
        let shared = read(index, "shared_cpu_list").map(|text| parse_list(&text));
        if last.as_ref().is_none_or(|(highest, ..)| level > *highest) {
            last = shared.map(|shared| (level, id, shared)).or(last);
        }
    }
    last.map(|(_, id, shared)| (id, shared)).unwrap_or_default()
}

/// Reads a kernel list such as `0-3,8,10-11`; what is not a number is passed over.
fn parse_list(text: &str) -> Vec<u32> {
    let mut cores = Vec::new();
    for part in text.trim().split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(from), Ok(to)) = (from.trim().parse::<u32>(), to.trim().parse::<u32>()) {
            // No kernel is built for more processors than this.
            cores.extend(from..=to.min(from.saturating_add(8_191)));
        }
    }
    cores
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join("sys/devices/system/cpu").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn cores_are_grouped_by_their_highest_cache_and_offline_ones_left_out() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "online", "0-2,5\n");
        for (core, shared) in [(0, "0-1"), (1, "0-1"), (2, "2,4-5"), (5, "2,4-5")] {
            write(root.path(), &format!("cpu{core}/cache/index0/level"), "1\n");
            write(
                root.path(),
                &format!("cpu{core}/cache/index0/shared_cpu_list"),
                &core.to_string(),
            );
            write(root.path(), &format!("cpu{core}/cache/index3/level"), "3\n");
            write(root.path(), &format!("cpu{core}/cache/index3/shared_cpu_list"), shared);
        }
        let domains = l3_domains(root.path()).unwrap();
        assert_eq!(
            domains,
            [L3Domain { id: 0, cores: vec![0, 1] }, L3Domain { id: 1, cores: vec![2, 5] }]
        );
        for (core, id) in [(0, "8"), (1, "8"), (2, "16"), (5, "16")] {
            write(root.path(), &format!("cpu{core}/cache/index3/id"), id);
        }
        let ids: Vec<u32> = l3_domains(root.path()).unwrap().iter().map(|d| d.id).collect();
        assert_eq!(ids, [8, 16], "as the kernel and resctrl call them");
    }

    #[test]
    fn without_cache_files_the_machine_is_one_domain() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "online", "0-3");
        let domains = l3_domains(root.path()).unwrap();
        assert_eq!(domains, [L3Domain { id: 0, cores: vec![0, 1, 2, 3] }]);
    }

    #[test]
    fn a_machine_that_names_no_cores_is_an_error_with_the_path() {
        let root = tempfile::tempdir().unwrap();
        let error = l3_domains(root.path()).unwrap_err().to_string();
        assert!(error.contains("sys/devices/system/cpu/online"), "{error}");
        write(root.path(), "online", "garbage");
        assert!(l3_domains(root.path()).is_err());
    }
}
