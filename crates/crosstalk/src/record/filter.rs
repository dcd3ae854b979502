//! Which rows are kept.

use super::{Args, bad};
use anyhow::Result;
use crosstalk_host::HostRoot;
use crosstalk_identity::{Cgroup, Cgroups};
use crosstalk_model::TaskReading;

/// Keeps rows by process and by cgroup; with neither given, all of them.
pub(super) struct Filter {
    pids: Vec<u32>,
    cgroup: Option<String>,
}

impl Filter {
    /// Checks that what is asked for exists.
    pub(super) fn new(args: &Args, host: &HostRoot) -> Result<Self> {
        for pid in &args.pid {
            if !host.path(format!("/proc/{pid}")).is_dir() {
                return Err(bad(format!(
                    "--pid {pid}: there is no such process; list them with ps -e"
                )));
            }
        }
        let cgroup = match &args.cgroup {
            None => None,
            Some(path) => Some(Cgroups::new(host).find(path).ok_or_else(|| {
                bad(format!(
                    "--cgroup {path}: there is no such cgroup; list them with systemd-cgls"
                ))
            })?),
        };
        Ok(Self { pids: args.pid.clone(), cgroup })
    }

    pub(super) fn keeps(&self, reading: &TaskReading, cgroup: &Cgroup) -> bool {
        let by_pid = self.pids.is_empty() || self.pids.contains(&reading.process.pid);
        let by_cgroup = self.cgroup.as_deref().is_none_or(|wanted| {
            let path = cgroup.path.as_deref().unwrap_or_default();
            path.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        by_pid && by_cgroup
    }
}
