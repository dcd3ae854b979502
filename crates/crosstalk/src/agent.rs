//! `crosstalk agent`: the node daemon.

use crate::exit::BadArgument;
use crate::print::{Print, print};
use anyhow::{Context, Result};
use crosstalk_agent::Agent;
use crosstalk_agent::config::{Config, SAMPLE};
use crosstalk_settings::{Loaded, Loader, SettingsError, effective};
use signal_hook::iterator::Signals;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Configuration file in TOML, YAML or JSON; `--print-config` prints one to start from
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to answer HTTP [default: 127.0.0.1:8000]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Where the host's /proc and /sys are, when not at the root
    #[arg(long, value_name = "DIR")]
    host_root: Option<PathBuf>,
    /// Also write this node's usage there as a NodeMetric object, whole each time; `-` prints it
    #[arg(long, value_name = "FILE")]
    node_metric_file: Option<PathBuf>,
    /// Validate file, environment and flags, and start nothing
    #[arg(long)]
    check: bool,
    /// Print the commented configuration with its defaults, or the effective one with secrets hidden
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "sample")]
    print_config: Option<Print>,
}

impl Args {
    /// Whether it will answer clients, rather than print something and end.
    pub(crate) fn is_server(&self) -> bool {
        !self.check && self.print_config.is_none()
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(Print::Sample) = args.print_config {
        return print(SAMPLE);
    }
    let Loaded { config, warnings } = configuration(args)?;
    for warning in warnings {
        eprintln!("crosstalk: {warning}");
    }
    if args.print_config.is_some() {
        return print(&effective(&config)?);
    }
    if args.check {
        crosstalk_serve::check(&config.http)?;
        return print(&format!(
            "configuration is valid; would listen on http://{}\n",
            config.listen
        ));
    }
    // Before the agent, so that no signal can come between.
    let mut signals = Signals::new([libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
        .context("cannot handle signals")?;
    // A daemon outlives whoever reads its output; the flag only takes the signal's default away.
    signal_hook::flag::register(libc::SIGPIPE, Arc::default()).context("cannot handle signals")?;
    crate::log::start("warn");
    let agent = Agent::start(&config)?;
    let address = agent.address();
    let scheme = if config.http.tls_cert.is_some() { "https" } else { "http" };
    let hello = format!(
        "crosstalk agent: listening on {scheme}://{address}\n\
         ask it, from another terminal:\n  \
           curl -s '{scheme}://{address}/metrics?window_seconds=20'\n  \
           curl -s '{scheme}://{address}/metrics?window_seconds=20&subject=process&top=5'\n  \
           curl -s {scheme}://{address}/ready      how each source stands, and why\n  \
           curl -s {scheme}://{address}/metrics    for Prometheus\n"
    );
    let _ = std::io::stdout().write_all(hello.as_bytes());
    signals.forever().next();
    drop(agent);
    Ok(ExitCode::SUCCESS)
}

fn configuration(args: &Args) -> Result<Loaded<Config>> {
    let host_root = args.host_root.as_ref().map(|root| root.display());
    let node_metric_file = args.node_metric_file.as_ref().map(|file| file.display());
    let loader = Loader::new("agent")
        .file(args.config.as_deref())
        .environment(std::env::vars_os())
        .flag("--listen", "listen", args.listen)
        .flag("--host-root", "host_root", host_root)
        .flag("--node-metric-file", "node_metric.file", node_metric_file);
    loader.load().map_err(|error| {
        let way_out = match error {
            SettingsError::Read { .. } => {
                "; `crosstalk agent --print-config` prints one to start from"
            }
            _ => "",
        };
        BadArgument(format!("{error}{way_out}")).into()
    })
}

const AFTER_HELP: &str = "\
Examples:
  sudo crosstalk agent                               all this machine can measure
  crosstalk agent --print-config > agent.toml        a configuration to start from
  crosstalk agent --config agent.toml --check
  crosstalk agent --config agent.toml --print-config=effective
  curl -s 'http://127.0.0.1:8000/metrics?window_seconds=20'
  curl -s 'http://127.0.0.1:8000/metrics?window_seconds=20&subject=process&top=5'
  curl -s http://127.0.0.1:8000/memory               what is used of memory, and how much is cold
  curl -s http://127.0.0.1:8000/ready                how each source stands, and why
  sudo crosstalk agent --node-metric-file -          what Koordinator would be told, without Kubernetes

Without root it still answers, from /proc and the probe.";
