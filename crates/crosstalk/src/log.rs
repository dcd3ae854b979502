//! The log of a service, on standard error.

use std::io::{IsTerminal, stderr};
use tracing_subscriber::EnvFilter;

/// Logs from `level` up, unless `RUST_LOG` says otherwise. Whoever reads it may be gone (a restarted log daemon): that is
/// no reason to stop.
pub(crate) fn start(level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    // Colours are for people; a file or a log collector would get them as bytes.
    log.with_ansi(stderr().is_terminal()).log_internal_errors(false).init();
}
