//! What memory is charged to a cgroup, and how long its tasks stood still for it.

use crate::Stalled;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

const STAT: &str = "memory.stat";

/// The lines of `memory.stat` that policies and bounds need, in bytes; what is not there is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryStat {
    /// Anonymous memory and shared memory, not used lately.
    pub inactive_anon: Option<u64>,
    /// Anonymous memory and shared memory, used lately.
    pub active_anon: Option<u64>,
    /// Page cache, not used lately.
    pub inactive_file: Option<u64>,
    /// Page cache, used lately.
    pub active_file: Option<u64>,
    /// Page cache and shared memory that some process maps.
    pub file_mapped: Option<u64>,
    /// Shared memory.
    pub shmem: Option<u64>,
    /// Locked in memory.
    pub unevictable: Option<u64>,
    /// Slab that can be reclaimed; v1 does not have it.
    pub slab: Option<u64>,
    /// Pages of files that were read back after they had been reclaimed, ever.
    pub refaults_file: Option<u64>,
    /// Anonymous pages that came back from swap, ever.
    pub refaults_anon: Option<u64>,
}

impl MemoryStat {
    /// Reads either version's file. v1 has values of the cgroup alone and, as `total_`, with those in it;
    /// v2 has only the latter, so the latter is what is taken.
    ///
    /// ```
    /// use crosstalk_host::MemoryStat;
    ///
    /// let v1 = MemoryStat::parse("active_file 1\ntotal_active_file 3\n");
    /// assert_eq!((v1.active_file, v1.inactive_file), (Some(3), None));
    /// ```
    pub fn parse(text: &str) -> Self {
        let (mut own, mut all) = (Self::default(), Self::default());
        for line in text.lines() {
            let Some((key, value)) = line.split_once(' ') else { continue };
            let Ok(value) = value.trim().parse() else { continue };
            match key.strip_prefix("total_") {
                Some(key) => all.set(key, value),
                None => own.set(key, value),
            }
        }
        let either = |all: Option<u64>, own: Option<u64>| all.or(own);
        Self {
            inactive_anon: either(all.inactive_anon, own.inactive_anon),
            active_anon: either(all.active_anon, own.active_anon),
            inactive_file: either(all.inactive_file, own.inactive_file),
            active_file: either(all.active_file, own.active_file),
            file_mapped: either(all.file_mapped, own.file_mapped),
            shmem: either(all.shmem, own.shmem),
            unevictable: either(all.unevictable, own.unevictable),
            slab: either(all.slab, own.slab),
            refaults_file: either(all.refaults_file, own.refaults_file),
            refaults_anon: either(all.refaults_anon, own.refaults_anon),
        }
    }

    fn set(&mut self, key: &str, value: u64) {
        let field = match key {
            "inactive_anon" => &mut self.inactive_anon,
            "active_anon" => &mut self.active_anon,
            "inactive_file" => &mut self.inactive_file,
            "active_file" => &mut self.active_file,
            // The second is v1's word.
            "file_mapped" | "mapped_file" => &mut self.file_mapped,
            "shmem" => &mut self.shmem,
            "unevictable" => &mut self.unevictable,
            "slab" => &mut self.slab,
            // Before 5.9 one count was kept for both, of files alone.
            "workingset_refault_file" | "workingset_refault" => &mut self.refaults_file,
            "workingset_refault_anon" => &mut self.refaults_anon,
            _ => return,
        };
        *field = Some(value);
    }
}

/// Whether memory is charged to the cgroup of this folder.
pub fn charges_memory(cgroup: &Path) -> bool {
    cgroup.join(STAT).exists()
}

/// How much more can go to swap from the cgroup of this folder, by its own limit alone; `None` where it has none.
pub fn swap_left(cgroup: &Path) -> Option<u64> {
    // A limit of "max" is no number, and none.
    let number = |file: &str| fs::read_to_string(cgroup.join(file)).ok()?.trim().parse().ok();
    let most: u64 = number("memory.swap.max")?;
    Some(most.saturating_sub(number("memory.swap.current").unwrap_or(0)))
}

/// Reads one cgroup after the other into the same buffer.
#[derive(Debug, Default)]
pub struct MemoryFiles {
    text: String,
}

impl MemoryFiles {
    /// What is charged to the cgroup of this folder, those within it included; `None` for one without the memory controller.
    ///
    /// # Errors
    /// It has the file, and the file cannot be read.
    pub fn stat(&mut self, cgroup: &Path) -> io::Result<Option<MemoryStat>> {
        match self.read(&cgroup.join(STAT)) {
            Ok(text) => Ok(Some(MemoryStat::parse(text))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How long its tasks stood still for memory; `None` where the kernel does not say.
    pub fn stalled(&mut self, cgroup: &Path) -> Option<Stalled> {
        Stalled::parse(self.read(&Stalled::cgroup_file(cgroup, "memory")).ok()?)
    }

    fn read(&mut self, file: &Path) -> io::Result<&str> {
        self.text.clear();
        File::open(file)?.read_to_string(&mut self.text)?;
        Ok(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_without_the_controller_lacks_nothing_and_one_that_cannot_be_read_says_so() {
        let root = tempfile::tempdir().unwrap();
        let mut files = MemoryFiles::default();
        assert_eq!(files.stat(root.path()).unwrap(), None);
        assert!(!charges_memory(root.path()));
        fs::create_dir(root.path().join(STAT)).unwrap();
        assert!(files.stat(root.path()).is_err());
        fs::remove_dir(root.path().join(STAT)).unwrap();
        let text = "shmem 5\nworkingset_refault_file 7\nworkingset_refault_anon x\nodd\n";
        fs::write(root.path().join(STAT), text).unwrap();
        let stat = files.stat(root.path()).unwrap().unwrap();
        assert_eq!((stat.shmem, stat.refaults_file, stat.refaults_anon), (Some(5), Some(7), None));
        assert_eq!(files.stalled(root.path()), None);
    }

    #[test]
    fn swap_has_room_up_to_a_limit_and_no_limit_is_no_number() {
        let root = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        assert_eq!(swap_left(root.path()), None);
        put("memory.swap.max", "max\n");
        assert_eq!(swap_left(root.path()), None);
        put("memory.swap.max", "100\n");
        put("memory.swap.current", "30\n");
        assert_eq!(swap_left(root.path()), Some(70));
        put("memory.swap.current", "130\n");
        assert_eq!(swap_left(root.path()), Some(0));
    }
}
