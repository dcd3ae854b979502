//! Events of some threads and of all that they start from then on, counted by the kernel itself.
//!
//! This needs no program in the kernel and no slot: it is for whoever wants sums of more events than a slot has room for.

use perf_event_open_sys as sys;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, RawFd};
use sys::bindings as perf;

/// What can be counted so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyEvent {
    /// Last-level-cache references, by the kernel's generic event.
    CacheReferences,
    /// Misses of these.
    CacheMisses,
    /// Branches taken or not.
    Branches,
    /// Branches foretold wrongly.
    BranchMisses,
    /// Loads from the first-level data cache.
    L1dLoads,
    /// Those that it did not have.
    L1dLoadMisses,
    /// Loads from the last-level cache.
    LlcLoads,
    /// Those that it did not have.
    LlcLoadMisses,
    /// Page faults: these the kernel counts everywhere.
    PageFaults,
}

impl FamilyEvent {
    /// Those that need a PMU.
    pub const HARDWARE: [Self; 8] = [
        Self::CacheReferences,
        Self::CacheMisses,
        Self::Branches,
        Self::BranchMisses,
        Self::L1dLoads,
        Self::L1dLoadMisses,
        Self::LlcLoads,
        Self::LlcLoadMisses,
    ];

    const fn kind_and_config(self) -> (u32, u64) {
        const fn load(cache: u32, result: u32) -> (u32, u64) {
            let operation = perf::PERF_COUNT_HW_CACHE_OP_READ << 8;
            (perf::PERF_TYPE_HW_CACHE, (cache | operation | result << 16) as u64)
        }
        const fn generic(config: u32) -> (u32, u64) {
            (perf::PERF_TYPE_HARDWARE, config as u64)
        }
        const ALL: u32 = perf::PERF_COUNT_HW_CACHE_RESULT_ACCESS;
        const MISS: u32 = perf::PERF_COUNT_HW_CACHE_RESULT_MISS;
        match self {
            Self::CacheReferences => generic(perf::PERF_COUNT_HW_CACHE_REFERENCES),
            Self::CacheMisses => generic(perf::PERF_COUNT_HW_CACHE_MISSES),
            Self::Branches => generic(perf::PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
            Self::BranchMisses => generic(perf::PERF_COUNT_HW_BRANCH_MISSES),
            Self::L1dLoads => load(perf::PERF_COUNT_HW_CACHE_L1D, ALL),
            Self::L1dLoadMisses => load(perf::PERF_COUNT_HW_CACHE_L1D, MISS),
            Self::LlcLoads => load(perf::PERF_COUNT_HW_CACHE_LL, ALL),
            Self::LlcLoadMisses => load(perf::PERF_COUNT_HW_CACHE_LL, MISS),
            Self::PageFaults => (perf::PERF_TYPE_SOFTWARE, perf::PERF_COUNT_SW_PAGE_FAULTS as u64),
        }
    }
}

/// One event of a family.
#[derive(Debug)]
pub struct FamilyCounter {
    files: Vec<File>,
}

impl FamilyCounter {
    /// Counts from now on, for these threads and whatever they start. A thread that has ended is passed over.
    ///
    /// # Errors
    /// The machine has no such event, or this process may not count it.
    pub fn open(event: FamilyEvent, threads: &[u32]) -> io::Result<Self> {
        let mut files = Vec::with_capacity(threads.len());
        for thread in threads {
            match open(event, *thread) {
                Ok(file) => files.push(file),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { files })
    }

    /// Counts these threads too, and whatever they start, with what was counted before.
    ///
    /// # Errors
    /// This process may not count them.
    pub fn follow(&mut self, event: FamilyEvent, threads: &[u32]) -> io::Result<()> {
        self.files.extend(Self::open(event, threads)?.files);
        Ok(())
    }

    /// How often it happened since. Where the counter shared its register with others it is scaled up; `None` when it
    /// never had one, or nobody is counted.
    pub fn read(&self) -> Option<u64> {
        if self.files.is_empty() {
            return None;
        }
        let mut sum = 0.0;
        let (mut counted, mut waited) = (false, false);
        for mut file in &self.files {
            let mut bytes = [0; 24];
            file.read_exact(&mut bytes).ok()?;
            let word = |at: usize| {
                bytes[at..].first_chunk::<8>().map_or(0, |word| u64::from_ne_bytes(*word))
            };
            let (value, enabled, running) = (word(0), word(8), word(16));
            if running > 0 {
                counted = true;
                sum += value as f64 * (enabled as f64 / running as f64).max(1.0);
            } else {
                waited |= enabled > 0;
            }
        }
        (counted || !waited).then_some(sum as u64)
    }
}

fn open(event: FamilyEvent, thread: u32) -> io::Result<File> {
    let (kind, config) = event.kind_and_config();
    let mut attr = perf::perf_event_attr {
        size: size_of::<perf::perf_event_attr>() as u32,
        type_: kind,
        config,
        read_format: u64::from(
            perf::PERF_FORMAT_TOTAL_TIME_ENABLED | perf::PERF_FORMAT_TOTAL_TIME_RUNNING,
        ),
        ..Default::default()
    };
    attr.set_inherit(1);
    const EVERY_CORE: i32 = -1;
    const NO_GROUP: RawFd = -1;
    let flags = u64::from(perf::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attr` is a valid, zero-extended perf_event_attr that lives through the call.
    let fd = unsafe {
        sys::perf_event_open(&mut attr, thread as libc::pid_t, EVERY_CORE, NO_GROUP, flags as _)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor and nobody else owns it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn what_a_process_starts_later_is_counted_with_it() {
        // It waits, then starts a child that touches new memory.
        let script = "read go; sh -c 'x=; for i in 1 2 3 4 5 6 7 8 9; do x=$x$(echo $i); done'";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let counter = match FamilyCounter::open(FamilyEvent::PageFaults, &[child.id()]) {
            Ok(counter) => counter,
            Err(error) => {
                child.kill().unwrap();
                child.wait().unwrap();
                return eprintln!("skipped: {error}");
            }
        };
        let before = counter.read().unwrap();
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        child.wait().unwrap();
        // Ten processes were started, each of which touches dozens of pages.
        let faults = counter.read().unwrap() - before;
        assert!(faults > 200, "{faults}");
        let nobody = FamilyCounter::open(FamilyEvent::PageFaults, &[u32::MAX / 2]).unwrap();
        assert_eq!(nobody.read(), None, "nothing was measured");
    }
}
