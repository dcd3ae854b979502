//! What this machine's kernel lacks, in a guest with Debian's 6.12 under qemu. `make test-kernel` runs it.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod bench;
mod cold_memory;
#[path = "../../../coldmem/tests/guest/mod.rs"]
mod guest;

use guest::{Guest, kernel};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Guests are emulated and watch time pass: two at once would slow each other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guest that runs a script with our program in it.
fn guest(script: &str) -> Guest {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel-6.12");
    // Only who asks for it runs these tests: without a kernel nothing was tried, which is no success.
    let image = kernel(&kept).unwrap_or_else(|why| panic!("the kernel cannot be had here: {why}"));
    Guest::new(image, Path::new(env!("CARGO_BIN_EXE_crosstalk")), script).unwrap()
}
