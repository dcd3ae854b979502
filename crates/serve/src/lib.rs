//! One HTTP listener for every service: who may ask, how many at once, how long they may take, and what is counted.
//!
//! [`Server`] binds an address by a [`Listener`] (TLS and tokens read again when their files are renewed, client
//! certificates, limits, timeouts) and serves a router behind one gate: probes need no token and always find room, refusals are
//! RFC 9457 problems, answers are counted by route and status. [`exposition`] writes what a service tells Prometheus, in both
//! text formats; [`Budget`] and [`read`] bound request bodies.
//!
//! # What it never does
//! It never holds more than it was allowed, never waits for a client without end, never lets a full service hide from its
//! probes, and never drops a connection because a certificate was renewed.

mod background;
mod body;
mod error;
mod exposition;
mod gate;
mod guarded;
mod listener;
mod metrics;
mod problem;
mod reserve;
mod server;
mod tls;

pub use background::Background;
pub use body::{Budget, Held, Unread, discard, keep_only, read};
pub use error::ServeError;
pub use exposition::{Families, Family, Format, Labels, exposition};
pub use gate::{PROBES, Place, Rules};
pub use listener::Listener;
pub use metrics::{CountAs, Names, ServerMetrics};
pub use problem::Problem;
pub use server::{Server, check};
