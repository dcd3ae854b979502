//! Measurements to an InfluxDB 1.x, 2.x or 3.x, or what takes its protocol, besides the run's own recording.
//!
//! Rows become lines, lines batches. One thread makes them and puts them into a folder of the run, as plain line protocol;
//! another sends them from there, the oldest first, so that a server that is slow or away holds up nothing but itself. What a
//! server refuses for good is counted and not sent again.

mod client;
mod line;
mod rows;
mod sender;
mod spool;

pub use client::{Client, Delivery};
pub use line::Line;
pub use spool::Spool;

use crate::Error;
use crate::experiment::Database;
use crate::roster::Roster;
use crate::store::{RunRecord, RunStore};
use crosstalk_collect::Subscription;
use crosstalk_host::{Clock, HostRoot};
use rows::Rows;
pub(crate) use rows::WANTS;
use sender::Sender;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Rows wait for their batch anyway.
const PACE: Duration = Duration::from_millis(100);
/// A batch is made of so many lines, or after this long.
const BATCH_LINES: usize = 5_000;
const BATCH_AFTER: Duration = Duration::from_secs(1);

/// What became of the lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Taken by the server.
    pub sent: u64,
    /// Taken by it of what earlier runs had left.
    pub caught_up: u64,
    /// Refused by it for good, or beyond what the folder holds.
    pub lost: u64,
    /// Batches that wait in the run's folder.
    pub waiting: usize,
    /// The last thing that went wrong.
    pub error: Option<String>,
}

/// Makes and sends batches on threads of its own, until the sources end.
#[derive(Debug)]
pub struct Influx {
    making: JoinHandle<()>,
    sending: JoinHandle<Delivered>,
    totals: mpsc::Sender<String>,
}

impl Influx {
    /// Begins with what is known of the run; batches that wait lie in `spool`. Those in `older`, which earlier runs left for
    /// the same database, are sent too, between those of this run.
    ///
    /// # Errors
    /// The address cannot be one, or the folder cannot be made.
    #[allow(clippy::too_many_arguments)] // the parts of a run, each used once
    pub fn start(
        rows: Subscription,
        database: &Database,
        roster: Roster,
        record: &RunRecord,
        config: &str,
        period: Duration,
        clock: Clock,
        spool: &Path,
        older: &[PathBuf],
    ) -> Result<Self, Error> {
        let (client, target) = (Client::new(database)?, target(database));
        let older = older.iter().filter_map(|place| Spool::open(place, &target).ok()).collect();
        let (sender, feed) = Sender::new(client, Spool::open(spool, &target)?, older);
        let mut lines = Rows::new(record, roster, period);
        feed.add(&[lines.meta(record, config)]);
        let sending = thread::spawn(move || sender.run());
        let (totals, last) = mpsc::channel();
        let making = thread::spawn(move || {
            let mut flushed = Instant::now();
            while let Some(messages) = rows.gather(PACE) {
                lines.know();
                messages.iter().for_each(|message| lines.take(&message.delivery));
                if lines.waiting() >= BATCH_LINES || flushed.elapsed() >= BATCH_AFTER {
                    flushed = Instant::now();
                    feed.add(&lines.ready(clock.now_unix_ns()));
                }
            }
            feed.add(&lines.all());
            // What is known of the whole run when it is over; nothing where it was given up.
            feed.add(&last.iter().collect::<Vec<String>>());
        });
        Ok(Self { making, sending, totals })
    }

    /// Adds what the run came to and waits for the rest; stop the sources first.
    pub fn finish(self, record: &RunRecord) -> Delivered {
        // A thread that is gone is told of below.
        let _ = self.totals.send(rows::totals(record));
        drop(self.totals);
        let made = self.making.join();
        let sent = self.sending.join().ok().filter(|_| made.is_ok());
        sent.unwrap_or_else(|| Delivered {
            error: Some("the sender stopped unexpectedly".to_owned()),
            ..Delivered::default()
        })
    }
}

/// Where lines go, without what proves that we may.
fn target(database: &Database) -> String {
    let Database { host, name, org, version, .. } = database;
    format!("{version:?} {host} {} {name}\n", org.as_deref().unwrap_or("-"))
}

/// Folders of earlier runs in which batches wait for a database.
pub fn left_behind(runs: &RunStore, host: &HostRoot, database: &Database) -> Vec<PathBuf> {
    let over = runs.all().into_iter().filter(|(_, record)| !record.goes_on(host));
    let places = over.map(|(dir, _)| dir.spool());
    places.filter(|place| Spool::waits(place, &target(database))).collect()
}

#[cfg(test)]
mod tests;
