use super::Round;
use crate::experiment::End;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start the container of this index.
    Start(u32),
    /// Ask it to end.
    Stop(u32),
    /// It did not: end it.
    Kill(u32),
}

/// The schedule of a round as it goes on; it knows no clock but what it is told: the time since it began, which is
/// before the round's zero where somebody must be asked earlier than that to start on time.
#[derive(Clone, Debug)]
pub struct Timeline {
    due: Vec<(Duration, Action)>,
    running: Vec<u32>,
    waiting: usize,
    end: End,
    grace: Duration,
    zero: Duration,
}

impl Timeline {
    /// Nothing has happened yet. Who is asked to end has `grace` to do so; who is in `leads` is asked to start so much
    /// before its time.
    pub fn new(round: &Round, grace: Duration, leads: &BTreeMap<u32, Duration>) -> Self {
        let lead = |index: u32| leads.get(&index).copied().unwrap_or_default();
        let before = round.planned.iter().map(|p| lead(p.index).saturating_sub(p.start));
        let zero = before.max().unwrap_or_default();
        let end = round.end.after();
        let mut due = Vec::new();
        for planned in &round.planned {
            let start = (planned.start + zero).saturating_sub(lead(planned.index));
            due.push((start, Action::Start(planned.index)));
            let stop = [planned.stop, end].into_iter().flatten().min();
            due.extend(stop.map(|stop| (stop + zero, Action::Stop(planned.index))));
        }
        due.sort_by_key(|(at, _)| *at);
        let waiting = round.planned.len();
        Self { due, running: Vec::new(), waiting, end: round.end, grace, zero }
    }

    /// How long after its beginning the round's zero is.
    pub const fn zero(&self) -> Duration {
        self.zero
    }

    /// What is due at `now` and was not yet.
    pub fn take_due(&mut self, now: Duration) -> Vec<Action> {
        let mut taken = Vec::new();
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            let (at, action) = self.due.remove(0);
            match action {
                Action::Start(index) => {
                    self.waiting -= 1;
                    self.running.push(index);
                }
                Action::Stop(index) if self.running.contains(&index) => {
                    self.later(at + self.grace, Action::Kill(index));
                }
                // It ended before it was told to.
                Action::Stop(index) | Action::Kill(index) if !self.running.contains(&index) => {
                    continue;
                }
                Action::Stop(_) | Action::Kill(_) => {}
            }
            taken.push(action);
        }
        taken
    }

    fn later(&mut self, at: Duration, action: Action) {
        let place = self.due.partition_point(|(due, _)| *due <= at);
        self.due.insert(place, (at, action));
    }

    /// A container has ended, by itself or because it was told to.
    pub fn ended(&mut self, index: u32) {
        self.running.retain(|running| *running != index);
    }

    /// Asks everybody who runs to end at once, and starts nobody any more.
    pub fn stop_all(&mut self, now: Duration) {
        self.waiting = 0;
        self.due.retain(|(_, action)| matches!(action, Action::Kill(_)));
        for index in self.running.clone() {
            let is_asked = self.due.iter().any(|(_, action)| *action == Action::Kill(index));
            if !is_asked {
                self.later(now, Action::Stop(index));
            }
        }
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Whether nobody runs and nobody will.
    pub fn is_over(&self) -> bool {
        self.running.is_empty() && self.waiting == 0
    }

    /// How long it lasts at most from its zero, if that is known.
    pub fn length(&self) -> Option<Duration> {
        let last = || self.due.iter().map(|(at, _)| at.saturating_sub(self.zero)).max();
        self.end.after().or_else(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Planned, RoundKind};

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn timeline(end: End, planned: &[(u64, Option<u64>)]) -> Timeline {
        let planned = (0..).zip(planned).map(|(index, (start, stop))| Planned {
            index,
            start: S(*start),
            stop: stop.map(S),
        });
        let round = Round { number: 0, kind: RoundKind::Together, end, planned: planned.collect() };
        Timeline::new(&round, S(2), &BTreeMap::new())
    }

    #[test]
    fn who_takes_long_to_start_is_asked_as_much_earlier_and_all_have_one_zero() {
        let planned = [(0, 0, Some(9)), (1, 0, None), (2, 5, None)];
        let planned = planned.map(|(index, start, stop)| Planned {
            index,
            start: S(start),
            stop: stop.map(S),
        });
        let kind = RoundKind::Together;
        let round = Round { number: 0, kind, end: End::OnSignal, planned: planned.to_vec() };
        let mut line = Timeline::new(&round, S(2), &[(1, S(3)), (2, S(4))].into());
        assert_eq!(line.zero(), S(3));
        assert_eq!(line.take_due(S(0)), [Action::Start(1)]);
        assert_eq!(line.take_due(S(3)), [Action::Start(0)]);
        assert_eq!(line.take_due(S(4)), [Action::Start(2)], "5 s after zero less 4");
        assert_eq!(line.next_due(), Some(S(12)), "9 s after zero");
    }

    #[test]
    fn the_end_counts_from_zero_and_stops_whoever_runs() {
        let mut line = timeline(End::After(S(10)), &[(0, None), (4, Some(6)), (8, Some(99))]);
        assert_eq!(line.take_due(S(0)), [Action::Start(0)]);
        assert_eq!(line.next_due(), Some(S(4)));
        assert_eq!(line.take_due(S(7)), [Action::Start(1), Action::Stop(1)]);
        line.ended(1);
        assert_eq!(line.take_due(S(10)), [Action::Start(2), Action::Stop(0), Action::Stop(2)]);
        line.ended(0);
        assert!(!line.is_over());
        assert_eq!(line.take_due(S(12)), [Action::Kill(2)], "it was asked in vain");
        line.ended(2);
        assert!(line.is_over());
    }

    #[test]
    fn who_ends_by_itself_is_not_told_to_and_the_round_is_over() {
        let mut line = timeline(End::WhenAllEnded, &[(0, Some(9))]);
        line.take_due(S(0));
        line.ended(0);
        assert!(line.is_over() && line.take_due(S(99)).is_empty());
    }

    #[test]
    fn a_signal_stops_all_and_starts_nobody() {
        let mut line = timeline(End::OnSignal, &[(0, None), (5, None)]);
        line.take_due(S(0));
        line.stop_all(S(3));
        assert_eq!(line.take_due(S(3)), [Action::Stop(0)]);
        assert_eq!(line.take_due(S(60)), [Action::Kill(0)]);
        line.ended(0);
        assert!(line.is_over());
    }
}
