//! `crosstalk processor dead-letters`: blocks a store refused, listed, sent again, dropped.

use anyhow::{Context, Result, bail};
use crosstalk_processor::Config;
use crosstalk_processor::config::Endpoint;
use crosstalk_processor::dead_letters::{DeadLetters, Letter, Replayed, replay};
use crosstalk_settings::Loader;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
A block that a store refuses with 400, 413 or 422 is kept with the reason, in DATA_DIR/queue/ENDPOINT/dead-letters, and
delivery goes on with the next. All of this works also while the processor runs.

Examples:
  crosstalk processor dead-letters list --config processor.toml
  crosstalk processor dead-letters list --data-dir /var/lib/crosstalk --json | jq .reason
  crosstalk processor dead-letters replay --config processor.toml --endpoint mimir
  crosstalk processor dead-letters drop --config processor.toml 0000000000000001-000000000";

#[derive(clap::Subcommand)]
enum Command {
    /// What was refused, when and why; the oldest first
    List {
        #[command(flatten)]
        which: Which,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Send them to their store once more; what it takes is forgotten, what it refuses stays
    Replay {
        #[command(flatten)]
        which: Which,
    },
    /// Delete them
    Drop {
        #[command(flatten)]
        which: Which,
        /// All of them, where none is named
        #[arg(long)]
        all: bool,
    },
}

#[derive(clap::Args)]
struct Which {
    /// The processor's configuration file; CROSSTALK_PROCESSOR_... variables override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The processor's data folder
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Of this endpoint only
    #[arg(long, value_name = "NAME")]
    endpoint: Option<String>,
    /// Only these, as list names them
    id: Vec<String>,
}

impl Which {
    fn config(&self) -> Result<Config> {
        let data_dir = self.data_dir.as_ref().map(|path| path.display().to_string());
        let loader = Loader::new("processor")
            .file(self.config.as_deref())
            .environment(std::env::vars_os())
            .flag("--data-dir", "data_dir", data_dir);
        Ok(loader.load::<Config>()?.config)
    }

    fn wants(&self, letter: &Letter) -> bool {
        self.id.is_empty() || self.id.contains(&letter.id)
    }

    /// The endpoints there are letters of: those configured, or those with a queue.
    fn endpoints(&self, config: &Config) -> Result<Vec<String>> {
        let mut names: Vec<String> = config.endpoints.iter().map(|e| e.name.clone()).collect();
        let queues = config.data_dir.join("queue");
        for queue in std::fs::read_dir(&queues).into_iter().flatten().flatten() {
            names.extend(queue.file_name().into_string());
        }
        names.sort();
        names.dedup();
        if let Some(wanted) = &self.endpoint {
            names.retain(|name| name == wanted);
            if names.is_empty() {
                bail!("no endpoint {wanted:?} in {} or the configuration", queues.display());
            }
        }
        Ok(names)
    }
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::List { which, json } => list(&which, json),
        Command::Replay { which } => send_again(&which),
        Command::Drop { which, all } => drop_them(&which, all),
    }
}

fn list(which: &Which, json: bool) -> Result<ExitCode> {
    let config = which.config()?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut count = 0;
    for endpoint in which.endpoints(&config)? {
        let letters = DeadLetters::of(&config.data_dir, &endpoint).list()?;
        for letter in letters.iter().filter(|letter| which.wants(letter)) {
            let about = &letter.about;
            count += 1;
            if json {
                let mut object = json!(about);
                object["id"] = json!(letter.id);
                object["endpoint"] = json!(endpoint);
                writeln!(out, "{object}")?;
            } else {
                let at = jiff::Timestamp::from_second((about.refused_ms / 1000) as i64);
                let at = at.unwrap_or(jiff::Timestamp::UNIX_EPOCH);
                let reason = about.reason.lines().next().unwrap_or_default();
                let (status, samples) = (about.status, about.samples);
                let id = &letter.id;
                writeln!(out, "{id}  {endpoint}  {at}  {status}  {samples} samples  {reason}")?;
            }
        }
    }
    if count == 0 && !json {
        writeln!(out, "no dead letters in {}", config.data_dir.display())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn send_again(which: &Which) -> Result<ExitCode> {
    let config = which.config()?;
    let (mut delivered, mut refused, mut away) = (0, 0, None);
    for name in which.endpoints(&config)? {
        let find = |endpoint: &&Endpoint| endpoint.name == name;
        let Some(endpoint) = config.endpoints.iter().find(find) else {
            let letters = DeadLetters::of(&config.data_dir, &name).list()?;
            if letters.iter().any(|letter| which.wants(letter)) {
                bail!("endpoint {name:?} has dead letters and is not configured; give --config");
            }
            continue;
        };
        let told = |letter: &Letter, replayed: &Replayed| match replayed {
            Replayed::Delivered => delivered += 1,
            Replayed::Refused(status, reason) => {
                refused += 1;
                println!("{}  {name}  refused again: {status} {reason}", letter.id);
            }
            Replayed::Away(detail) => away = Some(format!("endpoint {name:?}: {detail}")),
            _ => {}
        };
        replay(&config.data_dir, endpoint, |letter| which.wants(letter), told)
            .with_context(|| format!("endpoint {name:?}"))?;
    }
    println!("{delivered} delivered, {refused} refused again");
    if let Some(away) = away {
        bail!("{away}; the rest stays");
    }
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn drop_them(which: &Which, all: bool) -> Result<ExitCode> {
    if which.id.is_empty() && !all {
        bail!("say which by the names that list shows, or --all");
    }
    let config = which.config()?;
    let mut dropped = 0;
    for endpoint in which.endpoints(&config)? {
        let letters = DeadLetters::of(&config.data_dir, &endpoint);
        for letter in letters.list()?.iter().filter(|letter| which.wants(letter)) {
            letters.forget(letter)?;
            dropped += 1;
        }
    }
    println!("{dropped} dropped");
    Ok(ExitCode::SUCCESS)
}
