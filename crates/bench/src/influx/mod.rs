//! Measurements to an InfluxDB 1.x, 2.x or 3.x, or what takes its protocol, besides the run's own recording.
//!
//! Rows become lines, lines batches. A batch that cannot be delivered waits in a folder of the run, as plain line
//! protocol, and is sent before all later ones; what a server refuses for good is counted and not sent again.

mod client;
mod line;
mod rows;
mod spool;

pub use client::{Client, Delivery};
pub use line::Line;
pub use spool::Spool;

use crate::Error;
use crate::experiment::Database;
use crate::roster::Roster;
use crate::store::RunRecord;
use crosstalk_collect::Subscription;
use rows::Rows;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A batch is sent when it has so many lines, or after this long.
const BATCH_LINES: usize = 5_000;
const BATCH_AFTER: Duration = Duration::from_secs(1);
/// A server that is away is asked again after this, twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long the end of a run waits for a server that takes its time.
const LAST_TRY: Duration = Duration::from_secs(10);

/// What became of the lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Taken by the server.
    pub sent: u64,
    /// Refused by it for good, or beyond what the folder holds.
    pub lost: u64,
    /// Batches that wait in the run's folder.
    pub waiting: usize,
    /// The last thing that went wrong.
    pub error: Option<String>,
}

/// Sends on a thread of its own, until the sources end.
#[derive(Debug)]
pub struct Influx {
    thread: JoinHandle<Delivered>,
    totals: mpsc::Sender<String>,
}

impl Influx {
    /// Begins with what is known of the run; batches that wait lie in `spool`.
    ///
    /// # Errors
    /// The address cannot be one, or the folder cannot be made.
    pub fn start(
        rows: Subscription,
        database: &Database,
        roster: Roster,
        record: &RunRecord,
        config: &str,
        period: Duration,
        spool: &Path,
    ) -> Result<Self, Error> {
        let client = Client::new(database)?;
        let mut sender = Sender::new(client, Spool::open(spool)?);
        let mut lines = Rows::new(record, roster, period);
        sender.add(vec![lines.meta(record, config)]);
        let (totals, last) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut flushed = Instant::now();
            loop {
                match rows.recv(Duration::from_millis(200)) {
                    Ok(message) => lines.take(&message.delivery),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if lines.waiting() >= BATCH_LINES || flushed.elapsed() >= BATCH_AFTER {
                    flushed = Instant::now();
                    sender.add(lines.ready());
                    sender.send();
                }
            }
            sender.add(lines.all());
            // What is known of the whole run when it is over; nothing where it was given up.
            sender.add(last.iter().collect());
            sender.finish()
        });
        Ok(Self { thread, totals })
    }

    /// Adds what the run came to and waits for the rest; stop the sources first.
    pub fn finish(self, record: &RunRecord) -> Delivered {
        // A sender that is gone is told of below.
        let _ = self.totals.send(rows::totals(record));
        drop(self.totals);
        self.thread.join().unwrap_or_else(|_| Delivered {
            error: Some("the sender stopped unexpectedly".to_owned()),
            ..Delivered::default()
        })
    }
}

/// Batches out, in order.
struct Sender {
    client: Client,
    spool: Spool,
    done: Delivered,
    pause: Duration,
    not_before: Instant,
}

impl Sender {
    fn new(client: Client, spool: Spool) -> Self {
        let (done, pause, not_before) = (Delivered::default(), FIRST_PAUSE, Instant::now());
        Self { client, spool, done, pause, not_before }
    }

    /// Takes lines. They go through the folder only when they must wait.
    fn add(&mut self, lines: Vec<String>) {
        if lines.is_empty() {
            return;
        }
        let (count, batch) = (lines.len() as u64, lines.join("\n") + "\n");
        let waits = !self.spool.is_empty() || Instant::now() < self.not_before;
        if waits || !self.deliver(&batch, count) {
            self.done.lost += if self.spool.put(&batch) { 0 } else { count };
        }
    }

    /// Sends what waits, the oldest first, until one cannot be.
    fn send(&mut self) {
        while Instant::now() >= self.not_before
            && let Some(batch) = self.spool.first()
        {
            let count = batch.lines().count() as u64;
            if !self.deliver(&batch, count) {
                return;
            }
            self.spool.remove_first();
        }
    }

    /// Whether it need not be sent again.
    fn deliver(&mut self, batch: &str, count: u64) -> bool {
        match self.client.send(batch) {
            Delivery::Taken => {
                (self.done.sent, self.pause) = (self.done.sent + count, FIRST_PAUSE);
                true
            }
            Delivery::Refused(why) => {
                (self.done.lost, self.done.error) = (self.done.lost + count, Some(why));
                true
            }
            Delivery::Away(why) => {
                self.done.error = Some(why);
                self.not_before = Instant::now() + self.pause;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                false
            }
        }
    }

    fn finish(mut self) -> Delivered {
        let began = Instant::now();
        self.pause = FIRST_PAUSE;
        while !self.spool.is_empty() && began.elapsed() < LAST_TRY {
            let wait = self.not_before.saturating_duration_since(Instant::now());
            #[allow(clippy::disallowed_methods)] // a server that is away has no event to wait for
            thread::sleep(wait.min(FIRST_PAUSE));
            self.send();
        }
        self.done.waiting = self.spool.len();
        self.done
    }
}

#[cfg(test)]
mod tests;
