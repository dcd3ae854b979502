//! Commands that another program does, as git starts its parts: beside this one, else in the PATH.

use anyhow::{Context, Result, bail};
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The program with the query engine, which a node has no use for.
const SQL: &str = "crosstalk-sql";

/// Everything behind the command's name: the part knows what it means.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    rest: Vec<OsString>,
}

/// Becomes the part that does `command`.
pub(crate) fn run(command: &str, args: &Args) -> Result<ExitCode> {
    let error = sql(command)?.arg(command).args(&args.rest).exec();
    Err(error).with_context(|| format!("cannot start {SQL}"))
}

/// The part, ready to be started for `command`.
pub(crate) fn sql(command: &str) -> Result<Command> {
    let own = env::current_exe().unwrap_or_default();
    let path = env::var_os("PATH").unwrap_or_default();
    match find(&own, &path) {
        Some(part) => Ok(Command::new(part)),
        None => bail!(
            "crosstalk {command} is done by {SQL}, which is neither beside {} nor in the PATH; build it with: make sql \
             (its query engine takes some minutes), or install it with: make install",
            own.display()
        ),
    }
}

fn find(own: &Path, path: &OsStr) -> Option<PathBuf> {
    let beside = own.parent().map(Path::to_owned);
    beside
        .into_iter()
        .chain(env::split_paths(path))
        .map(|folder| folder.join(SQL))
        .find(|p| p.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_beside_the_program_is_taken_before_one_in_the_path() {
        let (bin, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let own = bin.path().join("crosstalk");
        let path = other.path().as_os_str();
        assert_eq!(find(&own, path), None);
        std::fs::write(other.path().join(SQL), "").unwrap();
        assert_eq!(find(&own, path), Some(other.path().join(SQL)));
        std::fs::write(bin.path().join(SQL), "").unwrap();
        assert_eq!(find(&own, path), Some(bin.path().join(SQL)));
    }
}
