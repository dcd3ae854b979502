//! The commands: arguments in, text out.

pub(crate) mod analyze;
pub(crate) mod compact;
pub(crate) mod rollup;
pub(crate) mod sql;

use crosstalk_recording::Patience;
use crosstalk_settings::parse_duration;
use crosstalk_sql::{Engine, MEMORY, Notes, Options};
use std::io::{Write, stderr};
use std::time::Duration;

/// What every command that asks an engine can be told.
#[derive(clap::Args)]
pub(crate) struct EngineArgs {
    /// What runs the query: datafusion, in this process, or a cluster: ballista://HOST:PORT
    #[arg(long, value_name = "ENGINE", default_value = "datafusion")]
    engine: Engine,
    /// What sorts and groups may hold before they go to disk, and joins at all [default: 512MiB]
    #[arg(long, value_name = "SIZE", value_parser = crosstalk_settings::parse_bytes)]
    memory: Option<u64>,
}

impl EngineArgs {
    pub(crate) fn options(&self) -> Options {
        let memory = self.memory.and_then(|bytes| usize::try_from(bytes).ok());
        Options { engine: self.engine.clone(), memory: memory.unwrap_or(MEMORY) }
    }
}

/// How long those who change an object store wait.
#[derive(clap::Args)]
pub(crate) struct Waits {
    /// In an object store: leave replaced objects to readers that found them for this long [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = parse_wait)]
    grace: Option<Duration>,
    /// In an object store: take what was begun this long ago and never ended for something that was cut off [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = parse_wait)]
    unfinished: Option<Duration>,
}

impl Waits {
    pub(crate) fn patience(&self) -> Patience {
        let usual = Patience::default();
        Patience {
            readers: self.grace.unwrap_or(usual.readers),
            unfinished: self.unfinished.unwrap_or(usual.unfinished),
        }
    }
}

/// A length of time, or none at all.
fn parse_wait(text: &str) -> Result<Duration, String> {
    if text == "0s" { Ok(Duration::ZERO) } else { parse_duration(text) }
}

/// Says what could not be read.
pub(crate) fn tell(notes: &Notes) {
    for note in notes.take() {
        let note: String = note.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let _ = writeln!(stderr(), "crosstalk: not used: {note}");
    }
}
