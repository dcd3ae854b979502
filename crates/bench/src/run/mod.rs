//! A whole run: prepare, execute, clean up, whatever happens.

mod measure;
mod round;

use crate::Error;
use crate::clean::clean;
use crate::experiment::Experiment;
use crate::identity::Driver;
use crate::influx::Delivered;
use crate::live::Live;
use crate::plan::{Length, rounds};
use crate::runtime::Runtime;
use crate::scheduler::{Means, Scheduler};
use crate::store::{EventLog, Outcome, RanRound, RunDir, RunRecord, RunStore};
use crosstalk_host::{Clock, HostRoot, OwnUsage};
use measure::Measure;
use round::Stage;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where and with what an experiment is run.
pub struct Options {
    /// The host.
    pub host: HostRoot,
    /// Where runs are kept.
    pub runs: RunStore,
    /// What containers run in, by whether they have an image; the first that can takes them.
    pub runtimes: Vec<Box<dyn Runtime>>,
    /// Where resctrl is mounted, if not in its usual place.
    pub resctrl: Option<PathBuf>,
    /// Who is asked to end has so long to do so.
    pub grace: Duration,
    /// True once it is to end.
    pub stop: Arc<AtomicBool>,
}

/// Runs an experiment; `text` is its file's. Everything it makes but the run's folder is gone when this returns.
///
/// # Errors
/// It cannot be prepared or recorded; the run's folder says so too.
pub fn run(
    experiment: &Experiment,
    text: &str,
    options: &Options,
    live: &mut dyn Live,
) -> Result<(RunDir, RunRecord), Error> {
    let clock = Clock::measure();
    let left =
        clean(&options.host, &options.runtimes, options.resctrl.as_deref(), Some(&options.runs));
    live.say(
        &left.done.iter().map(|name| format!("removed what was left: {name}")).collect::<Vec<_>>(),
    );
    let began_ns = clock.now_unix_ns();
    let (dir, mut record) = options.runs.create(experiment, text, began_ns, &options.host)?;
    let before = OwnUsage::now();
    let done = execute(experiment, options, &dir, &mut record, &clock, live);
    let used = OwnUsage::now().since(before);
    record.cost = Some((used.cpu.as_secs_f64(), used.max_rss_bytes));
    record.ended_ns = Some(clock.now_unix_ns());
    record.outcome = Some(outcome(&done, options));
    dir.write(&record)?;
    done.map(|()| (dir, record))
}

fn outcome(done: &Result<(), Error>, options: &Options) -> Outcome {
    match done {
        Err(error) => Outcome::Failed(error.to_string()),
        Ok(()) if options.stop.load(Ordering::Relaxed) => Outcome::Interrupted,
        Ok(()) => Outcome::Completed,
    }
}

fn execute(
    experiment: &Experiment,
    options: &Options,
    dir: &RunDir,
    record: &mut RunRecord,
    clock: &Clock,
    live: &mut dyn Live,
) -> Result<(), Error> {
    let driver = Driver::own(&options.host);
    live.say(&[format!("{}: {}", experiment.name, Length::of(experiment))]);
    for container in &experiment.containers {
        let runtime = runtime_for(options, container)?;
        runtime.fetch(container)?;
        if record.engine.is_none() {
            record.engine = runtime.version();
        }
    }
    let means = Means { host: &options.host, driver, resctrl: options.resctrl.as_deref() };
    let mut scheduler = (experiment.scheduler.make)(experiment, &means)?;
    let mut measure = Measure::start(experiment, options, dir, record, clock)?;
    record.absent = measure.absent();
    live.absent(&record.absent);
    let mut log = dir.event_log()?;
    let ran =
        all_rounds(experiment, options, dir, record, &measure, &mut log, &mut *scheduler, live);
    // Whatever ended the rounds, nothing that was measured is thrown away.
    record.lost = measure.lost();
    record.outcome = Some(outcome(&ran, options));
    let finished = measure.finish(record);
    live.over();
    ran?;
    if let Some(Delivered { lost, waiting, error, .. }) = finished?
        && (lost > 0 || waiting > 0)
    {
        let why = error.unwrap_or_default();
        live.say(&[format!(
            "database: {lost} lines lost, {waiting} batches wait in influx-spool: {why}"
        )]);
        record.lost.extend(
            (lost > 0).then(|| ("benchmark_metrics".to_owned(), "influx".to_owned(), lost)),
        );
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)] // the parts of a run, each used once
fn all_rounds(
    experiment: &Experiment,
    options: &Options,
    dir: &RunDir,
    record: &mut RunRecord,
    measure: &Measure,
    log: &mut EventLog,
    scheduler: &mut dyn Scheduler,
    live: &mut dyn Live,
) -> Result<(), Error> {
    let all = rounds(experiment);
    for round in &all {
        if options.stop.load(Ordering::Relaxed) {
            break;
        }
        let (mut stage, ended) =
            Stage::prepare(experiment, round, options, dir, &record.id, measure, scheduler, log)?;
        let ran: RanRound = stage.execute(&ended, all.len() as u32, scheduler, live)?;
        stage.remove()?;
        scheduler.finish()?;
        record.rounds.push(ran);
        dir.write(record)?;
    }
    Ok(())
}

/// The runtime that a container runs in.
fn runtime_for<'a>(
    options: &'a Options,
    container: &crate::experiment::Container,
) -> Result<&'a dyn Runtime, Error> {
    let wanted = if container.image.is_some() { "docker" } else { "process" };
    let found = options.runtimes.iter().find(|runtime| runtime.name() == wanted);
    let reason = || format!("it has an image, and no {wanted} is there to run it");
    let missing = || Error::Container { container: container.name.clone(), reason: reason() };
    found.map(|runtime| &**runtime).ok_or_else(missing)
}
