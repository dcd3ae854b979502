//! The sources that fill the caches: each failure counted, none fatal once running.

use crosstalk_host::WithFix;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crosstalk_inventory::{
    Facts, Failure, FailureKind, Inventory, Outcome, Source, follow, read_static_file,
};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cache::reports::{AGENTS, Reports};
use crate::cache::{Cache, database, saved};
use crate::config::Config;
use crate::database::Database;
use crate::error::Error;
use crate::metrics::Metrics;

/// Starts the configured sources. The static file is read before this returns: a mistake in it stops the start.
pub(crate) fn start(
    config: &Config,
    cache: &Arc<Cache>,
    database: &Arc<Database>,
    metrics: &Arc<Metrics>,
    stopping: &watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) -> Result<Arc<Reports>, Error> {
    let inventory = cache.inventory();
    let sources = sources(config);
    let used = [
        sources.static_file.is_some(),
        config.cache.database,
        sources.kubernetes.is_some(),
        config.cache.agents,
    ];
    observe(inventory, Arc::clone(metrics), used.into_iter().filter(|used| *used).count());
    check(config)?;
    // Everyone who will be waited for is known before anybody is listened to.
    sources.announce(inventory);
    // A database that hangs must not stop what Kubernetes or a file knows the pods of.
    let others = sources.static_file.is_some() || sources.kubernetes.is_some();
    match (config.cache.database, others) {
        (true, true) => inventory.announce_optional(DATABASE),
        (true, false) => {
            inventory.announce(DATABASE);
            inventory.expect(DATABASE, sources.refresh * 3 + DATABASE_SLACK);
        }
        (false, _) => {}
    }
    if config.cache.agents {
        inventory.announce(AGENTS);
    }
    let kept = saved::path(&config.data_dir);
    saved::restore(inventory, &kept, &[AGENTS]);
    if let Some(path) = &sources.static_file {
        inventory.update("static", read_static_file(path)?);
    }
    tasks.spawn(saved::keep(inventory.clone(), kept, stopping.clone()));
    let (every, feed) = (sources.refresh, inventory.clone());
    tasks.spawn(until(stopping.clone(), async move { sources.run(&feed).await }));
    if config.cache.database {
        // As far back as anybody may ask.
        let grace = config.cache.history.get().max(config.cache.grace.get());
        let (tables, feed) = (Tables { database: Arc::clone(database), grace }, inventory.clone());
        tasks.spawn(until(stopping.clone(), async move { follow(tables, every, &feed).await }));
    }
    let reports = Arc::new(Reports::new(inventory.clone(), config.cache.agents));
    tasks.spawn(Arc::clone(&reports).run(stopping.clone()));
    Ok(reports)
}

/// What of the sources can be wrong without asking anybody.
pub(crate) fn check(config: &Config) -> Result<(), Error> {
    let sources = sources(config);
    if let Some(path) = &sources.static_file {
        read_static_file(path)?;
    }
    match &sources.kubernetes {
        Some(kubernetes) => kubernetes.check().map_err(|error| Error::Kubernetes(error.with_fix())),
        None => Ok(()),
    }
}

fn sources(config: &Config) -> crosstalk_inventory::Config {
    let cache = &config.cache;
    let kubernetes = || crosstalk_inventory::Kubernetes {
        kubeconfig: cache.kubernetes.kubeconfig.clone(),
        namespace: cache.kubernetes.namespace.clone(),
        owner_ttl: cache.kubernetes.owner_ttl.get(),
        owner_wait: cache.kubernetes.owner_wait.get(),
        // Neither metrics nor logs speak of containers by their ids.
        containers: false,
        ..Default::default()
    };
    crosstalk_inventory::Config {
        grace: cache.grace.get(),
        refresh: cache.refresh.get(),
        static_file: cache.static_file.clone(),
        kubernetes: cache.kubernetes.enabled.then(kubernetes),
        ..Default::default()
    }
}

async fn until(mut stopping: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        _ = stopping.wait_for(|stop| *stop) => {}
        () = work => {}
    }
}

/// Counts what the sources do, and says once, when all of them were heard, that none knows a pod: from then on no series
/// finds its workload.
fn observe(inventory: &Inventory, metrics: Arc<Metrics>, sources: usize) {
    if sources == 0 {
        warn_of_no_pods();
    }
    let heard = Mutex::new(HashSet::new());
    let board = inventory.downgrade();
    inventory.observe(move |source, outcome| match outcome {
        Outcome::Heard => {
            metrics.cache_refreshes.add([source], 1);
            let mut heard = heard.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let last = heard.insert(source) && heard.len() == sources;
            if last && board.upgrade().is_some_and(|board| board.snapshot().pods().next().is_none())
            {
                warn_of_no_pods();
            }
        }
        Outcome::Failed(FailureKind::Gone) => metrics.cache_errors.add(["kubernetes_gone"], 1),
        Outcome::Failed(FailureKind::Forbidden) => {
            metrics.cache_errors.add(["kubernetes_forbidden"], 1);
        }
        Outcome::Failed(FailureKind::Owner) => metrics.cache_errors.add(["kubernetes_owner"], 1),
        _ => metrics.cache_errors.add([source], 1),
    });
}

fn warn_of_no_pods() {
    tracing::warn!(
        "no source knows any pod, so no metric gets its workload and enrichment.missing decides (drop unless \
         configured); give cache.static_file (--pods FILE), set cache.kubernetes.enabled, or fill the database's tables"
    );
}

/// How late the database's tables may be on a busy machine.
const DATABASE_SLACK: Duration = Duration::from_secs(20);

/// The name of the database's tables among the sources.
const DATABASE: &str = "database";

/// The database's tables as a source.
struct Tables {
    database: Arc<Database>,
    grace: Duration,
}

impl Source for Tables {
    fn name(&self) -> &'static str {
        DATABASE
    }

    async fn load(&mut self) -> Result<Facts, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let deleted_after = now.saturating_sub(self.grace).as_nanos() as i64;
        let tables = async { self.database.store().await?.load_inventory(deleted_after).await };
        let tables =
            tables.await.map_err(|error: crosstalk_store::Error| Failure::away(error, ""))?;
        Ok(database::from_tables(tables))
    }
}
