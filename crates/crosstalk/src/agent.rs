//! `crosstalk agent`: the node daemon.

use crate::exit::BadArgument;
use anyhow::{Context, Result};
use crosstalk_agent::config::{Config, Overrides, SAMPLE, load};
use crosstalk_agent::{Agent, AgentError};
use signal_hook::iterator::Signals;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Configuration file; `--print-config` prints one to start from
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to answer HTTP [default: 127.0.0.1:8000]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Where the host's /proc and /sys are, when not at the root
    #[arg(long, value_name = "DIR")]
    host_root: Option<PathBuf>,
    /// Validate file, environment and flags, and start nothing
    #[arg(long)]
    check: bool,
    /// Print the commented configuration with its defaults
    #[arg(long)]
    print_config: bool,
}

impl Args {
    /// Whether it will answer clients, rather than print something and end.
    pub(crate) fn is_server(&self) -> bool {
        !self.check && !self.print_config
    }
}

/// What was asked for is the output: not having written it is a failure.
fn print(text: &str) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.print_config {
        return print(SAMPLE);
    }
    let config = configuration(args)?;
    if args.check {
        return print(&format!(
            "configuration is valid; would listen on http://{}\n",
            config.listen
        ));
    }
    // Before the agent, so that no signal can come between.
    let mut signals =
        Signals::new([libc::SIGINT, libc::SIGTERM]).context("cannot handle signals")?;
    // A daemon outlives whoever reads its output; the flag only takes the signal's default away.
    signal_hook::flag::register(libc::SIGPIPE, Arc::default()).context("cannot handle signals")?;
    let agent = Agent::start(&config)?;
    let address = agent.address();
    let hello = format!(
        "crosstalk agent: listening on http://{address}\n\
         ask it, from another terminal:\n  \
           curl -s 'http://{address}/metrics?window_seconds=20'\n  \
           curl -s 'http://{address}/metrics?window_seconds=20&subject=process&top=5'\n  \
           curl -s http://{address}/ready      how each source stands, and why\n  \
           curl -s http://{address}/metrics    for Prometheus\n"
    );
    let _ = std::io::stdout().write_all(hello.as_bytes());
    signals.forever().next();
    drop(agent);
    Ok(ExitCode::SUCCESS)
}

fn configuration(args: &Args) -> Result<Config> {
    let flags = Overrides { listen: args.listen, host_root: args.host_root.clone() };
    // Variables that are not text cannot be ours.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    load(args.config.as_deref(), environment, &flags).map_err(|error| match error {
        AgentError::Config { .. } | AgentError::Read { .. } => {
            BadArgument(error.to_string()).into()
        }
        other => other.into(),
    })
}

const AFTER_HELP: &str = "\
Examples:
  sudo crosstalk agent                               all this machine can measure
  crosstalk agent --print-config > agent.toml        a configuration to start from
  crosstalk agent --config agent.toml --check
  curl -s 'http://127.0.0.1:8000/metrics?window_seconds=20'
  curl -s 'http://127.0.0.1:8000/metrics?window_seconds=20&subject=process&top=5'
  curl -s http://127.0.0.1:8000/ready                how each source stands, and why

Without root it still answers, from /proc and the probe.";
