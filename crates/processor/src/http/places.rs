//! Room that kinds of requests have of their own, so that none takes that of another: a database that hangs holds up
//! those that ask it, and never those who send metrics.

use std::sync::Arc;

use crosstalk_serve::Budget;
use tokio::sync::Semaphore;

use crate::config::Config;

/// Bytes of log bodies in memory at once.
const LOG_BUDGET: usize = 128 << 20;

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
    /// Questions to the database.
    pub(super) queries: Semaphore,
}

impl Places {
    /// As configured; together they leave at least a quarter of all requests to metrics.
    pub(crate) fn new(config: &Config) -> Places {
        let all = config.listener.requests;
        let readers = std::thread::available_parallelism().map_or(2, usize::from);
        Places {
            logs: Arc::new(Semaphore::new(config.logs.requests.min(all / 2).max(1))),
            readers: Arc::new(Semaphore::new(readers)),
            log_budget: Budget::new(LOG_BUDGET.max(config.limits.max_logs_body_bytes)),
            queries: Semaphore::new(QUERIES.min(all / 4).max(1)),
        }
    }
}
