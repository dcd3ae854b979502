//! Everything put together: started, running, stopped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crosstalk_serve::{Budget, Server};
use crosstalk_store::Store;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cache::{Cache, LabelNames};
use crate::config::{Config, Endpoint, WhenFull};
use crate::database::{self, Database};
use crate::dead_letters;
use crate::enrich::Rules;
use crate::error::{Error, file_error};
use crate::forward::Forwarder;
use crate::http::{self, App, Places};
use crate::ingest::{Ingest, Target};
use crate::logs::LogIntake;
use crate::logs::forward::{LogForwarder, LogTarget};
use crate::logs::spool::{Spool, Writer};
use crate::logs::streams::{self, Streams};
use crate::metrics::Metrics;
use crate::queue::{Queue, QueueLimits};
use crate::{ends, refresh, retention};

/// Bytes of request bodies in memory at once, over all connections.
const BODY_BUDGET: usize = 256 << 20;

/// A running processor.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use crosstalk_processor::{Config, Processor};
/// let mut config = Config::default();
/// config.listen.set_port(0);
/// config.data_dir = folder.path().to_owned();
/// let processor = Processor::start(config).await.unwrap();
/// assert_ne!(processor.address().port(), 0);
/// processor.stop().await;
/// # });
/// ```
#[derive(Debug)]
pub struct Processor {
    address: SocketAddr,
    shutdown: watch::Sender<bool>,
    tasks: JoinSet<()>,
    queues: Vec<Queue>,
    database: Arc<Database>,
    streams: (Arc<Streams>, PathBuf),
}

