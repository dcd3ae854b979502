use crate::HostRoot;
use serde::Serialize;

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

    /// Whether the kernel is fully preemptible, timer callbacks included.
    pub fn is_realtime(&self) -> bool {
        self.version.as_deref().is_some_and(|v| v.contains("PREEMPT_RT"))
    }
}
