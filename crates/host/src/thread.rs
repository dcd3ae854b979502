//! The calling thread: how it is scheduled, where it runs, and what it has cost.
#![allow(unsafe_code)] // two system calls that neither rustix nor the standard library offers

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::CString;
use std::io;
use std::time::Duration;

/// Preferred, but still in the fair class: what wakes in the real-time class is sent to another processor where one is
/// free, and in a virtual machine that alone costs more than a read.
const NICENESS: i32 = -15;
/// The fair class lets whoever runs finish a slice of about 3 ms, except before one with a shorter slice. This is the
/// shortest there is, since Linux 6.12; older kernels ignore it.
const SLICE_NS: u64 = 100_000;

/// The first version of the kernel's `struct sched_attr`.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Gives the thread a name, cut to 15 bytes; that of a process is its first thread's.
///
/// # Errors
/// The name holds a zero byte, or the kernel refuses.
pub fn set_name(name: &str) -> io::Result<()> {
    let name = CString::new(name.get(..15).unwrap_or(name)).map_err(io::Error::other)?;
    rustix::thread::set_name(&name).map_err(io::Error::from)
}

fn schedule(policy: i32, nice: i32, runtime: u64) -> io::Result<()> {
    schedule_with(policy, nice, runtime, 0)
}

fn schedule_with(policy: i32, nice: i32, runtime: u64, flags: u64) -> io::Result<()> {
    const { assert!(size_of::<SchedAttr>() == 48) };
    let (size, policy) = (size_of::<SchedAttr>() as u32, policy as u32);
    let attr = SchedAttr { size, policy, flags, nice, runtime, ..SchedAttr::default() };
    // SAFETY: the structure has the size it says and lives through the call, which changes nothing but how this thread
    // is scheduled.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the calling thread, and those it starts, run as soon as they wake: for one that must read, or answer, at the
/// edge of a slot and uses little of a processor. Without the right to be preferred it still has a shorter slice, and
/// on older kernels it is sometimes late.
pub fn prefer() {
    if schedule(libc::SCHED_OTHER, NICENESS, SLICE_NS).is_err() {
        let _ = schedule(libc::SCHED_OTHER, 0, SLICE_NS);
    }
}

/// The same for the calling thread alone: threads and processes that it starts take their turn like everybody else. Without
/// the right to be preferred nothing changes.
pub fn prefer_alone() {
    /// `SCHED_FLAG_RESET_ON_FORK`
    const ALONE: u64 = 1;
    let _ = schedule_with(libc::SCHED_OTHER, NICENESS, SLICE_NS, ALONE);
}

/// Takes a turn like everybody else, and a short one. A thread that was made idle may need a right to come back
/// (CAP_SYS_NICE, or a limit on niceness that allows 0).
///
/// # Errors
/// Without that right.
pub fn be_normal() -> io::Result<()> {
    schedule(libc::SCHED_OTHER, 0, SLICE_NS)
}

/// Runs only when no one else wants the core. Falls back to the highest niceness where the scheduling class is not
/// allowed.
///
/// # Errors
/// Neither is allowed.
pub fn be_idle() -> io::Result<()> {
    schedule(libc::SCHED_IDLE, 0, 0).or_else(|_| schedule(libc::SCHED_OTHER, 19, 0))
}

/// Keeps to these cores.
///
/// # Errors
/// None of them is there, or this thread is not allowed on any.
pub fn stay_on(cores: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &core in cores.iter().filter(|core| (**core as usize) < CpuSet::MAX_CPU) {
        set.set(core as usize);
    }
    sched_setaffinity(None, &set).map_err(Into::into)
}

/// The cores it may run on.
///
/// # Errors
/// The kernel does not say.
pub fn allowed_cores() -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).map(|core| core as u32).collect())
}

/// The core this thread is on right now.
#[must_use]
pub fn core() -> u32 {
    sched_getcpu() as u32
}

/// Processor time this thread has used: what work costs, however long others make it wait.
#[must_use]
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own: the class of the test's thread is not ours to change.
    fn policy_after(change: impl FnOnce() + Send + 'static) -> i32 {
        let thread = std::thread::spawn(move || {
            change();
            // SAFETY: 0 is the calling thread, and the call takes no pointer.
            unsafe { libc::sched_getscheduler(0) }
        });
        thread.join().unwrap()
    }

    #[test]
    fn an_idle_thread_is_in_the_idle_class_and_a_preferred_one_is_not_in_the_real_time_class() {
        assert_eq!(policy_after(|| be_idle().unwrap()), libc::SCHED_IDLE);
        assert_eq!(policy_after(prefer), libc::SCHED_OTHER);
        let returned = || {
            be_idle().unwrap();
            be_normal().unwrap();
        };
        assert_eq!(policy_after(returned), libc::SCHED_OTHER);
    }

    #[test]
    fn who_is_preferred_alone_starts_others_that_are_not() {
        // SAFETY: in Linux this is of the calling thread, and the call takes no pointer.
        let niceness = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let thread = std::thread::spawn(move || {
            let before = niceness();
            prefer_alone();
            let child = std::process::Command::new("nice").output().unwrap();
            let child = String::from_utf8(child.stdout).unwrap();
            (before, niceness(), std::thread::spawn(niceness).join().unwrap(), child)
        });
        let (before, own, others, child) = thread.join().unwrap();
        assert!(own == NICENESS || own == before, "preferred where that is allowed: {own}");
        if own == NICENESS {
            assert_eq!((others, child.trim()), (0, "0"));
        }
    }

    #[test]
    fn a_thread_stays_where_it_is_told_to_and_knows_what_it_cost() {
        let thread = std::thread::spawn(|| {
            let (here, before) = (core(), cpu_time());
            stay_on(&[here]).unwrap();
            while cpu_time() == before {}
            (here, core(), stay_on(&[]).is_err())
        });
        let (here, there, refused) = thread.join().unwrap();
        assert_eq!((here, refused), (there, true));
    }
}
