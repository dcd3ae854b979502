//! What a signal means to a run.

use anyhow::{Context, Result};
use libc::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// True once a run is to end, and once it is to end at once.
pub(super) struct EndAsked {
    pub(super) stop: Arc<AtomicBool>,
    pub(super) hurry: Arc<AtomicBool>,
}

/// The first signal asks everybody to stop, the second kills them without waiting, and either way everything is taken
/// back. Only the third ends this program as it stands.
pub(super) fn listen() -> Result<EndAsked> {
    let asked = EndAsked { stop: Arc::default(), hurry: Arc::default() };
    let flags = [Arc::clone(&asked.stop), Arc::clone(&asked.hurry)];
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot handle signals")?;
    thread::spawn(move || {
        let mut flags = flags.into_iter();
        for signal in signals.forever() {
            match flags.next() {
                Some(flag) => flag.store(true, Ordering::Relaxed),
                None => drop(emulate_default_handler(signal)),
            }
        }
    });
    Ok(asked)
}
