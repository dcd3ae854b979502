//! `crosstalk processor`.

use anyhow::{Context, Result};
use crosstalk_processor::Config;
use crosstalk_processor::config::{Endpoint, Secret};
use crosstalk_training_log::{Style, explain};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, IsTerminal, Write, stderr, stdin, stdout};
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
    /// TOML file; CROSSTALK_PROCESSOR_... variables override it, flags override both
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
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show what each line of a training log gives, and why not
    ExplainLog(ExplainLog),
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
    /// TOML file with patterns of your own under [[logs.pattern]]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  crosstalk processor                                          on 127.0.0.1:8989, SQLite in ./crosstalk-data
  crosstalk processor --store http://127.0.0.1:8428/api/v1/write
  crosstalk processor --store http://127.0.0.1:8428/api/v1/write --pods pods.yaml
  crosstalk processor --config processor.toml --check
  crosstalk processor explain-log train.log";

impl Args {
    /// Whether this runs until it is stopped, rather than print something and end.
    pub(crate) fn is_server(&self) -> bool {
        self.command.is_none()
    }
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Some(Command::ExplainLog(args)) => explain_log(&args),
        None => serve(args.serve),
    }
}

fn serve(args: Serve) -> Result<ExitCode> {
    let mut config = Config::load(args.config.as_deref(), std::env::vars())?;
    if let Some(listen) = args.listen {
        config.listen = listen;
    }
    if let Some(data_dir) = args.data_dir {
        config.data_dir = data_dir;
    }
    if let Some(database) = args.database {
        config.database = Secret::new(database);
    }
    if let Some(pods) = args.pods {
        config.cache.static_file = Some(pods);
    }
    for (i, url) in args.store.into_iter().enumerate() {
        config.endpoints.push(Endpoint::new(format!("store-{}", i + 1), url));
    }
    config.validate()?;
    if args.check {
        crosstalk_processor::check(&config)?;
        println!("the configuration is good");
        return Ok(ExitCode::SUCCESS);
    }
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    // Colours are for people; a file or a log collector would get them as bytes.
    log.with_ansi(stderr().is_terminal()).init();
    crosstalk_processor::run(config)?;
    Ok(ExitCode::SUCCESS)
}

fn explain_log(args: &ExplainLog) -> Result<ExitCode> {
    let parser = Config::load(args.config.as_deref(), [])?.logs.parser()?;
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
