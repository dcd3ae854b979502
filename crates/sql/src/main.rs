//! The `crosstalk-sql` program, which `crosstalk sql`, `compact`, `rollup` and `analyze --engine` start.

mod command;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

/// SQL over recordings, and what keeps years of them small. Started by crosstalk.
#[derive(Parser)]
#[command(name = "crosstalk", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Ask recordings in SQL: one query, or one after the other
    Sql(command::sql::Args),
    /// Merge the small files of each day into large ones, sorted by time
    Compact(command::compact::Args),
    /// Sum rows of a millisecond up to seconds and minutes
    Rollup(command::rollup::Args),
    /// Have an engine gather what verdicts are made from, and print the report as JSON
    Analyze(command::analyze::Args),
}

/// The command line is wrong, or there is no recording.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    reset_sigpipe();
    let result = match command {
        Command::Sql(args) => command::sql::run(args),
        Command::Compact(args) => command::compact::run(&args),
        Command::Rollup(args) => command::rollup::run(&args),
        Command::Analyze(args) => command::analyze::run(&args),
    };
    result.unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "crosstalk: {}", one_line(&error));
        let is_usage = matches!(
            error.downcast_ref(),
            Some(
                crosstalk_sql::Error::Recording(_)
                    | crosstalk_sql::Error::Query(_)
                    | crosstalk_sql::Error::Refused(_)
            )
        );
        if is_usage { USAGE.into() } else { ExitCode::FAILURE }
    })
}

/// An error as one line. Every error of ours says its cause in its own text; only what a command puts around one
/// does not.
fn one_line(error: &anyhow::Error) -> String {
    let contexts = usize::from(error.is::<String>() || error.is::<&'static str>());
    let texts: Vec<String> = error.chain().take(contexts + 1).map(ToString::to_string).collect();
    texts.join(": ")
}

#[allow(unsafe_code)] // the standard library has no stable way to say this
fn reset_sigpipe() {
    // SAFETY: restores the default action before any thread or handler exists.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
