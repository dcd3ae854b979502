//! `crosstalk resctrl-sim`.

use crate::exit::BadArgument;
use anyhow::{Context, Result};
use crosstalk_resctrl_sim::{Error, Profile, mount};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// An existing folder to mount on
    #[arg(value_name = "MOUNTPOINT")]
    mountpoint: PathBuf,
    /// The machine to simulate: intel-spr, amd-genoa or small
    #[arg(long, value_name = "NAME", default_value = "small")]
    profile: Profile,
}

const AFTER_HELP: &str = "\
Answers as the kernel's resctrl file system does. Its values come from a model of a cache that the
processes of this machine share, by their real time on a processor and their resident memory: good
for trying out and for tests, no statement about this machine's cache. Nothing is limited or slowed.

Profiles:
  small      one L3 cache of 16 MiB, 32 RMIDs
  intel-spr  two L3 caches of 105 MiB, 448 RMIDs, bandwidth limits in percent
  amd-genoa  twelve L3 caches of 32 MiB, 256 RMIDs, bandwidth limits in 1/8 GB/s

Examples:
  mkdir -p /tmp/resctrl && sudo crosstalk resctrl-sim /tmp/resctrl
  sudo crosstalk record --out rec --duration 10s --resctrl-root /tmp/resctrl
  crosstalk doctor --resctrl-root /tmp/resctrl

Prints one line when it is mounted. SIGINT (Ctrl-C) and SIGTERM unmount and end it, and so does an
unmount by somebody else.";

/// How often it is seen that somebody else has unmounted it.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (stop, stopped) = mpsc::channel();
    let mut signals = signal_hook::iterator::Signals::new([libc::SIGINT, libc::SIGTERM])
        .context("cannot handle signals")?;
    let simulator = mount(args.profile.clone(), &args.mountpoint).map_err(|error| match error {
        Error::NoDirectory { .. } => BadArgument(error.to_string()).into(),
        other => anyhow::Error::from(other),
    })?;
    std::thread::spawn(move || signals.forever().next().map(|_| stop.send(())));
    println!("resctrl-sim: {} mounted at {}", args.profile.name, args.mountpoint.display());
    // Whoever waits for the line may read it through a pipe; nobody reading is no reason to end.
    let _ = std::io::stdout().flush();
    loop {
        match stopped.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) if simulator.is_mounted() => {}
            _ => break,
        }
    }
    simulator.unmount()?;
    Ok(ExitCode::SUCCESS)
}
