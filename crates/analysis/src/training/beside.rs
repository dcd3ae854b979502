//! Who was beside the trainer in each iteration, from the same bins that verdicts come from.

use crate::progress::Iteration;
use crosstalk_interference::{Keep, Observer, Settings, Slot, Subject, Topology};

/// How much is read before bins are taken over; they are remembered for longer.
const EVERY_NS: u64 = 5_000_000_000;
const REMEMBERED_SECONDS: usize = 20;
/// Neighbours kept of an iteration.
const MOST_NEIGHBOURS: usize = 24;

/// What happened on one node in one iteration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) on_cpu_ns: f64,
    pub(crate) wait_ns: f64,
    /// Neighbour, and its time beside the trainer's: ns of the trainer's time, times cores.
    pub(crate) beside: Vec<(Subject, f64)>,
    /// Who held the core while the trainer waited: best estimate, at least, at most.
    pub(crate) held: Vec<(Subject, [f64; 3])>,
}

/// Sums by iteration, in memory that grows with the number of iterations only.
pub(crate) struct Beside<'a> {
    iterations: &'a [Iteration],
    pub(crate) trainer: Subject,
    observer: Observer,
    settings: Settings,
    taken_ns: u64,
    due_ns: u64,
    pub(crate) sums: Vec<Sum>,
}

impl<'a> Beside<'a> {
    pub(crate) fn new(iterations: &'a [Iteration], trainer: Subject, topology: Topology) -> Self {
        let settings = Settings {
            keep: Keep::Newest,
            seats: Settings::recording().seats,
            ..Settings::live(REMEMBERED_SECONDS)
        };
        Self {
            iterations,
            trainer,
            observer: Observer::new(topology, settings),
            settings,
            taken_ns: 0,
            due_ns: 0,
            sums: vec![Sum::default(); iterations.len()],
        }
    }

    pub(crate) fn push(&mut self, slot: &Slot<'_>) {
        self.observer.push(slot);
        if slot.start_ns >= self.due_ns {
            self.take_over();
            self.due_ns = slot.start_ns.saturating_add(EVERY_NS);
        }
    }

    /// Adds the bins that are new to the iterations they lie in.
    pub(crate) fn take_over(&mut self) {
        let half_ns = self.settings.bin_ns / 2;
        let victims = self.observer.victims();
        let Some(trainer) = victims.iter().find(|one| one.victim == self.trainer) else { return };
        let mut newest_ns = self.taken_ns;
        for bin in trainer.bins.iter().filter(|bin| bin.start_ns >= self.taken_ns) {
            newest_ns = newest_ns.max(bin.start_ns + 1);
            let middle_ns = bin.start_ns + half_ns;
            let at = self.iterations.partition_point(|one| one.end_ns <= middle_ns);
            let Some(iteration) = self.iterations.get(at) else { continue };
            if iteration.start_ns > middle_ns {
                continue;
            }
            let sum = &mut self.sums[at];
            sum.on_cpu_ns += bin.on_cpu_ns;
            sum.wait_ns += bin.wait_ns;
            for one in bin.exposures.iter().filter(|one| one.subject != self.trainer) {
                *entry(&mut sum.beside, one.subject) += f64::from(one.cores) * bin.on_cpu_ns;
            }
            for held in &bin.held {
                let sums = entry(&mut sum.held, held.subject);
                for (sum, ns) in sums.iter_mut().zip([held.ns, held.low_ns, held.high_ns]) {
                    *sum += f64::from(ns);
                }
            }
            sum.beside.sort_by(|a, b| b.1.total_cmp(&a.1));
            sum.beside.truncate(MOST_NEIGHBOURS);
            sum.held.sort_by(|a, b| b.1[0].total_cmp(&a.1[0]));
            sum.held.truncate(MOST_NEIGHBOURS);
        }
        self.taken_ns = newest_ns;
    }
}

fn entry<T: Default>(list: &mut Vec<(Subject, T)>, subject: Subject) -> &mut T {
    let at = list.iter().position(|(known, _)| *known == subject).unwrap_or_else(|| {
        list.push((subject, T::default()));
        list.len() - 1
    });
    &mut list[at].1
}
