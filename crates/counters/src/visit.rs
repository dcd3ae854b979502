//! Runs this thread once on every core, so that each has a context switch.
//!
//! Done at the start (every core's state begins) and at the end (every core's last slot is handed
//! over); never in between, because it wakes idle cores.

use crosstalk_host::thread::{allowed_cores, stay_on};
use std::io;

/// Visits the cores and returns the ones that could not be (a cpuset forbids them).
pub(crate) fn every_core(cores: &[u32]) -> io::Result<Vec<u32>> {
    let before = allowed_cores()?;
    // A running thread has moved before the call returns.
    let missed = cores.iter().copied().filter(|core| stay_on(&[*core]).is_err()).collect();
    stay_on(&before)?;
    Ok(missed)
}
