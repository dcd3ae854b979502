//! `crosstalk processor`.

mod dead_letters;

use crate::print::{Print, print};
use anyhow::{Context, Result};
use crosstalk_processor::Config;
use crosstalk_processor::config::{SAMPLE, Secret};
use crosstalk_processor::follow::{Follow, follow};
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
    /// Send training logs to a processor as they grow, for machines without a log shipper
    Follow(FollowArgs),
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  crosstalk processor follow train.log                         workload \"train\", to 127.0.0.1:8989
  crosstalk processor follow /runs/7b/*.log --workload llama-7b --namespace ml --to https://processor:8989
  crosstalk processor follow --once old.log                    to its end, and stop

How far each file was read is kept in --state-dir: a restart neither repeats nor loses lines, and rotated files are read
to their end. A processor that is away is waited for. The time of a line is the one it begins with, where that says its
zone, else the time the file was last written.")]
struct FollowArgs {
    /// The logs
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The processor
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8989")]
    to: String,
    /// Name of the workload [default: the file's name without its ending]
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Namespace of the workload
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Who speaks, where several machines train one workload [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    pod: Option<String>,
    /// File with the token to bear; CROSSTALK_FOLLOW_TOKEN may hold the token itself
    #[arg(long, value_name = "FILE")]
    bearer_token_file: Option<PathBuf>,
    /// PEM file of the authority that signed the processor's certificate [default: the system's]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Folder that says how far files were read [default: ~/.local/state/crosstalk/follow, or $XDG_STATE_HOME's]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Read files seen for the first time from their end
    #[arg(long)]
    from_end: bool,
    /// Stop at the end of the files
    #[arg(long)]
    once: bool,
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
  crosstalk processor follow train.log                         send its lines to a processor as they come
  crosstalk processor dead-letters list --config processor.toml";

impl Args {
    /// Whether this runs until it is stopped, rather than print something and end.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self.command, Some(Command::Follow(_)))
            || self.command.is_none() && !self.serve.check && self.serve.print_config.is_none()
    }
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Some(Command::ExplainLog(args)) => explain_log(&args),
        Some(Command::Follow(args)) => follow_files(args),
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

fn follow_files(args: FollowArgs) -> Result<ExitCode> {
    crate::log::start("info");
    let home = |name: &str| std::env::var_os(name).filter(|home| !home.is_empty());
    let state = || match (home("XDG_STATE_HOME"), home("HOME")) {
        (Some(state), _) => PathBuf::from(state),
        (None, Some(home)) => Path::new(&home).join(".local/state"),
        (None, None) => PathBuf::from("/var/lib"),
    };
    follow(Follow {
        state_dir: args.state_dir.unwrap_or_else(|| state().join("crosstalk/follow")),
        files: args.files,
        to: args.to,
        workload: args.workload,
        namespace: args.namespace,
        pod: args.pod,
        bearer_token: std::env::var("CROSSTALK_FOLLOW_TOKEN").ok().map(Secret::new),
        bearer_token_file: args.bearer_token_file,
        ca_file: args.ca_file,
        from_end: args.from_end,
        once: args.once,
    })?;
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
