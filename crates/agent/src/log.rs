//! What the operator is told.

use std::fmt::Display;
use std::io::{Write, stderr};

/// One line to standard error. Whoever reads it may be gone (a restarted log daemon); that is
/// no reason to stop measuring, as `eprintln!` would.
pub(crate) fn say(line: impl Display) {
    let _ = stderr().write_all(format!("crosstalk agent: {line}\n").as_bytes());
}
