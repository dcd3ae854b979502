//! Which cores share a last-level cache.

use crate::{CpuSet, HostError, HostRoot};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

const CPUS: &str = "/sys/devices/system/cpu";

/// Cores that share a last-level cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct L3Domain {
    /// The kernel's id of the cache, as resctrl has it too; where it does not say, numbered from 0 in order of the
    /// first core.
    pub id: u32,
    /// The cores, ascending.
    pub cores: Vec<u32>,
}

/// The last-level cache domains of this machine. Where the kernel does not say (some virtual machines), all online
/// cores are one domain.
///
/// # Errors
/// If not even the online cores are known.
pub fn l3_domains(host: &HostRoot) -> Result<Vec<L3Domain>, HostError> {
    let online = online(host)?;
    let mut domains: BTreeMap<u32, (Option<u32>, Vec<u32>)> = BTreeMap::new();
    for &core in &online {
        let cache = last_level(host, core);
        let shared = cache.iter().flat_map(|cache| cache.cores.iter());
        let first = shared.into_iter().find(|sharer| online.contains(sharer));
        let (known, cores) = domains.entry(first.unwrap_or(online[0])).or_default();
        *known = known.or(cache.as_ref().and_then(|cache| cache.id));
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

/// The cores that are online, of which there is at least one.
fn online(host: &HostRoot) -> Result<Vec<u32>, HostError> {
    let file = format!("{CPUS}/online");
    let failed =
        |kind, text| HostError { path: host.path(&file), source: io::Error::new(kind, text) };
    let text = host.read(&file)?;
    let text = text.ok_or_else(|| failed(io::ErrorKind::NotFound, "no such file"))?;
    let cores: Vec<u32> = CpuSet::parse_list(&text).unwrap_or_default().iter().collect();
    if cores.is_empty() {
        return Err(failed(io::ErrorKind::InvalidData, "names no core"));
    }
    Ok(cores)
}

/// The cache furthest from a core.
pub(crate) struct LastLevel {
    pub(crate) level: u32,
    pub(crate) id: Option<u32>,
    pub(crate) size: Option<String>,
    cores: CpuSet,
}

/// What the kernel says of the last-level cache of a core; `None` if it says nothing.
pub(crate) fn last_level(host: &HostRoot, core: u32) -> Option<LastLevel> {
    let cache = |index: u32| {
        let read = |file: &str| host.line(format!("{CPUS}/cpu{core}/cache/index{index}/{file}"));
        Some(LastLevel {
            level: read("level")?.parse().ok()?,
            id: read("id").and_then(|text| text.parse().ok()),
            size: read("size"),
            cores: read("shared_cpu_list").and_then(|text| CpuSet::parse_list(&text))?,
        })
    };
    // Of two at one level, the first: level 1 has one for data and one for instructions.
    (0..16).filter_map(cache).reduce(|last, next| if next.level > last.level { next } else { last })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join("sys/devices/system/cpu").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn domains(root: &Path) -> Result<Vec<L3Domain>, HostError> {
        l3_domains(&HostRoot::new(root))
    }

    #[test]
    fn cores_are_grouped_by_their_highest_cache_and_offline_ones_left_out() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(root, "online", "0-2,5\n");
        for (core, shared) in [(0, "0-1"), (1, "0-1"), (2, "2,4-5"), (5, "2,4-5")] {
            let cache = format!("cpu{core}/cache");
            write(root, &format!("{cache}/index0/level"), "1\n");
            write(root, &format!("{cache}/index0/shared_cpu_list"), &core.to_string());
            write(root, &format!("{cache}/index3/level"), "3\n");
            write(root, &format!("{cache}/index3/shared_cpu_list"), shared);
        }
        let numbered =
            [L3Domain { id: 0, cores: vec![0, 1] }, L3Domain { id: 1, cores: vec![2, 5] }];
        assert_eq!(domains(root).unwrap(), numbered);
        for (core, id) in [(0, "8"), (1, "8"), (2, "16"), (5, "16")] {
            write(root, &format!("cpu{core}/cache/index3/id"), id);
        }
        let ids: Vec<u32> = domains(root).unwrap().iter().map(|domain| domain.id).collect();
        assert_eq!(ids, [8, 16], "as the kernel and resctrl call them");
    }

    #[test]
    fn without_cache_files_the_machine_is_one_domain() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "online", "0-3");
        assert_eq!(domains(root.path()).unwrap(), [L3Domain { id: 0, cores: vec![0, 1, 2, 3] }]);
    }

    #[test]
    fn a_machine_that_names_no_cores_is_an_error_with_the_path() {
        let root = tempfile::tempdir().unwrap();
        let error = domains(root.path()).unwrap_err().to_string();
        assert!(error.contains("sys/devices/system/cpu/online"), "{error}");
        write(root.path(), "online", "garbage");
        assert!(domains(root.path()).is_err());
    }
}
