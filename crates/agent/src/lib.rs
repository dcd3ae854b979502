//! The node agent: sources into a rolling window, answered over HTTP.
//!
//! "How were the last 20 seconds?" is answered at once and exactly, from samples already taken,
//! on Intel with PCM, on any machine with counters, and on a plain virtual machine with neither.
//! [`Agent`] starts every source the machine has, each on a thread of its own, and a server:
//!
//! | path | what |
//! |---|---|
//! | `/metrics?window_seconds=20` | statistics over exactly that window, as JSON |
//! | `/metrics` | the newest values and the agent's own, for Prometheus |
//! | `/health`, `/ready` | whether it lives; whether it has fresh data, with a verdict per source |
//! | `/openapi.json` | all of this, described for machines |
//!
//! A metric has the same name and unit whatever source it came from ([`metric`]). Where several
//! sources have it, the first in the order of `sources::all` that measured it in the window wins;
//! where none has, it is absent, and the answer says why.
//!
//! # What it never does
//! It never answers with a 0 for what was not measured, never lets a reader hold up a sampler, never
//! stops because one source fails, and never listens beyond loopback unless told to.

pub mod metric;

mod about;
mod agent;
mod answer;
mod clock;
pub mod config;
mod error;
mod exposition;
mod http;
mod latency;
mod log;
mod node;
mod openapi;
mod query;
mod recorder;
mod sources;
mod status;
mod subjects;
mod supervise;
mod tape;
mod text;

pub use about::recording_metadata;
pub use agent::Agent;
pub use clock::monotonic_ns;
pub use error::AgentError;
pub use http::Server;
pub use metric::Metric;
pub use node::Node;
pub use status::{Report, SourceState, Verdict};
pub use subjects::{Kind, Labels, Subject, SubjectKey, SubjectTable};
pub use tape::Tape;
