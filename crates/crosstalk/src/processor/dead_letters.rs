//! `crosstalk processor dead-letters`: what stores of metrics and logs refused, listed, sent again, dropped.

use anyhow::{Context, Result, bail};
use crosstalk_processor::Config;
use crosstalk_processor::dead_letters::{DeadLetters, Letter, Replayed, replay, replay_logs};
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
delivery goes on with the next. So are log lines that a log store refuses, in DATA_DIR/log-forward/STORE/dead-letters; of
Elasticsearch's bulk API those alone that it names. All of this works also while the processor runs.

Examples:
  crosstalk processor dead-letters list --config processor.toml
  crosstalk processor dead-letters list --data-dir /var/lib/crosstalk --json | jq .reason
  crosstalk processor dead-letters replay --config processor.toml --endpoint mimir
  crosstalk processor dead-letters replay --config processor.toml --log-store loki
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
    /// Of this endpoint only, or of the log store called so where no endpoint is
    #[arg(long, value_name = "NAME")]
    endpoint: Option<String>,
    /// Of this log store only
    #[arg(long, value_name = "NAME", conflicts_with = "endpoint")]
    log_store: Option<String>,
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

    /// The stores there may be letters of: those configured, and those with a queue.
    fn stores(&self, config: &Config) -> Result<Vec<Store>> {
        let store = |logs: bool| move |name: &str| Store { name: name.to_owned(), logs };
        let endpoints = config.endpoints.iter().map(|endpoint| &*endpoint.name).map(store(false));
        let log_stores = config.logs.forwards.iter().map(|forward| &*forward.name).map(store(true));
        let mut stores: Vec<Store> = endpoints.chain(log_stores).collect();
        for (folder, logs) in [("queue", false), ("log-forward", true)] {
            let queues = std::fs::read_dir(config.data_dir.join(folder)).into_iter().flatten();
            let names = queues.flatten().filter_map(|queue| queue.file_name().into_string().ok());
            stores.extend(names.map(|name| Store { name, logs }));
        }
        stores.sort();
        stores.dedup();
        if let Some(wanted) = &self.endpoint {
            stores.retain(|store| store.name == *wanted);
            // The endpoint stands first, where both have the name.
            stores.truncate(1);
            if stores.is_empty() {
                let data = config.data_dir.display();
                bail!("no endpoint or log store {wanted:?} in {data} or the configuration");
            }
        }
        if let Some(wanted) = &self.log_store {
            stores.retain(|store| store.logs && store.name == *wanted);
            if stores.is_empty() {
                let data = config.data_dir.display();
                bail!("no log store {wanted:?} in {data} or the configuration");
            }
        }
        Ok(stores)
    }
}

/// A store of metrics or of logs.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Store {
    logs: bool,
    name: String,
}

impl Store {
    fn letters(&self, config: &Config) -> DeadLetters {
        match self.logs {
            true => DeadLetters::of_log_store(&config.data_dir, &self.name),
            false => DeadLetters::of(&config.data_dir, &self.name),
        }
    }

    /// What it is called in messages.
    fn title(&self) -> String {
        let what = if self.logs { "log store" } else { "endpoint" };
        format!("{what} {:?}", self.name)
    }

    /// Sends the letters once more; `false` where the configuration does not name the store.
    fn replay(
        &self,
        config: &Config,
        chosen: impl Fn(&Letter) -> bool,
        report: impl FnMut(&Letter, &Replayed),
    ) -> Result<bool> {
        let data_dir = &config.data_dir;
        let replayed = if self.logs {
            let forward = config.logs.forwards.iter().find(|forward| forward.name == self.name);
            forward.map(|forward| replay_logs(data_dir, forward, chosen, report))
        } else {
            let endpoint = config.endpoints.iter().find(|endpoint| endpoint.name == self.name);
            endpoint.map(|endpoint| replay(data_dir, endpoint, chosen, report))
        };
        let replayed = replayed.transpose().with_context(|| self.title())?;
        Ok(replayed.is_some())
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
    for store in which.stores(&config)? {
        let letters = store.letters(&config).list()?;
        let name = &store.name;
        for letter in letters.iter().filter(|letter| which.wants(letter)) {
            let about = &letter.about;
            count += 1;
            if json {
                let mut object = json!(about);
                object["id"] = json!(letter.id);
                object[if store.logs { "log_store" } else { "endpoint" }] = json!(name);
                writeln!(out, "{object}")?;
            } else {
                let at = jiff::Timestamp::from_second((about.refused_ms / 1000) as i64);
                let at = at.unwrap_or(jiff::Timestamp::UNIX_EPOCH);
                let reason = about.reason.lines().next().unwrap_or_default();
                let (status, samples) = (about.status, about.samples);
                let (id, what) = (&letter.id, if store.logs { "lines" } else { "samples" });
                writeln!(out, "{id}  {name}  {at}  {status}  {samples} {what}  {reason}")?;
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
    for store in which.stores(&config)? {
        let report = |letter: &Letter, replayed: &Replayed| match replayed {
            Replayed::Delivered => delivered += 1,
            Replayed::Refused(status, reason) => {
                refused += 1;
                println!("{}  {}  refused again: {status} {reason}", letter.id, store.name);
            }
            Replayed::Away(detail) => away = Some(format!("{}: {detail}", store.title())),
            _ => {}
        };
        if !store.replay(&config, |letter| which.wants(letter), report)?
            && store.letters(&config).list()?.iter().any(|letter| which.wants(letter))
        {
            bail!("{} has dead letters and is not configured; give --config", store.title());
        }
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
    let mut chosen = Vec::new();
    for store in which.stores(&config)? {
        let letters = store.letters(&config).list()?;
        let wanted = letters.into_iter().filter(|letter| which.wants(letter));
        chosen.push((store.letters(&config), wanted.collect::<Vec<_>>()));
    }
    // Ids are places in the files of a store, so two stores may have the same.
    let all = || chosen.iter().flat_map(|(_, letters)| letters);
    let named = |id: &&String| all().filter(|letter| letter.id == **id).count();
    if let Some(id) = which.id.iter().find(|id| named(id) > 1) {
        bail!(
            "several stores have a letter {id:?}; say whose it is with --endpoint or --log-store"
        );
    }
    for (store, letters) in &chosen {
        store.forget(letters)?;
    }
    println!("{} dropped", all().count());
    Ok(ExitCode::SUCCESS)
}
