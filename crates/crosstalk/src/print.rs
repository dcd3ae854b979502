//! What was asked for is the output: not having written it is a failure.

use anyhow::{Context, Result};
use std::io::Write;
use std::process::ExitCode;

/// Which configuration to print.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Print {
    /// The commented one with all defaults
    Sample,
    /// What file, environment and flags come to, with secrets hidden
    Effective,
}

pub(crate) fn print(text: &str) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}
