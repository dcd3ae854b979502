/// Has the allocator give back to the system what was freed and it kept for later, in the arenas of all threads.
///
/// Between two parts of a program that each need much for a while, so that the second does not come on top of what was left
/// of the first.
#[allow(unsafe_code)] // the standard library does not know the allocator's settings
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the allocator's own locks, and touches nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
