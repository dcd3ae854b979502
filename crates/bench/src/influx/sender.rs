//! Batches out, on a thread that nobody waits for: what is to go lies in the spool until the server has taken it.

use super::{Client, Delivered, Delivery, Spool};
use crosstalk_host::BackOff;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A server that is away is asked again after this, twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the end of a run waits for a server that takes its time.
const LAST_TRY: Duration = Duration::from_secs(10);
/// With nothing to do it is looked this often, should a call be missed.
const LOOK: Duration = Duration::from_secs(1);

/// What lies between who makes batches and who sends them.
#[derive(Debug)]
struct Outbox {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug)]
struct Waiting {
    spool: Spool,
    /// Lines that found no room.
    lost: u64,
    is_closed: bool,
}

impl Outbox {
    fn locked(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes batches, at the speed of the disk. When it goes, nothing more comes.
#[derive(Debug)]
pub(super) struct Feed(Arc<Outbox>);

impl Feed {
    /// Takes lines.
    pub(super) fn add(&self, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        let batch = lines.join("\n") + "\n";
        let mut waiting = self.0.locked();
        if !waiting.spool.put(&batch) {
            waiting.lost += lines.len() as u64;
        }
        self.0.changed.notify_one();
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.0.locked().spool.len()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.0.locked().is_closed = true;
        self.0.changed.notify_one();
    }
}

/// Sends what lies in the spool, the oldest first.
pub(super) struct Sender {
    client: Client,
    outbox: Arc<Outbox>,
    /// What earlier runs left.
    older: Vec<Spool>,
    done: Delivered,
    back_off: BackOff,
    not_before: Instant,
    pub(super) patience: Duration,
    pub(super) last_try: Duration,
}

/// What there is to do.
enum Due {
    Send,
    /// Nothing more comes.
    Finish,
}

/// How many lines of the protocol these are: a text in one may have several lines of its own.
fn lines(batch: &str) -> u64 {
    let (mut count, mut is_escaped) = (0, false);
    // Quotes hold a text together in fields, which come after the first space; before it they are letters like others.
    let (mut is_in_fields, mut is_in_text) = (false, false);
    for letter in batch.bytes() {
        match letter {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' if is_in_fields => is_in_text = !is_in_text,
            b' ' if !is_in_text => is_in_fields = true,
            b'\n' if !is_in_text => {
                count += 1;
                is_in_fields = false;
            }
            _ => {}
        }
    }
    count
}

impl Sender {
    pub(super) fn new(client: Client, spool: Spool, older: Vec<Spool>) -> (Self, Feed) {
        let waiting = Mutex::new(Waiting { spool, lost: 0, is_closed: false });
        let outbox = Arc::new(Outbox { waiting, changed: Condvar::new() });
        let sender = Self {
            client,
            outbox: Arc::clone(&outbox),
            older,
            done: Delivered::default(),
            back_off: BackOff::new(FIRST_PAUSE, LONGEST_PAUSE),
            not_before: Instant::now(),
            patience: PATIENCE,
            last_try: LAST_TRY,
        };
        (sender, Feed(outbox))
    }

    /// Sends until nothing more comes, and then for a while what is left.
    pub(super) fn run(mut self) -> Delivered {
        while let Due::Send = self.wait() {
            self.send_one(self.patience);
        }
        let until = Instant::now() + self.last_try;
        self.back_off.reset();
        self.not_before = Instant::now();
        while !(self.is_empty() && self.older.is_empty()) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let wait = self.not_before.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                self.send_one(self.patience.min(left));
            } else {
                #[allow(clippy::disallowed_methods)]
                // a server that is away has no event to wait for
                std::thread::sleep(wait.min(left));
            }
        }
        let waiting = self.outbox.locked();
        self.done.lost += waiting.lost;
        self.done.waiting = waiting.spool.len();
        self.done.clone()
    }

    fn is_empty(&self) -> bool {
        self.outbox.locked().spool.is_empty()
    }

    /// Waits for the next batch, and for the time to try one again.
    fn wait(&self) -> Due {
        let mut waiting = self.outbox.locked();
        loop {
            if waiting.is_closed {
                return Due::Finish;
            }
            let pause = self.not_before.saturating_duration_since(Instant::now());
            let has_some = !waiting.spool.is_empty() || !self.older.is_empty();
            if has_some && pause.is_zero() {
                return Due::Send;
            }
            let pause = if has_some { pause } else { LOOK };
            let woken = self.outbox.changed.wait_timeout(waiting, pause);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sends the oldest batch of this run. Those of earlier ones are sent when it has none.
    fn send_one(&mut self, patience: Duration) {
        // It lies there until it was taken; only this thread takes any out.
        let first = self.outbox.locked().spool.first();
        let Some(batch) = first else { return self.send_older(patience) };
        if self.deliver(&batch, patience) {
            self.outbox.locked().spool.remove_first();
        }
    }

    fn send_older(&mut self, patience: Duration) {
        let Some(mut spool) = self.older.pop() else { return };
        let Some(batch) = spool.first() else { return };
        let sent = self.done.sent;
        if self.deliver(&batch, patience) {
            spool.remove_first();
        }
        self.done.caught_up += self.done.sent - sent;
        self.done.sent = sent;
        self.older.push(spool);
    }

    /// Whether it need not be sent again.
    fn deliver(&mut self, batch: &str, patience: Duration) -> bool {
        let count = lines(batch);
        match self.client.send(batch, patience) {
            Delivery::Taken => {
                self.done.sent += count;
                self.back_off.reset();
                true
            }
            Delivery::Refused(why) => {
                (self.done.lost, self.done.error) = (self.done.lost + count, Some(why));
                true
            }
            Delivery::Away(why) => {
                self.done.error = Some(why);
                self.not_before = Instant::now() + self.back_off.next();
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::influx::Line;

    #[test]
    fn a_text_of_several_lines_is_one_line_of_the_protocol() {
        let mut with_text = Line::new("meta", &[("name", "say \"x")]);
        with_text.text("config", "a: b\n# \"quoted\"\n\\path\\\n").int("cpus", Some(2));
        let mut plain = Line::new("m", &[("image", "a b\\")]);
        plain.int("cpu", Some(1));
        let all = [with_text.at(1), plain.at(2), plain.at(3)].map(Option::unwrap);
        assert_eq!(lines(&(all.join("\n") + "\n")), 3);
        assert_eq!(lines(""), 0);
    }
}
