//! Rows of `tasks`, made by the thread that reads them: finding out whose each row is, and putting it with those of its
//! time, takes about as long as what is done with slots afterwards, and neither waits for the other.

use crate::ahead::ahead;
use crate::brief::Brief;
use crate::decode;
use crate::in_slots::Span;
use crate::spans::{Decode, Spans, Supply};
use crate::subjects::{Identity, Subjects};
use crate::waiting::Waiting;
use arrow_array::RecordBatch;
use crosstalk_interference::Subject;
use crosstalk_recording::{RecordedFile, Scan};
use std::collections::HashMap;
use std::sync::mpsc::{IntoIter, Receiver, Sender, channel};
use std::thread::Scope;

/// Who runs in which cgroup, to say whom a quota stopped.
#[derive(Default)]
pub(crate) struct Members(HashMap<u64, Vec<Subject>>);

impl Members {
    /// Of one cgroup, and cgroups: a bound on what a strange recording can cost.
    const MOST: (usize, usize) = (64, 65_536);

    /// Whether it was not known to be there, and is from now on.
    fn add(&mut self, cgroup_id: u64, subject: Subject) -> bool {
        let Self(cgroups) = self;
        if cgroups.len() >= Self::MOST.1 && !cgroups.contains_key(&cgroup_id) {
            return false;
        }
        let members = cgroups.entry(cgroup_id).or_default();
        let is_new = members.len() < Self::MOST.0 && !members.contains(&subject);
        if is_new {
            members.push(subject);
        }
        is_new
    }

    pub(crate) fn of(&self, cgroup_id: u64) -> &[Subject] {
        self.0.get(&cgroup_id).map_or(&[], Vec::as_slice)
    }
}

/// Gives rows their subjects.
struct Numbering {
    subjects: Subjects,
    members: Members,
    /// Who was first met in a cgroup since this was last asked for.
    newcomers: Vec<(u64, Subject)>,
}

impl Decode<Brief> for Numbering {
    fn decode(&mut self, batch: &RecordBatch, rows: &mut Waiting<Brief>) -> Result<(), String> {
        let Self { subjects, members, newcomers } = self;
        let number = |who: &Identity<'_>| {
            let subject = subjects.number(who);
            if let Some(cgroup_id) = who.cgroup_id
                && members.add(cgroup_id, subject)
            {
                newcomers.push((cgroup_id, subject));
            }
            subject
        };
        decode::tasks(batch, number, |slot_ns, row| rows.push(slot_ns, row))
    }
}

enum Step<'a> {
    Whole {
        span: Span<Brief>,
        newcomers: Vec<(u64, Subject)>,
        file: Option<&'a RecordedFile>,
        rows: u64,
    },
    End(Box<End>),
}

/// What is known when all was read.
pub(crate) struct End {
    pub(crate) subjects: Subjects,
    pub(crate) rows: u64,
    pub(crate) late: (u64, u64),
    pub(crate) unread: Vec<String>,
}

/// The thread's side.
struct Steps<'a> {
    spans: Option<Spans<'a, Brief, Numbering>>,
    spare: Receiver<Span<Brief>>,
}

impl<'a> Iterator for Steps<'a> {
    type Item = Step<'a>;

    fn next(&mut self) -> Option<Step<'a>> {
        let spans = self.spans.as_mut()?;
        self.spare.try_iter().for_each(|span| spans.recycle(span));
        if let Some(span) = spans.next_whole(u64::MAX) {
            let newcomers = std::mem::take(&mut spans.decode.newcomers);
            return Some(Step::Whole { span, newcomers, file: spans.file, rows: spans.rows });
        }
        let spans = self.spans.take()?;
        let (rows, late) = (spans.rows, spans.late());
        let Spans { decode, unread, .. } = spans;
        Some(Step::End(Box::new(End { subjects: decode.subjects, rows, late, unread })))
    }
}

/// The rows as they are handed out.
pub(crate) struct Tasks<'a> {
    steps: IntoIter<Step<'a>>,
    spare: Sender<Span<Brief>>,
    /// Who was met up to the span at hand: the same in every run, however far reading is ahead.
    pub(crate) members: Members,
    /// The file of the span at hand, and the rows read with it.
    pub(crate) file: Option<&'a RecordedFile>,
    pub(crate) rows: u64,
    end: Option<Box<End>>,
}

impl<'a> Tasks<'a> {
    pub(crate) fn read<'scope>(
        scope: &'scope Scope<'scope, '_>,
        tasks: Scan<'a>,
        subjects: Subjects,
        horizon_ns: u64,
    ) -> Self
    where
        'a: 'scope,
    {
        let (spare, spares) = channel();
        let make = move || {
            let numbering =
                Numbering { subjects, members: Members::default(), newcomers: Vec::new() };
            let spans = Spans::new(tasks.pieces(), numbering, horizon_ns);
            Steps { spans: Some(spans), spare: spares }
        };
        let steps = ahead(scope, make);
        Self { steps, spare, members: Members::default(), file: None, rows: 0, end: None }
    }

    /// What is known when all was read, once no span is left; nothing if reading broke off.
    pub(crate) fn end(self) -> Option<End> {
        self.end.map(|end| *end)
    }
}

impl Supply<Brief> for Tasks<'_> {
    fn next_whole(&mut self, _: u64) -> Option<Span<Brief>> {
        match self.steps.next()? {
            Step::Whole { span, newcomers, file, rows } => {
                for (cgroup_id, subject) in newcomers {
                    self.members.add(cgroup_id, subject);
                }
                (self.file, self.rows) = (file, rows);
                Some(span)
            }
            Step::End(end) => {
                self.rows = end.rows;
                self.end = Some(end);
                None
            }
        }
    }

    fn recycle(&mut self, mut span: Span<Brief>) {
        span.clear();
        // Who has read all needs no memory any more.
        let _ = self.spare.send(span);
    }
}
