//! Per-core perf events, opened so that the programs can read them.

use crate::event::{Counter, Event};
use crate::pmu::Pmus;
use perf_event_open_sys as sys;
use serde::Serialize;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What became of one counter column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CounterStatus {
    /// The column.
    pub column: &'static str,
    /// The event asked for.
    pub event: Event,
    /// Why it is absent in every row; `None` when it is counted.
    pub absent_because: Option<String>,
}

/// One event, open on every online core.
#[derive(Debug)]
pub(crate) struct OpenCounter {
    pub(crate) counter: Counter,
    pub(crate) event: Event,
    files: Vec<(u32, OwnedFd)>,
}

impl OpenCounter {
    /// Opens the event on each of `cores`, or says why it cannot be.
    pub(crate) fn open(
        counter: Counter,
        event: Event,
        pmus: &Pmus,
        cores: &[u32],
    ) -> Result<Self, String> {
        let mut open = Self { counter, event, files: Vec::new() };
        for &core in cores {
            match open.open_on(pmus, core) {
                Ok(()) => {}
                // The core went offline since it was listed.
                Err(e) if e.raw_os_error() == Some(libc::ENODEV) && core != cores[0] => {}
                Err(e) => return Err(explain(&e, core, open.event.is_hardware())),
            }
        }
        Ok(open)
    }

    /// Opens the event on one more core; does nothing when it is open there already.
    pub(crate) fn open_on(&mut self, pmus: &Pmus, core: u32) -> io::Result<()> {
        if self.files.iter().any(|(open, _)| *open == core) {
            return Ok(());
        }
        let (kind, config) = pmus.on_core(&self.event, core);
        let mut attr = sys::bindings::perf_event_attr {
            size: size_of::<sys::bindings::perf_event_attr>() as u32,
            type_: kind,
            config,
            ..Default::default()
        };
        const EVERY_PROCESS: libc::pid_t = -1;
        const NO_GROUP: RawFd = -1;
        let flags = u64::from(sys::bindings::PERF_FLAG_FD_CLOEXEC);
        // SAFETY: `attr` is a valid, zero-extended perf_event_attr that lives through the call.
        let fd = unsafe {
            sys::perf_event_open(&mut attr, EVERY_PROCESS, core as i32, NO_GROUP, flags as _)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor and nobody else owns it.
        self.files.push((core, unsafe { OwnedFd::from_raw_fd(fd) }));
        Ok(())
    }

    /// Forgets the event of a core that went offline.
    pub(crate) fn close_on(&mut self, core: u32) {
        self.files.retain(|(open, _)| *open != core);
    }

    /// The cores and descriptors.
    pub(crate) fn files(&self) -> impl Iterator<Item = (u32, RawFd)> + '_ {
        self.files.iter().map(|(core, fd)| (*core, fd.as_raw_fd()))
    }
}

fn explain(error: &io::Error, core: u32, hardware: bool) -> String {
    let why = match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) if hardware => {
            "the kernel has no such event here; a virtual machine without a PMU is the usual cause"
        }
        Some(libc::EACCES | libc::EPERM) => "CAP_PERFMON or root is needed",
        Some(libc::EMFILE) => "too many open files; raise ulimit -n",
        Some(libc::EBUSY) => "another user holds the PMU exclusively",
        Some(libc::EINVAL) => "this processor does not know the event",
        _ => "perf_event_open failed",
    };
    format!("core {core}: {why} ({error})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_names_the_core_and_the_cause() {
        let text = explain(&io::Error::from_raw_os_error(libc::ENOENT), 3, true);
        assert!(text.contains("core 3") && text.contains("PMU"), "{text}");
    }
}
