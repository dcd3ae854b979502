//! One core along time: who held it, and what it counted.

use super::writer::{TrackId, Writer, number};
use crosstalk_interference::{Activity, Subject};
use std::io;

/// A change of less is not drawn: a counter that trembles would be most of the file.
const LEAST_CHANGE: f64 = 0.01;

/// A counter that is written when it changes.
#[derive(Debug, Default)]
struct Counter {
    track: Option<TrackId>,
    last: Option<f64>,
}

impl Counter {
    fn set(
        &mut self,
        writer: &mut Writer<'_>,
        parent: TrackId,
        (name, unit): (&str, &str),
        at_ns: u64,
        value: f64,
    ) -> io::Result<()> {
        let is_same =
            |last: f64| (value - last).abs() <= LEAST_CHANGE * last.abs().max(value.abs());
        if self.last.is_some_and(is_same) {
            return Ok(());
        }
        let track = match self.track {
            Some(track) => track,
            None => *self.track.insert(writer.track(name, Some(parent), Some(unit))?),
        };
        self.last = Some(value);
        writer.count(track, at_ns, value)
    }
}

/// Whoever held the core longest, slot after slot.
#[derive(Debug)]
struct Holder {
    subject: Subject,
    from_ns: u64,
    to_ns: u64,
    on_cpu_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Lane {
    core: u32,
    track: TrackId,
    holder: Option<Holder>,
    busy: Counter,
    per_cycle: Counter,
    misses: Counter,
    end_ns: u64,
}

impl Lane {
    pub(crate) fn new(writer: &mut Writer<'_>, node: TrackId, core: u32) -> io::Result<Self> {
        Ok(Self {
            core,
            track: writer.track(&format!("core {core}"), Some(node), None)?,
            holder: None,
            busy: Counter::default(),
            per_cycle: Counter::default(),
            misses: Counter::default(),
            end_ns: 0,
        })
    }

    /// The rows of a slot, of all cores. A core without one rested.
    pub(crate) fn slot(
        &mut self,
        writer: &mut Writer<'_>,
        (start_ns, length_ns): (u64, u64),
        entries: &[Activity],
        name: &dyn Fn(Subject) -> String,
    ) -> io::Result<()> {
        let here = || entries.iter().filter(|entry| entry.core == self.core);
        let most = here().max_by_key(|entry| entry.on_cpu_ns).filter(|entry| entry.on_cpu_ns > 0);
        let on_cpu: u64 = here().map(|entry| entry.on_cpu_ns).sum();
        let (cycles, instructions) =
            (sum(here().map(|e| e.cycles)), sum(here().map(|e| e.instructions)));
        let misses = sum(here().map(|e| e.llc_misses));
        let goes_on = self.holder.as_ref().is_some_and(|holder| {
            holder.to_ns == start_ns && most.is_some_and(|most| most.subject == holder.subject)
        });
        if !goes_on {
            self.end(writer, name)?;
        }
        if let Some(most) = most {
            let (subject, from_ns) = (most.subject, start_ns);
            let new = || Holder { subject, from_ns, to_ns: from_ns, on_cpu_ns: 0 };
            let holder = self.holder.get_or_insert_with(new);
            holder.to_ns = start_ns + length_ns;
            holder.on_cpu_ns += most.on_cpu_ns;
        }
        if self.end_ns < start_ns && self.end_ns > 0 {
            self.busy.set(writer, self.track, BUSY, self.end_ns, 0.0)?;
        }
        self.end_ns = start_ns + length_ns;
        let share = 100.0 * on_cpu as f64 / length_ns.max(1) as f64;
        self.busy.set(writer, self.track, BUSY, start_ns, share)?;
        if let (Some(cycles), Some(instructions)) = (cycles.filter(|n| *n > 0.0), instructions) {
            self.per_cycle.set(writer, self.track, PER_CYCLE, start_ns, instructions / cycles)?;
        }
        // Who rests misses nothing; what is not counted stays absent.
        let is_resting = most.is_none() && self.misses.track.is_some();
        if let Some(misses) = misses.or(is_resting.then_some(0.0)) {
            self.misses.set(writer, self.track, MISSES, start_ns, misses)?;
        }
        Ok(())
    }

    /// Writes down who held it until now.
    pub(crate) fn end(
        &mut self,
        writer: &mut Writer<'_>,
        name: &dyn Fn(Subject) -> String,
    ) -> io::Result<()> {
        let Some(holder) = self.holder.take() else { return Ok(()) };
        let length = (holder.to_ns - holder.from_ns).max(1) as f64;
        let share = number("share of the core", holder.on_cpu_ns as f64 / length);
        let time = (holder.from_ns, holder.to_ns);
        writer.slice(self.track, time, &name(holder.subject), vec![share])
    }
}

const BUSY: (&str, &str) = ("busy", "%");
const PER_CYCLE: (&str, &str) = ("instructions per cycle", "");
const MISSES: (&str, &str) = ("cache misses per slot", "");

/// The sum of what was counted; none if nothing was.
fn sum(values: impl Iterator<Item = Option<u64>>) -> Option<f64> {
    values.flatten().fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value as f64))
}
