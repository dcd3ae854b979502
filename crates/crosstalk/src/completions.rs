//! `crosstalk completions`.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  crosstalk completions bash > /etc/bash_completion.d/crosstalk")]
pub(crate) struct Args {
    /// The shell to complete for
    shell: Shell,
}

pub(crate) fn run<Cli: CommandFactory>(args: &Args) -> Result<ExitCode> {
    clap_complete::generate(args.shell, &mut Cli::command(), "crosstalk", &mut io::stdout());
    Ok(ExitCode::SUCCESS)
}
