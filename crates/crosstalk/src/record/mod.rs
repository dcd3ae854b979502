//! `crosstalk record`: the sources into files, until told to stop.

mod about;
mod args;
mod cache;
mod child;
mod filter;
mod probe;
mod progress;
mod sink;
mod summary;

pub(crate) use args::Args;

use crate::exit::BadArgument;
use anyhow::{Context, Result};
use cache::Cache;
use child::Child;
use crosstalk_counters::{Collector, Options, OwnUsage};
use crosstalk_host::HostRoot;
use filter::Filter;
use probe::Probe;
use progress::Progress;
use sink::Sink;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the kernel's batches are fetched. The ring holds seconds.
const POLL: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let host = HostRoot::new(&args.host_root);
    let filter = Filter::new(args, &host)?;
    let stop = stop_flag()?;
    let mut collector = Collector::open(&Options {
        host: host.clone(),
        slot: args.slot,
        tick: args.tick,
        events: args.events.clone(),
        runq: !args.no_runq_wait,
        ring_bytes: args.ring_bytes(),
    })?;
    let mut progress = Progress::new(args);
    progress.say_what_is_absent(collector.counters());
    let cache = Cache::start(args, collector.clocks())?;
    progress.say_if_cache_is_absent(&cache);
    let probe = Probe::start(args, collector.clocks());
    progress.say_if_probe_is_absent(&probe);
    let mut sink = Sink::create(args, &host, &collector, (cache, probe), filter)?;
    progress.say_what_was_recovered(sink.recovered());

    sink.begin(collector.start()?);
    let (began, before) = (Instant::now(), OwnUsage::now());
    progress.start(before);
    let outcome = record(args, &mut collector, &mut sink, &mut progress, &stop);
    // Whatever ended the loop, what was collected is kept and files are finished.
    let status = outcome.and_then(|status| {
        sink.end_probe();
        sink.take(collector.finish()?)?;
        Ok(status)
    });
    progress.clear();
    let status = match status {
        Ok(status) => status,
        Err(error) => {
            sink.abandon();
            return Err(error);
        }
    };
    let report = sink.finish(&collector, began.elapsed(), before)?;
    report.print(args);
    Ok(status)
}

fn record(
    args: &Args,
    collector: &mut Collector,
    sink: &mut Sink,
    progress: &mut Progress,
    stop: &AtomicBool,
) -> Result<ExitCode> {
    let began = Instant::now();
    let mut child = Child::spawn(&args.command)?;
    loop {
        let next = Instant::now() + POLL;
        sink.take(collector.poll()?)?;
        progress.update(began.elapsed(), sink, collector);
        progress.say_if_cache_ended(sink.cache());
        if let Some(status) = child.as_mut().map(Child::ended).transpose()?.flatten() {
            return Ok(status);
        }
        let stopped = stop.load(Ordering::Relaxed);
        let over = args.duration.is_some_and(|duration| began.elapsed() >= duration);
        if stopped || over {
            return child.map_or(Ok(ExitCode::SUCCESS), Child::end);
        }
        let end = args.duration.map_or(next, |duration| next.min(began + duration));
        #[allow(clippy::disallowed_methods)] // the pace of polling
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
    }
}

/// True once SIGINT or SIGTERM has come. A second one ends the process the usual way.
fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("cannot handle signals")?;
    }
    Ok(stop)
}

fn bad(text: impl Into<String>) -> anyhow::Error {
    BadArgument(text.into()).into()
}
