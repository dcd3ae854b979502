//! Where in the labels of a series ours go, so that they can be put there without looking at them again.

use crosstalk_remote_write::Series;

use super::super::NAME_PREFIX;
use super::super::labels::OURS;

/// Places in the labels of a series where something happens: six are enough for all but odd ones.
const EVENTS: usize = 6;

/// Something that happens to the labels of a series at one place.
#[derive(Debug, Clone, Copy, Default)]
struct Event {
    /// Where, in bytes of the labels.
    at: u16,
    /// Bytes of the labels that are left out there.
    skip: u8,
    what: What,
}

/// What happens, in a byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct What(u8);

impl What {
    /// No more.
    const END: What = What(0);
    /// The name gets its prefix.
    const NAME: What = What(1);
    /// The job that the series came with, under another name.
    const KEPT_JOB: What = What(2);

    /// Our labels from the one to the other, in the order of [`OURS`].
    fn ours(first: usize, last: usize) -> What {
        What(0x80 | (first as u8) << 3 | last as u8)
    }

    #[inline]
    fn first_and_last(self) -> (u8, u8) {
        (self.0 >> 3 & 7, self.0 & 7)
    }
}

/// What happens to the labels of a series.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Plan {
    events: [Event; EVENTS],
    /// Bytes that the labels grow by, without ours.
    growth: i16,
    /// Where the field of the job begins that is kept.
    job_at: u16,
}

impl Plan {
    /// What happens to the labels of a series that is somebody's; `None` for one that is odd. `kept_job` is what the field of
    /// the kept job begins with, without its first length; empty where none is kept.
    pub(super) fn of(series: &Series<'_, '_>, kept_job: &[u8]) -> Option<Plan> {
        let mut plan = Plan::default();
        let kept_name = OURS[0].1[0];
        let job = series.labels.iter().position(|label| label.name == OURS[0].0);
        if let Some(job) = job {
            plan.job_at = u16::try_from(series.raw_label(job)?.start).ok()?;
        }
        let end = series.raw_labels()?.len();
        let (mut ours, mut kept_due) = (0, job.is_some());
        if kept_due && kept_job.is_empty() {
            return None;
        }
        for place in 0..=series.labels.len() {
            let (label, field) = match series.labels.get(place) {
                Some(label) => (Some(label), series.raw_label(place)?),
                None => (None, end..end),
            };
            let at = u16::try_from(field.start).ok()?;
            let goes_here = |name: &str| label.is_none_or(|label| name < label.name);
            if kept_due && goes_here(kept_name) {
                plan.push(Event { at, skip: 0, what: What::KEPT_JOB })?;
                // Two bytes of the field, the name's part, and the value with its length: all lengths take a byte.
                let inner = kept_job.len() + 1 + series.labels[job?].value.len();
                plan.growth += 2 + i16::try_from(inner).ok().filter(|inner| *inner < 0x80)?;
                kept_due = false;
            }
            let first = ours;
            while ours < OURS.len() && goes_here(OURS[ours].0) {
                ours += 1;
            }
            if ours > first {
                plan.push(Event { at, skip: 0, what: What::ours(first, ours - 1) })?;
            }
            let Some(label) = label else { break };
            let skip = u8::try_from(field.len()).ok()?;
            if Some(place) == job {
                // Ours takes its place.
                plan.push(Event { at, skip, what: What::ours(ours, ours) })?;
                plan.growth -= i16::from(skip);
                ours += 1;
            } else if label.name == "__name__" {
                if field.len() + NAME_PREFIX.len() >= 0x80 {
                    return None;
                }
                plan.push(Event { at, skip, what: What::NAME })?;
                plan.growth += NAME_PREFIX.len() as i16;
            } else if is_in_the_way(label.name) {
                return None;
            }
        }
        Some(plan)
    }

    fn push(&mut self, event: Event) -> Option<()> {
        *self.events.iter_mut().find(|event| event.what == What::END)? = event;
        Some(())
    }

    /// Bytes of labels with ours, which take `ours`.
    #[inline]
    pub(super) fn length(&self, labels: usize, ours: usize) -> usize {
        (labels + ours).saturating_add_signed(self.growth.into())
    }

    /// The labels with what happens to them.
    #[inline]
    pub(super) fn write<'a>(
        &self,
        out: &mut Vec<u8>,
        labels: &[u8],
        kept_job: &[u8],
        ours: impl Fn(u8, u8) -> &'a [u8],
    ) {
        let mut from = 0;
        for event in &self.events {
            if event.what == What::END {
                break;
            }
            let at = usize::from(event.at);
            out.extend_from_slice(&labels[from..at]);
            match event.what {
                What::NAME => {
                    let field = &labels[at..at + usize::from(event.skip)];
                    let (more, value) = (NAME_PREFIX.len() as u8, field.len() - 14);
                    // A tag and a length before the field, `__name__` and the value.
                    out.extend_from_slice(&[0x0a, field[1] + more]);
                    out.extend_from_slice(&field[2..13]);
                    out.push(value as u8 + more);
                    out.extend_from_slice(NAME_PREFIX.as_bytes());
                    out.extend_from_slice(&field[14..]);
                }
                What::KEPT_JOB => {
                    // The field is a tag and a length, the name `job` with its own, and the value with its own.
                    let job = usize::from(self.job_at);
                    let field = &labels[job..job + 2 + usize::from(labels[job + 1])];
                    let value = &field[8..];
                    out.extend_from_slice(&[0x0a, (kept_job.len() + value.len()) as u8]);
                    out.extend_from_slice(kept_job);
                    out.extend_from_slice(value);
                }
                what => {
                    let (first, last) = what.first_and_last();
                    out.extend_from_slice(ours(first, last));
                }
            }
            from = at + usize::from(event.skip);
        }
        out.extend_from_slice(&labels[from..]);
    }
}

/// Whether a label has a name that one of ours, or one that is kept, may need.
fn is_in_the_way(name: &str) -> bool {
    OURS.iter().any(|(ours, kept)| *ours == name || kept.contains(&name))
}
