//! The telemetry processor.
pub mod cache;
pub mod config;
pub mod enrich;
mod error;
pub mod queue;

pub use config::Config;
pub use error::Error;
