//! Being let onto a processor at once.
#![allow(unsafe_code)] // one system call that neither rustix nor the standard library offers

/// Preferred, but still in the fair class: what wakes in the real-time class is sent to another processor where one is
/// free, and in a virtual machine that alone costs more than a read.
const NICENESS: i32 = -15;
/// The fair class lets whoever runs finish a slice of about 3 ms, except before one with a shorter slice. This is the
/// shortest there is, since Linux 6.12; older kernels ignore it.
const SLICE_NS: u64 = 100_000;

/// The first version of the kernel's structure.
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

/// Lets the calling thread, and those it starts, run as soon as they wake: for one that must read, or answer, at the
/// edge of a slot and uses little of a processor. Without the right to be preferred it still has a shorter slice, and
/// on older kernels it is sometimes late.
pub fn prefer_this_thread() {
    const { assert!(size_of::<SchedAttr>() == 48) };
    for nice in [NICENESS, 0] {
        let attr = SchedAttr {
            size: size_of::<SchedAttr>() as u32,
            policy: libc::SCHED_OTHER as u32,
            nice,
            runtime: SLICE_NS,
            ..SchedAttr::default()
        };
        // SAFETY: the structure has the size it says and lives through the call, which changes nothing but how this
        // thread is scheduled.
        if unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) } == 0 {
            return;
        }
    }
}
