//! `crosstalk bench`: experiments, run and shown.

mod signals;
mod text;

use crate::exit::BadArgument;
use crate::print::print;
use crate::table::{Align, render};
use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use crosstalk_bench::experiment::{Registry, SCHEMA, Surroundings, Variables};
use crosstalk_bench::live::{Lines, Live, Silent, TerminalTimeline};
use crosstalk_bench::result::{Recorded, compare, html, summarize, summarize_and_draw, summary};
use crosstalk_bench::runtime::{DockerEngine, Processes, Runtime};
use crosstalk_bench::scheduler::{ALL, Offered};
use crosstalk_bench::store::{Outcome, RunRecord, RunStore, odd_ends};
use crosstalk_bench::{Error, Experiment, Options, Standing, Whose, clean, run as run_experiment};
use crosstalk_host::HostRoot;
use crosstalk_settings::parse_duration;
use serde_json::json;
use std::fs;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    job: Job,
    /// Folder in which runs are kept
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "CROSSTALK_BENCH_RUNS",
        default_value = "bench-runs"
    )]
    runs: PathBuf,
    /// Where resctrl is mounted [default: where the host has it]
    #[arg(long, global = true, value_name = "DIR")]
    resctrl_root: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Job {
    /// Run an experiment: prepare, execute on schedule, record, clean up, and show the result
    Run(RunArgs),
    /// Say everything that is wrong with an experiment's file
    Validate {
        /// The experiment's file
        file: PathBuf,
    },
    /// List runs
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a run found
    Show(ShowArgs),
    /// Show two runs of the same containers beside each other
    Compare {
        /// The first run: its id or the beginning of it, its name, or last
        first: String,
        /// The second
        second: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Write a page of both to this file as well
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Ask a run's data sets in SQL, with crosstalk-sql
    Query {
        /// The run: its id or the beginning of it, its name, or last
        id: String,
        /// The question
        sql: String,
        /// table, csv, json or jsonl [default: table]
        #[arg(long, value_name = "FORMAT")]
        format: Option<String>,
    },
    /// Remove what drivers that were killed have left: containers, cgroups, resctrl groups, unfinished runs
    Clean {
        /// Also what drivers of other machines, boots and PID namespaces have left, or still use
        #[arg(long)]
        elsewhere: bool,
    },
    /// Print the JSON schema of an experiment's file, for editors
    Schema,
}

#[derive(clap::Args)]
struct RunArgs {
    /// The experiment's file
    file: PathBuf,
    /// Use this scheduler instead of the file's
    #[arg(long, value_parser = one_of_all())]
    scheduler: Option<String>,
    /// Who is asked to stop has so long to do so
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    grace: Duration,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Print nothing while it runs
    #[arg(long, short)]
    quiet: bool,
}

#[derive(clap::Args)]
struct ShowArgs {
    /// The run: its id or the beginning of it, its name, or last
    id: String,
    /// Print JSON
    #[arg(long, conflicts_with = "html")]
    json: bool,
    /// Write the page to this file as well
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  crosstalk bench validate examples/noisy-neighbour.yaml
  sudo crosstalk bench run examples/noisy-neighbour.yaml
  sudo crosstalk bench run examples/noisy-neighbour.yaml --scheduler adaptive
  crosstalk bench list
  crosstalk bench show last --html result.html
  crosstalk bench compare 20261117T220000Z 20261117T220100Z --html both.html

A container without image: is a plain process in a cgroup of its own. A run's folder holds run.json, events.jsonl,
experiment.yaml, report.html, the output of every container, and the recording, as crosstalk record writes it.";

impl Args {
    /// A run goes on when whoever looked on is gone.
    pub(crate) fn is_run(&self) -> bool {
        matches!(self.job, Job::Run(_) | Job::Clean { .. })
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (host, store) = (HostRoot::default(), RunStore::at(&args.runs));
    match &args.job {
        Job::Run(run) => start(args, run, host, store),
        Job::Validate { file } => validate(file, &host),
        Job::List { json } => list(&store, &host, *json),
        Job::Show(show) => show_run(&store, show),
        Job::Compare { first, second, json, html } => {
            compare_runs(&store, first, second, *json, html.as_deref())
        }
        Job::Query { id, sql, format } => query(&store, id, sql, format.as_deref()),
        Job::Clean { elsewhere } => clean_up(args, *elsewhere, &host, &store),
        Job::Schema => print(SCHEMA),
    }
}

fn one_of_all() -> PossibleValuesParser {
    ALL.iter().map(|one| one.name).into()
}

/// The experiment in a file, and its text.
fn load(file: &Path, host: &HostRoot) -> Result<(Experiment, String)> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file).map_err(|error| bad(format!("{name}: {error}")))?;
    let (variables, around) = (Variables::beside(file), Surroundings::of(host));
    let experiment = Experiment::parse(&name, &text, &variables, &around)
        .map_err(|mistakes| bad(Error::Mistakes { name, mistakes }.to_string()))?;
    Ok((experiment, text))
}

fn validate(file: &Path, host: &HostRoot) -> Result<ExitCode> {
    let (experiment, _) = load(file, host)?;
    let rounds = crosstalk_bench::plan::rounds(&experiment).len();
    print(&format!(
        "{}: {}, {}, scheduler {}, {}\n",
        experiment.name,
        counted(experiment.containers.len(), "container"),
        counted(rounds, "round"),
        experiment.scheduler.name,
        crosstalk_bench::plan::Length::of(&experiment),
    ))
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// What containers can run in here. A Docker Engine that is not there is missed when a container has an image.
fn runtimes(host: &HostRoot, registry: Option<&Registry>) -> Vec<Box<dyn Runtime>> {
    let mut all: Vec<Box<dyn Runtime>> = vec![Box::new(Processes::new(host))];
    if let Ok(engine) = DockerEngine::connect(host, None, registry.cloned()) {
        all.push(Box::new(engine));
    }
    all
}

fn start(args: &Args, run: &RunArgs, host: HostRoot, store: RunStore) -> Result<ExitCode> {
    let (mut experiment, file) = load(&run.file, &host)?;
    if let Some(scheduler) = &run.scheduler {
        let found = Offered::named(scheduler).map_err(bad)?;
        let denied = |what| bad(format!("{}: benchmark.scheduler.rdt: {what}", run.file.display()));
        experiment.schedule_with(found).map_err(denied)?;
    }
    let level = experiment.log_level.as_deref().unwrap_or("info");
    let is_wordy = matches!(level, "debug" | "trace");
    let is_quiet = run.quiet || matches!(level, "warn" | "error");
    let mut live: Box<dyn Live> = match (is_quiet, stderr().is_terminal()) {
        (true, _) => Box::new(Silent),
        (false, true) => Box::new(TerminalTimeline::new(stderr(), Lines::new(stderr(), is_wordy))),
        (false, false) => Box::new(Lines::new(stderr(), is_wordy)),
    };
    let asked = signals::listen()?;
    let options = Options {
        runtimes: runtimes(&host, experiment.registry.as_ref()),
        host,
        runs: store,
        resctrl: args.resctrl_root.clone(),
        grace: run.grace,
        stop: asked.stop,
        hurry: asked.hurry,
    };
    let (dir, record) = run_experiment(&experiment, &file, &options, &mut *live)?;
    let page = dir.path().join("report.html");
    let (found, text) = summarize_and_draw(&dir, &record)?;
    fs::write(&page, text).with_context(|| format!("cannot write {}", page.display()))?;
    let odd = odd_ends(&dir.events().unwrap_or_default());
    if run.json {
        let (folder, odd) = (dir.path(), json!(odd));
        let all = json!({ "summary": found, "folder": folder, "page": page, "odd_ends": odd });
        print(&format!("{all:#}\n"))?;
    } else {
        print(&format!("\n{}\nfolder: {}\n", text::summary(&found, &odd), dir.path().display()))?;
    }
    let interrupted = record.outcome == Some(Outcome::Interrupted);
    Ok(if interrupted { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn list(store: &RunStore, host: &HostRoot, as_json: bool) -> Result<ExitCode> {
    let runs = store.all();
    if as_json {
        let records: Vec<&RunRecord> = runs.iter().map(|(_, record)| record).collect();
        return print(&format!("{:#}\n", json!(records)));
    }
    if runs.is_empty() {
        return print(&format!("no run below {}\n", store.root().display()));
    }
    let state = |record: &RunRecord| match &record.outcome {
        Some(outcome) => outcome.name(),
        None => match record.standing(host) {
            Some(Standing::Lives) => "running",
            Some(Standing::Elsewhere) => "elsewhere",
            Some(Standing::Gone) | None => "killed",
        },
    };
    let row = |record: &RunRecord| {
        let seconds = record.ended_ns.map(|end| end.saturating_sub(record.began_ns) as f64 / 1e9);
        vec![
            record.id.clone(),
            record.scheduler.clone(),
            record.rounds.len().to_string(),
            seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.1} s")),
            state(record).to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = runs.iter().map(|(_, record)| row(record)).collect();
    let header = [
        ("run", Align::Left),
        ("scheduler", Align::Left),
        ("rounds", Align::Right),
        ("took", Align::Right),
        ("state", Align::Left),
    ];
    print(&render(&header, &rows))
}

fn show_run(store: &RunStore, show: &ShowArgs) -> Result<ExitCode> {
    let (dir, record) = store.find(&show.id)?;
    let found = match &show.html {
        Some(file) => {
            let (found, page) = summarize_and_draw(&dir, &record)?;
            fs::write(file, page).with_context(|| format!("cannot write {}", file.display()))?;
            found
        }
        None => summarize(&dir, &record)?,
    };
    if show.json {
        return print(&format!("{:#}\n", json!(found)));
    }
    print(&text::summary(&found, &odd_ends(&dir.events().unwrap_or_default())))
}

fn compare_runs(
    store: &RunStore,
    first: &str,
    second: &str,
    as_json: bool,
    page: Option<&Path>,
) -> Result<ExitCode> {
    let read = |id: &str| -> Result<(RunRecord, Recorded)> {
        let (dir, record) = store.find(id)?;
        let recorded = Recorded::read(&dir, &record)?;
        Ok((record, recorded))
    };
    let (a, b) = (read(first)?, read(second)?);
    let comparison = compare((&a.0, &a.1), (&b.0, &b.1));
    if let Some(to) = page {
        let (first, second) = (summary(&a.0, &a.1), summary(&b.0, &b.1));
        let page = html::comparison(&comparison, (&first, &a.1), (&second, &b.1));
        fs::write(to, page).with_context(|| format!("cannot write {}", to.display()))?;
    }
    if as_json {
        return print(&format!("{:#}\n", json!(comparison)));
    }
    print(&text::comparison(&comparison))
}

/// Hands the run's data sets to `crosstalk-sql`.
fn query(store: &RunStore, id: &str, sql: &str, format: Option<&str>) -> Result<ExitCode> {
    let (dir, _) = store.find(id)?;
    let mut command = crate::part::sql("bench query")?;
    command.arg("sql").arg(dir.data()).arg(sql);
    command.args(format.map(|format| format!("--format={format}")));
    let status = command.status();
    let status = status.context("cannot start crosstalk-sql")?;
    Ok(status.code().map_or(ExitCode::FAILURE, |code| (code as u8).into()))
}

fn clean_up(args: &Args, elsewhere: bool, host: &HostRoot, store: &RunStore) -> Result<ExitCode> {
    let whose = if elsewhere { Whose::GoneAndElsewhere } else { Whose::Gone };
    let (runtimes, resctrl) = (runtimes(host, None), args.resctrl_root.as_deref());
    // A signal ends this as it stands.
    let stop = AtomicBool::new(false);
    let cleaned = clean(host, &runtimes, resctrl, Some(store), whose, &stop);
    let mut said: String = cleaned.done.iter().map(|name| format!("removed {name}\n")).collect();
    if let Some(asked) = cleaned.let_be() {
        said += &format!("{asked}\n");
    }
    if said.is_empty() && cleaned.failed.is_empty() {
        said = "nothing was left\n".to_owned();
    }
    print(&said)?;
    let mut failed = cleaned.failed.into_iter();
    let Some(first) = failed.next() else { return Ok(ExitCode::SUCCESS) };
    for other in failed {
        eprintln!("crosstalk: {other}");
    }
    Err(first.into())
}

fn bad(text: String) -> anyhow::Error {
    BadArgument(text).into()
}
