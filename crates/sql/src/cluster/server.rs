use super::stores::runtime;
use crate::Error;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use datafusion::execution::SessionStateBuilder;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Runs a scheduler until it fails.
///
/// # Errors
/// It cannot listen there.
pub async fn scheduler(address: SocketAddr) -> Result<(), Error> {
    let session = |config| {
        let state = SessionStateBuilder::new().with_config(config).with_runtime_env(runtime()?);
        Ok(state.with_default_features().build())
    };
    let config = SchedulerConfig {
        bind_host: address.ip().to_string(),
        bind_port: address.port(),
        external_host: address.ip().to_string(),
        // An executor that is gone for so long is given up, and its work done by others.
        executor_timeout_seconds: 30,
        expire_dead_executor_interval_seconds: 5,
        no_executors_grace_period_seconds: 30,
        override_session_builder: Some(Arc::new(session)),
        ..SchedulerConfig::default()
    };
    let failed = |e: ballista_core::error::BallistaError| Error::Engine(e.to_string());
    let cluster = BallistaCluster::new_from_config(&config).await.map_err(failed)?;
    start_server(cluster, address, Arc::new(config)).await.map_err(failed)
}

/// Runs an executor of the scheduler at `host:port` until it fails. `ports` are of its results and its own service.
///
/// # Errors
/// It cannot listen, or there is no scheduler.
pub async fn executor(
    (host, port): (String, u16),
    bind: &str,
    ports: (u16, u16),
    cores: usize,
    work: Option<PathBuf>,
) -> Result<(), Error> {
    let config = ExecutorProcessConfig {
        bind_host: bind.to_owned(),
        external_host: Some(bind.to_owned()),
        port: ports.0,
        grpc_port: ports.1,
        scheduler_host: host,
        scheduler_port: port,
        scheduler_connect_timeout_seconds: 30,
        executor_heartbeat_interval_seconds: 5,
        vcores: cores,
        work_dir: work.map(|path| path.display().to_string()),
        override_runtime_producer: Some(Arc::new(|_| runtime())),
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(config)).await.map_err(|e| Error::Engine(e.to_string()))
}
