//! Keeps a source running: each on a thread of its own, started anew with back-off when it fails.

use crate::sources::{Failure, Source};
use crate::status::{Report, SourceState, Verdict};
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// First and longest pause before a source is started anew.
const BACK_OFF: Duration = Duration::from_millis(500);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);
/// A run this long counts as having worked: the next pause is the first again.
const WORKED: Duration = Duration::from_secs(30);

/// What a source waits on between samples. Nothing is ever sent: it ends by being dropped.
pub(crate) struct Stop(Receiver<()>);

impl Stop {
    /// Waits so long; `true` when it is time to end.
    #[must_use]
    pub(crate) fn after(&self, pause: Duration) -> bool {
        self.0.recv_timeout(pause) != Err(RecvTimeoutError::Timeout)
    }
}

/// A source on its thread. Dropping it ends the source and waits for it.
#[derive(Debug)]
pub(crate) struct Supervised {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Supervised {
    pub(crate) fn start(mut source: Box<dyn Source>, state: Arc<SourceState>) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = Builder::new().name(state.name.to_owned()).spawn(move || {
            supervise(source.as_mut(), &state, &Stop(stopped));
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Tells the source to end, without waiting.
    pub(crate) fn stop(&mut self) {
        self.stop = None;
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn supervise(source: &mut dyn Source, state: &SourceState, stop: &Stop) {
    let mut back_off = BACK_OFF;
    loop {
        let began = Instant::now();
        // A panic is a fault of ours; it costs this source a restart and nobody else anything.
        let failure = match catch_unwind(AssertUnwindSafe(|| source.run(state, stop))) {
            Ok(Ok(())) => return,
            Ok(Err(failure)) => failure,
            Err(panic) => Failure::Broken(format!("it panicked: {}", words(panic.as_ref()))),
        };
        if began.elapsed() >= WORKED {
            back_off = BACK_OFF;
        }
        let absent = matches!(failure, Failure::Absent(_));
        match failure {
            // What a machine lacks does not come by asking every second.
            Failure::Absent(report) => {
                state.report(report);
                back_off = LONGEST_BACK_OFF;
            }
            Failure::Broken(text) => {
                state.count_errors(1);
                state.report(Report::of_error(Verdict::Failing, &text));
            }
        }
        if stop.after(back_off) {
            return;
        }
        // Looking again for what was never there is no restart.
        state.count_restarts(u64::from(!absent));
        back_off = (back_off * 2).min(LONGEST_BACK_OFF);
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subjects::SubjectTable;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Panics, then fails, then works until it is stopped.
    struct Moody(Arc<AtomicU32>, Sender<u32>);

    impl Source for Moody {
        fn run(&mut self, _: &SourceState, stop: &Stop) -> Result<(), Failure> {
            let turn = self.0.fetch_add(1, Ordering::Relaxed);
            let _ = self.1.send(turn);
            match turn {
                0 => panic!("on purpose"),
                1 => Err(Failure::Broken("still not; try later".to_owned())),
                _ => {
                    while !stop.after(Duration::from_secs(1)) {}
                    Ok(())
                }
            }
        }
    }

    #[test]
    fn a_source_that_panics_and_fails_is_started_anew_and_each_is_counted() {
        let state = Arc::new(SourceState::new("moody", None, SubjectTable::none()));
        let (sender, turns) = channel();
        let source = Box::new(Moody(Arc::default(), sender));
        let supervised = Supervised::start(source, Arc::clone(&state)).unwrap();
        assert_eq!((turns.recv(), turns.recv(), turns.recv()), (Ok(0), Ok(1), Ok(2)));
        assert_eq!((state.errors(), state.restarts()), (2, 2));
        let report = state.current();
        assert_eq!(report.verdict, Verdict::Failing);
        assert_eq!(report.fix.as_deref(), Some("try later"));
        drop(supervised);
    }
}
