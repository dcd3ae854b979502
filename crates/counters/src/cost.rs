//! What the collector itself costs.

use crate::error::Error;
use crate::program::Programs;
use libbpf_rs::libbpf_sys;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// What the kernel programs cost, from samples of their run time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Mean run time of a program; absent until a sample was taken.
    pub ns_per_run: Option<f64>,
}

/// Turns the kernel's program statistics on for a moment every few seconds: left on they would
/// cost two clock readings a context switch.
#[derive(Debug, Default)]
pub(crate) struct CostSampler {
    sampling: Option<(OwnedFd, Instant)>,
    last: Option<Instant>,
}

const EVERY: Duration = Duration::from_secs(5);
const FOR: Duration = Duration::from_millis(50);

impl CostSampler {
    /// Called at every poll: starts or ends a sample when it is due.
    pub(crate) fn step(&mut self) {
        match &self.sampling {
            Some((_, since)) if since.elapsed() >= FOR => self.sampling = None,
            Some(_) => {}
            None if self.last.is_none_or(|last| last.elapsed() >= EVERY) => {
                self.last = Some(Instant::now());
                // A kernel without program statistics simply reports no cost.
                self.sampling = enable_stats().ok().map(|fd| (fd, Instant::now()));
            }
            None => {}
        }
    }

    /// The cost over all samples so far.
    pub(crate) fn cost(&self, programs: &Programs) -> Result<Cost, Error> {
        let (mut runs, mut ns) = (0u64, 0u64);
        for fd in programs.descriptors() {
            let (count, time) = run_stats(fd)
                .map_err(|e| Error::kernel("cannot read the programs' run time", e))?;
            runs += count;
            ns += time;
        }
        Ok(Cost { ns_per_run: (runs > 0).then(|| ns as f64 / runs as f64) })
    }
}

fn enable_stats() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just given us this descriptor; statistics stay on while it is open.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn run_stats(fd: i32) -> io::Result<(u64, u64)> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut size = size_of_val(&info) as u32;
    // SAFETY: `info` is zeroed and as large as `size` says, so the kernel copies no lists into it.
    let result = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd, &mut info, &mut size) };
    if result != 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    Ok((info.run_cnt, info.run_time_ns))
}
