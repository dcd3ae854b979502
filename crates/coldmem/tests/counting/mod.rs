//! Counts what a thread allocates. It is in the program of whoever names this module.
#![allow(unsafe_code)] // an allocator is unsafe by nature

use crosstalk_coldmem::{IdleInfo, IdleRow};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands every call on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends may allocate after its count is gone.
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A file of kidled with so many buckets: six lines of header and seventeen rows.
pub(crate) fn text(columns: usize) -> String {
    let edges: Vec<String> = (1..=columns).map(|edge| edge.to_string()).collect();
    let header = "# version: 1.0\n# page_scans: 24\n# slab_scans: 1\n# scan_period_in_seconds: 120\n\
                  # use_hierarchy: 1\n";
    let header = format!("{header}# buckets: {}\n", edges.join(","));
    let cells = " 4096".repeat(columns);
    IdleRow::NAMES.iter().fold(header, |text, row| format!("{text}  {row}{cells}\n"))
}

/// What reading a text allocates.
pub(crate) fn allocations(info: &mut IdleInfo, text: &str) -> u64 {
    let before = COUNT.get();
    info.parse(text).expect("a whole file");
    COUNT.get() - before
}
