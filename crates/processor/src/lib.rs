//! The telemetry processor: Prometheus remote write and logs in, workload context on, nothing lost.
//!
//! A request is decoded in place, every series is looked up in a snapshot of pods and workloads, written out once for
//! each of its workloads, and put in an on-disk queue for every store. Only then is it acknowledged; the stores are
//! served from the queues, in order, for as long as it takes.
//!
//! The processor never answers 2xx for data that is not on disk, never keeps more in memory than its limits say, and
//! never scrapes or stores metrics itself: a remote-write store behind it does that.

pub mod cache;
pub mod config;
mod database;
pub mod dead_letters;
mod ends;
pub mod enrich;
mod error;
pub mod follow;
mod forward;
mod http;
pub mod ingest;
pub mod logs;
pub mod metrics;
mod post;
pub mod queue;
mod refresh;
mod retention;
mod service;
mod tls;

pub use config::Config;
pub use error::Error;
pub use service::{Processor, check, run};
