//! What a person sees while a recording runs. All of it goes to standard error, which may be closed:
//! that is no reason to stop recording.

use super::Args;
use crate::quantity::thousands;
use crosstalk_collect::{Overview, SourceStatus};
use crosstalk_host::{OwnUsage, Verdict};
use crosstalk_recording::{Recorder, Recovered};
use crosstalk_sources::Settings;
use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};
use std::sync::Arc;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(500);

/// Says something whatever else is shown.
pub(super) fn tell(line: impl Display) {
    let _ = writeln!(stderr(), "crosstalk: {line}");
}

pub(super) struct Progress {
    quiet: bool,
    live: bool,
    total: Option<Duration>,
    shown: Option<Instant>,
    before: OwnUsage,
    /// Sources that worked when recording began and have ended since.
    ended: Vec<&'static str>,
    working: Vec<&'static str>,
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
            ended: Vec::new(),
            working: Vec::new(),
        }
    }

    /// Recording begins: loading the programs is not part of its cost.
    pub(super) fn start(&mut self, before: OwnUsage) {
        self.before = before;
    }

    fn line(&self, line: impl Display) {
        if !self.quiet {
            let _ = writeln!(stderr(), "crosstalk: {line}");
        }
    }

    /// Shows what takes long, on a terminal only.
    pub(super) fn say(&mut self, what: &str) {
        if self.live {
            let _ = write!(stderr(), "\r\x1b[K{what}");
            self.clear();
        }
    }

    pub(super) fn say_what_is_absent(
        &mut self,
        statuses: &[Arc<SourceStatus>],
        settings: &Settings,
    ) {
        for status in statuses {
            let (about, standing) = (status.about(), status.standing());
            if standing.works() {
                self.working.push(about.name);
            } else if standing.capability.verdict != Verdict::Off {
                let names: Vec<&str> = about.datasets.iter().map(|dataset| dataset.name).collect();
                let found = &standing.capability.found;
                self.line(format_args!("no {} data set: {found}", names.join(", ")));
            }
            if let Some((_, why)) = standing.absent.first().filter(|_| about.name == "counters") {
                let columns = status.described().get("counters").map(absent_columns);
                let columns = columns.unwrap_or_default().join(", ");
                self.line(format_args!("not counted here: {columns} ({why})"));
                let waits = if settings.counters.runq { ", waits" } else { "" };
                let rest = format!("time{waits}, switches and faults are; see crosstalk doctor");
                self.line(rest);
            }
        }
    }

    pub(super) fn say_what_was_recovered(&self, recovered: &Recovered) {
        for file in &recovered.files {
            self.line(format_args!("finished {} of an earlier recording", file.display()));
        }
        for (file, reason) in &recovered.failed {
            self.line(format_args!("could not finish {}: {reason}", file.display()));
        }
    }

    pub(super) fn update(&mut self, elapsed: Duration, recorder: &Recorder, all: &Overview) {
        self.say_what_ended(all);
        if !self.live || self.shown.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        self.shown = Some(Instant::now());
        let seconds = elapsed.as_secs_f64().max(1e-3);
        let rows = recorder.rows();
        let lost: u64 = all.losses().all().iter().map(|loss| loss.rows).sum();
        let of = self.total.map_or_else(String::new, |t| format!(" of {:.0} s", t.as_secs_f64()));
        let line = format!(
            "recording {seconds:.0} s{of}  {} rows ({}/s)  lost {}  own CPU {:.1} %",
            thousands(rows),
            thousands((rows as f64 / seconds) as u64),
            thousands(lost),
            OwnUsage::now().since(self.before).cpu.as_secs_f64() * 100.0 / seconds,
        );
        let _ = write!(stderr(), "\r\x1b[K{line}");
    }

    fn say_what_ended(&mut self, all: &Overview) {
        for status in all.statuses() {
            let name = status.about().name;
            if !self.working.contains(&name) {
                continue;
            }
            let standing = status.standing();
            let had_ended = self.ended.contains(&name);
            if standing.works() == had_ended {
                self.clear();
            }
            if standing.works() && had_ended {
                self.line(format_args!("the {name} data set goes on, with a gap"));
                self.ended.retain(|ended| *ended != name);
            } else if !standing.works() && !had_ended {
                let why = standing.capability.found;
                self.line(format_args!("the {name} data set ends here: {why}; the rest goes on"));
                self.ended.push(name);
            }
        }
    }

    pub(super) fn clear(&self) {
        if self.live && self.shown.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

/// The columns that could not be counted, of what the counters say about themselves.
fn absent_columns(counters: &serde_json::Value) -> Vec<String> {
    let all = counters.as_array().map(Vec::as_slice).unwrap_or_default();
    let absent = all.iter().filter(|counter| !counter["absent_because"].is_null());
    absent.filter_map(|counter| counter["column"].as_str().map(str::to_owned)).collect()
}
