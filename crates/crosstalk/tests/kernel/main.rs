//! What this machine's kernel lacks, in guests with Debian's 6.12 and its newest under qemu. `make test-kernel` runs it.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod bench;
mod cold_memory;
mod filters;
#[path = "../../../coldmem/tests/guest/mod.rs"]
mod guest;

use guest::{Guest, kernel, newer_kernel};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Guests are emulated and watch time pass: two at once would slow each other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guest that runs a script with our program in it.
fn guest(script: &str) -> Guest {
    with(kernel(&kept("kernel-6.12")), script)
}

/// The same with the newest kernel there is.
fn newer_guest(script: &str) -> Guest {
    with(newer_kernel(&kept("kernel-newer")), script)
}

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Only who asks for it runs these tests: without a kernel nothing was tried, which is no success.
fn with(image: Result<PathBuf, String>, script: &str) -> Guest {
    let image = image.unwrap_or_else(|why| panic!("the kernel cannot be had here: {why}"));
    Guest::new(image, Path::new(env!("CARGO_BIN_EXE_crosstalk")), script).unwrap()
}
