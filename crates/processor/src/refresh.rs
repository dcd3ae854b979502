//! Keeps the caches current: every source in its own task, each failure counted, none fatal once running.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cache::{Cache, database, read_static_file};
use crate::config::Config;
use crate::database::Database;
use crate::error::Error;
use crate::kubernetes::{Api, Watcher};
use crate::metrics::Metrics;

/// Starts the configured sources. The static file is read before this returns: a mistake in it stops the start.
pub(crate) fn start(
    config: &Config,
    cache: &Arc<Cache>,
    database: &Arc<Database>,
    metrics: &Arc<Metrics>,
    stopping: &watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) -> Result<(), Error> {
    let every = Duration::from_secs(config.cache.refresh_seconds);
    let sources = &config.cache;
    let used = [sources.static_file.is_some(), sources.database, sources.kubernetes.enabled];
    if let Some(path) = &config.cache.static_file {
        cache.update("static", read_static_file(path)?);
        let (path, cache, metrics) = (path.clone(), Arc::clone(cache), Arc::clone(metrics));
        tasks.spawn(static_file(path, every, cache, metrics, stopping.clone()));
    }
    cache.expect_sources(used.into_iter().filter(|used| *used).count());
    if config.cache.database {
        let source = Tables {
            database: Arc::clone(database),
            grace: Duration::from_secs(config.cache.grace_seconds),
            cache: Arc::clone(cache),
            metrics: Arc::clone(metrics),
        };
        tasks.spawn(source.run(every, stopping.clone()));
    }
    if config.cache.kubernetes.enabled {
        let api = Api::new(&config.cache.kubernetes)?;
        let namespace = config.cache.kubernetes.namespace.clone();
        let watcher = Watcher::new(api, namespace, Arc::clone(cache), Arc::clone(metrics), every);
        tasks.spawn(watcher.run(stopping.clone()));
    }
    Ok(())
}

/// The database's tables as a source.
struct Tables {
    database: Arc<Database>,
    grace: Duration,
    cache: Arc<Cache>,
    metrics: Arc<Metrics>,
}

impl Tables {
    async fn run(self, every: Duration, mut stopping: watch::Receiver<bool>) {
        loop {
            match self.load().await {
                Ok(()) => self.metrics.cache_refreshes.add(["database"], 1),
                Err(error) => {
                    tracing::warn!(%error, "cannot refresh; what was known stays");
                    self.metrics.cache_errors.add(["database"], 1);
                }
            }
            tokio::select! {
                biased;
                _ = stopping.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(every) => {}
            }
        }
    }

    async fn load(&self) -> Result<(), crosstalk_store::Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let deleted_after = now.saturating_sub(self.grace).as_nanos() as i64;
        let tables = self.database.store().await?.load_inventory(deleted_after).await?;
        self.cache.update("database", database::from_tables(tables));
        Ok(())
    }
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
