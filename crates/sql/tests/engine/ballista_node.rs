//! A Ballista scheduler or executor with Ballista's own code, as its programs `ballista-scheduler` and `ballista-executor`
//! start them: for tests, and for trying a cluster on one machine. Addresses are of this machine only.

use anyhow::{Context, Result};
use ballista_core::object_store::{
    runtime_env_with_s3_support, session_config_with_s3_support, session_state_with_s3_support,
};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use clap::Parser;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Builder;

/// A node of a Ballista cluster on this machine
#[derive(Parser)]
enum Node {
    /// Plans queries and hands them out; prints its address
    Scheduler {
        /// Its port [default: a free one]
        #[arg(long)]
        port: Option<u16>,
        /// Seconds without a word from an executor after which its work is given to others
        #[arg(long, default_value_t = 180)]
        patience: u64,
    },
    /// Runs parts of queries
    Executor {
        /// The scheduler's port
        #[arg(long)]
        scheduler: u16,
        /// Where what it passes on to others is kept
        #[arg(long)]
        work: PathBuf,
        /// Parts it runs at once
        #[arg(long, default_value_t = 1)]
        cores: usize,
    },
}

/// Plans are walked by recursion, and those of verdicts are deep.
const STACK: usize = 32 << 20;

fn main() -> Result<()> {
    let mut runtime = Builder::new_multi_thread();
    // As ballista-executor, which has no other way to be told.
    if std::env::var_os("RUST_MIN_STACK").is_none() {
        runtime.thread_stack_size(STACK);
    }
    let runtime = runtime.enable_all().build()?;
    runtime.block_on(async {
        match Node::parse() {
            Node::Scheduler { port, patience } => scheduler(port, patience).await,
            Node::Executor { scheduler, work, cores } => executor(scheduler, work, cores).await,
        }
    })
}

async fn scheduler(port: Option<u16>, patience: u64) -> Result<()> {
    let port = port.map_or_else(free_port, Ok)?;
    let config = SchedulerConfig {
        bind_port: port,
        executor_timeout_seconds: patience,
        no_executors_grace_period_seconds: patience,
        expire_dead_executor_interval_seconds: (patience / 4).max(1),
        ..SchedulerConfig::default()
    }
    .with_override_config_producer(Arc::new(session_config_with_s3_support))
    .with_override_session_builder(Arc::new(session_state_with_s3_support));
    let cluster = BallistaCluster::new_from_config(&config).await?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    println!("{address}");
    start_server(cluster, address, Arc::new(config)).await.context("the scheduler ended")
}

async fn executor(scheduler: u16, work: PathBuf, cores: usize) -> Result<()> {
    let config = ExecutorProcessConfig {
        port: free_port()?,
        grpc_port: free_port()?,
        scheduler_host: Ipv4Addr::LOCALHOST.to_string(),
        scheduler_port: scheduler,
        scheduler_connect_timeout_seconds: 30,
        executor_heartbeat_interval_seconds: 1,
        vcores: cores,
        work_dir: Some(work.display().to_string()),
        override_config_producer: Some(Arc::new(session_config_with_s3_support)),
        override_runtime_producer: Some(Arc::new(runtime_env_with_s3_support)),
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(config)).await.context("the executor ended")
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
