//! The open files of one group in one domain, and what they said last.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::reading::ReadingState;
use crate::pool::{MeasuredGroup, MonitorFiles, SubjectKey};
use crate::{MonValue, Refusal, mbm_delta};

/// The longest value is 20 digits and a newline; the words are shorter.
const LONGEST_VALUE: usize = 32;
/// Where time is short, traffic is left out of so many looks before one that has it: a counter says later what it did
/// not say now, while occupancy that nobody looked at is gone.
const BRIEF_LOOKS: u8 = 3;

/// Reads a monitoring file that is kept open: one pread.
///
/// # Errors
/// The group is gone, or the read fails.
pub fn read_value(file: &File) -> std::io::Result<MonValue> {
    let mut buffer = [0; LONGEST_VALUE];
    let length = file.read_at(&mut buffer, 0)?;
    Ok(MonValue::parse(&buffer[..length]))
}

#[derive(Debug)]
struct Counter {
    file: Arc<File>,
    last: Option<u64>,
    /// Whether it has been read, whatever it said.
    was_read: bool,
}

impl Counter {
    /// The bytes since the last good value.
    fn read(&mut self, look: &mut Look) -> Option<u64> {
        self.was_read = true;
        let count = look.read(&self.file).count()?;
        let delta = self.last.and_then(|last| mbm_delta(last, count, None));
        self.last = Some(count);
        delta
    }
}

/// A group and a domain.
pub(super) type Place = (u32, u32);

/// Who is read: first those whose processes ran, then those whose values can only fade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Ran,
    Rested,
}

/// Whether everything due fits into the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Haste {
    /// It does: every look is a full one.
    None,
    /// It does not: traffic is read now and then.
    Short,
}

/// What one look at a domain gave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) read_at_ns: u64,
    pub(super) occupancy: Option<u64>,
    pub(super) total: Option<u64>,
    pub(super) local: Option<u64>,
    pub(super) state: ReadingState,
    pub(super) reads: usize,
    /// The group is no longer there.
    pub(super) gone: bool,
}

#[derive(Debug)]
pub(super) struct OpenDomain {
    /// The group and the domain.
    pub(super) place: Place,
    pub(super) generation: u32,
    /// The process whose own group it is.
    pub(super) owner: Option<(SubjectKey, Arc<str>)>,
    /// Lines of a former owner may be left.
    pub(super) stale: bool,
    /// Where its processes stand in the list of those that ran.
    pub(super) runners: Range<usize>,
    occupancy: Option<Arc<File>>,
    total: Option<Counter>,
    local: Option<Counter>,
    last_occupancy: Option<u64>,
    /// The last look still saw traffic, or left it out, so the next may see some.
    moving: bool,
    /// Looks since the last one at traffic.
    brief_looks: u8,
}

impl OpenDomain {
    /// Starts with what could be opened; with nothing, rows have the state `error`.
    pub(super) fn new(view: &MeasuredGroup, files: &MonitorFiles) -> Self {
        let counter = |file: &Option<Arc<File>>| {
            file.as_ref().map(|file| Counter {
                file: Arc::clone(file),
                last: None,
                was_read: false,
            })
        };
        Self {
            place: (view.id, files.domain),
            generation: view.generation,
            owner: None,
            stale: false,
            runners: 0..0,
            occupancy: files.occupancy.clone(),
            total: counter(&files.total),
            local: counter(&files.local),
            last_occupancy: None,
            moving: true,
            // So that not all have their full look in the same slot.
            brief_looks: (view.id % u32::from(BRIEF_LOOKS + 1)) as u8,
        }
    }

    /// Whether it is to be read in this turn.
    pub(super) fn is_due(&self, turn: Turn) -> bool {
        match turn {
            Turn::Ran => !self.runners.is_empty(),
            // A value many share is told for those that ran; with none there is nobody to tell it for.
            Turn::Rested => self.runners.is_empty() && self.owner.is_some() && self.can_change(),
        }
    }

    /// Whether the value of a process that did not run can be another than at the last look.
    fn can_change(&self) -> bool {
        self.moving || self.last_occupancy != Some(0)
    }

    /// How many reads a look takes.
    pub(super) fn cost(&self, turn: Turn, haste: Haste) -> usize {
        let counters = usize::from(self.total.is_some()) + usize::from(self.local.is_some());
        let takes_traffic = (turn == Turn::Ran || self.moving) && self.has_time_for_traffic(haste);
        1 + if takes_traffic { counters } else { 0 }
    }

    fn has_time_for_traffic(&self, haste: Haste) -> bool {
        let counters = [&self.total, &self.local];
        // The first value is what later ones are counted from.
        let is_first = counters.into_iter().flatten().any(|counter| !counter.was_read);
        haste == Haste::None || is_first || self.brief_looks >= BRIEF_LOOKS
    }

    pub(super) fn look(&mut self, turn: Turn, haste: Haste, clock: &impl Fn() -> u64) -> Look {
        let mut look = Look::default();
        if self.occupancy.is_none() && self.total.is_none() && self.local.is_none() {
            look.state = ReadingState::Error;
            self.moving = false;
            self.last_occupancy = Some(0);
            look.read_at_ns = clock();
            return look;
        }
        let before = self.last_occupancy;
        if let Some(file) = &self.occupancy {
            look.occupancy = look.read(file).count();
            self.last_occupancy = look.occupancy;
        } else {
            self.last_occupancy = Some(0);
        }
        // Only who runs gets more of the cache: it has run though nobody has said so yet.
        let grew = look.occupancy.zip(before).is_some_and(|(now, before)| now > before);
        if turn == Turn::Ran || self.moving || grew {
            if self.has_time_for_traffic(haste) {
                look.total = self.total.as_mut().and_then(|counter| counter.read(&mut look));
                look.local = self.local.as_mut().and_then(|counter| counter.read(&mut look));
                self.moving = look.total.is_none_or(|bytes| bytes > 0) && self.total.is_some();
                self.brief_looks = 0;
            } else {
                self.moving = self.total.is_some();
                self.brief_looks += 1;
            }
        }
        // Afterwards: a reader that had to wait in the middle has values from after the wait.
        look.read_at_ns = clock();
        look
    }
}

impl Default for Look {
    /// Nothing read yet, and nothing wrong yet.
    fn default() -> Self {
        let (occupancy, total, local) = (None, None, None);
        let state = ReadingState::Ok;
        Self { read_at_ns: 0, occupancy, total, local, state, reads: 0, gone: false }
    }
}

impl Look {
    fn read(&mut self, file: &File) -> MonValue {
        self.reads += 1;
        let value = read_value(file).unwrap_or_else(|error| {
            self.gone |= is_gone(&error);
            MonValue::Error
        });
        self.state = self.state.with(value);
        value
    }
}

fn is_gone(error: &std::io::Error) -> bool {
    error.raw_os_error().is_some_and(|errno| Refusal::classify(errno, "") == Refusal::Gone)
}
