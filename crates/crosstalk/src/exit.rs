//! Exit codes, documented in `crosstalk --help`.

use std::process::ExitCode;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const MACHINE: u8 = 3;
const OUTPUT: u8 = 4;

/// An argument that parsed but cannot be.
#[derive(Debug)]
pub(crate) struct BadArgument(pub(crate) String);

impl std::fmt::Display for BadArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadArgument {}

/// The exit code that tells scripts what kind of failure `error` is.
pub(crate) fn code_of(error: &anyhow::Error) -> ExitCode {
    use crosstalk_counters::Error as Counters;
    if error.is::<BadArgument>() || error.is::<crosstalk_processor::config::ConfigError>() {
        return USAGE.into();
    }
    if let Some(counters) = error.downcast_ref::<Counters>() {
        return match counters {
            Counters::Kernel { .. } => FAILED,
            _ => MACHINE,
        }
        .into();
    }
    if error.is::<crosstalk_resctrl::Error>() {
        return MACHINE.into();
    }
    if error.is::<crosstalk_recording::Error>() { OUTPUT.into() } else { FAILED.into() }
}
