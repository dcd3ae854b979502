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
    /// It was killed again and again and has still not been heard to end.
    GiveUp(u32),
}

/// Who was killed is killed again after the grace, and after this at the least: what was killed may only just start.
const LEAST_PAUSE: Duration = Duration::from_millis(500);
/// Who has not ended so long after it was killed first is not waited for.
const PATIENCE: Duration = Duration::from_secs(30);

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
    /// Whether all were told to end.
    is_stopped: bool,
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
        let (running, end, is_stopped) = (Vec::new(), round.end, false);
        Self { due, running, waiting, end, grace, zero, is_stopped }
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
                // It ended before it was told to.
                Action::Stop(index) | Action::Kill(index) | Action::GiveUp(index)
                    if !self.running.contains(&index) =>
                {
                    continue;
                }
                Action::Stop(index) => {
                    self.later(at + self.grace, Action::Kill(index));
                    self.later(at + self.grace + PATIENCE, Action::GiveUp(index));
                }
                Action::Kill(index) => {
                    self.later(now + self.grace.max(LEAST_PAUSE), Action::Kill(index));
                }
                Action::GiveUp(_) => {}
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
        // One that was made ready and ended before its time is not started any more.
        let planned = self.due.len();
        self.due.retain(|(_, action)| *action != Action::Start(index));
        self.waiting -= planned - self.due.len();
    }

    /// Asks everybody who runs to end at once, and starts nobody any more.
    pub fn stop_all(&mut self, now: Duration) {
        (self.waiting, self.is_stopped) = (0, true);
        self.due.retain(|(_, action)| matches!(action, Action::Kill(_) | Action::GiveUp(_)));
        for index in self.running.clone() {
            let is_asked = self.due.iter().any(|(_, action)| *action == Action::Kill(index));
            if !is_asked {
                self.later(now, Action::Stop(index));
            }
        }
    }

    /// Ends everybody who was told to end, without waiting for them.
    pub fn kill_all(&mut self, now: Duration) {
        self.grace = Duration::ZERO;
        for (at, action) in &mut self.due {
            match action {
                Action::Kill(_) => *at = now.min(*at),
                Action::GiveUp(_) => *at = (now + PATIENCE).min(*at),
                _ => {}
            }
        }
        self.due.sort_by_key(|(at, _)| *at);
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Whether nobody runs and nobody will; one that lasts until a signal is not over before it comes.
    pub fn is_over(&self) -> bool {
        let may_end = self.is_stopped || self.end != End::OnSignal;
        may_end && self.running.is_empty() && self.waiting == 0
    }

    /// How long it lasts at most from its zero, if that is known.
    pub fn length(&self) -> Option<Duration> {
        let planned = |(_, action): &&(Duration, Action)| !matches!(action, Action::GiveUp(_));
        let due = self.due.iter().filter(planned);
        let last = || due.map(|(at, _)| at.saturating_sub(self.zero)).max();
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
    fn who_ends_before_its_start_is_not_waited_for() {
        let mut line = timeline(End::WhenAllEnded, &[(0, None), (5, Some(9))]);
        line.take_due(S(0));
        line.ended(1);
        assert!(line.take_due(S(5)).is_empty());
        line.ended(0);
        assert!(line.is_over() && line.take_due(S(99)).is_empty());
    }

    #[test]
    fn a_signal_stops_all_and_starts_nobody() {
        let mut line = timeline(End::OnSignal, &[(0, None), (5, None)]);
        line.take_due(S(0));
        line.stop_all(S(3));
        assert_eq!(line.take_due(S(3)), [Action::Stop(0)]);
        assert_eq!(line.take_due(S(30)), [Action::Kill(0)]);
        line.ended(0);
        assert!(line.is_over());
    }

    #[test]
    fn a_second_signal_kills_whoever_is_waited_for() {
        let mut line = timeline(End::OnSignal, &[(0, None), (0, None)]);
        line.take_due(S(0));
        line.stop_all(S(3));
        assert_eq!(line.take_due(S(3)), [Action::Stop(0), Action::Stop(1)]);
        line.ended(1);
        line.kill_all(S(4));
        assert_eq!(line.take_due(S(4)), [Action::Kill(0)], "before its grace is over");
        let given_up = (4..=34).find(|at| line.take_due(S(*at)).contains(&Action::GiveUp(0)));
        assert_eq!(given_up, Some(34), "half a minute after it was killed, whatever its grace was");
        // Both signals at once.
        let mut line = timeline(End::OnSignal, &[(0, None)]);
        line.take_due(S(0));
        line.stop_all(S(3));
        line.kill_all(S(3));
        assert_eq!(line.take_due(S(3)), [Action::Stop(0), Action::Kill(0)]);
    }

    #[test]
    fn until_a_signal_means_also_when_everybody_has_ended() {
        let mut line = timeline(End::OnSignal, &[(0, None)]);
        line.take_due(S(0));
        line.ended(0);
        assert!(!line.is_over() && line.take_due(S(3_600)).is_empty());
        line.stop_all(S(3_600));
        assert!(line.is_over());
    }

    #[test]
    fn who_starts_after_it_was_killed_is_killed_again_and_not_waited_for_for_ever() {
        let mut line = timeline(End::WhenAllEnded, &[(0, Some(5))]);
        line.take_due(S(0));
        assert_eq!(line.take_due(S(5)), [Action::Stop(0)]);
        // Asked to start at 0, it has not done so by any of these.
        for at in [7, 9, 11] {
            assert_eq!(line.take_due(S(at)), [Action::Kill(0)], "at {at} s");
        }
        let mut late = line.clone();
        late.ended(0);
        assert!(late.is_over() && late.take_due(S(99)).is_empty(), "the third has met it");
        line.stop_all(S(12));
        let rest: Vec<Action> = (12..=37).flat_map(|at| line.take_due(S(at))).collect();
        assert!(rest.contains(&Action::Kill(0)) && !rest.contains(&Action::Stop(0)), "{rest:?}");
        assert_eq!(rest.iter().filter(|action| **action == Action::GiveUp(0)).count(), 1);
    }

    #[test]
    fn without_any_grace_a_kill_is_still_repeated_only_so_often() {
        let planned = vec![Planned { index: 0, start: S(0), stop: Some(S(1)) }];
        let round = Round { number: 0, kind: RoundKind::Together, end: End::WhenAllEnded, planned };
        let mut line = Timeline::new(&round, S(0), &BTreeMap::new());
        line.take_due(S(0));
        assert_eq!(line.take_due(S(1)), [Action::Stop(0), Action::Kill(0)]);
        assert!(line.take_due(S(1)).is_empty());
        assert_eq!(line.take_due(S(2)), [Action::Kill(0)]);
    }
}
