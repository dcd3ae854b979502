//! The `crosstalk` command: reads the command line and hands over to the crate that does the job.

mod agent;
mod analyze;
mod bar;
mod bench;
mod coldmem;
mod completions;
mod doctor;
mod exit;
mod export;
mod log;
mod part;
mod print;
mod processor;
mod quantity;
mod record;
mod recover;
mod resctrl_sim;
mod simulate;
mod table;
mod workload;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

/// Which workloads slow each other down through caches and memory, to the millisecond, by name.
#[derive(Parser)]
#[command(name = "crosstalk", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Record what every process does on every core, slot by slot, to CSV or Parquet
    Record(record::Args),
    /// Finish the files that a recording left when it was killed
    Recover(recover::Args),
    /// Watch this node: a rolling window, answered over HTTP and to Prometheus
    Agent(agent::Args),
    /// Take remote write and logs, add the workload they belong to, store and forward
    Processor(processor::Args),
    /// Say how much memory is cold, of the node or a cgroup, and what could be oversold
    Coldmem(coldmem::Args),
    /// Say who slowed whom in a recording, how much, and how sure that is
    Analyze(analyze::Args),
    /// Ask recordings in SQL: one query, or one after the other (crosstalk-sql)
    Sql(part::Args),
    /// Merge the small files of each day of a recording (crosstalk-sql)
    Compact(part::Args),
    /// Sum a recording up to seconds and minutes (crosstalk-sql)
    Rollup(part::Args),
    /// Write a recording as a trace, for Perfetto's viewer
    Export(export::Args),
    /// Make recordings whose truth is known, from a model of contention
    Simulate(simulate::Args),
    /// Run experiments: provoke interference, measure it, mitigate it
    Bench(bench::Args),
    /// Run a known victim or culprit, for trials
    Workload(workload::Args),
    /// Say what this machine can measure, why not, and what would fix it
    Doctor(doctor::Args),
    /// Mount a simulated resctrl, for machines without cache monitoring
    ResctrlSim(resctrl_sim::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
}

const AFTER_HELP: &str = "\
Examples:
  crosstalk doctor                                   what can be measured here
  sudo crosstalk record --out rec --duration 10s     ten seconds of this machine
  sudo crosstalk record --out rec -- make -j8        while a command runs
  crosstalk analyze rec --report rec.html            who slowed whom in it, and a page to look at
  crosstalk sql rec                                  any other question, in SQL
  sudo crosstalk agent                               the last 30 s, answered over HTTP
  sudo crosstalk bench run examples/noisy-neighbour.yaml    who slows whom, provoked and measured

Exit codes: 0 done, 1 failed, 2 bad command line, 3 this machine lacks what recording needs,
4 the output cannot be written, 5 analyze --exit-code found a loss; record -- COMMAND exits with the command's own
status.";

fn main() -> ExitCode {
    let command = Cli::parse().command;
    // A closed pipe (`crosstalk doctor | head`) ends the command quietly, as Unix tools do. A server
    // must outlive a client that hangs up, and a recording whoever looked on.
    let outlives_readers = match &command {
        Command::Agent(args) => args.is_server(),
        Command::Processor(args) => args.is_server(),
        Command::Bench(args) => args.is_run(),
        Command::Record(_) => true,
        _ => false,
    };
    if !outlives_readers {
        reset_sigpipe();
    }
    let result = match command {
        Command::Record(args) => record::run(&args),
        Command::Recover(args) => recover::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Processor(args) => processor::run(args),
        Command::Coldmem(args) => coldmem::run(&args),
        Command::Analyze(args) => analyze::run(&args),
        Command::Sql(args) => part::run("sql", &args),
        Command::Compact(args) => part::run("compact", &args),
        Command::Rollup(args) => part::run("rollup", &args),
        Command::Export(args) => export::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Workload(args) => workload::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::ResctrlSim(args) => resctrl_sim::run(&args),
        Command::Completions(args) => completions::run::<Cli>(&args),
    };
    result.unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "crosstalk: {}", one_line(&error));
        exit::code_of(&error)
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

#[cfg(test)]
mod tests {
    use super::one_line;
    use anyhow::{Context as _, anyhow};
    use std::io;
    use std::path::PathBuf;

    #[test]
    fn a_line_has_every_cause_and_none_twice() {
        let full = io::Error::from_raw_os_error(libc::EACCES);
        let text = full.to_string();
        let error = crosstalk_recording::Error::Io { path: PathBuf::from("a.csv"), source: full };
        assert_eq!(one_line(&anyhow::Error::from(error)), format!("a.csv: {text}"));
        let denied = || Err::<(), _>(io::Error::from_raw_os_error(libc::EACCES));
        let error = denied().context("cannot write").unwrap_err();
        assert_eq!(one_line(&error), format!("cannot write: {text}"));
        let error = denied().with_context(|| "a.csv".to_owned()).unwrap_err();
        assert_eq!(one_line(&error), format!("a.csv: {text}"));
        assert_eq!(one_line(&anyhow!("no rows")), "no rows");
    }
}
