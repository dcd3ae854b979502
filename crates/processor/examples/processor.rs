//! The processor as a process of its own, for tests that kill it and benchmarks that measure it.
//!
//! `cargo run --example processor -- config.toml`

use std::path::PathBuf;

use crosstalk_processor::run;
use crosstalk_settings::Loader;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let file = std::env::args_os().nth(1).map(PathBuf::from);
    let loader = Loader::new("processor").file(file.as_deref()).environment(std::env::vars_os());
    run(loader.load()?.config)?;
    Ok(())
}
