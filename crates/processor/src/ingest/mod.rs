//! A remote write body's way in: decompressed, decoded, enriched, encoded, and on disk before anyone says yes.

mod own;
mod pipeline;
mod reserved;

use std::sync::{Arc, Mutex};

use crosstalk_inventory::Standing;
use crosstalk_remote_write::{Compression, Limits, Outcome, Protocol, decoded_length};
use tokio::sync::Semaphore;

use crate::cache::Cache;
use crate::enrich::{Memory, Rules};
use crate::metrics::Metrics;
use crate::queue::{Queue, QueueError};
use pipeline::Pipeline;
pub use pipeline::{Prepared, PreparedBlock, Shape};
pub(crate) use reserved::Reserved;

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
    /// Requests that are in flight to it at once.
    pub lanes: u8,
    /// Its queue.
    pub queue: Queue,
}

impl Target {
    fn shape(&self) -> Shape {
        Shape { protocol: self.protocol, lanes: self.lanes.max(1) }
    }
}

/// Why a body was not stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// The body is refused.
    #[error(transparent)]
    Body(#[from] crosstalk_remote_write::Error),
    /// Sources of pods were not heard yet; the sender keeps the data and tries again.
    #[error("not ready: {} not heard yet, or not any more", missing.join(", "))]
    NotReady {
        /// The sources.
        missing: Vec<String>,
    },
    /// What the body became is larger than a whole queue.
    #[error("endpoint {endpoint:?}: {source}")]
    TooLarge {
        /// The endpoint.
        endpoint: String,
        /// What the queue said.
        source: QueueError,
    },
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
    /// Shapes in use, each encoded once however many endpoints want it.
    shapes: Vec<Shape>,
    /// What became of series before; none where nothing is written.
    memory: Option<Memory>,
    metrics: Arc<Metrics>,
    /// Pipelines not in use, kept for their memory.
    idle: Mutex<Vec<Pipeline>>,
    /// As many bodies are worked on at once as there are processors: more would only need more memory.
    workers: Arc<Semaphore>,
    /// Bytes of bodies after decompression, in units, that may be in work at once.
    decoded: Arc<Semaphore>,
}

/// Unit in which decoded bytes are counted.
const UNIT: usize = 1024;

/// Decoded bytes in work at once, over all requests, unless a single one may be larger.
const DECODED_BUDGET: usize = 192 << 20;

