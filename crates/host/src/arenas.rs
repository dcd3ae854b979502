/// Has the allocator keep two arenas of memory instead of as many as there are threads at work, up to eight for each core.
///
/// Each arena keeps what was freed in it. A program of dozens of threads, most of which wait, holds several times what it
/// uses; one that must stay small calls this before it starts any. Threads that allocate at once wait for each other, so
/// it is not for those that allocate where time counts.
#[allow(unsafe_code)] // the standard library does not know the allocator's settings
pub fn keep_few_arenas() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes a lock of its own, and only keeps the number.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
    }
}
