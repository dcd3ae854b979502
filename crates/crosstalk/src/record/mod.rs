//! `crosstalk record`: the sources into files, until told to stop.

mod args;
mod child;
mod progress;
mod report;
mod summary;

pub(crate) use args::Args;

use crate::exit::{BadArgument, SourceFailed};
use anyhow::{Context, Result, anyhow};
use child::Child;
use crosstalk_collect::Collect;
use crosstalk_host::{Clock, HostRoot, OwnUsage, WithFix, raise_descriptor_limit};
use crosstalk_inventory::Inventory;
use crosstalk_model::{Row, SlotCoverage, TaskRow};
use crosstalk_recording::{Destination, Metadata, Recorder, RecorderOptions, Tap, Uploaded};
use crosstalk_sources::{Filter, Mode, Settings, all, start, state_folder};
use progress::Progress;
use report::Report;
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked whether it is time to end.
const LOOK: Duration = Duration::from_millis(50);
/// Loading the programs takes tenths of a second, on an emulated machine many.
const LONGEST_START: Duration = Duration::from_secs(120);
/// Counters on many cores, and files of many monitor groups.
const DESCRIPTORS: u64 = 65_536;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (host, clock) = (HostRoot::new(&args.host_root), Clock::measure());
    let filter = Filter::new(&args.pid, args.cgroup.as_deref(), &host, &clock)
        .map_err(|error| bad(error.with_fix()))?;
    if let Some(root) = &args.resctrl_root {
        if args.left_out().any(|source| source == "cache") {
            return Err(bad(
                "--without cache leaves out what --resctrl-root is for; give one of them",
            ));
        }
        crosstalk_resctrl::Resctrl::open(root)
            .map_err(|error| bad(format!("--resctrl-root {}", error.with_fix())))?;
    }
    let names = args.names(&host).map_err(bad)?;
    child::check(&args.command)?;
    let to = args.destination().map_err(|error| bad(format!("--out {error}")))?;
    to.check(args.append)?;
    let stop = stop_flag()?;
    raise_descriptor_limit(DESCRIPTORS);
    let mut progress = Progress::new(args);
    let mut collect = Collect::new(clock);
    let tap = Tap::new(&mut collect);
    let settings = args.settings(&host, filter, Inventory::start(names));
    wait_for_names(&settings.inventory);
    let mut sources = all(&settings);
    sources.retain(|source| !source.about.datasets.is_empty());
    let statuses = start(sources, &mut collect, Some(LONGEST_START)).context("cannot start")?;
    // Without the counters there is nothing to record; without others there is less, unless they were
    // asked for by name.
    for status in &statuses {
        let needed = match status.about().name {
            "counters" => true,
            "cache" => args.resctrl_root.is_some(),
            _ => false,
        };
        let standing = status.standing();
        if needed && !standing.works() {
            return Err(SourceFailed(standing.capability).into());
        }
    }
    progress.say_what_is_absent(&statuses, &settings);
    let recorder = Recorder::start(tap, recorder_options(args, &to, &host))?;
    let uploader = to.uploader(|error| progress::tell(format_args!("{error}; tried again")))?;
    progress.say_what_was_recovered(&recorder.recovered());
    let (began, before) = (Instant::now(), OwnUsage::now());
    progress.start(before);
    let status = record(args, &recorder, &collect, &mut progress, &stop);
    // Whatever ended the loop, what was collected is kept and files are finished.
    let took = began.elapsed();
    collect.stop();
    let own = OwnUsage::now().since(before);
    progress.clear();
    let recorded = recorder.finish()?;
    let status = status?;
    let uploaded = uploader.map(|uploader| {
        progress.say("sending what was recorded");
        uploader.finish()
    });
    if let Some(uploaded) = uploaded.filter(|uploaded| uploaded.left > 0) {
        return Err(not_sent(&to, &uploaded));
    }
    progress.say("reading back what was recorded");
    Report::read(&to, &recorded, collect.overview(), took, own)?.print(args);
    Ok(status)
}

fn not_sent(to: &Destination, uploaded: &Uploaded) -> anyhow::Error {
    let (url, spool) = (to.url().unwrap_or_default(), to.folder().display());
    let why = uploaded.error.as_deref().unwrap_or("the store does not take them");
    anyhow!(
        "{} files are not in {url}: {why}; they are whole and wait in {spool}: crosstalk recover {url} sends them, and \
         so does the next recording to it",
        uploaded.left
    )
}

