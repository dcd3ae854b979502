//! The consumer that explains: who slowed whom in the last minute, looked at every few seconds.
//!
//! It is the core of `crosstalk analyze` (`crosstalk-interference`) over the rows that sources deliver, on a thread of its
//! own and in memory that does not grow.

mod subjects;
mod totals;
mod verdicts;

pub(crate) use verdicts::{Verdicts, VerdictsNow};

use crate::config::SubjectName;
use crate::log::{say, tell};
use crosstalk_collect::{Consumer, Delivery, Message, Overview, Subscription, Wants};
use crosstalk_detector::{Detector as Rows, Took, topology};
use crosstalk_host::{Cpu, HostRoot, thread};
use crosstalk_interference::Settings as Core;
use crosstalk_model::{ProbeReading, Row, SlotCoverage, SlotLength, StealRow, TaskRow};
use crosstalk_sources::ThrottlingRow;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use subjects::Subjects;

/// Batches that may wait: seconds of all sources.
pub(crate) const WAITING: usize = 1024;
/// What verdicts are made of.
pub(crate) const WANTS: Wants = Wants::Datasets(&[
    TaskRow::DATASET,
    SlotCoverage::DATASET,
    ProbeReading::DATASET,
    StealRow::DATASET,
    ThrottlingRow::DATASET,
]);
/// How far back verdicts reach.
pub(crate) const REACH: Duration = Duration::from_secs(60);
/// Time between looks, at least: a verdict needs some seconds more to change.
const LOOK: Duration = Duration::from_secs(5);
/// Share of one core that looks should cost; on a machine with many subjects they get rarer.
const SHARE: f64 = 0.0008;
/// As long as they cost less than this, no look is later than that: a culprit is to be named while it is there.
const MOST_SHARE: f64 = 0.004;
const LATEST: Duration = Duration::from_secs(15);
/// How long rows wait for those of other sources.
const HORIZON: Duration = Duration::from_secs(2);
/// Rows wait for each other anyway, and for the next look.
const PACE: Duration = Duration::from_millis(500);

/// Starts to watch; ends when the last source has. What is found is in the answer.
pub(crate) fn start(
    queue: Subscription,
    host: &HostRoot,
    slot: SlotLength,
    kind: SubjectName,
    overview: &Overview,
) -> io::Result<(Arc<Verdicts>, JoinHandle<()>)> {
    let verdicts = Arc::new(Verdicts::new(kind));
    let (host, overview, published) = (host.clone(), overview.clone(), Arc::clone(&verdicts));
    let thread = queue.consume(PACE, tell, move || {
        let settings = Core::live(REACH.as_secs() as usize);
        Detector {
            rows: Rows::new(topology(&Cpu::read(&host)), settings, slot, HORIZON),
            subjects: Subjects::new(kind),
            verdicts: Arc::clone(&published),
            overview: overview.clone(),
            late: 0,
            next_look: Instant::now() + LOOK,
        }
    })?;
    Ok((verdicts, thread))
}

struct Detector {
    rows: Rows,
    subjects: Subjects,
    verdicts: Arc<Verdicts>,
    overview: Overview,
    late: u64,
    next_look: Instant,
}

impl Consumer for Detector {
    fn take(&mut self, messages: &[Message]) {
        messages.iter().for_each(|message| self.watch(message));
        if Instant::now() >= self.next_look {
            self.look();
        }
    }
}

impl Detector {
    fn watch(&mut self, message: &Message) {
        let Delivery::Rows(batch) = &message.delivery else { return };
        match self.rows.take(batch, |row| self.subjects.of(row)) {
            Took::Slots => self.rows.hand_over(),
            Took::Tasks | Took::Aside => {}
            Took::Nothing => {
                for row in batch.rows::<ThrottlingRow>().into_iter().flatten() {
                    for &subject in self.subjects.in_cgroup(row.cgroup_id) {
                        let ns = row.throttled.throttled_ns;
                        self.rows.throttled(row.slot_start_ns, subject, ns);
                    }
                }
            }
        }
    }

    fn look(&mut self) {
        let spent = thread::cpu_time();
        let mut findings = self.rows.findings();
        // What the agent itself lost is nobody's concern; what others lost to it is.
        findings.verdicts.retain(|verdict| !self.subjects.is_own(verdict.victim));
        findings.cannot_tell.retain(|unsaid| !self.subjects.is_own(unsaid.victim));
        for news in self.verdicts.publish(&findings, |subject| self.subjects.name(subject)) {
            say(format_args!("{news}"));
        }
        self.subjects.forget_old();
        let late = self.rows.late();
        self.overview.losses().add(TaskRow::DATASET.name, "detector", late - self.late);
        self.late = late;
        self.next_look = Instant::now() + until_next(thread::cpu_time() - spent);
    }
}

/// When to look again after a look that cost so much.
fn until_next(cost: Duration) -> Duration {
    cost.div_f64(SHARE).min(LATEST).max(cost.div_f64(MOST_SHARE)).max(LOOK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_as_rare_as_they_are_dear_but_not_so_rare_that_a_culprit_is_gone() {
        let ms = Duration::from_millis;
        assert_eq!(until_next(ms(1)), LOOK);
        assert_eq!(until_next(ms(8)), Duration::from_secs(10));
        assert_eq!(until_next(ms(50)), LATEST);
        assert_eq!(until_next(ms(100)), Duration::from_secs(25));
    }
}
