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

    /// The number of the PID namespace that this process is in: what a pid means elsewhere is another process.
    #[must_use]
    pub fn pid_namespace(host: &HostRoot) -> Option<u64> {
        // `pid:[4026531836]`
        let link = std::fs::read_link(host.path("/proc/self/ns/pid")).ok()?;
        link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
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
    fn processes_of_one_pid_namespace_have_its_number_and_no_proc_has_none() {
        let host = HostRoot::default();
        let own = Kernel::pid_namespace(&host);
        assert!(own.is_some());
        let child = std::process::Command::new("readlink").arg("/proc/self/ns/pid").output();
        let told = String::from_utf8(child.unwrap().stdout).unwrap();
        assert_eq!(told.trim(), format!("pid:[{}]", own.unwrap()));
        assert_eq!(Kernel::pid_namespace(&HostRoot::new("/nowhere")), None);
    }

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
