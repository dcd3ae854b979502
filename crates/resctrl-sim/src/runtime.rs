//! How long a thread ran, sooner than the kernel has counted it. Pure.
//!
//! The kernel adds up a thread's run time when it is switched out and at every tick, which may be 10 ms apart. The number
//! of runs changes at once when a thread gets a processor. So a thread that has got one and is still runnable is given
//! the time that passed on credit; what the kernel counts later pays that back first, and nothing is counted twice.

use std::time::{Duration, Instant};

/// The longest tick is 10 ms; without a count for longer than two the thread does not run after all.
const MOST_CREDIT: Duration = Duration::from_millis(20);

/// The first and the third number of `/proc/PID/schedstat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Schedstat {
    runtime_ns: u64,
    runs: u64,
}

impl Schedstat {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
        let (runtime_ns, _waited, runs) = (numbers.next()?, numbers.next()?, numbers.next()?);
        Some(Self { runtime_ns: runtime_ns.ok()?, runs: runs.ok()? })
    }
}

#[derive(Debug, Default)]
pub(crate) struct RunTime {
    last: Option<(Schedstat, Instant)>,
    running: bool,
    credit_ns: u64,
}

impl RunTime {
    /// Whether it is worth asking what the thread is doing.
    pub(crate) fn may_have_run(&self, current: Schedstat) -> bool {
        self.running || self.last.is_none_or(|(last, _)| last != current)
    }

    /// Nothing has changed.
    pub(crate) fn idle(&mut self, current: Schedstat, now: Instant) {
        self.last = Some((current, now));
    }

    /// Nanoseconds to count since the last look, if any.
    pub(crate) fn advance(
        &mut self,
        current: Schedstat,
        runnable: bool,
        now: Instant,
    ) -> Option<u64> {
        let Some((last, seen)) = self.last.replace((current, now)) else {
            self.running = runnable;
            return None;
        };
        let counted = current.runtime_ns.saturating_sub(last.runtime_ns);
        let paid = counted.min(self.credit_ns);
        self.credit_ns -= paid;
        let got_a_processor = current.runs != last.runs;
        self.running = runnable && (self.running || got_a_processor || counted > 0);
        let most = u64::try_from(MOST_CREDIT.as_nanos()).unwrap_or(u64::MAX);
        if self.credit_ns >= most {
            self.running = false;
        }
        let estimated = if counted == 0 && self.running {
            u64::try_from((now - seen).as_nanos()).unwrap_or(most).min(most - self.credit_ns)
        } else {
            0
        };
        self.credit_ns += estimated;
        let total = counted - paid + estimated;
        (total > 0).then_some(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    fn schedstat(runtime_ns: u64, runs: u64) -> Schedstat {
        Schedstat { runtime_ns, runs }
    }

    #[test]
    fn a_thread_that_has_just_got_a_processor_counts_before_the_first_tick() {
        let (start, mut run) = (Instant::now(), RunTime::default());
        assert_eq!(run.advance(schedstat(0, 1), false, start), None);
        assert_eq!(run.advance(schedstat(0, 2), true, at(start, 1)), Some(MS));
        assert_eq!(run.advance(schedstat(0, 2), true, at(start, 2)), Some(MS));
        // The tick says 3 ms: two of them have been counted.
        assert_eq!(run.advance(schedstat(3 * MS, 2), true, at(start, 3)), Some(MS));
    }

    #[test]
    fn a_sleeping_thread_counts_nothing() {
        let (start, mut run) = (Instant::now(), RunTime::default());
        run.advance(schedstat(5, 1), false, start);
        assert!(!run.may_have_run(schedstat(5, 1)));
        assert_eq!(run.advance(schedstat(5, 2), false, at(start, 1)), None);
    }

    #[test]
    fn a_thread_that_only_waits_is_not_believed_for_ever() {
        let (start, mut run) = (Instant::now(), RunTime::default());
        run.advance(schedstat(0, 1), false, start);
        let counted: u64 =
            (1..1000).filter_map(|ms| run.advance(schedstat(0, 2), true, at(start, ms))).sum();
        assert_eq!(counted, 20 * MS);
    }

    proptest! {
        #[test]
        fn what_is_counted_never_exceeds_what_ran_by_more_than_the_credit(
            steps in proptest::collection::vec((0u64..10, 0u64..2, any::<bool>()), 1..100)
        ) {
            let (start, mut run) = (Instant::now(), RunTime::default());
            let (mut runtime, mut runs, mut counted) = (0, 0, 0);
            run.advance(schedstat(0, 0), false, start);
            for (ms, (ran, got, runnable)) in steps.into_iter().enumerate() {
                runtime += ran * MS;
                runs += got;
                let now = at(start, ms as u64 + 1);
                counted += run.advance(schedstat(runtime, runs), runnable, now).unwrap_or(0);
                prop_assert_eq!(counted, runtime + run.credit_ns);
                prop_assert!(run.credit_ns <= 20 * MS);
            }
        }
    }

    #[test]
    fn what_is_no_schedstat_is_not_read_as_zero() {
        assert_eq!(Schedstat::parse("12 3 4\n"), Some(schedstat(12, 4)));
        assert_eq!(Schedstat::parse("12 3"), None);
        assert_eq!(Schedstat::parse(""), None);
    }
}
