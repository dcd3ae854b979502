//! The command that is recorded.

use super::bad;
use anyhow::{Context, Result};
use std::env;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{self, Command, ExitCode, ExitStatus};

pub(super) struct Child(process::Child);

/// Whether there is such a program, before anything is written for its sake.
pub(super) fn check(command: &[String]) -> Result<()> {
    let Some(program) = command.first() else { return Ok(()) };
    let is_there = if program.contains('/') {
        Path::new(program).is_file()
    } else {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).any(|folder| folder.join(program).is_file())
    };
    if is_there {
        Ok(())
    } else {
        Err(bad(format!("cannot run {program}: there is no such program")))
    }
}

impl Child {
    /// Starts the command, if there is one.
    pub(super) fn spawn(command: &[String]) -> Result<Option<Self>> {
        let Some((program, arguments)) = command.split_first() else { return Ok(None) };
        let child = Command::new(program)
            .args(arguments)
            .spawn()
            .map_err(|e| bad(format!("cannot run {program}: {e}")))?;
        Ok(Some(Self(child)))
    }

    /// The status to exit with, once the command has ended.
    pub(super) fn ended(&mut self) -> Result<Option<ExitCode>> {
        let status = self.0.try_wait().context("cannot wait for the command")?;
        Ok(status.map(code))
    }

    /// Asks the command to end, and waits for it.
    #[allow(unsafe_code)] // the standard library only knows SIGKILL
    pub(super) fn end(mut self) -> Result<ExitCode> {
        if self.0.try_wait().context("cannot wait for the command")?.is_none() {
            // SAFETY: the child has not been waited for, so its pid is still its own.
            unsafe { libc::kill(self.0.id() as libc::pid_t, libc::SIGTERM) };
        }
        self.0.wait().map(code).context("cannot wait for the command")
    }
}

/// A command ended by a signal gives 128 + its number, as shells do.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
