//! Keeps a source running: each on a thread of its own, started anew with back-off when it fails.

use crate::subscription::Queue;
use crate::{Losses, Outlet, Source, SourceStatus, Standing};
use crosstalk_host::{BackOff, Capability, Clock, Verdict};
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// First and longest pause before a source is started anew.
const BACK_OFF: Duration = Duration::from_millis(500);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);
/// A run this long counts as having worked: the next pause is the first again.
const WORKED: Duration = Duration::from_secs(30);

/// A source on its thread. Dropping it ends the source and waits for it.
#[derive(Debug)]
pub(crate) struct Supervised {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Supervised {
    pub(crate) fn start(
        mut source: Box<dyn Source>,
        status: Arc<SourceStatus>,
        queues: Arc<[Queue]>,
        losses: Arc<Losses>,
        clock: Clock,
    ) -> io::Result<Self> {
        let (sender, stop) = channel();
        let name = status.about().name.to_owned();
        let outlet = Outlet { status, queues, losses, clock, stop };
        let thread =
            Builder::new().name(name).spawn(move || supervise(source.as_mut(), &outlet))?;
        Ok(Self { stop: Some(sender), thread: Some(thread) })
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

fn supervise(source: &mut dyn Source, out: &Outlet) {
    let mut back_off = BackOff::new(BACK_OFF, LONGEST_BACK_OFF);
    loop {
        let began = Instant::now();
        // A panic is a fault of ours; it costs this source a restart and nobody else anything.
        let failure = match catch_unwind(AssertUnwindSafe(|| source.run(out))) {
            Ok(Ok(())) => return,
            Ok(Err(failure)) => failure,
            Err(panic) => {
                let found = format!("it panicked: {}", words(panic.as_ref()));
                out.capability(Verdict::Failing, found)
            }
        };
        if began.elapsed() >= WORKED {
            back_off.reset();
        }
        let absent = failure.verdict == Verdict::Absent;
        let (worked, ever) = (out.status.standing().works(), out.status.has_worked());
        if !absent {
            out.count_errors(1);
        }
        // What a machine lacks does not come by asking every second; what it had may soon be back.
        let pause = if absent && !ever { LONGEST_BACK_OFF } else { back_off.next() };
        let capability = Capability { name: out.status.about().name, ..failure };
        out.status.set(Standing { capability, absent: Vec::new() });
        if out.pause(pause) {
            return;
        }
        // Looking again for what is not there is no restart, beginning anew what had begun is one.
        out.count_restarts(u64::from(!absent || worked));
    }
}

/// What a panic says.
pub fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}
