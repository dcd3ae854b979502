use crate::HostRoot;
use serde::Serialize;
use std::path::PathBuf;

/// Which host and kernel this is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// The host's name.
    pub hostname: Option<String>,
    /// `uname -r`.
    pub release: Option<String>,
    /// `uname -v`.
    pub version: Option<String>,
    /// Changes with every boot.
    pub boot_id: Option<String>,
}

impl Kernel {
    /// Reads `/proc/sys/kernel`.
    pub fn read(host: &HostRoot) -> Self {
        let sysctl = |name: &str| host.line(format!("/proc/sys/kernel/{name}"));
        Self {
            hostname: sysctl("hostname"),
            release: sysctl("osrelease"),
            version: sysctl("version"),
            boot_id: sysctl("random/boot_id"),
        }
    }

    /// Where the kernel describes its own types, which programs that are loaded into it need.
    #[must_use]
    pub fn btf(host: &HostRoot) -> PathBuf {
        host.path("/sys/kernel/btf/vmlinux")
    }

    /// Whether it has a file system of this kind, mounted or not.
    #[must_use]
    pub fn knows_file_system(host: &HostRoot, kind: &str) -> bool {
        let known = host.line("/proc/filesystems").unwrap_or_default();
        known.lines().any(|line| line.split_ascii_whitespace().next_back() == Some(kind))
    }

    /// Whether the kernel is fully preemptible, timer callbacks included.
    pub fn is_realtime(&self) -> bool {
        self.version.as_deref().is_some_and(|v| v.contains("PREEMPT_RT"))
    }
}

/// What tells this installation of an operating system from every other; absent where neither systemd nor the firmware
/// says, or not to us. Copies of a virtual machine may share it.
pub fn machine_id(host: &HostRoot) -> Option<String> {
    ["/etc/machine-id", "/var/lib/dbus/machine-id", "/sys/class/dmi/id/product_uuid"]
        .into_iter()
        .find_map(|file| host.line(file).filter(|id| !id.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_an_id_of_its_own_has_that_of_its_firmware_or_none() {
        let root = tempfile::tempdir().unwrap();
        let host = HostRoot::new(root.path());
        assert_eq!(machine_id(&host), None);
        for (file, id) in [("sys/class/dmi/id/product_uuid", "firmware"), ("etc/machine-id", "os")]
        {
            let file = root.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, format!("{id}\n")).unwrap();
            assert_eq!(machine_id(&host).as_deref(), Some(id));
        }
    }
}