impl Ingest {
    /// An intake for these targets.
    pub fn new(
        rules: Rules,
        cache: Arc<Cache>,
        limits: Limits,
        targets: Vec<Target>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let mut shapes: Vec<Shape> = Vec::new();
        for target in &targets {
            if !shapes.contains(&target.shape()) {
                shapes.push(target.shape());
            }
        }
        let plain = shapes.iter().all(|shape| shape.protocol == Protocol::V1);
        let memory = (!shapes.is_empty()).then(|| Memory::new(&rules, plain));
        let budget = DECODED_BUDGET.max(limits.max_decoded_bytes).div_ceil(UNIT);
        let workers = std::thread::available_parallelism().map_or(2, usize::from);
        Ingest {
            rules,
            cache,
            limits,
            targets,
            shapes,
            memory,
            metrics,
            idle: Mutex::new(Vec::new()),
            workers: Arc::new(Semaphore::new(workers)),
            decoded: Arc::new(Semaphore::new(budget.min(Semaphore::MAX_PERMITS))),
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

    /// Says at once when nothing can be taken, before work is spent on a body: a source was never heard, or a queue is too
    /// full for even a small block.
    pub fn has_room(&self) -> Result<(), IngestError> {
        let standing = self.cache.standing();
        if !standing.is_ready() {
            let missing = standing.waiting.iter().map(ToString::to_string).collect();
            return Err(IngestError::NotReady { missing });
        }
        for target in &self.targets {
            let reservation = target.queue.reserve(SMALL_BLOCK);
            reservation.map_err(|source| queue_error(target, source))?;
        }
        Ok(())
    }

    /// Stores a body; when this returns `Ok`, what the outcome counts as written is on disk.
    ///
    /// What is begun is finished, whether or not anybody still waits for it: until then `held`, what the body takes of
    /// memory and of processors are all in use.
    pub async fn store(
        self: &Arc<Self>,
        protocol: Protocol,
        compression: Compression,
        body: Vec<u8>,
        held: impl Send + 'static,
    ) -> Result<Outcome, IngestError> {
        let ingest = Arc::clone(self);
        let work = async move {
            let result = ingest.finish(protocol, compression, body).await;
            drop(held);
            result
        };
        tokio::spawn(work).await.expect("storing does not panic")
    }

    async fn finish(
        self: Arc<Self>,
        protocol: Protocol,
        compression: Compression,
        body: Vec<u8>,
    ) -> Result<Outcome, IngestError> {
        // A body that tells its size is believed, for decompressing holds it to that; any other may be as large as any.
        let decoded = decoded_length(compression, &body).unwrap_or(self.limits.max_decoded_bytes);
        let units = decoded.min(self.limits.max_decoded_bytes).div_ceil(UNIT).max(1) as u32;
        let memory = Arc::clone(&self.decoded).acquire_many_owned(units).await;
        let memory = memory.expect("the semaphore is never closed");
        let worker = Arc::clone(&self.workers).acquire_owned().await;
        let worker = worker.expect("the semaphore is never closed");
        // Before anything is looked up: a source that is heard meanwhile was not there for that.
        let standing = self.cache.standing();
        let ingest = Arc::clone(&self);
        let work = move || {
            let prepared = ingest.prepare(protocol, compression, &body);
            drop(worker);
            prepared
        };
        let prepared = tokio::task::spawn_blocking(work).await.expect("decoding does not panic")?;
        is_certain(&standing, &prepared)?;
        self.reserve(&prepared)?.write().await?;
        drop(memory);
        let Prepared { outcome, counts, handed, .. } = prepared;
        if let Some(memory) = &self.memory {
            memory.commit(handed);
        }
        self.metrics.add_request(&outcome.written, outcome.rejected, &counts);
        if let Some(series) = counts.collided {
            let samples = counts.collided_samples;
            tracing::warn!(
                series,
                samples,
                "series would become one another; only the first is sent"
            );
        }
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
        let mut pipeline = idle.unwrap_or_else(|| Pipeline::new(self.limits, &self.shapes));
        let snapshot = self.cache.snapshot();
        let memory = self.memory.as_ref();
        let prepared = pipeline.run(protocol, compression, body, &self.rules, &snapshot, memory);
        pipeline.give_back_memory();
        self.idle().push(pipeline);
        prepared
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Pipeline>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Of a source that was not heard since the start, or is away, only what it knew before is known. A pod that is not among
/// that may be new, a device may have been given to another: the sender keeps its samples until that is known. Who tells of
/// devices alone is not asked about pods, nor one source about what another tells.
fn is_certain(standing: &Standing, prepared: &Prepared) -> Result<(), IngestError> {
    let mut missing = prepared.counts.doubtful_holders.clone();
    let counts = &prepared.counts;
    if counts.doubtful_pods + counts.doubtful_elsewhere > 0 {
        let of_pods = Cache::in_doubt_of_pods(standing, counts.doubtful_pods == 0);
        missing.extend(of_pods.into_iter().map(str::to_owned));
        missing.sort_unstable();
        missing.dedup();
    }
    if missing.is_empty() { Ok(()) } else { Err(IngestError::NotReady { missing }) }
}

/// The least room worth starting to decode for.
const SMALL_BLOCK: usize = 4096;

fn queue_error(target: &Target, source: QueueError) -> IngestError {
    let endpoint = target.name.clone();
    match source {
        QueueError::Full { .. } => IngestError::Full { endpoint, source },
        QueueError::TooLarge { .. } => IngestError::TooLarge { endpoint, source },
        _ => IngestError::Disk { endpoint, source },
    }
}