fn recorder_options(args: &Args, to: &Destination, host: &HostRoot) -> RecorderOptions {
    RecorderOptions {
        recording: args.recording(to),
        node: args.node_name(host),
        metadata: Metadata::of_machine(host, args.slot)
            .with("filter", json!({ "pid": args.pid, "cgroup": args.cgroup })),
        always: vec![TaskRow::DATASET, SlotCoverage::DATASET],
        retry: None,
        on_error: |_| {},
    }
}

fn record(
    args: &Args,
    recorder: &Recorder,
    collect: &Collect,
    progress: &mut Progress,
    stop: &AtomicBool,
) -> Result<ExitCode> {
    let began = Instant::now();
    let mut child = Child::spawn(&args.command)?;
    loop {
        let next = Instant::now() + LOOK;
        progress.update(began.elapsed(), recorder, collect.overview());
        if let Some(status) = child.as_mut().map(Child::ended).transpose()?.flatten() {
            return Ok(status);
        }
        let over = args.duration.is_some_and(|duration| began.elapsed() >= duration);
        if stop.load(Ordering::Relaxed) || over || recorder.has_failed() {
            return child.map_or(Ok(ExitCode::SUCCESS), Child::end);
        }
        let end = args.duration.map_or(next, |duration| next.min(began + duration));
        #[allow(clippy::disallowed_methods)] // a pace is meant; sources work on their own threads
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
    }
}

/// Gives container engines a moment to say what runs, so that the first rows have names too.
fn wait_for_names(inventory: &Inventory) {
    const LONGEST: Duration = Duration::from_secs(1);
    let began = Instant::now();
    let silent = || inventory.statuses().iter().any(|s| s.heard_at.is_none() && s.error.is_none());
    while silent() && began.elapsed() < LONGEST {
        #[allow(clippy::disallowed_methods)] // an engine that hangs has no event to wait for
        std::thread::sleep(LOOK / 5);
    }
}

/// True once SIGINT, SIGTERM or SIGHUP (a dropped connection) has come. A second one ends the process
/// the usual way.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("cannot handle signals")?;
    }
    Ok(stop)
}

fn bad(text: impl Into<String>) -> anyhow::Error {
    BadArgument(text.into()).into()
}

impl Args {
    fn settings(&self, host: &HostRoot, filter: Filter, inventory: Inventory) -> Settings {
        let (host, slot) = (host.clone(), self.slot);
        let mut settings = Settings { host, slot, filter, inventory, ..Settings::default() };
        settings.counters.tick = self.tick;
        settings.counters.events.clone_from(&self.events);
        settings.counters.runq = !self.no_runq_wait;
        settings.counters.ring_bytes = self.ring_bytes();
        settings.cache.mode = Mode::Auto;
        settings.cache.root.clone_from(&self.resctrl_root);
        settings.cache.cpu_share = f64::from(self.cache_budget) / 100.0;
        settings.probe.state = Some(state_folder(self.state.clone()));
        settings.modes = self.left_out().map(|name| (name.to_owned(), Mode::Off)).collect();
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use crosstalk_inventory::Config;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn modes(arguments: &[&str]) -> Vec<(&'static str, Mode)> {
        let args = [&["record", "--out", "x"], arguments].concat();
        let inventory = Inventory::start(Config::default());
        let args = Cli::parse_from(args).args;
        let settings = args.settings(&HostRoot::default(), Filter::default(), inventory);
        all(&settings).iter().map(|source| (source.key(), source.mode)).collect()
    }

    #[test]
    fn whatever_source_is_listed_for_all_jobs_can_be_left_out_by_its_name() {
        let before = modes(&[]);
        let writes = all(&Settings::default()).into_iter().map(|source| source.about);
        let names = writes.filter(|about| !about.datasets.is_empty()).map(|about| about.name);
        for name in names.filter(|name| *name != "counters") {
            for (now, then) in modes(&["--without", name]).iter().zip(&before) {
                let wanted = if now.0 == name { Mode::Off } else { then.1 };
                assert_eq!((now.0, now.1), (then.0, wanted), "without {name}");
            }
        }
        assert!(before.contains(&("cache", Mode::Auto)), "{before:?}");
    }

    #[test]
    fn older_spellings_leave_out_as_before_and_what_is_no_source_is_refused() {
        assert_eq!(modes(&["--no-probe", "--no-cache"]), modes(&["--without", "probe,cache"]));
        assert_eq!(modes(&["--no-steal"]), modes(&["--without", "steal"]));
        for wrong in ["weather", "counters"] {
            assert!(Cli::try_parse_from(["record", "--out", "x", "--without", wrong]).is_err());
        }
    }
}
