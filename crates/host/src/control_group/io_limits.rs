//! What a group may read from and write to disks.

use super::{ControlGroup, ControlGroupError, write};
use crate::HostRoot;
use std::fs;

/// A disk of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its name, such as `vda`.
    pub name: String,
    /// Its number, such as `253:0`.
    pub number: String,
}

/// Every disk that holds something, but loops and memory that only look like disks.
pub fn disks(host: &HostRoot) -> Vec<Disk> {
    let mut found = Vec::new();
    for entry in fs::read_dir(host.path("/sys/block")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let is_real = !["loop", "ram", "zram"].iter().any(|kind| name.starts_with(kind));
        let (number, size) = (read("dev"), read("size"));
        if is_real && !number.trim().is_empty() && size.trim() != "0" {
            found.push(Disk { name, number: number.trim().to_owned() });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// What may go through a disk in a second; what is absent has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoLimits {
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Bytes written.
    pub written_bytes: Option<u64>,
    /// Times something is read.
    pub reads: Option<u64>,
    /// Times something is written.
    pub writes: Option<u64>,
}

impl ControlGroup {
    /// Lets it read from and write to a disk so much in a second. In v1 only what goes past the page cache is held to
    /// it when it is written.
    ///
    /// # Errors
    /// There is no controller for disks, or the kernel refuses.
    pub fn set_io(&self, disk: &Disk, limits: &IoLimits) -> Result<(), ControlGroupError> {
        let number = &disk.number;
        if let Ok((_, file)) = self.file("io", "io.max") {
            let word = |key: &str, value: Option<u64>| {
                value.map(|value| format!(" {key}={value}")).unwrap_or_default()
            };
            let text = [
                word("rbps", limits.read_bytes),
                word("wbps", limits.written_bytes),
                word("riops", limits.reads),
                word("wiops", limits.writes),
            ];
            return write(&file, &format!("{number}{}", text.concat()));
        }
        let all = [
            ("blkio.throttle.read_bps_device", limits.read_bytes),
            ("blkio.throttle.write_bps_device", limits.written_bytes),
            ("blkio.throttle.read_iops_device", limits.reads),
            ("blkio.throttle.write_iops_device", limits.writes),
        ];
        for (file, limit) in all {
            if let Some(limit) = limit {
                write(&self.file("blkio", file)?.1, &format!("{number} {limit}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_and_disks_without_a_medium_are_no_disks_to_limit() {
        let dir = tempfile::tempdir().unwrap();
        for (name, number, size) in
            [("sdb", "8:16", "99"), ("loop0", "7:0", "9"), ("sr0", "11:0", "0")]
        {
            let folder = dir.path().join("sys/block").join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("dev"), format!("{number}\n")).unwrap();
            fs::write(folder.join("size"), format!("{size}\n")).unwrap();
        }
        let expected = Disk { name: "sdb".to_owned(), number: "8:16".to_owned() };
        assert_eq!(disks(&HostRoot::new(dir.path())), [expected]);
    }

    #[test]
    fn a_limit_is_what_the_kernel_then_says_it_is() {
        let host = HostRoot::default();
        let Some(disk) = disks(&host).into_iter().next() else {
            return eprintln!("skipped: no disk on this machine");
        };
        let name = format!("crosstalk-test-io-{}", std::process::id());
        let group = match ControlGroup::create(&host, &name) {
            Ok(group) => group,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let limits =
            IoLimits { read_bytes: Some(1 << 20), writes: Some(50), ..IoLimits::default() };
        let set = group.set_io(&disk, &limits);
        let read = |controller, file| {
            let (_, path) = group.file(controller, file).ok()?;
            fs::read_to_string(path).ok()
        };
        let told = match read("io", "io.max") {
            Some(text) => text,
            None => ["blkio.throttle.read_bps_device", "blkio.throttle.write_iops_device"]
                .map(|file| read("blkio", file).unwrap_or_default())
                .concat(),
        };
        group.remove().unwrap();
        if let Err(error) = set {
            return eprintln!("skipped: {error}");
        }
        assert!(told.contains(&disk.number) && told.contains("1048576"), "{told}");
        assert!(told.contains("50"), "{told}");
    }
}
