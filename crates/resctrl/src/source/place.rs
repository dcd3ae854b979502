//! The thread that keeps processes in their groups.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crosstalk_host::{Clock, HostRoot, thread};

use super::subjects::Subjects;
use super::{Seen, Shared, locked};
use crate::Error;
use crate::pool::Pool;

/// How often processes are looked at when nobody new has come.
const REGULARLY: Duration = Duration::from_secs(1);
/// A newcomer waits at least this long, so that many of them are placed together.
const TOGETHER: Duration = Duration::from_millis(100);
/// And so many times the CPU time of the last update: many newcomers cost at most a twentieth of a processor.
const REST: u32 = 20;

/// Works until the source lets go of its end, then removes the groups.
pub(super) fn run(
    mut pool: Pool,
    host: &HostRoot,
    clock: &Clock,
    lists: &Receiver<Vec<Seen>>,
    shared: &Shared,
) -> Result<(), Error> {
    let mut subjects = Subjects::default();
    let mut pace = Pace::start();
    loop {
        match lists.recv_timeout(pace.left()) {
            Ok(seen) => pace.newcomer |= subjects.saw(seen),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        pace.newcomer |= shared.gone.swap(false, Ordering::Relaxed);
        if shared.is_over() {
            break;
        }
        if pace.left().is_zero() {
            let began = thread::cpu_time();
            if !update(&mut pool, &mut subjects, host, clock, shared) {
                break;
            }
            pace = Pace::after(thread::cpu_time().saturating_sub(began));
        }
    }
    *locked(&shared.roster) = None;
    pool.stop().map(drop)
}

/// Answers whether there is still something to place processes in.
fn update(
    pool: &mut Pool,
    subjects: &mut Subjects,
    host: &HostRoot,
    clock: &Clock,
    shared: &Shared,
) -> bool {
    let updated = pool.update(&subjects.living(host), clock.now_unix_ns());
    let mut status = shared.status();
    status.updates += 1;
    match updated {
        Ok(report) => status.pool = report,
        Err(error) if error.is_gone() && !pool.is_mounted() => {
            status.ended_because = Some(format!("the file system is gone: {error}"));
            shared.stop.store(true, Ordering::Relaxed);
            return false;
        }
        // Somebody holds the lock, or refuses for a reason of the moment.
        Err(_) => status.failed_updates += 1,
    }
    drop(status);
    *locked(&shared.roster) = Some(Arc::new(pool.roster()));
    true
}

/// When the next update is due.
struct Pace {
    last: Instant,
    rest: Duration,
    newcomer: bool,
}

impl Pace {
    /// The first newcomers do not wait.
    fn start() -> Self {
        Self { last: Instant::now(), rest: Duration::ZERO, newcomer: false }
    }

    fn after(cost: Duration) -> Self {
        let rest = (cost * REST).clamp(TOGETHER, REGULARLY);
        Self { last: Instant::now(), rest, newcomer: false }
    }

    fn left(&self) -> Duration {
        let wait = if self.newcomer { self.rest } else { REGULARLY };
        wait.saturating_sub(self.last.elapsed())
    }
}
