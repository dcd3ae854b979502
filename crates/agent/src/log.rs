//! What the operator is told.

use crosstalk_host::Capability;
use std::fmt::Display;
use std::io::{Write, stderr};

/// One line to standard error. Whoever reads it may be gone (a restarted log daemon); that is
/// no reason to stop measuring, as `eprintln!` would.
pub(crate) fn say(line: impl Display) {
    let _ = stderr().write_all(format!("crosstalk agent: {line}\n").as_bytes());
}

/// Tells the operator how a source or a consumer stands when that is news.
pub(crate) fn tell(capability: &Capability) {
    let Capability { name, verdict, found, fix } = capability;
    let fix = fix.as_ref().map(|fix| format!("; {fix}")).unwrap_or_default();
    say(format_args!("{name}: {verdict}: {found}{fix}"));
}
