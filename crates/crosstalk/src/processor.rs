//! `crosstalk processor`.

mod dead_letters;

use crate::print::{Print, print};
use anyhow::{Context, Result};
use crosstalk_processor::Config;
use crosstalk_processor::config::SAMPLE;
use crosstalk_settings::{Loaded, Loader, SettingsError, effective};
use crosstalk_training_log::{Style, explain};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write, stdin, stdout};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(clap::Args)]
struct Serve {
    /// Configuration file in TOML, YAML or JSON; CROSSTALK_PROCESSOR_... variables override it, flags override both
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on [default: 127.0.0.1:8989]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Folder for the queues and the default database
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// sqlite://, postgres:// or mysql:// URL [default: a SQLite file in the data folder]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Remote-write URL to forward to; may be given several times
    #[arg(long, value_name = "URL")]
    store: Vec<String>,
    /// YAML, JSON or TOML file with pods and the workloads they belong to
    #[arg(long, value_name = "FILE")]
    pods: Option<PathBuf>,
    /// Check the configuration with the files it names, and stop
    #[arg(long)]
    check: bool,
    /// Print the commented configuration with its defaults, or the effective one with secrets hidden
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "sample")]
    print_config: Option<Print>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show what each line of a training log gives, and why not
    ExplainLog(ExplainLog),
    /// Blocks that a store refused: list them, send them again, drop them
    DeadLetters(dead_letters::Args),
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  crosstalk processor explain-log train.log
  kubectl logs trainer-0 | crosstalk processor explain-log - --json | jq 'select(.matched | not)'")]
struct ExplainLog {
    /// The log; - reads standard input
    file: PathBuf,
    /// One JSON object a line: line, matched, format, fields, reason
    #[arg(long)]
    json: bool,
    /// Configuration file with patterns of your own under [[logs.pattern]]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  crosstalk processor                                          on 127.0.0.1:8989, SQLite in ./crosstalk-data
  crosstalk processor --store http://127.0.0.1:8428/api/v1/write
  crosstalk processor --store http://127.0.0.1:8428/api/v1/write --pods pods.yaml
  crosstalk processor --config processor.toml --check
  crosstalk processor explain-log train.log
  crosstalk processor dead-letters list --config processor.toml";

impl Args {
    /// Whether this runs until it is stopped, rather than print something and end.
    pub(crate) fn is_server(&self) -> bool {
        self.command.is_none() && !self.serve.check && self.serve.print_config.is_none()
    }
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Some(Command::ExplainLog(args)) => explain_log(&args),
        Some(Command::DeadLetters(args)) => dead_letters::run(args),
        None => serve(args.serve),
    }
}

fn configuration(args: &Serve) -> Result<Loaded<Config>, SettingsError> {
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let loader = Loader::new("processor")
        .file(args.config.as_deref())
        .environment(std::env::vars_os())
        .flag("--listen", "listen", args.listen)
        .flag("--data-dir", "data_dir", path(&args.data_dir))
        .flag("--database", "database", args.database.as_ref())
        .flag("--pods", "cache.static_file", path(&args.pods));
    let add = |loader: Loader, (i, url): (usize, &String)| {
        loader.push("--store", "endpoint", &[("name", &format!("store-{}", i + 1)), ("url", url)])
    };
    args.store.iter().enumerate().fold(loader, add).load()
}

fn serve(args: Serve) -> Result<ExitCode> {
    if let Some(Print::Sample) = args.print_config {
        return print(SAMPLE);
    }
    let Loaded { config, warnings } = configuration(&args)?;
    for warning in warnings {
        eprintln!("crosstalk: {warning}");
    }
    if args.print_config.is_some() {
        return print(&effective(&config)?);
    }
    if args.check {
        crosstalk_processor::check(&config)?;
        return print("the configuration is good\n");
    }
    crate::log::start("info");
    crosstalk_processor::run(config)?;
    Ok(ExitCode::SUCCESS)
}

fn explain_log(args: &ExplainLog) -> Result<ExitCode> {
    let parser = Loader::new("processor")
        .file(args.config.as_deref())
        .load::<Config>()?
        .config
        .logs
        .parser()?;
    let input: Box<dyn BufRead> = if args.file == Path::new("-") {
        Box::new(stdin().lock())
    } else {
        let file = File::open(&args.file).with_context(|| args.file.display().to_string())?;
        Box::new(BufReader::new(file))
    };
    let style = if args.json { Style::Json } else { Style::Human };
    let mut output = BufWriter::new(stdout().lock());
    explain(&parser, input, &mut output, style)
        .and_then(|_| output.flush())
        .with_context(|| args.file.display().to_string())?;
    Ok(ExitCode::SUCCESS)
}
