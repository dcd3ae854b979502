//! `crosstalk-sql cluster`: a scheduler or an executor of a Ballista cluster.

use anyhow::{Context, Result};
use crosstalk_sql::cluster::{executor, scheduler};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(clap::Subcommand)]
enum Role {
    /// Takes queries, and divides them among executors
    Scheduler {
        /// Where to listen
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:50050")]
        listen: SocketAddr,
    },
    /// Does the work
    Executor {
        /// The scheduler
        #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050", value_parser = host_and_port)]
        scheduler: (String, u16),
        /// The address that others reach it at
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
        bind: String,
        /// Port of its results, and of its own service
        #[arg(long, value_name = "PORT", num_args = 2, default_values_t = [50051_u16, 50052])]
        ports: Vec<u16>,
        /// Tasks at a time [default: as many as there are cores]
        #[arg(long, value_name = "N")]
        cores: Option<usize>,
        /// Folder for results on their way [default: a temporary one]
        #[arg(long, value_name = "DIR")]
        work: Option<PathBuf>,
    },
}

const AFTER_HELP: &str = "\
Examples:
  crosstalk-sql cluster scheduler --listen 10.0.0.7:50050
  crosstalk-sql cluster executor --scheduler 10.0.0.7:50050 --bind 10.0.0.8
  crosstalk sql s3://bucket/rec 'SELECT count(*) FROM tasks' --engine ballista://10.0.0.7:50050

There is no password: who reaches the ports can ask for anything that executors can read. Keep them in a network of
their own.";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    // Plans of many joins are walked recursively.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(32 << 20)
        .build()
        .context("cannot start threads")?;
    match &args.role {
        Role::Scheduler { listen } => runtime.block_on(scheduler(*listen))?,
        Role::Executor { scheduler, bind, ports, cores, work } => {
            let all = || std::thread::available_parallelism().map_or(1, usize::from);
            let cores = cores.unwrap_or_else(all);
            let ports = (ports[0], ports[1]);
            runtime.block_on(executor(scheduler.clone(), bind, ports, cores, work.clone()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let split = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    split
        .map(|(host, port)| (host.to_owned(), port))
        .ok_or_else(|| format!("\"{text}\" is no HOST:PORT"))
}
