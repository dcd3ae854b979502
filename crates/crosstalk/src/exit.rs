//! Exit codes, documented in `crosstalk --help`.

use crosstalk_host::{Capability, Verdict};
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

/// A source without which there is nothing to do cannot work.
#[derive(Debug)]
pub(crate) struct SourceFailed(pub(crate) Capability);

impl std::fmt::Display for SourceFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.found)?;
        self.0.fix.as_ref().map_or(Ok(()), |fix| write!(f, "; {fix}"))
    }
}

impl std::error::Error for SourceFailed {}

/// The exit code that tells scripts what kind of failure `error` is.
pub(crate) fn code_of(error: &anyhow::Error) -> ExitCode {
    if error.is::<BadArgument>() || error.is::<crosstalk_settings::SettingsError>() {
        return USAGE.into();
    }
    if let Some(SourceFailed(capability)) = error.downcast_ref() {
        let lacking = capability.verdict == Verdict::Absent || capability.name != "counters";
        return if lacking { MACHINE } else { FAILED }.into();
    }
    if error.is::<crosstalk_recording::Error>() { OUTPUT.into() } else { FAILED.into() }
}
