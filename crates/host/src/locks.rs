use crate::HostRoot;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The process that `/proc/locks` names as the holder of an exclusive flock(2) on a file.
#[must_use]
pub fn lock_holder(host: &HostRoot, locked: &Metadata) -> Option<u32> {
    holder(&host.line("/proc/locks")?, &place(locked))
}

/// A file as the kernel names it there: `00:2a:5`, device and inode.
fn place(meta: &Metadata) -> String {
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    format!("{major:02x}:{minor:02x}:{}", meta.ino())
}

/// Lines such as `1: FLOCK  ADVISORY  WRITE 1234 00:2a:5 0 EOF`.
fn holder(locks: &str, place: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        match fields[..] {
            [_, "FLOCK", _, "WRITE", pid, locked, ..] if locked == place => pid.parse().ok(),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found_by_device_and_inode() {
        let text = "1: POSIX  ADVISORY  WRITE 11 00:2a:5 0 EOF\n\
            2: FLOCK  ADVISORY  WRITE 33 00:2b:5 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 22 00:2a:5 0 EOF\n\nodd\n";
        assert_eq!(holder(text, "00:2a:5"), Some(22));
        assert_eq!(holder(text, "00:2a:6"), None);
    }
}
