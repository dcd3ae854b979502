//! A whole run: prepare, execute, clean up, whatever happens.

mod measure;
mod round;

use crate::Error;
use crate::clean::clean;
use crate::experiment::Experiment;
use crate::identity::{Driver, Whose};
use crate::influx::Delivered;
use crate::live::Live;
use crate::plan::{Length, rounds};
use crate::runtime::Runtime;
use crate::scheduler::{Means, Scheduler};
use crate::store::{Event, EventKind, EventLog, Outcome, RanRound, RunDir, RunRecord, RunStore};
use crosstalk_host::{Clock, HostRoot, OwnUsage, thread};
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
    /// True once it is to end without anybody being waited for.
    pub hurry: Arc<AtomicBool>,
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
    let (resctrl, runs) = (options.resctrl.as_deref(), Some(&options.runs));
    let left = clean(&options.host, &options.runtimes, resctrl, runs, Whose::Gone, &options.stop);
    let removed = left.done.iter().map(|name| format!("removed what was left: {name}"));
    let kept = left.failed.iter().map(|why| format!("cannot remove what was left: {why}"));
    live.say(&removed.chain(kept).chain(left.let_be()).collect::<Vec<_>>());
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
    unhindered(experiment, options)?;
    for container in &experiment.containers {
        let runtime = runtime_for(options, container)?;
        runtime.fetch(container, &options.stop)?;
        if options.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        if record.engine.is_none() {
            record.engine = runtime.version();
        }
    }
    let means = Means { host: &options.host, driver, resctrl: options.resctrl.as_deref() };
    let mut scheduler = (experiment.scheduler.make)(experiment, &means)?;
    let mut measure = Measure::start(experiment, options, dir, record, clock)?;
    record.absent = measure.absent();
    live.absent(&record.absent);
    if let Some(seed) = experiment.shuffle {
        live.say(&[format!("rounds come in an order drawn from seed {seed}")]);
    }
    let mut log = dir.event_log()?;
    let blind = measure.blind().map(|why| scheduler.cannot_see(&why));
    for decision in blind.into_iter().flatten() {
        let (unix_ns, kind) = (clock.now_unix_ns(), EventKind::Decision(decision));
        let event = Event { unix_ns, seconds: 0.0, round: 0, container: None, kind };
        live.event(&event);
        log.add(&event)?;
    }
    // Whoever computes on every core, what is due is done on time; those who compute are started by it and not preferred.
    thread::prefer_alone();
    let ran =
        all_rounds(experiment, options, dir, record, &measure, &mut log, &mut *scheduler, live);
    let _ = thread::be_normal();
    // Whatever ended the rounds, nothing that was measured is thrown away.
    record.lost = measure.lost();
    record.absent.extend(measure.failed_since(&record.absent));
    record.outcome = Some(outcome(&ran, options));
    let finished = measure.finish(record);
    live.over();
    ran?;
    let delivered = finished?;
    if let Some(caught_up) = delivered.as_ref().map(|all| all.caught_up).filter(|lines| *lines > 0)
    {
        live.say(&[format!("database: {caught_up} lines that earlier runs had left were taken")]);
    }
    if let Some(Delivered { lost, waiting, error, .. }) = delivered
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

/// Whether this machine lets everybody run as the file says; all that is in the way at once.
fn unhindered(experiment: &Experiment, options: &Options) -> Result<(), Error> {
    let mut mistakes = Vec::new();
    for container in &experiment.containers {
        mistakes.extend(runtime_for(options, container)?.hindrances(container));
    }
    mistakes.sort_by_key(|mistake| mistake.line);
    match mistakes.is_empty() {
        true => Ok(()),
        false => Err(Error::Mistakes { name: experiment.file.clone(), mistakes }),
    }
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
        let mut stage = Stage::new(round, options, measure, log);
        let ready = stage.prepare(experiment, dir, &record.id, scheduler, live);
        let mut note = |ran: RanRound| {
            record.rounds.retain(|known| known.number != ran.number);
            record.rounds.push(ran);
            dir.write(record)
        };
        let ran = ready
            .and_then(|ended| stage.execute(&ended, all.len() as u32, scheduler, live, &mut note));
        // Of one that failed it is known when.
        let end_ns = measure.clock.now_unix_ns();
        record.rounds.iter_mut().for_each(|round| _ = round.end_ns.get_or_insert(end_ns));
        // However it went, everything is taken back, and what cannot be is told beside what went wrong.
        let (left, finished) = (stage.remove(), scheduler.finish());
        let mut wrong = ran.err().into_iter().chain(left).chain(finished.err());
        if let Some(first) = wrong.next() {
            return Err(first.and(wrong));
        }
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
    let reason = || {
        format!(
            "it has an image, and no {wanted} is there to run it; start one, or say with DOCKER_HOST where one is"
        )
    };
    let missing = || Error::Container { container: container.name.clone(), reason: reason() };
    found.map(|runtime| &**runtime).ok_or_else(missing)
}
