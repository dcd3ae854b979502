//! Memory weather: feels contention for memory without any hardware counter.
//!
//! Every few dozen milliseconds a thread reads half a mebibyte that is in no cache in sequence, writes it back changed,
//! follows eight pointer chains at a time through it, and takes the time of each. On some hosts a neighbour that streams
//! through memory makes writing back take 25 to 40 % longer, and one that only computes does not; on others a single
//! stream slows nobody, and memory is then quiet. Single bursts are noisy, so a second of them is judged together against
//! memory at rest ([`Weather`]): quiet, contended or unknown, with a confidence.
//!
//! What memory is like at rest is learnt only from bursts during which nobody else ran on the machine, and kept for the
//! next run. What was never seen at rest is never called quiet.
//!
//! [`Prober`] does the measuring, within half a per cent of one core and 16 MiB, by its own measure of itself. What it
//! decides is in [`Weather`], which is pure and can be fed any series:
//!
//! ```
//! use crosstalk_probe::{Blind, Burst, State, Weather, WeatherConfig};
//!
//! let mut weather = Weather::new(WeatherConfig::default());
//! let burst = Burst { latency_ns: 120.0, bandwidth_bytes_per_s: 17e9, write_back_ns: Some(3.2) };
//! let verdict = weather.judge(0, Some(burst), true);
//! assert_eq!((verdict.state, verdict.blind), (State::Unknown, Some(Blind::Learning)));
//! ```
//!
//! # What it cannot see
//! A neighbour on the very core the burst runs on (they never run at once), contention within a core (SMT), or anything
//! that stays in caches of its own. Other virtual machines on the host: they slow bursts like neighbours of our own, but
//! nobody here knows when they rest, so that their steady part is taken for the machine's. On machines other than x86-64
//! no line can be flushed, and the probe reads a rotating set instead; whether that reaches memory depends on the size of
//! the cache.
//!
//! # What it never does
//! It writes to no memory but its own, needs no privilege, and claims nothing from a single burst.

mod baseline;
mod baseline_file;
mod budget;
mod burst;
mod error;
mod keeper;
mod odds;
mod priority;
mod prober;
mod robust;
mod weather;

pub use crosstalk_model::{ProbeBlindness as Blind, ProbeReading, ProbeState as State};

pub use baseline::Known;
pub use burst::{Burst, Reach};
pub use error::ProbeError;
pub use keeper::BaselineNote;
pub use prober::{ProbeConfig, ProbeCost, Prober};
pub use weather::{Verdict, Weather, WeatherConfig};
