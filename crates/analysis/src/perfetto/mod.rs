//! A recording as a trace for Perfetto's viewer: a group for each node and run, in it its verdicts, memory's answer time,
//! and for each core who held it and what it counted.
//!
//! The viewer shows a name for each stretch of slots in which one process held a core longest; within a slot the order
//! in which processes ran is not recorded.

mod lane;
mod proto;
mod writer;

use crate::ahead::ahead;
use crate::brief::Brief;
use crate::gauge::Gauge;
use crate::ordered::Ordered;
use crate::pass::TELL_SLOTS;
use crate::runs::{RunFiles, RunKey};
use crate::spans::Spans;
use crate::subjects::{Identity, Subjects};
use crate::waiting::{HORIZON_NS, Waiting};
use crate::{Question, Read, Report, decode, distinct, machine};
use arrow_array::RecordBatch;
use crosstalk_interference::{Activity, Subject};
use crosstalk_recording::{Error, Reader};
use lane::Lane;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, Write};
use std::thread::Scope;
use writer::{TrackId, Writer, number, text};

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] Error),
    /// The trace cannot be written.
    #[error("cannot write the trace: {0}")]
    Write(#[from] io::Error),
}

/// What a trace holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Rows of tasks that went into it.
    pub rows: u64,
    /// Events of the trace.
    pub events: u64,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

/// Writes recordings at `places` as a trace, with the verdicts of `report` on them, which is of the same places and
/// the same question. Memory does not grow with their length.
///
/// # Errors
/// There is no recording at one of the places, or the trace cannot be written.
pub fn export(
    places: &[String],
    question: &Question,
    report: &Report,
    to: &mut dyn Write,
    mut tell: impl FnMut(Read),
) -> Result<Exported, ExportError> {
    let reader = Reader::open(distinct(places))?;
    let files = RunFiles::find(&reader);
    let mut gauge = Gauge::new(files.bytes());
    let mut writer = Writer::new(to);
    let mut exported = Exported::default();
    for key in files.keys() {
        let name = format!("{} ({})", key.node, key.run);
        let node = writer.track(&name, None, None)?;
        verdicts(&mut writer, node, report, &key)?;
        let run = Run { files: &files, key: &key, question, node };
        let (rows, unread) =
            std::thread::scope(|scope| run.lanes(scope, &mut writer, &mut gauge, &mut tell))?;
        exported.rows += rows;
        exported.unread.extend(unread);
        run.memory(&mut writer)?;
        gauge.finish();
    }
    exported.events = writer.events;
    to.flush()?;
    Ok(exported)
}

/// Verdicts overlap, so each victim has a track of its own for each neighbour.
fn verdicts(
    writer: &mut Writer<'_>,
    node: TrackId,
    report: &Report,
    key: &RunKey,
) -> io::Result<()> {
    let ours = |run: &&crate::RunReport| run.node == key.node && run.run == key.run;
    for verdict in report.runs.iter().filter(ours).flat_map(|run| &run.verdicts) {
        let track = writer.track(&format!("verdict: {}", verdict.victim), Some(node), None)?;
        let name = format!(
            "lost {:.0} % to {} ({})",
            100.0 * verdict.slowdown,
            verdict.aggressor,
            verdict.resource
        );
        let said = vec![
            text("victim", &verdict.victim),
            text("aggressor", &verdict.aggressor),
            text("resource", verdict.resource),
            text("signal", verdict.signal),
            number("slowdown", verdict.slowdown),
            number("low", verdict.low),
            number("high", verdict.high),
            number("lost_seconds", verdict.lost_seconds),
            number("confidence", verdict.confidence),
        ];
        writer.slice(track, (verdict.from_ns, verdict.to_ns), &name, said)?;
    }
    Ok(())
}

struct Run<'a, 'r> {
    files: &'r RunFiles<'a>,
    key: &'r RunKey,
    question: &'r Question,
    node: TrackId,
}

