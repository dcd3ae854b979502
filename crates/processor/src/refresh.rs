//! Keeps the caches current: every source in its own task, each failure counted, none fatal once running.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cache::{Cache, read_static_file};
use crate::config::Config;
use crate::error::Error;
use crate::metrics::Metrics;

/// Starts the configured sources. The static file is read before this returns: a mistake in it stops the start.
pub(crate) fn start(
    config: &Config,
    cache: &Arc<Cache>,
    metrics: &Arc<Metrics>,
    stopping: &watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) -> Result<(), Error> {
    let every = Duration::from_secs(config.cache.refresh_seconds);
    if let Some(path) = &config.cache.static_file {
        cache.update("static", read_static_file(path)?);
        let (path, cache, metrics) = (path.clone(), Arc::clone(cache), Arc::clone(metrics));
        tasks.spawn(static_file(path, every, cache, metrics, stopping.clone()));
    }
    Ok(())
}

async fn static_file(
    path: PathBuf,
    every: Duration,
    cache: Arc<Cache>,
    metrics: Arc<Metrics>,
    mut stopping: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(every) => {}
        }
        match read_static_file(&path) {
            Ok(inventory) => {
                metrics.cache_refreshes.add(["static"], 1);
                cache.update("static", inventory);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot refresh; what was known stays");
                metrics.cache_errors.add(["static"], 1);
            }
        }
    }
}
