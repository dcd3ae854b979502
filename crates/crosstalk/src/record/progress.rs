//! What a person sees while a recording runs. All of it goes to standard error.

use super::Args;
use super::cache::Cache;
use super::probe::Probe;
use super::sink::Sink;
use crate::quantity::thousands;
use crosstalk_counters::{Collector, CounterStatus, OwnUsage};
use crosstalk_recording::Recovered;
use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(500);

pub(super) struct Progress {
    quiet: bool,
    live: bool,
    total: Option<Duration>,
    shown: Option<Instant>,
    before: OwnUsage,
    said_cache_ended: bool,
}

impl Progress {
    pub(super) fn new(args: &Args) -> Self {
        let live = !args.quiet && stderr().is_terminal();
        Self {
            quiet: args.quiet,
            live,
            total: args.duration,
            shown: None,
            before: OwnUsage::now(),
            said_cache_ended: false,
        }
    }

    /// Recording begins: loading the programs is not part of its cost.
    pub(super) fn start(&mut self, before: OwnUsage) {
        self.before = before;
    }

    pub(super) fn say_what_is_absent(&self, counters: &[CounterStatus]) {
        let absent: Vec<&CounterStatus> =
            counters.iter().filter(|c| c.absent_because.is_some()).collect();
        let Some(first) = absent.first().filter(|_| !self.quiet) else { return };
        let names: Vec<&str> = absent.iter().map(|c| c.column).collect();
        let reason = first.absent_because.as_deref().unwrap_or_default();
        eprintln!("crosstalk: not counted here: {} ({reason})", names.join(", "));
        eprintln!("crosstalk: time, waits, switches and faults are; see crosstalk doctor");
    }

    pub(super) fn say_if_cache_is_absent(&self, cache: &Cache) {
        if let Some(reason) = cache.absent_because().filter(|_| !self.quiet) {
            eprintln!("crosstalk: no cache data set: {reason}");
        }
    }

    pub(super) fn say_if_probe_is_absent(&self, probe: &Probe) {
        if let Some(reason) = probe.absent_because().filter(|_| !self.quiet) {
            eprintln!("crosstalk: no probe data set: {reason}");
        }
    }

    pub(super) fn say_if_cache_ended(&mut self, cache: &Cache) {
        if self.quiet || self.said_cache_ended {
            return;
        }
        if let Some(reason) = cache.ended_because() {
            self.clear();
            eprintln!("crosstalk: the cache data set ends here: {reason}; the rest goes on");
            self.said_cache_ended = true;
        }
    }

    pub(super) fn say_what_was_recovered(&self, recovered: &Recovered) {
        if self.quiet {
            return;
        }
        for file in &recovered.files {
            eprintln!("crosstalk: finished {} of an earlier recording", file.display());
        }
        for (file, reason) in &recovered.failed {
            eprintln!("crosstalk: could not finish {}: {reason}", file.display());
        }
    }

    pub(super) fn update(&mut self, elapsed: Duration, sink: &Sink, collector: &Collector) {
        if !self.live || self.shown.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        self.shown = Some(Instant::now());
        let seconds = elapsed.as_secs_f64().max(1e-3);
        let rows = sink.summary().rows;
        let of = self.total.map_or_else(String::new, |t| format!(" of {:.0} s", t.as_secs_f64()));
        let line = format!(
            "recording {seconds:.0} s{of}  {} rows ({}/s)  lost {}  own CPU {:.1} %",
            thousands(rows),
            thousands((rows as f64 / seconds) as u64),
            thousands(collector.totals().lost_rows),
            OwnUsage::now().since(self.before).cpu.as_secs_f64() * 100.0 / seconds,
        );
        // A terminal that cannot be written to is no reason to stop recording.
        let _ = write!(stderr(), "\r\x1b[K{line}");
    }

    pub(super) fn clear(&self) {
        if self.live && self.shown.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
