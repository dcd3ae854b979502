//! Room that kinds of requests have of their own, so that none takes that of another: a database that hangs holds up
//! those that ask it, and never those who send metrics.

use std::sync::Arc;

use crosstalk_serve::Budget;
use tokio::sync::Semaphore;

use crate::config::Config;

/// Bytes of log bodies in memory at once: of those that came as they are and of what others came as, and of what those came
/// to when they were no longer compressed.
const LOG_BUDGET: usize = 128 << 20;

/// Bytes of what was read of log bodies and is not on disk yet.
const BATCH_BUDGET: usize = 192 << 20;

/// Log bodies read at once, on however many processors.
const MAX_READERS: usize = 8;

/// Questions to the database at once.
const QUERIES: usize = 32;

/// Places for log bodies and for questions.
#[derive(Debug)]
pub(crate) struct Places {
    /// Requests with logs.
    pub(super) logs: Arc<Semaphore>,
    /// As many log bodies are read at once as there are processors: more would only need more memory.
    pub(super) readers: Arc<Semaphore>,
    /// Bytes of log bodies.
    pub(super) log_budget: Budget,
    /// Bytes of log bodies that are no longer compressed.
    pub(super) unpacked_budget: Budget,
    /// Bytes of what was read of log bodies, on its way to disk.
    pub(super) batch_budget: Budget,
    /// Questions to the database.
    pub(super) queries: Semaphore,
}

impl Places {
    /// As configured; together they leave at least a quarter of all requests to metrics.
    pub(crate) fn new(config: &Config) -> Places {
        let all = config.listener.requests;
        let readers = std::thread::available_parallelism().map_or(2, usize::from).min(MAX_READERS);
        let log_bytes = LOG_BUDGET.max(config.limits.max_logs_body_bytes);
        Places {
            logs: Arc::new(Semaphore::new(config.logs.requests.min(all / 2).max(1))),
            readers: Arc::new(Semaphore::new(readers)),
            log_budget: Budget::new(log_bytes),
            unpacked_budget: Budget::new(log_bytes),
            batch_budget: Budget::new(BATCH_BUDGET),
            queries: Semaphore::new(QUERIES.min(all / 4).max(1)),
        }
    }
}
