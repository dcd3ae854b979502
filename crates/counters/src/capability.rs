//! What this machine can measure, found with the same calls the collector makes.

use crate::error::Error;
use crate::event::{Counter, Event};
use crate::perf::OpenCounter;
use crate::pmu::Pmus;
use crate::program;
use crosstalk_host::{
    Capability, CgroupHierarchy, CgroupVersion, Cpu, HostRoot, Kernel, Schedstat, Verdict,
    own_privileges,
};

/// Fails when the collector cannot run at all.
pub(crate) fn require(host: &HostRoot) -> Result<(), Error> {
    let btf = Kernel::btf(host);
    if !btf.exists() {
        return Err(Error::NoBtf { path: btf.display().to_string() });
    }
    program::bpf_available().map_err(Error::NoBpf)?;
    if !permitted(host) {
        return Err(Error::NotPermitted);
    }
    Ok(())
}

/// Every capability of the collector on this machine.
pub fn probe(host: &HostRoot) -> Vec<Capability> {
    let cpu = Cpu::read(host);
    let pmus = Pmus::read(host);
    let online = Cpu::online(host);
    let mut found = vec![programs(host), runq(host)];
    let mut hardware = false;
    for counter in Counter::ALL {
        let event = Event::for_vendor(counter, cpu.vendor);
        let opened = OpenCounter::open(counter, event.clone(), &pmus, &online);
        hardware |= opened.is_ok();
        found.push(match opened {
            Ok(_) => Capability::new(counter.column(), Verdict::Ok, event.to_string()),
            Err(reason) => {
                Capability::new(counter.column(), Verdict::Absent, reason).fix(counter_fix(&cpu))
            }
        });
    }
    found.push(frequency(host, hardware));
    found.push(tick(host, hardware));
    found.push(cgroups(host));
    found
}

fn programs(host: &HostRoot) -> Capability {
    const NAME: &str = "eBPF collector";
    match require(host) {
        Ok(()) => {
            let release = Kernel::read(host).release.unwrap_or_else(|| "unknown".to_owned());
            Capability::new(NAME, Verdict::Ok, format!("kernel {release} with BTF"))
        }
        Err(error) => Capability::of_error(NAME, Verdict::Required, &error),
    }
}

fn runq(host: &HostRoot) -> Capability {
    const NAME: &str = "run-queue wait";
    if Schedstat::is_kept(host) {
        Capability::new(NAME, Verdict::Ok, "the kernel's own sched_info")
    } else {
        Capability::new(NAME, Verdict::Absent, "the kernel keeps no sched_info")
            .fix("boot a kernel with CONFIG_SCHED_INFO=y (schedstats or delay accounting)")
    }
}

fn counter_fix(cpu: &Cpu) -> &'static str {
    if cpu.virtualized {
        "expose the PMU to this virtual machine (vPMU), or record on the host"
    } else {
        "load the processor's PMU driver, and lower kernel.perf_event_paranoid or run as root"
    }
}

fn frequency(host: &HostRoot, cycles: bool) -> Capability {
    const NAME: &str = "freq_mhz";
    if cycles {
        Capability::new(NAME, Verdict::Ok, "counted cycles over time on the core")
    } else if Cpu::current_mhz(host, 0).is_some() {
        Capability::new(NAME, Verdict::Limited, "scaling_cur_freq, read every 200 ms")
            .fix("with a cycle counter it is exact for every slot")
    } else {
        Capability::new(NAME, Verdict::Absent, "no cycle counter and no cpufreq driver")
            .fix("expose the PMU or cpufreq to this machine")
    }
}

fn tick(host: &HostRoot, hardware: bool) -> Capability {
    let state = crate::tick::Tick::Auto.decide(hardware, &Kernel::read(host));
    let found = format!("{}: {}", if state.on { "on" } else { "off" }, state.because);
    Capability::new("slot tick", Verdict::Ok, found)
}

fn cgroups(host: &HostRoot) -> Capability {
    const NAME: &str = "containers";
    match CgroupHierarchy::find(host) {
        Some(h) if h.version == CgroupVersion::V2 => {
            Capability::new(NAME, Verdict::Ok, format!("cgroup v2 at {}", h.mount.display()))
        }
        Some(h) => Capability::new(
            NAME,
            Verdict::Ok,
            format!("cgroup v1 memory hierarchy at {}", h.mount.display()),
        ),
        None => Capability::new(NAME, Verdict::Absent, "no cgroup file system is mounted")
            .fix("mount -t cgroup2 none /sys/fs/cgroup"),
    }
}

/// Whether this process has what loading needs: CAP_SYS_ADMIN, or CAP_BPF and CAP_PERFMON.
fn permitted(host: &HostRoot) -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    const PERFMON_AND_BPF: u64 = (1 << 38) | (1 << 39);
    // Where nothing says, let the kernel decide.
    let effective = own_privileges(host);
    effective.is_none_or(|caps| caps & SYS_ADMIN != 0 || caps & PERFMON_AND_BPF == PERFMON_AND_BPF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_btf_is_told_so_with_the_fix() {
        let dir = tempfile::tempdir().unwrap();
        let host = HostRoot::new(dir.path());
        assert!(matches!(require(&host), Err(Error::NoBtf { .. })));
        let report = probe(&host);
        assert_eq!(report[0].verdict, Verdict::Required);
        assert!(report[0].fix.as_deref().is_some_and(|fix| fix.contains("CONFIG_DEBUG_INFO_BTF")));
    }
}
