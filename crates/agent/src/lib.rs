//! The node agent: sources into a rolling window, answered over HTTP.
//!
//! "How were the last 20 seconds?" is answered at once and exactly, from samples already taken,
//! on Intel with PCM, on any machine with counters, and on a plain virtual machine with neither.
//! [`Agent`] starts every source the machine has and the consumers of them: the rolling window, the detector that says
//! who slows whom, the recorder where one is asked for; and a server that answers:
//!
//! | path | what |
//! |---|---|
//! | `/metrics?window_seconds=20` | statistics over exactly that window, as JSON |
//! | `/metrics` | the newest values and the agent's own, for Prometheus |
//! | `/verdicts` | who slowed whom in the last minute, by how much, through what and how sure |
//! | `/memory` | what is used of memory under each policy, and how much of it is cold |
//! | `/healthz`, `/readyz` (and `/health`, `/ready`) | whether it lives; whether it has fresh data, with a verdict per source |
//! | `/openapi.json` | all of this, described for machines |
//!
//! A metric has the same name and unit whatever source it came from. Where several sources have it, the
//! one that measured most of the window wins, of equals the first in the order of
//! [`crosstalk_sources::all`]; where none has, it is absent, and the answer says why.
//!
//! # What it never does
//! It never answers with a 0 for what was not measured, never lets a reader hold up a sampler, never
//! stops because one source fails, and never listens beyond loopback unless told to.

mod agent;
mod answer;
pub mod config;
mod detector;
mod devices;
mod error;
mod exposition;
mod http;
mod log;
mod memory;
mod node;
mod node_metric;
mod openapi;
mod query;
mod window;

pub use agent::Agent;
pub use error::AgentError;
pub use http::Server;
pub use node::Node;
pub use window::{Labels, Series, SourceWindow, Subject, SubjectTable};
