//! What lines said, on disk until the database has it.
//!
//! A request is answered when its observations are in a queue on disk. One task takes them from there to the database,
//! many requests in one transaction, again until it works. So a database that hangs costs senders of logs nothing but the
//! answer to what became of their lines, and senders of metrics nothing at all.

mod writer;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use crosstalk_store::Observation;
use tokio::sync::oneshot;

use super::disk;
use crate::queue::{Block, Queue, QueueError, Reader, Reservation, WhenFull};
pub(crate) use writer::Writer;

/// Mark of a block of observations.
const KIND: u8 = 16;

/// A sender waits so long for the database to take what is on disk already; then it is answered without knowing.
const PATIENCE: Duration = Duration::from_secs(2);

/// Takes observations in.
#[derive(Debug)]
pub(crate) struct Spool {
    pub(crate) queue: Queue,
    shared: Arc<Shared>,
}

/// What whoever appends and the writer share.
#[derive(Debug)]
struct Shared {
    /// Whether the database took what was written last.
    in_time: AtomicBool,
    /// The number of the next block.
    next: AtomicU64,
    /// Who waits to hear of a block.
    waiting: Mutex<HashMap<u64, oneshot::Sender<Written>>>,
}

/// Observations of a request with room in the queue; the room is given back when they are not written.
#[derive(Debug)]
pub(crate) struct Pending {
    number: u64,
    block: Block,
    reservation: Reservation,
}

/// What became of one request's observations.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Iterations stored.
    pub(crate) iterations: u64,
    /// Observations that cannot be stored: their place, and why.
    pub(crate) rejected: Vec<(usize, String)>,
}

impl Spool {
    /// Opens the queue in `folder`.
    pub(crate) fn open(folder: &Path, max_bytes: u64) -> Result<(Spool, Reader), QueueError> {
        let (queue, reader) = disk::open(folder, max_bytes, WhenFull::Block)?;
        let shared = Shared {
            in_time: AtomicBool::new(true),
            // So that a number left on disk by the process before is nobody's.
            next: AtomicU64::new(fastrand::u64(..)),
            waiting: Mutex::default(),
        };
        Ok((Spool { queue, shared: Arc::new(shared) }, reader))
    }

    /// Sets room aside for observations.
    pub(crate) fn reserve(&self, observations: &[Observation]) -> Result<Pending, QueueError> {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let lines = observations.len() as u32;
        let block = disk::block(KIND, lines, encode(number, observations));
        let reservation = self.queue.reserve(block.payload.len())?;
        Ok(Pending { number, block, reservation })
    }

    /// Puts observations on disk, and waits a moment for the database to take them; `None` where it has not.
    pub(crate) async fn append(&self, pending: Pending) -> Result<Option<Written>, QueueError> {
        let Pending { number, block, reservation } = pending;
        let heard = self.shared.in_time.load(Ordering::Relaxed).then(|| self.shared.wait(number));
        let appended = self.queue.append_reserved(reservation, block).await;
        let written = match (&appended, heard) {
            (Ok(()), Some(heard)) => {
                let written = tokio::time::timeout(PATIENCE, heard).await.ok();
                if written.is_none() {
                    // Nobody else waits until the database is heard again.
                    self.shared.in_time.store(false, Ordering::Relaxed);
                }
                written
            }
            _ => None,
        };
        self.shared.forget(number);
        appended?;
        Ok(written.and_then(Result::ok))
    }
}

impl Shared {
    fn wait(&self, number: u64) -> oneshot::Receiver<Written> {
        let (tell, heard) = oneshot::channel();
        self.waiting().insert(number, tell);
        heard
    }

    fn forget(&self, number: u64) {
        self.waiting().remove(&number);
    }

    fn tell(&self, number: u64, written: Written) {
        if let Some(waiting) = self.waiting().remove(&number) {
            // Whoever left meanwhile does not want to know.
            let _ = waiting.send(written);
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Written>>> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The block's number and the observations as JSON.
fn encode(number: u64, observations: &[Observation]) -> Bytes {
    let mut bytes = number.to_le_bytes().to_vec();
    // Plain data that is written to memory.
    serde_json::to_writer(&mut bytes, observations).expect("observations can be written");
    Bytes::from(bytes)
}

/// Back from the queue; `None` for what a later version wrote.
fn decode(block: &Block) -> Option<(u64, Vec<Observation>)> {
    let (number, json) = block.payload.split_first_chunk::<8>()?;
    let observations = serde_json::from_slice(json).ok().filter(|_| block.kind == KIND)?;
    Some((u64::from_le_bytes(*number), observations))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_store::Sighting;
    use crosstalk_training_log::{Outcome, Parser};

    #[test]
    fn observations_come_back_from_disk_as_they_were() {
        let Outcome::Performance { performance, .. } =
            Parser::default().parse("step: 3 loss: nan mfu: 25%")
        else {
            panic!()
        };
        let sightings = [Sighting::Start, Sighting::Performance(Box::new(performance))];
        let observations = sightings.map(|sighting| Observation {
            workload_uid: "ml:\"é\u{1}".into(),
            workload_name: None,
            workload_kind: Some("Job".into()),
            workload_namespace: None,
            group: Some(crosstalk_store::Group { uid: "top".into(), ..Default::default() }),
            pod_uid: "p".into(),
            replica_role: Some("worker".into()),
            data_source: "log".into(),
            at: i64::MAX,
            sighting,
        });
        let payload = encode(7, &observations);
        let block = disk::block(KIND, 2, payload);
        let (number, found) = decode(&block).unwrap();
        assert_eq!((number, format!("{found:?}")), (7, format!("{:?}", &observations[..])));
        assert!(decode(&Block { kind: 1, ..block }).is_none());
    }
}
