//! A remote write body's way in: decompressed, decoded, enriched, encoded, and on disk before anyone says yes.

mod own;
mod pipeline;

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use crosstalk_remote_write::{Compression, Limits, Outcome, Protocol};
use tokio::sync::Semaphore;

use crate::cache::Cache;
use crate::enrich::Rules;
use crate::metrics::Metrics;
use crate::queue::{Block, Queue, QueueError};
use pipeline::Pipeline;
pub use pipeline::Prepared;

/// Mark of a queued block: which protocol its payload speaks. All are snappy-compressed.
pub(crate) fn block_kind(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::V1 => 1,
        Protocol::V2 => 2,
    }
}

/// The protocol of a queued block; `None` for a mark of some later version.
pub(crate) fn block_protocol(kind: u8) -> Option<Protocol> {
    [Protocol::V1, Protocol::V2].into_iter().find(|protocol| block_kind(*protocol) == kind)
}

/// Where blocks go.
#[derive(Debug, Clone)]
pub struct Target {
    /// The endpoint's name.
    pub name: String,
    /// The protocol it speaks.
    pub protocol: Protocol,
    /// Its queue.
    pub queue: Queue,
}

/// Why a body was not stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// The body is refused.
    #[error(transparent)]
    Body(#[from] crosstalk_remote_write::Error),
    /// A queue has no room; the sender keeps the data and tries again.
    #[error("endpoint {endpoint:?}: {source}")]
    Full {
        /// The endpoint.
        endpoint: String,
        /// What the queue said.
        source: QueueError,
    },
    /// A queue cannot be written; the sender keeps the data and tries again.
    #[error("endpoint {endpoint:?}: {source}")]
    Disk {
        /// The endpoint.
        endpoint: String,
        /// What the queue said.
        source: QueueError,
    },
}

/// Takes bodies in.
#[derive(Debug)]
pub struct Ingest {
    rules: Rules,
    cache: Arc<Cache>,
    limits: Limits,
    targets: Vec<Target>,
    /// Protocols in use, each encoded once however many endpoints speak it.
    protocols: Vec<Protocol>,
    metrics: Arc<Metrics>,
    /// Pipelines not in use, kept for their memory.
    idle: Mutex<Vec<Pipeline>>,
    /// As many bodies are worked on at once as there are processors: more would only need more memory.
    workers: Semaphore,
}

impl Ingest {
    /// An intake for these targets.
    pub fn new(
        rules: Rules,
        cache: Arc<Cache>,
        limits: Limits,
        targets: Vec<Target>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let mut protocols: Vec<Protocol> = Vec::new();
        for target in &targets {
            if !protocols.contains(&target.protocol) {
                protocols.push(target.protocol);
            }
        }
        let workers = std::thread::available_parallelism().map_or(2, usize::from);
        Ingest {
            rules,
            cache,
            limits,
            targets,
            protocols,
            metrics,
            idle: Mutex::new(Vec::new()),
            workers: Semaphore::new(workers),
        }
    }

    /// The bounds bodies are held to.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Where blocks go.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Says at once when a queue is too full for even a small block, before work is spent on a body.
    pub fn has_room(&self) -> Result<(), IngestError> {
        for target in &self.targets {
            let reservation = target.queue.reserve(SMALL_BLOCK);
            reservation.map_err(|source| full_or_disk(target, source))?;
        }
        Ok(())
    }

    /// Stores a body; when this returns `Ok`, what the outcome counts as written is on disk.
    pub async fn store(
        self: &Arc<Self>,
        protocol: Protocol,
        compression: Compression,
        body: Vec<u8>,
    ) -> Result<Outcome, IngestError> {
        let ingest = Arc::clone(self);
        let permit = self.workers.acquire().await.expect("the semaphore is never closed");
        let work = move || ingest.prepare(protocol, compression, &body);
        let prepared = tokio::task::spawn_blocking(work).await.expect("decoding does not panic")?;
        drop(permit);
        self.queue(&prepared).await?;
        let Prepared { outcome, counts, .. } = prepared;
        self.metrics.add_request(&outcome.written, outcome.rejected, &counts);
        if self.targets.is_empty() {
            self.metrics.dropped_samples.add(["no_endpoint"], outcome.written.samples as u64);
        }
        Ok(outcome)
    }

    /// The work between the socket and the disk, on one thread.
    pub fn prepare(
        &self,
        protocol: Protocol,
        compression: Compression,
        body: &[u8],
    ) -> Result<Prepared, crosstalk_remote_write::Error> {
        let idle = self.idle().pop();
        let mut pipeline = idle.unwrap_or_else(|| Pipeline::new(self.limits, &self.protocols));
        let snapshot = self.cache.snapshot();
        let prepared = pipeline.run(protocol, compression, body, &self.rules, &snapshot);
        pipeline.give_back_memory();
        self.idle().push(pipeline);
        prepared
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Pipeline>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Room is set aside in every queue before the first is written, so that no endpoint gets what another refused.
    async fn queue(&self, prepared: &Prepared) -> Result<(), IngestError> {
        let mut appends = Vec::with_capacity(self.targets.len());
        for target in &self.targets {
            let Some(block) = prepared.blocks.iter().find(|block| block.0 == target.protocol)
            else {
                continue;
            };
            let reservation = target.queue.reserve(block.2.len());
            let reservation = reservation.map_err(|source| full_or_disk(target, source))?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let block = Block {
                kind: block_kind(block.0),
                samples: block.1,
                enqueued_ms: now.as_millis() as u64,
                payload: block.2.clone(),
            };
            appends.push((target, reservation, block));
        }
        // All queues write at the same time; the slowest disk decides, not the sum.
        let mut waiting = Vec::with_capacity(appends.len());
        for (target, reservation, block) in appends {
            let queue = target.queue.clone();
            waiting.push((
                target,
                tokio::spawn(async move { queue.append_reserved(reservation, block).await }),
            ));
        }
        for (target, append) in waiting {
            let result = append.await.expect("appending does not panic");
            result.map_err(|source| full_or_disk(target, source))?;
        }
        Ok(())
    }
}

/// The least room worth starting to decode for.
const SMALL_BLOCK: usize = 4096;

fn full_or_disk(target: &Target, source: QueueError) -> IngestError {
    let endpoint = target.name.clone();
    match source {
        QueueError::Full { .. } => IngestError::Full { endpoint, source },
        _ => IngestError::Disk { endpoint, source },
    }
}
