//! How long a thread ran, to the moment of asking.
//!
//! `/proc/PID/schedstat` adds up a thread's time when it is switched out and at every tick, which may be 10 ms apart: too
//! late for a reader that looks every millisecond. A perf event of the thread (its task clock, no hardware needed) is
//! exact at any moment, but costs a descriptor and a little at each switch. So a thread is watched through `schedstat`
//! while it rests, whose number of runs changes as soon as it gets a processor, and through its clock while it runs.

use crate::task_clock::TaskClock;
use crosstalk_host::Schedstat;

/// Looks without any time before a thread is taken to rest.
const LOOKS_TO_REST: u32 = 200;

/// What is known of one thread.
#[derive(Debug, Default)]
pub(crate) struct RunTime {
    last: Option<Schedstat>,
    clock: Option<Watch>,
}

#[derive(Debug)]
struct Watch {
    clock: TaskClock,
    last_ns: u64,
    idle_looks: u32,
}

impl RunTime {
    pub(crate) fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// Nanoseconds since the last look by the thread's clock; `None` without one.
    pub(crate) fn by_clock(&mut self) -> Option<u64> {
        let watch = self.clock.as_mut()?;
        let Some(now_ns) = watch.clock.read() else {
            self.clock = None;
            return None;
        };
        let ran = now_ns.saturating_sub(watch.last_ns);
        watch.last_ns = now_ns;
        watch.idle_looks = if ran > 0 { 0 } else { watch.idle_looks + 1 };
        if watch.idle_looks > LOOKS_TO_REST {
            // What the clock counted must not be counted again by the next schedstat.
            (self.clock, self.last) = (None, None);
        }
        Some(ran)
    }

    /// Nanoseconds since the last look by `schedstat`, and whether the thread has run.
    pub(crate) fn by_schedstat(&mut self, current: Schedstat) -> (u64, bool) {
        match self.last.replace(current) {
            None => (0, false),
            Some(last) => (current.ran_ns.saturating_sub(last.ran_ns), last != current),
        }
    }

    /// From here on by this clock.
    pub(crate) fn watch(&mut self, clock: TaskClock) {
        self.clock = Some(Watch { clock, last_ns: 0, idle_looks: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_rests_is_seen_to_run_before_its_time_is_counted() {
        let mut run = RunTime::default();
        let schedstat = |ran_ns, runs| Schedstat { ran_ns, runs };
        assert_eq!(run.by_schedstat(schedstat(500, 3)), (0, false));
        assert_eq!(run.by_schedstat(schedstat(500, 3)), (0, false));
        assert_eq!(run.by_schedstat(schedstat(500, 4)), (0, true));
        assert_eq!(run.by_schedstat(schedstat(900, 4)), (400, true));
    }
}
