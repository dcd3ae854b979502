//! The clock of one thread, as a perf event: counts while the thread is on a processor, and can be read from outside.
#![allow(unsafe_code)] // one system call that neither rustix nor the standard library offers

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

use perf_event_open_sys as sys;

#[derive(Debug)]
pub(crate) struct TaskClock(File);

impl TaskClock {
    /// Begins at 0.
    ///
    /// # Errors
    /// Not allowed (`CAP_PERFMON` is needed for processes of others), too many open files, or the thread has gone.
    pub(crate) fn open(tid: u32) -> io::Result<Self> {
        let mut attr = sys::bindings::perf_event_attr {
            size: size_of::<sys::bindings::perf_event_attr>() as u32,
            type_: sys::bindings::PERF_TYPE_SOFTWARE,
            config: u64::from(sys::bindings::PERF_COUNT_SW_TASK_CLOCK),
            ..Default::default()
        };
        let (any_core, no_group) = (-1, -1);
        let flags = u64::from(sys::bindings::PERF_FLAG_FD_CLOEXEC);
        let tid = i32::try_from(tid).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: `attr` is a valid, zero-extended perf_event_attr that lives through the call.
        let fd = unsafe { sys::perf_event_open(&mut attr, tid, any_core, no_group, flags as _) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor and nobody else owns it.
        Ok(Self(unsafe { File::from_raw_fd(fd) }))
    }

    /// Nanoseconds on a processor since it was opened; `None` when the kernel no longer says.
    pub(crate) fn read(&mut self) -> Option<u64> {
        let mut value = [0; 8];
        let whole = self.0.read(&mut value).ok()? == value.len();
        whole.then(|| u64::from_ne_bytes(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn another_process_is_timed_to_the_moment_of_asking() {
        let mut child =
            std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut clock = TaskClock::open(child.id()).unwrap();
        // A run time that only ticks and switches bring forward stands still between them.
        let until = Instant::now() + Duration::from_secs(10);
        let (mut last, mut in_a_row, mut began) = (0, 0, Instant::now());
        while (in_a_row < 4 || began.elapsed() > Duration::from_millis(2)) && Instant::now() < until
        {
            let now = clock.read().unwrap();
            in_a_row = if now > last { in_a_row + 1 } else { 0 };
            if in_a_row <= 1 || began.elapsed() > Duration::from_millis(2) {
                (in_a_row, began) = (in_a_row.min(1), Instant::now());
            }
            last = now;
            #[allow(clippy::disallowed_methods)] // the pace of looking
            std::thread::sleep(Duration::from_micros(200));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(in_a_row >= 4, "{last} ns, and never four looks in 2 ms that each found more");
    }
}