impl<'a> Run<'a, '_> {
    fn scan(&self, dataset: &str, columns: &[&str]) -> crosstalk_recording::Scan<'a> {
        let scan = self.files.scan(dataset, self.key).columns(columns.iter().copied());
        self.question.time.clone().map_or(scan.clone(), |time| scan.between(time))
    }

    fn lanes<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        writer: &mut Writer<'_>,
        gauge: &mut Gauge,
        tell: &mut dyn FnMut(Read),
    ) -> io::Result<(u64, Vec<String>)>
    where
        'a: 'scope,
    {
        let columns = [decode::TASKS, decode::PLACES].concat();
        let tasks = self.scan("tasks", &columns);
        let about = tasks.chosen().iter().find_map(|file| file.metadata().ok()).unwrap_or_default();
        let length_ns = machine::slot_ns(&about);
        let subjects = RefCell::new(Subjects::new(self.question.subject));
        let decode_tasks = |batch: &RecordBatch, rows: &mut Waiting<Brief>| {
            let number = |who: &Identity<'_>| subjects.borrow_mut().number(who);
            decode::tasks(batch, number, |slot_ns, row| rows.push(slot_ns, row))
        };
        let name = |subject: Subject| subjects.borrow().name(subject).to_owned();
        let mut tasks = Ordered::new(Spans::new(
            ahead(scope, move || tasks.pieces()),
            decode_tasks,
            HORIZON_NS,
        ));
        let mut lanes: BTreeMap<u32, Lane> = BTreeMap::new();
        let mut entries: Vec<Activity> = Vec::new();
        let mut slots = 0_u64;
        while let Some((start_ns, rows)) = tasks.next_until(u64::MAX) {
            entries.clear();
            entries.extend(rows.iter().map(Activity::from));
            for entry in &entries {
                if let Entry::Vacant(place) = lanes.entry(entry.core) {
                    place.insert(Lane::new(writer, self.node, entry.core)?);
                }
            }
            for lane in lanes.values_mut() {
                lane.slot(writer, (start_ns, length_ns), &entries, &name)?;
            }
            if slots.is_multiple_of(TELL_SLOTS) {
                tell(gauge.look(tasks.spans.file, tasks.spans.rows));
            }
            slots += 1;
        }
        tell(gauge.look(tasks.spans.file, tasks.spans.rows));
        for lane in lanes.values_mut() {
            lane.end(writer, &name)?;
        }
        let late = tasks.spans.late().0;
        let mut unread = tasks.spans.unread;
        if late > 0 {
            let (node, run) = (&self.key.node, &self.key.run);
            unread.push(format!(
                "{late} rows of {node} ({run}) came too late and are not in the trace"
            ));
        }
        Ok((tasks.spans.rows, unread))
    }

    fn memory(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        let bursts = self.scan("probe", decode::PROBE);
        let mut bursts = Ordered::new(Spans::new(bursts.pieces(), decode::probe, HORIZON_NS));
        let mut track = None;
        while let Some((at_ns, some)) = bursts.next_until(u64::MAX) {
            for burst in some {
                let track = match track {
                    Some(track) => track,
                    None => *track.insert(writer.track(
                        "memory's answer",
                        Some(self.node),
                        Some("ns"),
                    )?),
                };
                writer.count(track, at_ns, burst.cost)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::proto::{BEGIN, COUNTER, END, Trace};
    use super::*;
    use prost::Message;

    #[test]
    fn a_core_shows_who_held_it_as_one_slice_and_counts_only_what_changes() {
        const MS: u64 = 1_000_000;
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        let node = writer.track("n", None, None).unwrap();
        let mut lane = Lane::new(&mut writer, node, 0).unwrap();
        let name = |who: Subject| format!("p{}", who.0);
        for slot in 0..10 {
            // One process for five slots, then another; the neighbour's core is not ours.
            let who = Subject(if slot < 5 { 1 } else { 2 });
            let entries = [Activity::new(who, 0, MS), Activity::new(Subject(9), 1, MS)];
            lane.slot(&mut writer, (slot * MS, MS), &entries, &name).unwrap();
        }
        lane.end(&mut writer, &name).unwrap();
        let trace = Trace::decode(&bytes[..]).unwrap();
        let events: Vec<_> = trace
            .packet
            .iter()
            .filter_map(|packet| Some((packet.timestamp?, packet.event.clone()?)))
            .map(|(at, event)| (at / MS, event.kind.unwrap(), event.name))
            .collect();
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(
            events,
            [
                (0, COUNTER, None),
                (0, BEGIN, named("p1")),
                (5, END, None),
                (5, BEGIN, named("p2")),
                (10, END, None),
            ]
        );
    }
}