impl Processor {
    /// Opens the queues, starts the forwarders and the sources, and listens.
    pub async fn start(config: Config) -> Result<Processor, Error> {
        config.validate()?;
        std::fs::create_dir_all(&config.data_dir).map_err(file_error(&config.data_dir))?;
        let metrics = Arc::new(Metrics::default());
        let (shutdown, stopping) = watch::channel(false);
        let mut tasks = JoinSet::new();

        let logs = LogIntake::new(&config.logs, &config.limits)?;
        let kept = (Arc::clone(logs.streams()), streams::path(&config.data_dir));
        kept.0.restore(&kept.1);
        tasks.spawn(streams::keep(Arc::clone(&kept.0), kept.1.clone(), stopping.clone()));
        let database = Arc::new(Database::open(&config).await?);
        let cache = Arc::new(new_cache(&config));
        let reports = refresh::start(&config, &cache, &database, &metrics, &stopping, &mut tasks)?;

        let mut targets = Vec::new();
        for endpoint in &config.endpoints {
            let folder = config.data_dir.join("queue").join(&endpoint.name);
            let (queue, reader) = open_queue(endpoint, config.when_full(endpoint), &folder)?;
            let (metrics, stopping) = (Arc::clone(&metrics), stopping.clone());
            let letters = dead_letters::folder(&config.data_dir, &endpoint.name);
            let forwarder = Forwarder::new(endpoint, &letters, reader, metrics, stopping)?;
            tasks.spawn(forwarder.run());
            let (protocol, lanes) = (endpoint.protocol.into(), endpoint.in_flight);
            targets.push(Target { name: endpoint.name.clone(), protocol, lanes, queue });
        }
        let spool = start_spool(&config, &database, &metrics, &stopping, &mut tasks)?;
        tasks.spawn(retention::run(
            config.retention.clone(),
            Arc::clone(&database),
            stopping.clone(),
        ));
        let (inventory, of_ends) = (cache.inventory().clone(), Arc::clone(&database));
        tasks.spawn(ends::run(inventory, of_ends, stopping.clone()));
        let log_targets = start_log_stores(&config, &metrics, &stopping, &mut tasks)?;
        if targets.is_empty() {
            tracing::warn!("no endpoint is configured: metrics are checked, counted and not kept");
        }
        let mut queues: Vec<Queue> = targets.iter().map(|target| target.queue.clone()).collect();
        queues.push(spool.queue.clone());
        queues.extend(log_targets.iter().map(|target| target.queue.clone()));
        let limits = config.limits.remote_write();
        let rules = Rules::new(&config.enrichment);
        let ingest =
            Arc::new(Ingest::new(rules, Arc::clone(&cache), limits, targets, Arc::clone(&metrics)));

        let server =
            Server::bind(config.listen, &config.listener, http::RULES, http::server_metrics())?;
        let address = server.address();
        let app = Arc::new(App {
            budget: Budget::new(BODY_BUDGET.max(config.limits.max_body_bytes)),
            server: server.metrics(),
            ingest,
            cache,
            database: Arc::clone(&database),
            logs,
            spool,
            log_targets,
            places: Places::new(&config),
            metrics,
            reports,
            config: config.clone(),
        });
        let mut stopping = stopping;
        tasks.spawn(async move {
            let stop = async move {
                let _ = stopping.wait_for(|stop| *stop).await;
            };
            if let Err(error) = server.run(http::router(app), stop).await {
                tracing::error!(%error, "cannot serve");
            }
        });
        tracing::info!(%address, endpoints = config.endpoints.len(), "listening");
        Ok(Processor { address, shutdown, tasks, queues, database, streams: kept })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Finishes the requests in work and stops. What was not delivered stays in the queues.
    pub async fn stop(mut self) {
        self.shutdown.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
        self.database.close().await;
        let (queues, (streams, kept)) = (self.queues, self.streams);
        let close = move || {
            if let Err(error) = streams.save(&kept) {
                tracing::warn!(path = %kept.display(), %error, "cannot keep lines that wait for others");
            }
            queues.into_iter().for_each(Queue::close);
        };
        // Joining the writer threads blocks for as long as a disk write takes.
        let _ = tokio::task::spawn_blocking(close).await;
    }
}

/// Looks at everything the configuration names without connecting to anything: values, the database's URL, log patterns,
/// and files with pods, tokens, certificates and keys.
///
/// ```
/// let mut config = crosstalk_processor::Config::default();
/// crosstalk_processor::check(&config).unwrap();
/// config.listener.bearer_token_file = Some("/no/such/file".into());
/// assert!(crosstalk_processor::check(&config).unwrap_err().to_string().contains("/no/such/file"));
/// ```
pub fn check(config: &Config) -> Result<(), Error> {
    config.validate()?;
    Store::check_url(database::url_of(config).reveal())?;
    LogIntake::new(&config.logs, &config.limits)?;
    crosstalk_serve::check(&config.listener)?;
    for endpoint in &config.endpoints {
        Forwarder::check(endpoint)?;
    }
    for forward in &config.logs.forwards {
        LogForwarder::check(forward)?;
    }
    refresh::check(config)
}

fn new_cache(config: &Config) -> Cache {
    let enrichment = &config.enrichment;
    let names = LabelNames {
        node: enrichment.node_labels.clone(),
        pod: enrichment.pod_labels.clone(),
        uid: enrichment.uid_labels.clone(),
        device: enrichment.device_labels.clone(),
        exporters: enrichment.exporter_pods.clone(),
        resources: enrichment.device_resources.clone(),
    };
    Cache::remembering(names, config.cache.grace.get(), config.cache.history.get())
}

/// The queue between log lines and the database, and the task that empties it.
fn start_spool(
    config: &Config,
    database: &Arc<Database>,
    metrics: &Arc<Metrics>,
    stopping: &watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) -> Result<Spool, Error> {
    let opened = Spool::open(&config.data_dir.join("logs"), config.logs.max_queue_bytes);
    let (spool, reader) = opened.map_err(|cause| Error::LogQueue { cause })?;
    let (database, metrics) = (Arc::clone(database), Arc::clone(metrics));
    tasks.spawn(Writer::new(&spool, reader, database, metrics, stopping.clone()).run());
    Ok(spool)
}

/// The queues of the log stores, and the tasks that empty them.
fn start_log_stores(
    config: &Config,
    metrics: &Arc<Metrics>,
    stopping: &watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) -> Result<Vec<LogTarget>, Error> {
    let mut targets = Vec::new();
    for forward in &config.logs.forwards {
        let (metrics, stopping) = (Arc::clone(metrics), stopping.clone());
        let when_full = config.when_log_store_is_full(forward);
        let opened = LogForwarder::open(forward, when_full, &config.data_dir, metrics, stopping);
        let (target, forwarder) = opened?;
        tasks.spawn(forwarder.run());
        targets.push(target);
    }
    Ok(targets)
}

/// Segments small enough that delivered data leaves the disk soon, large enough to be few.
fn open_queue(
    endpoint: &Endpoint,
    when_full: WhenFull,
    folder: &Path,
) -> Result<(Queue, crate::queue::Reader), Error> {
    let max_bytes = endpoint.max_queue_bytes;
    let segment_bytes = (max_bytes / 8).clamp(4 << 10, 64 << 20);
    let limits = QueueLimits { max_bytes, segment_bytes, when_full };
    let opened = Queue::open(folder, limits);
    opened.map_err(|cause| Error::Queue { endpoint: endpoint.name.clone(), cause })
}

/// Runs a processor until the process is told to stop (SIGTERM or SIGINT).
pub fn run(config: Config) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(file_error(&config.data_dir))?;
    runtime.block_on(async {
        let processor = Processor::start(config).await?;
        stop_signal().await;
        tracing::info!("stopping");
        processor.stop().await;
        Ok(())
    })
}

pub(crate) async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
